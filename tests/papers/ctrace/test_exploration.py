"""Epsilon over a run, against values worked out by hand, and in the replay of a run."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from paper_configs.ctrace import dqn
from repro.config import SCALES
from repro.evidence.records import plain_config
from repro.papers import find_experiment
from repro.papers.ctrace.experiments.dqn import DqnExperiment
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
