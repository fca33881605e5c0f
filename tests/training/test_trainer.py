"""The training loop under both schedules: bit-identical resumption, lag, shutdown, failures."""

from __future__ import annotations

import functools
import threading

import numpy as np
import pytest
import tensorflow as tf

from repro.acting.supervision import ActorPoolError
from repro.training.learner import Learner, NonFiniteLossError, RetracedError
from tests.support.training import SETTINGS, games_of, make_loop, save_elsewhere, weights_of
from tests.support.waiting import wait


def finish(loop):
    updates = list(loop)
    loop.close()
    return updates


UNEVEN = {"num_actors": 3, "envs_per_actor": 6, "batch_size": 4}
"""Of nine groups of two environments in a round, four batches of two groups and a rest."""
LOCKSTEP = [
    (1, True),
    pytest.param(0, True, marks=pytest.mark.slow),
    pytest.param(0, False, marks=pytest.mark.slow),
    pytest.param(1, False, marks=pytest.mark.slow),
    pytest.param(2, False, marks=pytest.mark.slow),
]
"""Lags, and whether the sizes are uneven."""


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """Makes a run of 24 updates of a lag and sizes, once: its updates, games, weights, and what it saved midway.

    These are the number of updates, the folder, and the weights at that time.
    """

    @functools.cache
    def make(lag, uneven):
        folder, sizes, stop = tmp_path_factory.mktemp("whole"), UNEVEN if uneven else {}, 12 + uneven
        loop, episodes, agent = make_loop(folder / "own", updates=24, lag=lag, **sizes)
        updates = []
        for update in loop:
            updates.append(update)
            if update.updates == stop:
                assert loop.can_save
                assert bool(loop._source._learning) == uneven  # unrolls are left
                save_elsewhere(loop, folder / "midway")
                saved = weights_of(agent)
        loop.close()
        return updates, episodes, weights_of(agent), (stop, folder / "midway", saved)

    return make


@pytest.mark.parametrize(("lag", "uneven"), LOCKSTEP)
def test_lockstep_2n_updates_equal_n_stop_resume_n_bit_for_bit(whole_run, lag, uneven):
    updates, whole_episodes, weights, (stop, folder, saved) = whole_run(lag, uneven)
    second, episodes, agent = make_loop(folder, updates=24, lag=lag, seed=0, **(UNEVEN if uneven else {}))
    assert second.updates == stop
    assert second._seconds == updates[stop - 1].seconds
    restored = weights_of(agent)
    assert len(restored) > 3 * len(agent.trainable_variables)  # with both slots of RMSProp
    for a, b in zip(saved, restored, strict=True):
        np.testing.assert_array_equal(a, b)
    halves = updates[:stop] + finish(second)
    for a, b in zip(weights, weights_of(agent), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_equal(games_of(halves, episodes), games_of(updates, whole_episodes))


@pytest.mark.slow
@pytest.mark.parametrize(("lag", "uneven"), LOCKSTEP)
def test_two_lockstep_runs_of_one_seed_log_the_same(whole_run, tmp_path, lag, uneven):
    """Also where one of them is saved midway."""
    loop, episodes, agent = make_loop(tmp_path, updates=24, lag=lag, **(UNEVEN if uneven else {}))
    updates = finish(loop)
    found = games_of(updates, episodes), [u.scalars for u in updates], weights_of(agent)
    updates, episodes, weights, _ = whole_run(lag, uneven)
    np.testing.assert_equal(found, (games_of(updates, episodes), [u.scalars for u in updates], weights))
    assert len({update.mean_return for update in updates}) > 3


def test_lockstep_depends_on_the_seed_and_on_the_lag(whole_run, tmp_path):
    loop, _, agent = make_loop(tmp_path, updates=24, seed=1)
    finish(loop)
    found = [whole_run(1, False)[2], weights_of(agent), whole_run(0, False)[2]]
    results = [np.concatenate([w.ravel() for w in weights]) for weights in found]
    assert not np.array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])


@pytest.mark.parametrize(("lag", "expected"), [(0, [0, 1, 0, 1]), (1, [0, 1, 2, 3]), (2, [0, 1, 2, 3, 4, 5])])
def test_lockstep_lag_counts_updates_between_acting_and_learning(whole_run, lag, expected):
    # Two actors of 8 environments make two batches of 8 a round, so one round is two updates.
    lags = [update.lag for update in whole_run(lag, False)[0]]
    assert lags[: len(expected)] == expected
    assert lags[-2:] == [2 * lag, 2 * lag + 1]


@pytest.mark.slow
@pytest.mark.parametrize(("envs", "batch"), [(8, 8), (8, 2), (2, 8), (6, 4)])
def test_async_runs_to_its_budget_with_groups_of_any_fit(tmp_path, envs, batch):
    loop, episodes, agent = make_loop(tmp_path, updates=20, schedule="async", envs_per_actor=envs, batch_size=batch)
    next_batch, versions = loop._source.next, []

    def noting():
        made = next_batch()
        versions.append(list(made.versions))
        return made

    loop._source.next = noting
    updates = finish(loop)
    assert [u.updates for u in updates] == list(range(1, 21))
    assert int(agent.train_step_counter) == 20
    assert updates[-1].frames == 20 * batch * 10
    assert episodes.games > 0
    assert [u.lag for u in updates] == [i - np.mean(made) for i, made in enumerate(versions)]
    assert all(0 <= version <= i for i, made in enumerate(versions) for version in made)
    # Memory for at most 18 groups of a quarter of a batch, or 12 of a batch, goes around: later ones know new weights.
    assert np.max(versions) >= 5


@pytest.mark.parametrize(
    ("schedule", "expected"), [("async", [1, 1, 1, 4, 5, 6, 6]), ("lockstep", [0, 2, 2, 4, 4, 6, 6])]
)
def test_checkpoints_are_made_as_soon_as_one_can_be_and_is_due(tmp_path, schedule, expected):
    """In lockstep that is after a round, here of two updates; from the fourth update on one is always due."""
    threads = set(threading.enumerate())
    loop, _, _ = make_loop(tmp_path, updates=7, schedule=schedule)
    saved = []
    for update in loop:
        saved.append(loop.saved_updates)
        if update.updates == 3:
            loop._run = loop._run._replace(checkpoint_seconds=0.0)
        if update.updates == 6:
            loop._run = loop._run._replace(checkpoint_seconds=1e9)
    loop.close()
    assert saved == expected
    assert loop.saved_updates == 7  # the last one, at the end
    wait(lambda: set(threading.enumerate()) <= threads, seconds=10.0)  # no actor is left


def test_an_actor_failure_reaches_the_learner(tmp_path, monkeypatch):
    loop, _, _ = make_loop(tmp_path, updates=50, schedule="async")

    def explode(*_):
        raise OSError("the emulator is gone")

    monkeypatch.setattr("tests.support.catch.Catch.step", explode)
    with pytest.raises(
        ActorPoolError, match="failed 3 times in a row, the last time with OSError: the emulator is gone"
    ):
        finish(loop)


def test_nan_stops_the_run_names_the_update_and_keeps_the_checkpoint(tmp_path):
    loop, _, agent = make_loop(tmp_path, updates=50)
    with pytest.raises(NonFiniteLossError, match="gradient step 5 gave .*loss=nan"):
        for update in loop:
            if update.updates == 2:
                loop.save()
            if update.updates == 4:
                kernel = agent.trainable_variables[0]
                kernel.assign(kernel * np.nan)
    loop.close()
    resumed, _, agent = make_loop(tmp_path, updates=50)
    assert resumed.updates == 2
    assert all(np.isfinite(w).all() for w in weights_of(agent))
    resumed.close()


def test_a_second_trace_of_the_train_step_is_an_error(tmp_path):
    loop, _, agent = make_loop(tmp_path, updates=1)
    learner = Learner(agent, tf.distribute.get_strategy())
    batch = loop._source.next().trajectory
    learner.step(batch)
    with pytest.raises(RetracedError):
        learner.step(tf.nest.map_structure(lambda x: x[:4], batch))
    loop.close()


@pytest.mark.slow
def test_impala_learns_catch_and_a_wrong_sign_does_not(tmp_path):
    returns = {}
    for name, sign in {"right": 1.0, "wrong": -1.0}.items():
        loop, _, _ = make_loop(
            tmp_path / name,
            updates=600,
            schedule="async",
            learning_rate=0.005 * sign,
            settings=SETTINGS._replace(entropy_cost=0.003),
        )
        returns[name] = finish(loop)[-1].mean_return
    assert returns["right"] > 0.8
    assert returns["wrong"] < 0.0
