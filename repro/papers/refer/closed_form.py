"""Answers without training: targets beside V-trace's, means of advantages, fixed points of beta, and sizes and costs.

Each number is computed by the code that trains, on several cases. All cases must agree, except for the costs, which
depend on the task.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence

import ml_collections
import numpy as np

from repro.distributions import gaussian
from repro.environments.mujoco import TASKS, MujocoEnvironment, make_mujoco
from repro.ops import v_targets
from repro.papers.refer import gradient_cost
from repro.papers.refer.advantages import advantage, num_coefficients
from repro.papers.refer.beta_update import update_beta
from repro.papers.refer.experiments.replay import ReplayExperiment
from repro.replay.refer_kernels import corrected
from repro.training.experiment import FindExperiment
from repro.training.study import Advance, Study, StudyResult

DIGITS = 9
"""Decimals of the answers: n updates come no nearer to a fixed point than (1 - eta)^n, and divergences are rounded."""
FLOAT32_DIGITS = 5
"""Decimals of an answer that is computed in float32."""
EPISODE_STEPS = 50
"""Steps of a random episode."""
NODES, REACH = 60, 9.0
"""Nodes of a quadrature on either side of the mean, and how many stds it reaches; beyond is less than `DIGITS` show."""


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
    answers: dict[str, StudyResult] = {}
    advance(0, len(config.answers))
    for name, answer in _answers(config, seed, find_experiment):
        answers[name] = answer
        advance(len(answers), len(config.answers))
    return Study({name: answers[name] for name in config.answers}, steps=0)


def _answers(
    config: ml_collections.ConfigDict, seed: int, find_experiment: FindExperiment
) -> Iterator[tuple[str, StudyResult]]:
    rng, cases = np.random.default_rng(seed), config.evaluation.episodes
    protocol = f"one value for each random episode of {EPISODE_STEPS} steps, every other one ended by the task"
    yield "target_from_vtrace", StudyResult("value", target_differences(rng, cases), protocol, exact=True)
    for form in ("quadratic", "gaussian"):
        protocol = "by quadrature over two actions, one value for each sample of the network's outputs"
        means = mean_advantages(rng, form, cases)
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
    acer, products = find_experiment(config.acer), "floating-point operations of both gradient steps' matrix products"
    tasks = "one value for each of the Gym tasks, in their alphabetical order"
    protocol = f"{products}, ACER's from episodes that last until the time limit; {tasks}"
    with contextlib.ExitStack() as opened:
        environments = [opened.enter_context(_environment(config, task, seed)) for task in TASKS[:cases]]
        costs = np.array([replay_cost(config.vracer, environment) for environment in environments])
        ratios = costs / [gradient_cost.acer_cost(acer, environment) for environment in environments]
        unit = "orders of magnitude between costs"
        yield "cost_over_acer", StudyResult(unit, -np.log10(ratios), protocol, exact=True)
        for method in ("ddpg", "naf"):
            ratios = np.array([replay_cost(config[method], environment) for environment in environments]) / costs
            protocol = f"{products}; {tasks}"
            yield f"{method}_cost_over_vracer", StudyResult("ratio of costs", ratios, protocol, exact=True)


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


def mean_advantages(rng: np.random.Generator, form: str, cases: int) -> np.ndarray:
    """|E_{a ~ pi}[A(s, a)]| of a form in `advantages.FORMS` (Appendix E) for two actions and random network outputs.

    The expectation is a sum over Gauss-Legendre nodes up to `REACH` stds on either side of the mean, where f may have a
    kink.

    Args:
        rng: source of the outputs, means and stds.
        form: `quadratic` or `gaussian`.
        cases: number of samples.

    Returns:
        [cases], rounded to `DIGITS`.
    """
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    side = 0.5 * REACH * (nodes + 1)  # from 0 to `REACH`
    u = np.concatenate([-side, side])
    of_one = np.tile(0.5 * REACH * weights, 2) * np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi)
    grid = np.stack(np.meshgrid(u, u), axis=-1).reshape(-1, 2)  # [N, 2], in stds
    density = np.outer(of_one, of_one).reshape(-1)
    found = np.empty(cases)
    for case in range(cases):
        coefficients = rng.normal(size=(1, num_coefficients(form, 2))).repeat(len(grid), axis=0)
        mean, std = rng.normal(size=(1, 2)).repeat(len(grid), axis=0), rng.uniform(0.2, 1.0, 2)
        found[case] = density @ advantage(form, coefficients, mean + std * grid, mean, std).numpy()
    means: np.ndarray = np.abs(found).round(DIGITS)
    return means


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


@contextlib.contextmanager
def _environment(config: ml_collections.ConfigDict, task: str, seed: int) -> Iterator[MujocoEnvironment]:
    env = config.env.copy_and_resolve_references()
    env.task = task
    with contextlib.closing(make_mujoco(env, 1, seed)) as environment:
        yield environment
