"""On-policy updates of whole runs against Algorithm 2 in NumPy: gradients at the weights that acted, applied in turn.

The oracle knows nothing of snapshots. It is given the run's batches in order, and keeps theta, theta_a and RMSProp's
mean of squares as plain arrays, from which each gradient of an agent of its own is taken.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from paper_configs.acer import atari, continuous
from repro.acting.batches import Batch
from repro.acting.unrolls import UnrollGroup
from repro.papers import find_experiment
from repro.replay.frame_stacks import with_stacks
from repro.training.learner import Learner
from tests.papers.acer.continuous_small import make_agent

ENVS, LENGTH, ROUNDS = 4, 6, 3
CASES = [  # experiment, agent, rounds between acting and learning
    ("continuous", "a3c", 1),
    pytest.param("continuous", "a3c", 0, marks=pytest.mark.slow),
    ("continuous", "trust_a3c", 0),
    pytest.param("atari", "acer_ratio_0_no_trust_region", 0, marks=pytest.mark.slow),
    pytest.param("atari", "acer_ratio_1", 0, marks=pytest.mark.slow),
    pytest.param("atari", "a3c", 0, marks=pytest.mark.slow),
]


class Folder:
    """A run's folder, as far as training knows it."""

    def __init__(self, path):
        self.checkpoints, self.actors = path / "checkpoints", path / "actors"


def make_config(name, agent, lag=0):
    """One unroll of one environment an update, and steps so large that a round's updates move the weights."""
    config = {"atari": atari, "continuous": continuous}[name].get_config("smoke")
    config.agent = agent
    config.learner.unroll_length = LENGTH
    config.learner.batch_size = 1
    config.learner.rmsprop_epsilon = 0.01
    config.runtime.envs_per_actor = ENVS
    config.runtime.lockstep_lag = lag
    config.runtime.compile = "graph"
    if name == "continuous":
        config.env.task = "cheetah"
        config.network.units = (8,)
        config.sweep.learning_rate, config.sweep.delta = (0.02, 0.02), (0.01, 0.01)
    else:
        config.learner.learning_rate = 0.2 if agent == "a3c" else 0.02  # its gradients are small without rewards
        config.loss.delta = 0.01
    field = "num_env_steps" if name == "continuous" else "num_env_frames"
    config[field] = ROUNDS * ENVS * find_experiment(config).frames_per_update
    return config


def recorded_run(config, path, monkeypatch):
    """The agent at the start and at the end as arrays, and the batches learned from.

    Returns:
        start, end: (theta, theta_a).
        calls: (begins_round, is_on_policy, batch, extras) of each gradient step.
    """
    training = find_experiment(config).build_trainer(3, Folder(path), print)
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

    stale: whether on-policy gradients are taken at the weights with which the round was played, those at its start or,
        with a lag, at the start of the round before; otherwise at the present ones.
    """
    experiment = find_experiment(config)
    environment = experiment.make_environment(1, 0)
    agent = experiment.with_hparams(experiment.sample_hparams(3)).make_agent(environment, 0)
    environment.close()
    rate = float(agent._optimizer.learning_rate)
    theta, average = start
    squares = [np.ones_like(w) for w in theta]
    starts = []  # of rounds
    for begins_round, on_policy, batch, _ in calls:
        if begins_round:
            starts.append((theta, average))
        acted = starts[max(0, len(starts) - 1 - config.runtime.lockstep_lag)]
        at = acted if on_policy and stale else (theta, average)
        variables = [*agent._learned, *(variable for variable, _ in agent._averaged)]
        for variable, value in zip(variables, [*at[0], *at[1]], strict=True):
            variable.assign(value)
        with tf.GradientTape() as tape:
            loss = agent.loss(with_stacks(tf.nest.map_structure(tf.constant, batch))).loss
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


@pytest.mark.parametrize(("name", "agent", "lag"), CASES)
def test_on_policy_gradients_are_those_at_the_weights_that_acted(tmp_path, monkeypatch, name, agent, lag):
    config = make_config(name, agent, lag)
    start, end, calls = recorded_run(config, tmp_path, monkeypatch)
    assert sum(on_policy for _, on_policy, _, _ in calls) == ROUNDS * ENVS
    assert (len(calls) > ROUNDS * ENVS) == (agent == "acer_ratio_1")
    expected = algorithm_2(config, start, calls, stale=True)
    assert distance(expected, start) > 0.05
    assert distance(expected, end) < 1e-4
    assert distance(algorithm_2(config, start, calls, stale=False), end) > 1e-2
    if "trust_region_active" in calls[0][-1]:
        assert any(scalars["trust_region_active"] > 0 for _, _, _, scalars in calls)
    ratios = [scalars["rho_clipped"] for _, on_policy, _, scalars in calls if on_policy and "rho_clipped" in scalars]
    np.testing.assert_allclose(ratios, 1.0, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["a3c", "trust_a3c"])
def test_a_run_with_a_lag_resumes_with_the_weights_that_acted(tmp_path, agent):
    """The round that waits in the checkpoint was played with weights that are no longer the present ones."""
    config = make_config("continuous", agent, lag=1)
    config.num_env_steps = 2 * config.num_env_steps
    whole = find_experiment(config).build_trainer(3, Folder(tmp_path / "whole"), print)
    list(whole)
    half = find_experiment(config).build_trainer(3, Folder(tmp_path / "halves"), print)
    for update in half:
        if update.updates == ROUNDS * ENVS:
            half.save()
            break
    half.close()
    second = find_experiment(config).build_trainer(3, Folder(tmp_path / "halves"), print)
    list(second)
    for training in (whole, second):
        training.close()
    assert distance(state_of(whole._learner.agent), state_of(second._learner.agent)) == 0.0


def test_free_running_actors_learn_at_their_own_weights(tmp_path):
    config = make_config("continuous", "a3c")
    config.runtime.num_actors, config.runtime.envs_per_actor, config.runtime.schedule = 2, 1, "async"
    training = find_experiment(config).build_trainer(3, Folder(tmp_path), print)
    assert all(np.isfinite(update.scalars["loss"]) for update in training)
    training.close()


def test_a_batch_of_several_weights_has_no_on_policy_gradient():
    groups = [UnrollGroup(make_agent("a3c").collect_data_spec, 1, LENGTH) for _ in range(2)]
    for group, acting in zip(groups, [(1.0,), (2.0,)]):
        group.acting = acting
    assert Batch(groups, None).acting == (1.0,)
    groups[1].version = 3
    with pytest.raises(ValueError, match=r"versions of the weights, \[0, 3\], has no on-policy gradient"):
        _ = Batch(groups, None).acting
