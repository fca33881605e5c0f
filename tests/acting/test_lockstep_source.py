"""Games in lockstep: each counts once, when its round is learned from, whatever the threads do in the meantime."""

from __future__ import annotations

import math
import threading
import time

import numpy as np
import pytest

from repro.acting.batches import GroupSizes
from repro.acting.rollout import LAST, Episode
from repro.training.trainer import EpisodeLog
from tests.support.catch import Catch
from tests.support.training import UNROLL, make_loop

SECONDS = 30.0
"""Longest wait in a test, for a machine that is busy."""
UNEVEN = {"num_actors": 3, "envs_per_actor": 6, "batch_size": 4}
"""Of nine groups of two environments in a round, four batches of two groups and a rest."""
ALONE = {"num_actors": 1, "envs_per_actor": 8, "batch_size": 8}
"""One actor: its steps are numbered. Games end after steps 5, 11, 17 and so on, eight at a time."""


def note_counted(monkeypatch):
    """Scores of the games in the order in which they count."""
    scores, append = [], EpisodeLog.append

    def noting(log, episode):
        scores.append(episode.score)
        append(log, episode)

    monkeypatch.setattr(EpisodeLog, "append", noting)
    return scores


def note_ended(monkeypatch, at, fault):
    """Scores of the games of all environments in the order in which they end; one step has a fault before it."""
    scores, step, numbers = [], Catch.step, iter(range(10**9))

    def noting(environment, actions):
        if next(numbers) == at:
            fault()
        result = step(environment, actions)
        scores.extend(result[1][result[-1]["game_over"]].tolist())
        return result

    monkeypatch.setattr(Catch, "step", noting)
    return scores


def raise_error():
    raise OSError("the emulator is gone")


def ends(groups):
    """Scores of the games that ended in the unrolls of an actor, by time and environment."""
    reward, over = (np.concatenate(parts)[:, :UNROLL].T for parts in zip(*groups, strict=True))
    return reward[over == LAST].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{}, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize("lag", [0, 1, 2])
def test_games_count_in_the_order_of_actors_once_their_round_is_learned_from(tmp_path, monkeypatch, lag, sizes):
    """Against the ends in the batches. The first actor is the slowest, and all have played ahead after each update."""
    step = Catch.step

    def slow(environment, actions):
        time.sleep(0.003 * (threading.current_thread().name == "actor-0"))
        return step(environment, actions)

    monkeypatch.setattr(Catch, "step", slow)
    counted, games, groups = note_counted(monkeypatch), [], []
    loop, episodes, _ = make_loop(tmp_path, updates=18, lag=lag, **sizes)
    next_batch = loop._source.next

    def noting():
        batch = next_batch()
        groups.extend((g.arrays.reward.copy(), g.arrays.next_step_type.copy()) for g in batch.groups)
        return batch

    loop._source.next = noting
    for _ in loop:
        loop._source.finish_playing()
        games.append(episodes.games)
    loop.close()
    split = GroupSizes(sizes.get("envs_per_actor", 8), sizes.get("batch_size", 8))
    by_actor = [ends(groups[i : i + split.per_actor]) for i in range(0, len(groups), split.per_actor)]
    actors = sizes.get("num_actors", 2)
    assert counted == sum(by_actor, [])
    assert len(by_actor) % actors == 0  # whole rounds
    assert set(counted) == {-1.0, 1.0}
    rounds = [math.ceil(n * split.per_batch / (actors * split.per_actor)) for n in range(1, 19)]
    assert games == [sum(map(len, by_actor[: actors * n])) for n in rounds]


@pytest.mark.slow
def test_the_log_is_the_same_however_often_the_run_is_saved(tmp_path):
    """Which lets all actors finish the round that they are at."""
    logs = []
    for seconds in (1e9, -1.0):
        loop, episodes, _ = make_loop(tmp_path / str(seconds), updates=12)
        loop._run = loop._run._replace(checkpoint_seconds=seconds)
        logs.append([(update.mean_return, update.games) for update in loop])
        logs[-1].append(episodes.get_state()["recent"].tolist())
        loop.close()
    assert logs[0] == logs[1]


@pytest.mark.parametrize("hangs", [False, True])
def test_a_replaced_actor_leaves_the_games_that_it_had_finished(tmp_path, monkeypatch, hangs):
    """In the midst of the second unroll, of steps 11 to 20. With lag 0 nothing is played ahead."""
    monkeypatch.setattr("repro.acting.lockstep_source.CLOSE_SECONDS", 0.5)
    awake = threading.Event()
    counted = note_counted(monkeypatch)
    ended = note_ended(monkeypatch, 18, (lambda: awake.wait(SECONDS)) if hangs else raise_error)
    loop, _, _ = make_loop(tmp_path, updates=4, lag=0, silent_seconds=6.0 if hangs else 1e9, **ALONE)
    games = [update.games for update in loop]
    assert loop.actor_restarts == 1
    loop.close()
    assert counted == ended
    assert games == [8, 32, 48, 64]  # steps 5; 11, 17 and 5 of the other actor; its 11 and 17; 23 and 29
    awake.set()


@pytest.mark.slow
def test_games_of_an_unroll_that_was_lost_at_a_stop_count_after_it(tmp_path, monkeypatch):
    """The second unroll is under way when the run is saved, and its actor hangs after steps 11 and 17."""
    monkeypatch.setattr("repro.acting.lockstep_source.CLOSE_SECONDS", 0.5)
    monkeypatch.setattr("repro.acting.lockstep_source.PATIENCE_SECONDS", 0.0)
    hung, awake = threading.Event(), threading.Event()
    counted = note_counted(monkeypatch)
    ended = note_ended(monkeypatch, 18, lambda: hung.set() or awake.wait(SECONDS))
    loop, _, _ = make_loop(tmp_path, updates=2, **ALONE)
    with monkeypatch.context() as patch:
        patch.setattr(type(loop), "can_save", False)  # so that the first checkpoint is the one below
        assert next(iter(loop)).games == 8
    assert hung.wait(SECONDS)
    loop.interrupt()
    loop.save()
    loop.close()
    resumed, episodes, _ = make_loop(tmp_path, updates=2, **ALONE)
    assert episodes.games == 8
    assert next(iter(resumed)).games == 32  # and step 5 of new games
    assert counted == ended[:32]
    resumed.close()
    awake.set()


@pytest.mark.slow
def test_games_of_a_round_that_waits_are_saved_with_it(tmp_path):
    loop, episodes, _ = make_loop(tmp_path, updates=9, lag=2)
    next(iter(loop))
    loop._source.finish_playing()
    ahead = [played.episodes for played in loop._source._rounds]
    loop._source._rounds[0].episodes[0] = Episode(0.1, 7, task=3)
    state = loop._source.get_state()
    loop.close()
    other, _, _ = make_loop(tmp_path / "other", updates=9, lag=2)
    other._source.set_state(state)
    assert [played.episodes for played in other._source._rounds] == ahead
    assert [len(played) for played in ahead] == [32, 32]
    other.close()


def test_replacements_of_actors_go_on_being_counted_after_a_resume(tmp_path):
    """Or the next one would play the games of one before."""
    loop, _, _ = make_loop(tmp_path, updates=2, **ALONE)
    next(iter(loop))
    counts = np.arange(len(loop._source._actors.places)) + 3
    loop._source._actors.set_predecessors(counts)
    state = loop._source.get_state()
    loop.close()
    resumed, _, _ = make_loop(tmp_path / "resumed", updates=2, **ALONE)
    resumed._source.set_state(state)
    assert resumed._source._actors.get_predecessors().tolist() == counts.tolist()
    resumed.close()
