"""Answers about ReF-ER's rules: far-policy samples and their gradients, and the limit of on-policy gradients."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

import ml_collections
import numpy as np
import tensorflow as tf

from repro.distributions import gaussian
from repro.environments.mujoco import MujocoEnvironment
from repro.papers.refer import refer_rules
from repro.papers.refer.experiments.replay import ReplayExperiment
from repro.papers.refer.loss import Policies, Variant, vracer_loss
from repro.papers.refer.vracer import VRacer
from repro.training.study import StudyResult


def rule_answers(
    config: ml_collections.ConfigDict, environment: MujocoEnvironment, rng: np.random.Generator
) -> Iterator[tuple[str, StudyResult]]:
    """Yields the limit of Section 3 and the gradients of far-policy samples (Section 4).

    Args:
        config: configuration of the study, with `limits`, `limit_beta`, `limit_steps`, `vracer` and `evaluation`.
        environment: environment of a task, for the sizes of states and actions.
        rng: source of networks, steps and policies.
    """
    cases = config.evaluation.episodes
    found = np.array([on_policy_differences(config, environment, rng) for _ in range(cases)])  # [cases, limits]
    steps = ", ".join(f"{x:.3g} at {c_max:g} and {share:g}" for x, (c_max, share) in zip(found.max(0), config.limits))
    protocol = f"at the last c_max and D, largest of {cases} random networks, {config.limit_steps} steps each: {steps}"
    unit = "relative difference of gradients"
    yield "on_policy_limit", StudyResult(unit, found[:, -1].max(keepdims=True), protocol, exact=True)
    largest = np.array([far_policy_gradients(config, environment.num_actions, rng) for _ in range(cases)])
    protocol = "far-policy samples with either sign of Q_ret - V, one value for each random minibatch"
    for name, values in zip(("policy", "value"), largest.T):
        yield f"rule_1_{name}_gradient", StudyResult("largest gradient", values, protocol, exact=True)


def on_policy_differences(
    config: ml_collections.ConfigDict, environment: MujocoEnvironment, rng: np.random.Generator
) -> np.ndarray:
    """|g - g'| / |g'| for V-RACER's gradient g of sampled steps and g' of the same ones as on-policy data (Section 3).

    Each step has a behaviour of its own, so far from the policy that a share D of the ratios is far-policy. For g' the
    behaviour is the policy itself, so that every ratio is 1. Both targets are V + w' (a - m) / sigma with a random w:
    were they independent of the actions, the mean of g' would be 0.

    Args:
        config: as for `rule_answers`; `limits` are pairs of c_max and D.
        environment: as for `rule_answers`.
        rng: source of the network, w, the states and the behaviours.

    Returns:
        [number of limits].
    """
    agent = ReplayExperiment(config.vracer).make_agent(environment, rng)
    assert isinstance(agent, VRacer)
    agent.optimizer = tf.keras.optimizers.SGD(1.0)  # which subtracts the gradient
    agent.optimizer.build([agent.weights])
    state = rng.normal(size=(config.limit_steps, environment.state_size)).astype(np.float32)
    v, mean = (x.numpy() for x in agent.forward(state)[:2])
    std = np.full_like(mean, config.vracer.network.initial_variance**0.5)
    direction = rng.normal(size=mean.shape)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    slope = rng.normal(size=environment.num_actions) / environment.num_actions**0.5
    found = []
    for c_max, share in config.limits:
        behaviour = (mean + behaviour_distance(c_max, share) * std * direction).astype(np.float32)
        action = gaussian.sample_truncated(rng, behaviour, std)
        target = (v + (action - mean) / std @ slope).astype(np.float32)
        batch = {"state": state, "action": action, "std": std, "q_ret": target, "v_tbc": target}
        off, on = (gradient(agent, batch | {"mean": x}, config.limit_beta, c_max) for x in (behaviour, mean))
        found.append(np.linalg.norm(off - on) / np.linalg.norm(on))
    return np.array(found)


def behaviour_distance(c_max: float, share: float) -> float:
    """Distance of two means, in stds, at which a share D of normal log ratios is outside (-log c_max, log c_max).

    The log ratio of two normals with means at a distance x has std x; its mean -x^2 / 2 is left out.
    """
    return float(np.log(c_max)) / statistics.NormalDist().inv_cdf(1.0 - 0.5 * share)


def gradient(agent: VRacer, batch: dict[str, np.ndarray], beta: float, c_max: float) -> np.ndarray:
    """Gradient of V-RACER's loss to its weights, [number of weights]: what a step of SGD at rate 1 subtracts.

    Args:
        agent: agent whose optimiser is SGD; its weights are as before afterwards.
        batch: fields of `VRacer.FIELDS`, [B, ...].
        beta: weight of the losses.
        c_max: bound of near-policy ratios.
    """
    before = agent.weights.numpy()
    tensors = {name: tf.constant(x) for name, x in batch.items()} | {"weight": tf.ones(len(batch["state"]))}
    agent.gradient_step(tf.constant([beta, c_max, 1.0]), tensors)
    subtracted: np.ndarray = before - agent.weights.numpy()
    agent.weights.assign(before)
    return subtracted


def far_policy_gradients(
    config: ml_collections.ConfigDict, num_actions: int, rng: np.random.Generator, near: bool = False
) -> tuple[float, float]:
    """Largest absolute gradients of V-RACER's loss under Rule 1 alone to the policy's mean and std, and to V.

    Args:
        config: configuration of the study.
        num_actions: d_A.
        rng: source of a minibatch: policies, behaviours, actions, values and targets.
        near: whether the near-policy samples count, not the far-policy ones.

    Returns:
        The largest over the samples, for the policy and for the value.
    """
    shape, refer = (config.vracer.learner.batch_size, num_actions), config.vracer.refer
    mean, behaviour = (tf.constant(x) for x in 0.3 * rng.normal(size=(2, *shape)))
    std = tf.constant(np.full(shape, config.vracer.network.initial_variance**0.5))
    action = gaussian.sample_truncated(rng, behaviour.numpy(), std.numpy())
    v, v_tbc, distance = (tf.constant(x) for x in rng.normal(size=(3, shape[0])))
    c_max = refer_rules.annealed_c_max(0, refer.c, refer.annealing)
    variant = Variant("refer_1", "none", refer.max_log_ratio, refer.value_target)
    rho = refer_rules.importance_ratio(gaussian.log_ratio(mean, std, behaviour, std, action), refer.max_log_ratio)
    counted = refer_rules.near_policy(rho, c_max).numpy() == near
    with tf.GradientTape() as tape:
        tape.watch((mean, std, v))
        policies, coefficients = Policies(mean, std, behaviour, std), tf.zeros((shape[0], 0), tf.float64)
        given = action, policies, v, coefficients, tf.stop_gradient(v) + distance, v_tbc
        loss = tf.reduce_sum(vracer_loss(*given, beta=1.0, c_max=c_max, variant=variant).total)
    of_mean, of_std, of_v = (np.abs(x.numpy())[counted] for x in tape.gradient(loss, (mean, std, v)))
    return float(max(of_mean.max(), of_std.max())), float(of_v.max())


def far_policy_shares(
    config: ml_collections.ConfigDict, num_actions: int, rng: np.random.Generator, cases: int
) -> np.ndarray:
    """Shares of far-policy samples after each component of the mean has moved by `config.shift` stds (Section 5.1).

    Args:
        config: configuration of the study, with `samples`, `shift`, `std` and `refer`.
        num_actions: d_A.
        rng: source of the actions.
        cases: number of shares.

    Returns:
        [cases], each of `config.samples` actions.
    """
    c_max = refer_rules.annealed_c_max(0, config.refer.c, config.refer.annealing)
    before = np.zeros((config.samples, num_actions))
    std = np.full(num_actions, config.std)
    shares = np.empty(cases)
    for case in range(cases):
        action = gaussian.sample_truncated(rng, before, std)
        rho = tf.exp(gaussian.log_ratio(before + config.shift * std, std, before, std, action))
        shares[case] = 1.0 - refer_rules.near_policy(rho, c_max).numpy().mean()
    return shares


def largest_outputs(
    config: ml_collections.ConfigDict, environments: Sequence[MujocoEnvironment], rng: np.random.Generator, cases: int
) -> np.ndarray:
    """Largest |V(s)| or |component of the mean| of new V-RACER networks (Appendix A) at standard normal states.

    Args:
        config: configuration of the study.
        environments: environment of each task, for the sizes of states and actions.
        rng: source of the networks and of a minibatch of states for each.
        cases: number of networks for each task.

    Returns:
        [tasks].
    """
    found = np.zeros(len(environments))
    for index, environment in enumerate(environments):
        for _ in range(cases):
            agent = ReplayExperiment(config.vracer).make_agent(environment, rng)
            states = rng.normal(size=(config.vracer.learner.batch_size, environment.state_size)).astype(np.float32)
            value, mean, *_ = agent.forward(states)
            found[index] = max(found[index], np.abs(value).max(), np.abs(mean).max())
    return found
