"""Answers without training: targets beside V-trace's and Retrace's, fixed points of beta, and sizes and costs.

Each number is computed by the code that trains, on several cases. All cases must agree, except for costs, which depend
on the task, and shares of samples. Answers about advantages and about ReF-ER's rules are in `closed_form_advantages`
and `closed_form_gradients`.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence

import ml_collections
import numpy as np

from repro.distributions import gaussian
from repro.environments.mujoco import TASKS, MujocoEnvironment, make_mujoco
from repro.ops import q_targets, traces, v_targets
from repro.papers.refer import closed_form_advantages, closed_form_gradients, gradient_cost
from repro.papers.refer.beta_update import update_beta
from repro.papers.refer.closed_form_advantages import DIGITS
from repro.papers.refer.experiments.replay import ReplayExperiment
from repro.replay.refer import ReferMemory
from repro.replay.refer_kernels import corrected
from repro.training.experiment import FindExperiment
from repro.training.study import Advance, Study, StudyResult, answer_in_turn

FLOAT32_DIGITS = 5
"""Decimals of an answer that is computed in float32."""
EPISODE_STEPS = 50
"""Steps of a random episode."""
MOST, FEWEST = "Humanoid", "InvertedPendulum"
"""A task with the most actions, 17, and one with the fewest, 1."""


def run(
    config: ml_collections.ConfigDict,
    seed: int,
    cores: Sequence[int],
    advance: Advance,
    find_experiment: FindExperiment,
) -> Study:
    """Computes the configuration's answers, without training.

    Arguments as for `RunStudy`; `find_experiment` returns ACER's experiment.
    """
    return answer_in_turn(_answers(config, seed, find_experiment), config.answers, advance)


def _answers(
    config: ml_collections.ConfigDict, seed: int, find_experiment: FindExperiment
) -> Iterator[tuple[str, StudyResult]]:
    rng, cases = np.random.default_rng(seed), config.evaluation.episodes
    protocol = f"one value for each random episode of {EPISODE_STEPS} steps, every other one ended by the task"
    yield "target_from_vtrace", StudyResult("value", target_differences(rng, cases), protocol, exact=True)
    for form in ("quadratic", "gaussian"):
        protocol = "by quadrature over two actions, one value for each sample of the network's outputs"
        means = closed_form_advantages.mean_advantages(rng, form, cases)
        yield f"{form}_advantage_mean", StudyResult("value", means, protocol, exact=True)
    size, max_far = config.memory.capacity, int(config.refer.max_far_policy_fraction * config.memory.capacity)
    for name, counts in (("far", (max_far + 1, size)), ("near", (0, max_far))):
        values = np.concatenate([fixed_points(config, count, -(-cases // 2)) for count in counts])[:cases]
        first = f"beta after {config.updates} updates from first ones in [0, 1]"
        protocol = f"{first}, with {counts[0]} and {counts[1]} far of {size} steps"
        yield f"fixed_point_{name}", StudyResult("beta", values, protocol, exact=True)
    for task in ("Humanoid", "Walker2d"):
        with _environment(config, task, seed) as environment:
            actions = environment.num_actions
        values = largest_divergences(rng, actions, config.std, cases)
        protocol = "between a corner of the box of means and the corner across, one value for each sampled corner"
        yield f"largest_divergence_{task.lower()}", StudyResult("nats", values, protocol, exact=True)
    for form in ("quadratic", "gaussian"):
        with _environment(config, "Humanoid", seed) as environment:
            values = np.array([outputs_of_advantage(config, environment, form, rng) for _ in range(cases)])
        protocol = "outputs that the network has for its advantage, one value for each sample of its weights"
        yield f"{form}_outputs_humanoid", StudyResult("network outputs", values, protocol, exact=True)
    yield from _costs(config, seed, find_experiment)
    rng = np.random.default_rng([seed, 1])  # answers above keep their samples whatever is added here
    protocol = f"largest difference in one episode of {EPISODE_STEPS} steps, one value for each"
    yield "q_ret_from_retrace", StudyResult("value", retrace_differences(rng, cases), protocol, exact=True)
    yield from closed_form_advantages.shape_answers(config, rng)
    with _environment(config, "HalfCheetah", seed) as environment:
        yield from closed_form_gradients.rule_answers(config, environment, rng)
    with _environment(config, MOST, seed) as most, _environment(config, FEWEST, seed) as fewest:
        sizes = most.num_actions, fewest.num_actions
        many, few = (closed_form_gradients.far_policy_shares(config, size, rng, cases) for size in sizes)
        protocol = f"{sizes[0]} actions minus {sizes[1]}, one value for each pair of {config.samples} samples"
        yield "far_policy_by_actions", StudyResult("difference of shares of far-policy samples", many - few, protocol)
        ratios = [quadratic_cost(config, environment) for environment in (most, fewest)]
        unit, protocol = "ratio of costs", "floating-point operations of both gradient steps' matrix products"
        yield "quadratic_cost_over_gaussian", StudyResult(unit, np.array(ratios[:1]), protocol, exact=True)
        protocol = f"{protocol}; on {MOST} minus on {FEWEST}"
        growth = np.array([ratios[0] - ratios[1]])
        yield "quadratic_cost_growth", StudyResult("difference of ratios of costs", growth, protocol, exact=True)


def _costs(
    config: ml_collections.ConfigDict, seed: int, find_experiment: FindExperiment
) -> Iterator[tuple[str, StudyResult]]:
    """Yields what is answered on each of the ten tasks: costs of gradient steps, and outputs before training."""
    acer, products = find_experiment(config.acer), "floating-point operations of both gradient steps' matrix products"
    tasks, cases = "one value for each of the Gym tasks, in their alphabetical order", config.evaluation.episodes
    protocol = f"{products}, ACER's from episodes that last until the time limit; {tasks}"
    with contextlib.ExitStack() as opened:
        environments = [opened.enter_context(_environment(config, task, seed)) for task in TASKS[:cases]]
        costs = np.array([replay_cost(config.vracer, environment) for environment in environments])
        ratios = costs / [gradient_cost.acer_cost(acer, environment) for environment in environments]
        unit = "orders of magnitude between costs"
        yield "cost_over_acer", StudyResult(unit, -np.log10(ratios), protocol, exact=True)
        found = {name: [replay_cost(of, environment) for environment in environments] for name, of in _costed(config)}
        protocol = f"{products}; {tasks}"
        for method in ("ddpg", "naf"):
            ratios = np.array(found[method]) / costs
            yield f"{method}_cost_over_vracer", StudyResult("ratio of costs", ratios, protocol, exact=True)
        ratios = np.array(found["rule_2"]) / found["er"]
        yield "rule_2_cost_over_er", StudyResult("ratio of costs", ratios, protocol, exact=True)
        rng, networks = np.random.default_rng([seed, 2]), -(-cases // len(environments))
        outputs = closed_form_gradients.largest_outputs(config, environments, rng, networks)
        protocol = f"largest of {networks} networks for each of {len(environments)} tasks, a minibatch of states each"
        yield "initial_outputs", StudyResult("largest output", outputs.max(keepdims=True), protocol, exact=True)


def _costed(config: ml_collections.ConfigDict) -> Iterator[tuple[str, ml_collections.ConfigDict]]:
    """Yields the configurations of agents whose gradient steps are compared with others."""
    yield from (("ddpg", config.ddpg), ("naf", config.naf))
    for name, rule in (("rule_2", "refer_2"), ("er", "none")):
        of_rule = config.ddpg.copy_and_resolve_references()
        of_rule.refer.rule = rule
        yield name, of_rule


def target_differences(rng: np.random.Generator, episodes: int) -> np.ndarray:
    """Largest difference of V_tbc (Eq. 8) from v_s of V-trace with all weights clipped at 1, in each random episode.

    Args:
        rng: source of ratios, rewards and values.
        episodes: number of episodes; in every other one V(s_T) is 0, since the task has ended it.

    Returns:
        [episodes], rounded to `FLOAT32_DIGITS`, since V-trace is computed in float32.
    """
    log_rho, rewards = rng.normal(size=(2, EPISODE_STEPS, episodes))
    values, discount = rng.normal(size=(EPISODE_STEPS + 1, episodes)), 0.99
    values[-1, ::2] = 0.0
    discounts = np.full(rewards.shape, discount)
    discounts[-1, ::2] = 0.0
    expected = v_targets.vtrace(log_rho, discounts, rewards, values[:-1], values[1:]).targets.numpy()
    targets = values.copy()  # V_tbc(s_T) is V(s_T)
    for t, episode in itertools.product(reversed(range(EPISODE_STEPS)), range(episodes)):
        step = values[t, episode], 0.0, np.exp(log_rho[t, episode]), rewards[t, episode]
        targets[t, episode] = corrected(*step, targets[t + 1, episode], discount)
    differences: np.ndarray = np.abs(targets[:-1] - expected).max(axis=0).round(FLOAT32_DIGITS)
    return differences


def retrace_differences(rng: np.random.Generator, episodes: int) -> np.ndarray:
    """Largest difference of the memory's Q_ret, r_{t+1} + gamma V_tbc(t+1), from Retrace (Eq. 6) in random episodes.

    Arguments as for `target_differences`; ratios, values and advantages are those of every step, so Q = V + A.

    Returns:
        [episodes], rounded to `FLOAT32_DIGITS`, since both are computed in float32.
    """
    discount, found = 0.99, np.empty(episodes)
    for episode in range(episodes):
        log_rho, rewards, advantages, actions = rng.normal(size=(4, EPISODE_STEPS)).astype(np.float32)
        values, terminated = rng.normal(size=EPISODE_STEPS + 1).astype(np.float32), episode % 2 == 0
        memory = ReferMemory(EPISODE_STEPS, 1, 1, EPISODE_STEPS, discount=discount)
        one = actions[:, np.newaxis]
        memory.add_episode(values[:, np.newaxis], one, rewards, one, np.ones_like(one), values, terminated)
        steps = np.arange(EPISODE_STEPS)
        memory.update(steps, np.exp(log_rho), values[:-1], advantages)
        discounts = np.full((EPISODE_STEPS, 1), discount, np.float32)
        discounts[-1] *= not terminated
        following = (np.append(x[1:], 0.0)[:, np.newaxis] for x in (log_rho, values[:-1] + advantages))
        log_rho_t, q_t_a = following  # the last row reads neither
        targets = q_targets.multistep_q(
            rewards[:, np.newaxis], discounts, traces.retrace(log_rho_t), values[1:, np.newaxis], q_t_a
        )
        found[episode] = np.abs(memory.gather(steps).q_ret - targets[:, 0]).max()
    differences: np.ndarray = found.round(FLOAT32_DIGITS)
    return differences


def fixed_points(config: ml_collections.ConfigDict, num_far_policy: int, starts: int) -> np.ndarray:
    """Values to which beta converges (Eq. 12) with a constant number of far-policy samples.

    Args:
        config: configuration of the study.
        num_far_policy: number of far-policy samples.
        starts: number of evenly spaced initial values of beta.

    Returns:
        [starts], rounded to `DIGITS`.
    """
    beta = np.linspace(0.0, 1.0, starts)
    share, step_size = config.refer.max_far_policy_fraction, config.refer.beta_step_size
    for _ in range(config.updates):
        beta = update_beta(beta, num_far_policy, config.memory.capacity, share, step_size)
    return beta.round(DIGITS)


def largest_divergences(rng: np.random.Generator, actions: int, std: float, corners: int) -> np.ndarray:
    """KL(mu || pi) of normals with equal stds and means in opposite corners of (-1, 1)^A: 2 d_A / sigma^2.

    Args:
        rng: source of the sampled corners.
        actions: d_A.
        std: sigma.
        corners: number of sampled corners.

    Returns:
        [corners], rounded to `DIGITS`.
    """
    mean = rng.choice([-1.0, 1.0], (corners, actions))
    stds = np.full((corners, actions), std)
    divergences: np.ndarray = gaussian.kl(mean, stds, -mean, stds).numpy().round(DIGITS)
    return divergences


def outputs_of_advantage(
    config: ml_collections.ConfigDict, environment: MujocoEnvironment, form: str, rng: np.random.Generator
) -> int:
    """Number of outputs of V-RACER's network besides value and mean, for a form in `advantages.FORMS` (Appendix E)."""
    of_form = config.vracer.copy_and_resolve_references()
    of_form.network.advantage = form
    agent = ReplayExperiment(of_form).make_agent(environment, rng)
    _, _, coefficients = agent.forward(np.zeros((1, environment.state_size), np.float32))
    return int(coefficients.shape[-1])


def replay_cost(config: ml_collections.ConfigDict, environment: MujocoEnvironment) -> int:
    """Floating-point operations of a gradient step of V-RACER, DDPG or NAF with published settings."""
    agent = ReplayExperiment(config).make_agent(environment, np.random.default_rng(0))
    return gradient_cost.replay_cost(agent, config.learner.batch_size, environment.state_size)


def quadratic_cost(config: ml_collections.ConfigDict, environment: MujocoEnvironment) -> float:
    """Operations of V-RACER's gradient step with the quadratic advantage over those with the Gaussian one."""
    costs = []
    for form in ("quadratic", "gaussian"):
        of_form = config.vracer.copy_and_resolve_references()
        of_form.network.advantage = form
        costs.append(replay_cost(of_form, environment))
    return costs[0] / costs[1]


@contextlib.contextmanager
def _environment(config: ml_collections.ConfigDict, task: str, seed: int) -> Iterator[MujocoEnvironment]:
    env = config.env.copy_and_resolve_references()
    env.task = task
    with contextlib.closing(make_mujoco(env, 1, seed)) as environment:
        yield environment
