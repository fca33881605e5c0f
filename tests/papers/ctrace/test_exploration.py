"""Epsilon over a run, against values worked out by hand, and in the replay of a run."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.trajectories import time_step as ts

from paper_configs.ctrace import dqn, gymnasium, r2d2
from repro.config import SCALES, resolve
from repro.evidence.records import plain_config
from repro.papers import find_experiment
from repro.papers.ctrace import experiment as experiment_module
from repro.papers.ctrace.experiments.dqn import DqnExperiment
from repro.papers.ctrace.experiments.r2d2 import R2d2Experiment
from repro.papers.ctrace.exploration import ConstantEpsilons, LinearEpsilon
from repro.training.run_directory import RunDirectory


@pytest.mark.parametrize(
    ("frames", "epsilon"),
    [(0, 1.0), (200_000, 1.0), (300_000, 0.91), (700_000, 0.55), (1_200_000, 0.1), (3_000_000, 0.1)],
)
def test_epsilon_falls_linearly_and_stays(frames, epsilon):
    """From 1 to 0.1 over a million frames, after the first 200 000."""
    exploration = LinearEpsilon(1.0, 0.1, 1_000_000, begin=200_000)
    exploration.set_frames(frames)
    assert exploration.epsilon.numpy() == pytest.approx(epsilon, rel=1e-6)


def test_it_begins_with_the_first_value():
    assert LinearEpsilon(0.7, 0.1, 100, begin=0).epsilon.numpy() == pytest.approx(0.7)


def test_constant_epsilons_stay():
    exploration = ConstantEpsilons(np.float32([0.4, 0.1]))
    exploration.set_frames(10**9)
    np.testing.assert_array_equal(exploration.epsilon, np.float32([0.4, 0.1]))


def test_impossible_frames_are_refused():
    with pytest.raises(ValueError, match=r"exploration\.frames=0: choose 1 or more"):
        LinearEpsilon(1.0, 0.1, 0, begin=10)
    with pytest.raises(ValueError, match=r"replay\.first_frames=-1: choose 0 or more"):
        LinearEpsilon(1.0, 0.1, 10, begin=-1)


@pytest.mark.parametrize("scale", SCALES)
def test_the_first_frames_are_played_uniformly_at_random(scale):
    """Mnih et al. (2015), Extended Data Table 1: a uniform random policy fills the replay before learning starts."""
    config = dqn.get_config(scale)
    (exploration,) = find_experiment(config).make_exploration()
    begin, length = config.replay.first_frames, config.exploration.frames
    for frames, expected in (
        (0, 1.0),
        (begin, 1.0),
        (begin + length // 2, (1.0 + config.exploration.last) / 2),
        (begin + length, config.exploration.last),
    ):
        exploration.set_frames(frames)
        assert float(exploration.epsilon) == pytest.approx(expected)


@pytest.mark.parametrize("scale", SCALES)
def test_the_environments_of_all_actors_share_one_sequence_of_epsilons(scale):
    """Horgan et al. (2018), Section 4.1: 0.4^(1 + 7 i / (N - 1)) for i of N actors; R2D2 has 256."""
    config = r2d2.get_config(scale)
    parts = [exploration.epsilon for exploration in find_experiment(config).make_exploration()]
    count = {"smoke": 4, "desk": 16, "paper": 256}[scale]
    assert [len(part) for part in parts] == [config.runtime.envs_per_actor] * config.runtime.num_actors
    expected = 0.4 ** (1 + 7 * np.arange(count) / (count - 1))
    np.testing.assert_allclose(np.concatenate(parts), expected, rtol=1e-6)


class NotedError(Exception):
    """Ends an actor's process once its policy is known."""


def test_each_actor_of_a_run_has_epsilons_of_its_own(tmp_path, monkeypatch):
    config = gymnasium.get_config("smoke")
    config.agent, config.env.task = "r2d2_retrace", "repro.regression.environments:repro/Catch-v0"
    config = resolve(config)
    config.runtime.num_actors, config.runtime.envs_per_actor = 3, 2
    config.exploration.base, config.exploration.spread = 0.5, 5.0
    expected = 0.5 ** np.arange(1.0, 7.0).reshape(3, 2)
    experiment, made, make_local_policy = find_experiment(config), [], R2d2Experiment.make_local_policy

    def note(experiment, environment, epsilon):
        made.append(epsilon)
        return make_local_policy(experiment, environment, epsilon)

    monkeypatch.setattr(R2d2Experiment, "make_local_policy", note)
    trainer = experiment.build_trainer(1, RunDirectory(tmp_path, config.to_dict(), 1), print)
    trainer.close()
    np.testing.assert_allclose(made, expected, rtol=1e-6)
    assert [writer._priority for writer in trainer._replay.writers] == [experiment.initial_priority] * 6

    def note_and_end(experiment, environment, epsilon):
        environment.close()
        made.append(epsilon)
        raise NotedError

    monkeypatch.setattr(R2d2Experiment, "make_local_policy", note_and_end)
    monkeypatch.setattr(experiment_module, "begin", lambda *_: (1, 2))
    made.clear()
    for index in range(3):  # actors in processes
        with pytest.raises(NotedError):
            experiment.run_remote_actor(1, index, 0, "localhost:1")
    np.testing.assert_allclose(made, expected, rtol=1e-6)


def test_an_actor_in_a_process_enters_sequences_by_their_td_errors_and_acts_by_a_seed_of_its_own(monkeypatch):
    config = gymnasium.get_config("smoke")
    config.agent, config.env.task = "r2d2_retrace", "repro.regression.environments:repro/Catch-v0"
    experiment, run = find_experiment(resolve(config)), []
    monkeypatch.setattr(experiment_module, "begin", lambda *_: (11, 22))
    for name in ("own_machine", "Reporter", "PulledWeights"):
        monkeypatch.setattr(experiment_module, name, lambda *_: SimpleNamespace(append=print))
    monkeypatch.setattr(experiment_module.reverb, "Client", print)
    monkeypatch.setattr(experiment_module, "run_actor", lambda *arguments: run.append(arguments))
    experiment.run_remote_actor(1, 0, 0, "localhost:1")
    ((actor, _, settings, priority, _, replay, steps),) = run
    actor.environment.close()
    assert (actor._seed, settings, replay) == (22, experiment.sequence_settings, "localhost:1")
    assert priority == experiment.initial_priority is not None
    assert steps == experiment.config.learner.steps_per_update


@pytest.mark.parametrize("agent", ["retrace", "r2d2_retrace"])
def test_evaluation_has_an_epsilon_of_its_own(agent):
    config = gymnasium.get_config("smoke")
    config.agent, config.env.task = agent, "repro.regression.environments:repro/Catch-v0"
    config.evaluation.epsilon = 0.03
    learned, environment = find_experiment(config).make_evaluation_agent(2, 0)
    environment.close()
    time_step = restart(environment.time_step_spec.observation, 2)
    for policy, epsilon in ((learned.policy, 0.03), (learned.collect_policy, 1.0)):
        info = policy.action(time_step, policy.get_initial_state(2)).info
        np.testing.assert_array_equal(info["epsilon"], np.float32([epsilon] * 2))


def restart(observation_spec, num_envs):
    """The first step of games that show nothing."""
    zeros = tf.nest.map_structure(lambda spec: tf.zeros([num_envs, *spec.shape], spec.dtype), observation_spec)
    return ts.restart(zeros, num_envs)


def stored_epsilons(folder, num_frames):
    """Those of mu in all batches of a short run whose learning begins after 400 frames."""
    config = dqn.get_config("smoke")
    config.agent, config.num_env_frames = "double_dqn", num_frames
    config.replay.first_frames = 400
    config.exploration.frames = 240
    config.runtime.compile = "graph"
    run = RunDirectory(folder, plain_config(config), 1)
    loop, found = find_experiment(config).build_trainer(1, run, print), []
    sample = loop._replay.sample

    def keep(size):
        sampled = sample(size)
        found.append(sampled.sequences.policy_info["epsilon"][:, 0])
        return sampled

    loop._replay.sample = keep
    try:
        for _ in loop:
            pass
    finally:
        loop.close()
    return found


@pytest.mark.slow
def test_the_behaviour_stored_is_the_policy_that_played(tmp_path, monkeypatch):
    found = stored_epsilons(tmp_path / "run", 800)
    assert (found[0] == 1.0).all()
    assert np.unique(found[-1]).size > 10  # the steps of as many epsilons
    assert np.min(found) == pytest.approx(0.1)

    def from_the_start(experiment):
        exploration = experiment.config.exploration
        return [LinearEpsilon(exploration.first, exploration.last, exploration.frames, begin=0)]

    monkeypatch.setattr(DqnExperiment, "make_exploration", from_the_start)
    tf.keras.backend.clear_session()
    assert np.min(stored_epsilons(tmp_path / "wrong", 440)[0]) < 0.5
