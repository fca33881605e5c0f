"""On-policy updates of whole runs against Algorithm 2 in NumPy: gradients at the weights that acted, one after the other.

The oracle knows nothing of snapshots. It is given the run's batches in order, and keeps theta, theta_a and RMSProp's mean
of squares as plain arrays, from which each gradient of an agent of its own is taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from paper_configs.acer import atari, continuous
from repro.papers.acer import experiment
from repro.runtime.learner import Learner

ENVS, LENGTH, ROUNDS = 4, 6, 3
CASES = [
    ("continuous", "a3c"),
    ("continuous", "trust_a3c"),
    ("atari", "acer_ratio_0_no_trust_region"),
    ("atari", "acer_ratio_1"),
]


class Folder:
    """A run's folder, as far as training knows it."""

    def __init__(self, path):
        self.checkpoints = path / "checkpoints"


def make_config(name, agent):
    """One unroll of one environment an update, and steps so large that a round's updates move the weights."""
    config = {"atari": atari, "continuous": continuous}[name].get_config("smoke")
    config.agent = agent
    config.learner.unroll_length = LENGTH
    config.learner.batch_size = 1
    config.learner.rmsprop_epsilon = 0.01
    config.runtime.envs_per_actor = ENVS
    config.runtime.compile = "graph"
    if name == "continuous":
        config.env.task = "cheetah"
        config.network.units = (8,)
        config.sweep.learning_rate, config.sweep.delta = (0.02, 0.02), (0.01, 0.01)
    else:
        config.learner.learning_rate = 0.02
        config.loss.delta = 0.01
    config.frames = ROUNDS * ENVS * experiment.frames_per_update(config)
    return config


def recorded_run(config, path, monkeypatch):
    """The agent at the start and at the end as arrays, and the batches learned from.

    Returns:
        start, end: (theta, theta_a).
        calls: (begins_round, is_on_policy, batch, extras) of each gradient step.
    """
    training = experiment.build_training(config, 3, Folder(path), print)
    agent, source, calls, new = training._learner.agent, training._source, [], {}
    next_batch, step = source.next, Learner.step

    def recording_next():
        begins = source.between_rounds
        batch = next_batch()
        new.update(begins=begins, batch=batch.trajectory)
        return batch

    def recording_step(learner, batch, *arguments):
        copy = tf.nest.map_structure(np.array, batch)  # its memory is used again
        on_policy = batch is new["batch"]
        scalars = step(learner, batch, *arguments)
        calls.append((on_policy and new["begins"], on_policy, copy, scalars))
        return scalars

    monkeypatch.setattr(source, "next", recording_next)
    monkeypatch.setattr(Learner, "step", recording_step)
    start = state_of(agent)
    list(training)
    training.close()
    return start, state_of(agent), calls


def state_of(agent):
    theta = [variable.numpy() for variable in agent._learned]
    return theta, [average.numpy() for average, _ in agent._averaged]


def algorithm_2(config, start, calls, *, stale):
    """theta and theta_a after the calls.

    stale: whether on-policy gradients are taken at the weights of the round's start, as threads that act all at once
        do; otherwise at the present ones.
    """
    parts = experiment.PARTS[config.experiment]
    environment = parts.make_environment(config, 1, 0)
    agent = parts.make_agent(config, environment, 0, parts.draw_setting(config, 3))
    environment.close()
    rate = float(agent._optimizer.learning_rate)
    theta, average = start
    squares = [np.ones_like(w) for w in theta]
    acted: Any = None
    for begins_round, on_policy, batch, _ in calls:
        acted = start if acted is None else (theta, average) if begins_round else acted
        at = acted if on_policy and stale else (theta, average)
        variables = [*agent._learned, *(variable for variable, _ in agent._averaged)]
        for variable, value in zip(variables, [*at[0], *at[1]], strict=True):
            variable.assign(value)
        with tf.GradientTape() as tape:
            loss = agent.loss(tf.nest.map_structure(tf.constant, batch)).loss
        gradients = [g.numpy() for g in tape.gradient(loss, agent._learned)]
        if bound := config.learner.clip_global_norm:
            norm = np.sqrt(sum((g**2).sum() for g in gradients))
            gradients = [g * min(1.0, bound / norm) for g in gradients]
        squares = [0.99 * s + 0.01 * g**2 for s, g in zip(squares, gradients)]
        theta = [
            w - rate * g / np.sqrt(s + config.learner.rmsprop_epsilon) for w, g, s in zip(theta, gradients, squares)
        ]
        alpha, names = config.loss.average_decay, {v.ref(): i for i, v in enumerate(agent._learned)}
        followed = [theta[names[variable.ref()]] for _, variable in agent._averaged]
        average = [alpha * a + (1 - alpha) * w for a, w in zip(average, followed)]
    return theta, average


def distance(a, b):
    """Largest difference of two states, relative to the largest weight."""
    pairs = list(zip([*a[0], *a[1]], [*b[0], *b[1]], strict=True))
    return max(np.abs(x - y).max() for x, y in pairs) / max(np.abs(x).max() for x, _ in pairs)


@pytest.mark.parametrize(("name", "agent"), CASES)
def test_on_policy_gradients_are_those_at_the_weights_that_acted(tmp_path, monkeypatch, name, agent):
    config = make_config(name, agent)
    start, end, calls = recorded_run(config, tmp_path, monkeypatch)
    assert sum(on_policy for _, on_policy, _, _ in calls) == ROUNDS * ENVS
    assert (len(calls) > ROUNDS * ENVS) == (agent == "acer_ratio_1")
    expected = algorithm_2(config, start, calls, stale=True)
    assert distance(expected, start) > 0.05
    assert distance(expected, end) < 1e-4
    assert distance(algorithm_2(config, start, calls, stale=False), end) > 1e-2
    if "trust_region_active" in calls[0][-1]:
        assert any(0 < scalars["trust_region_active"] for _, _, _, scalars in calls)
    ratios = [scalars["rho_clipped"] for _, on_policy, _, scalars in calls if on_policy and "rho_clipped" in scalars]
    np.testing.assert_allclose(ratios, 1.0, rtol=1e-4)
