"""Data and weights of each update, by schedule: IMPALA, batched A2C and A3C."""

from __future__ import annotations

import collections
import time

import numpy as np
import pytest
import tensorflow as tf

from repro.acting.supervision import Interrupted
from repro.papers.impala.agent import ImpalaAgent
from tests.support.catch import Catch
from tests.support.training import UNROLL, make_agent, make_loop

SECONDS = 30.0
"""Longest wait in a test, for a machine that is busy."""


def learn_nothing(loop):
    """Has updates take their batches and no more, which compiles nothing, where these are all that a test looks at."""
    loop._learn = lambda batch: {}


def learn(loop, copied=False):
    """Runs to the end; returns (versions, actors, trajectory) of each batch, copied before its memory is used again."""
    next_batch, batches = loop._source.next, []

    def noting():
        batch = next_batch()
        copy = tf.nest.map_structure(np.array, batch.trajectory) if copied else None
        batches.append((tuple(batch.versions), tuple(group.actor for group in batch.groups), copy))
        return batch

    loop._source.next = noting
    updates = list(loop)
    loop.close()
    return batches, updates


def test_batched_a2c_learns_at_the_weights_that_acted(tmp_path):
    """Synchronised steps: one actor has all environments. Synchronised unrolls: each actor has one."""
    for name, num_actors, envs in (("steps", 1, 6), ("unrolls", 6, 1)):
        loop, _, _ = make_loop(
            tmp_path / name, updates=5, lag=0, num_actors=num_actors, envs_per_actor=envs, batch_size=6
        )
        learn_nothing(loop)
        batches, updates = learn(loop)
        assert [set(versions) for versions, *_ in batches] == [{0}, {1}, {2}, {3}, {4}]
        assert [update.lag for update in updates] == [0.0] * 5


@pytest.mark.parametrize(
    ("num_actors", "envs", "dynamic_batching", "updates"),
    [
        (1, 48, False, 6),
        (48, 1, True, 4),
        pytest.param(48, 1, False, 6, marks=pytest.mark.slow),  # 48 policies, each compiled
    ],
)
def test_published_sizes_of_batched_a2c_split_into_batches(tmp_path, num_actors, envs, dynamic_batching, updates):
    """48 unrolls a round, batches of 32: 16 wait for the next round and are one update old then."""
    loop, _, _ = make_loop(
        tmp_path,
        updates=updates,
        lag=0,
        num_actors=num_actors,
        envs_per_actor=envs,
        batch_size=32,
        dynamic_batching=dynamic_batching,
    )
    learn_nothing(loop)
    batches, _ = learn(loop)
    share = [collections.Counter(versions) for versions, *_ in batches]
    groups = len(batches[0][0])
    half = groups // 2
    assert (
        share
        == [
            {0: groups},
            {0: half, 1: half},
            {1: groups},
            {3: groups},
            {3: half, 4: half},
            {4: groups},
        ][:updates]
    )


def test_every_unroll_is_learned_from_once_and_in_order(tmp_path, monkeypatch):
    """Observations of a game with a counter: the unrolls of an environment follow each other."""
    played = []
    collect = Catch.step

    def counting(environment, actions):
        played.append(environment.num_envs)
        return collect(environment, actions)

    monkeypatch.setattr(Catch, "step", counting)
    loop, _, _ = make_loop(tmp_path, updates=9, lag=0, num_actors=3, envs_per_actor=6, batch_size=4)
    learn_nothing(loop)
    batches, _ = learn(loop, copied=True)
    assert sum(played) == 2 * 18 * UNROLL  # 36 unrolls are nine batches of four
    ends = {}
    unrolls = [tf.nest.map_structure(lambda x: x[i], batch) for *_, batch in batches for i in range(4)]
    for place, unroll in enumerate(unrolls):
        environment = place % 18
        if environment in ends:
            np.testing.assert_array_equal(unroll.observation[0], ends[environment])
        ends[environment] = unroll.observation[-1]
    assert len(ends) == 18


@pytest.mark.parametrize(("num_workers", "updates"), [(2, 5), pytest.param(3, 25, marks=pytest.mark.slow)])
def test_a3c_applies_the_gradient_at_a_worker_s_weights_to_the_present_ones(tmp_path, num_workers, updates):
    """Against a replica of the agent that is set to the worker's weights for each gradient."""
    loop, _, agent = make_loop(
        tmp_path,
        updates=updates,
        schedule="a3c",
        num_actors=num_workers,
        envs_per_actor=1,
        batch_size=1,
        kind=ImpalaAgent,
    )
    oracle = make_agent(Catch(1, 0), 0, kind=ImpalaAgent)
    theta = [v.numpy() for v in oracle.acting_variables]
    known = [theta]  # weights after so many updates
    gradients = []
    oracle._optimizer.apply_gradients = lambda pairs, **_: gradients.extend(g.numpy() for g, _ in pairs)
    batches, _ = learn(loop, copied=True)
    assert any(version < i for i, ((version,), *_) in enumerate(batches))  # weights moved while workers played
    present = make_agent(Catch(1, 0), 0, kind=ImpalaAgent)
    for (version,), _, batch in batches:
        for variable, value in zip(oracle.acting_variables, known[version]):
            variable.assign(value)
        gradients.clear()
        oracle.train(tf.nest.map_structure(tf.constant, batch))
        pairs = zip(map(tf.constant, gradients), present.acting_variables)
        present._optimizer.apply_gradients(pairs, skip_gradients_aggregation=True)
        known.append([v.numpy() for v in present.acting_variables])
    for ours, theirs in zip(agent.acting_variables, known[-1]):
        np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-5)
    moved = max(np.abs(a - b).max() for a, b in zip(known[-1], theta))
    assert moved > 0.01


@pytest.mark.parametrize("num_workers", [3, pytest.param(32, marks=pytest.mark.slow)])
def test_a_worker_of_a3c_goes_on_from_weights_that_know_its_last_unroll(tmp_path, num_workers):
    """Also of 32, the published number."""
    loop, _, _ = make_loop(
        tmp_path,
        updates=10 * num_workers,
        schedule="a3c",
        num_actors=num_workers,
        envs_per_actor=1,
        batch_size=1,
        kind=ImpalaAgent,
    )
    batches, _ = learn(loop)
    last = {}
    for update, ((version,), (worker,), _) in enumerate(batches):
        assert version > last.get(worker, -1)  # after update number `last` there are `last` + 1
        last[worker] = update
    assert len(last) == num_workers


@pytest.mark.slow
def test_a_run_with_dynamic_batching_has_the_versions_of_its_schedule(tmp_path):
    loop, episodes, _ = make_loop(
        tmp_path / "a2c", updates=4, lag=0, num_actors=4, envs_per_actor=2, batch_size=8, dynamic_batching=True
    )
    batches, _ = learn(loop)
    assert [set(versions) for versions, *_ in batches] == [{0}, {1}, {2}, {3}]
    loop, episodes, agent = make_loop(
        tmp_path / "impala", updates=30, schedule="async", num_actors=4, envs_per_actor=2, dynamic_batching=True
    )
    learn(loop)
    assert episodes.games > 50
    assert int(agent.train_step_counter) == 30


@pytest.mark.parametrize("dynamic_batching", [False, True])
def test_at_the_weights_that_acted_every_importance_weight_is_1(tmp_path, dynamic_batching):
    loop, _, agent = make_loop(
        tmp_path, updates=3, lag=0, num_actors=3, envs_per_actor=2, batch_size=6, dynamic_batching=dynamic_batching
    )
    next_batch, gaps = loop._source.next, []

    def noting():
        batch = next_batch()
        logits, _, _ = agent._network(
            tf.constant(batch.trajectory.observation), tf.constant(batch.trajectory.step_type), ()
        )
        gaps.append(np.abs(logits[:, :-1] - batch.trajectory.policy_info["logits"][:, :-1]).max())
        return batch

    loop._source.next = noting
    list(loop)
    loop.close()
    assert len(gaps) == 3
    assert max(gaps) < 1e-5


def state_without_games(source):
    """Of a lockstep source whose actors cannot finish their unroll."""

    def interrupted():
        raise Interrupted

    source.finish_playing = interrupted
    state = source.get_state()
    del source.finish_playing
    return state


@pytest.mark.parametrize(
    ("schedule", "dynamic_batching"), [("async", False), ("async", True), ("a3c", False), ("lockstep", False)]
)
def test_each_resume_without_games_begins_other_ones_and_samples_otherwise(
    tmp_path, monkeypatch, schedule, dynamic_batching
):
    begun, reset = [], Catch.reset

    def noting(environment, **arguments):
        result = reset(environment, **arguments)
        begun.append(result[0].tobytes())
        return result

    monkeypatch.setattr(Catch, "reset", noting)
    seeds, state = [], None
    for process in range(3):
        loop, *_ = make_loop(
            tmp_path / str(process), updates=9, schedule=schedule, dynamic_batching=dynamic_batching, seed=5
        )
        learn_nothing(loop)
        if state is not None:
            loop._source.set_state(state)
        actors = [place.actor for place in loop._source._actors.places]
        policies = [actors[0]._inference._batching] if dynamic_batching else [actor._inference for actor in actors]
        seeds += [tuple(policy._seed) for policy in policies]
        updates = iter(loop)
        next(updates), next(updates)  # the first may be of an unroll that waited
        deadline = time.monotonic() + SECONDS
        while not all(actor.started for actor in actors) and time.monotonic() < deadline:
            time.sleep(0.01)
        state = state_without_games(loop._source) if schedule == "lockstep" else loop._source.get_state()
        loop.close()
        assert state["restarts"].tolist() == 2 * [process]
    assert len(begun) == len(set(begun)) == 3 * 2
    assert len(seeds) == len(set(seeds)) == 3 * (1 if dynamic_batching else 2)


def test_a_lockstep_run_whose_games_are_saved_keeps_its_seeds(tmp_path):
    loop, *_ = make_loop(tmp_path, updates=9)
    empty = loop._source.get_state()  # no game has begun
    next(iter(loop))
    states = empty, loop._source.get_state()
    loop.close()
    for i, state in enumerate(states):
        resumed, *_ = make_loop(tmp_path / str(i), updates=9)
        before = [place.actor._inference._seed[0] for place in resumed._source._actors.places]
        resumed._source.set_state(state)
        actors = [place.actor for place in resumed._source._actors.places]
        assert [actor._inference._seed[0] for actor in actors] == before
        assert [actor._reset_seed for actor in actors] == [None, None]
        assert resumed._source.get_state()["restarts"].tolist() == [0, 0]
        resumed.close()
