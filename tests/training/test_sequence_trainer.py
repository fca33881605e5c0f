"""The loop of sequences: when it learns, and that a resumed run continues with its replay."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
import tensorflow as tf

from repro.replay.sequences import Sample, check_priorities
from repro.training.checkpoint import CheckpointError
from repro.training.learner import LearnerOutput, NonFiniteLossError
from repro.training.run_directory import checkpoint_name
from repro.training.sequence_trainer import FOLDER
from tests.papers.ctrace.small import make_loop
from tests.support.training import save_elsewhere, weights_of
from tests.support.waiting import wait


def logged_of(update):
    return update.scalars["loss"], update.mean_return, update.games


@pytest.mark.slow
def test_nothing_is_learned_before_the_first_frames(tmp_path):
    loop, _, agent = make_loop(tmp_path, updates=12, steps_per_update=5)  # 20 frames an update, 100 before the first
    steps, losses = [], []
    for update in loop:
        steps.append(int(agent.train_step_counter))
        losses.append(update.scalars["loss"])
    loop.close()
    assert steps == [0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7]
    assert [math.isnan(loss) for loss in losses] == [True] * 5 + [False] * 7
    assert loop.summary()["gradient_steps"] == 7


def test_updates_go_on_without_learning_where_a_replay_is_empty_again(tmp_path):
    loop, _, agent = make_loop(tmp_path, updates=12, steps_per_update=5)
    full, steps = loop._replay.sample, []
    for update in loop:
        steps.append(int(agent.train_step_counter))
        loop._replay.sample = full if update.updates > 8 else lambda size: None
    loop.close()
    assert steps == [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]
    assert loop.summary()["gradient_steps"] == 3


def test_weights_are_published_at_the_start_and_after_each_period(tmp_path, monkeypatch):
    loop, _, _ = make_loop(tmp_path, updates=9, publish_period=4)
    publish, published = loop._weights.publish, []

    def noting(version):
        published.append(loop.updates)
        publish(version)

    monkeypatch.setattr(loop._weights, "publish", noting)
    list(loop)
    loop.close()
    assert published == [0, 3, 7]  # during the updates 4 and 8


def test_the_last_update_may_exceed_the_budget(tmp_path):
    loop, _, _ = make_loop(tmp_path, updates=2.5)
    loop.close()
    assert loop.total_updates == 3


def test_a_priority_that_is_none_means_that_the_run_has_diverged(tmp_path, monkeypatch):
    """Weights that the last gradient step has broken give new sequences such priorities before a loss shows it."""
    loop, _, _ = make_loop(tmp_path, updates=3, steps_per_update=5)

    def play(*_):
        check_priorities(np.array([np.nan]))

    monkeypatch.setattr(loop._actor_pool, "play", play)
    with pytest.raises(NonFiniteLossError, match=r"gradient step 0 left broken weights: .*\[nan\]"):
        next(iter(loop))
    loop.close()


def test_a_replay_is_told_where_the_last_checkpoint_has_what_it_saved(tmp_path):
    threads = set(threading.enumerate())
    loop, _, _ = make_loop(tmp_path, updates=2)
    kept, closed, close = [], [], loop._replay.close
    loop._replay.confirm_saved, loop._replay.close = kept.append, lambda: closed.append(close())
    for _ in loop:
        pass
    loop.close()
    assert kept == [tmp_path / "checkpoints" / checkpoint_name(updates) / FOLDER for updates in (1, 2)]
    assert len(closed) == 1
    wait(lambda: set(threading.enumerate()) <= threads, seconds=10.0)  # no actor is left


@pytest.mark.slow
def test_resumed_run_continues_with_its_replay(tmp_path):
    loop, _, agent = make_loop(tmp_path, updates=30, prioritised=True)
    for update in loop:
        if update.updates == 20:
            break
    loop.save()
    stored, weights = len(loop._replay), [v.numpy() for v in agent.variables]
    loop.close()

    again, episodes, agent = make_loop(tmp_path, updates=30, prioritised=True)
    assert again.updates == 20
    assert episodes.games > 0
    assert len(again._replay) == stored > 100
    for a, b in zip(weights, (v.numpy() for v in agent.variables), strict=True):
        np.testing.assert_array_equal(a, b)
    assert [update.updates for update in again][-1] == 30
    assert again.summary()["gradient_steps"] == int(agent.train_step_counter) == 25
    again.close()


@pytest.mark.parametrize(("prioritised", "publish_period"), [pytest.param(False, 1, marks=pytest.mark.slow), (True, 4)])
def test_2n_updates_equal_n_stop_resume_n_bit_for_bit(tmp_path, prioritised, publish_period):
    """Stopped between two publications, with games, sequences and priorities half-way; the replay is full by then."""
    settings = {"updates": 42, "prioritised": prioritised, "publish_period": publish_period, "capacity": 300}
    found, logged = [], []
    loop, episodes, agent = make_loop(tmp_path / "whole", **settings)
    for update in loop:
        logged.append(logged_of(update))
        if update.updates == 22:
            assert len(loop._replay) == 300
            save_elsewhere(loop, tmp_path / "midway/checkpoints")
    resumed, resumed_episodes, resumed_agent = make_loop(tmp_path / "midway", **settings)
    assert resumed.updates == 22
    resumed_logged = logged[:22] + [logged_of(update) for update in resumed]
    for parts in (loop, logged, episodes, agent), (resumed, resumed_logged, resumed_episodes, resumed_agent):
        run, log, games, learned = parts
        run._replay.check_valid()
        found.append((log, games.get_state(), run._replay.sample(100), weights_of(learned)))
        run.close()
    assert len(logged) == 42
    for a, b in zip(*map(tf.nest.flatten, found), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_another_seed_of_the_replay_is_another_run(tmp_path):
    """So that the test above could fail; and two runs of one seed are the same, also where one is saved midway."""
    settings = {"prioritised": True, "publish_period": 4}
    logs = []
    for i, replay_seed in enumerate((1, 1, 2)):
        loop, _, _ = make_loop(tmp_path / str(i), updates=15, replay_seed=replay_seed, **settings)
        logs.append([])
        for update in loop:
            logs[-1].append(logged_of(update))
            if i == 1 and update.updates == 10:
                save_elsewhere(loop, tmp_path / "midway")
        loop.close()
    np.testing.assert_array_equal(logs[0], logs[1])
    assert logs[0][-1][0] != logs[2][-1][0]


@pytest.mark.slow
def test_checkpoint_with_a_replay_on_reverb_is_refused(tmp_path):
    loop, _, _ = make_loop(tmp_path, updates=10)
    loop._save_more = lambda folder: (folder / FOLDER).mkdir()
    for _ in loop:
        pass
    loop.close()
    with pytest.raises(ValueError, match=r"is a replay on Reverb, .* start again in a new run_dir"):
        make_loop(tmp_path, updates=10)


def test_importance_weights_and_priorities_go_around(tmp_path):
    """(N P)^-0.4 over the largest, with N = 50 and P = 0.02, 0.32, 0.005: 0.25^0.4, 64^-0.4 and 1."""
    loop, _, _ = make_loop(tmp_path, updates=30, prioritised=True)
    given, written = [], []

    output = LearnerOutput({"loss": 1.0}, {"priorities": np.float32([0.5, 3.0, 1.5])})

    class Learner:
        def to_device(self, x):
            return x

        def step(self, sequences, weights):
            given.append((sequences, weights))
            return output

    class Replay:
        def set_priorities(self, keys, priorities):
            written.append((keys, priorities))

    loop._learner, loop._replay = Learner(), Replay()
    probabilities, keys = np.array([0.02, 0.32, 0.005]), np.uint64([7, 8, 9])
    logged = loop._learn(Sample("sequences", keys, probabilities, np.int64([50, 50, 50])))
    assert logged == output.scalars
    (sequences, weights), (written_keys, priorities) = given[0], written[0]
    assert sequences == "sequences"
    np.testing.assert_allclose(weights, [0.25**0.4, 64.0**-0.4, 1.0], rtol=1e-6)
    np.testing.assert_array_equal(written_keys, keys)
    np.testing.assert_array_equal(priorities, output.per_sequence["priorities"])


@pytest.mark.slow
def test_replay_that_cannot_be_written_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    loop, _, _ = make_loop(tmp_path, updates=30)
    for update in loop:
        if update.updates == 10:
            loop.save()
        if update.updates == 20:
            break

    def full(folder):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(loop._replay, "save", full)
    with pytest.raises(CheckpointError, match="free some space"):
        loop.save()
    loop.close()
    again, _, _ = make_loop(tmp_path, updates=30)
    assert again.updates == 10
    again.close()
