"""Actors that fail or hang, in both schedules: what is replaced, counted and refused, and when the run ends."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from repro.acting import supervision
from repro.acting.supervision import (
    MAX_FAILURES,
    ActorPoolError,
    Interrupted,
    PatientClock,
    SupervisedActors,
    Supervision,
)
from tests.support.catch import Catch
from tests.support.training import make_loop, weights_of
from tests.support.waiting import wait

SECONDS = 30.0
"""Longest wait in a test, for a machine that is busy."""


class _Group:
    new_games = False


class _Actor:
    """Plays what it is given: an error that it raises, an event that it waits for, or None, an unroll."""

    def __init__(self, name, *unrolls):
        self.name, self.unrolls, self.closed, self.abandoned = name, list(unrolls), False, False
        self.weights = None
        self.environment = self

    def close(self):
        self.closed = True

    def abandon(self):
        self.abandoned = True

    def succeed(self, other):
        self.weights = other.name

    def begin_again(self, number):
        self.number = number

    def collect(self, groups):
        step = self.unrolls.pop(0) if self.unrolls else None
        if isinstance(step, Exception):
            raise step
        if step is not None:
            assert step.wait(SECONDS)


def supervise(tmp_path, first, *others, silent_seconds=1e9):
    """One place, its first actor and those that replace it; returns also what was asked for and said."""
    asked, said, waiting = [], [], list(others)

    def remake(index, start):
        asked.append((index, start))
        actor = waiting.pop(0)
        if isinstance(actor, Exception):
            raise actor
        return actor

    return SupervisedActors([first], remake, Supervision(said.append, tmp_path, silent_seconds)), asked, said


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets; the machine's own time jumps at each look."""
    now = {"seconds": 0.0}
    monkeypatch.setattr(time, "monotonic", lambda: now["seconds"])
    monkeypatch.setattr(time, "time", lambda: np.random.default_rng(int(now["seconds"])).normal() * 1e9)
    return now


def test_an_actor_that_fails_is_replaced_counted_and_named(tmp_path):
    first, second = _Actor("first", None, OSError("the emulator\nis gone")), _Actor("second")
    actors, asked, said = supervise(tmp_path, first, second)
    (place,), groups = actors.places, [_Group(), _Group()]
    assert actors.collect(place, groups)
    assert [group.new_games for group in groups] == [False, False]
    assert not actors.check()
    assert said == []
    assert actors.collect(place, groups)
    assert [group.new_games for group in groups] == [True, True]
    assert (place.actor, first.closed, second.weights) == (second, True, "first")
    assert actors.collect(place, groups)
    assert [group.new_games for group in groups] == [False, False]
    assert (asked, actors.restarts) == ([(0, 1)], 1)
    actors.check()
    log = tmp_path / "actor_0.txt"
    assert said == [f"Actor 0 was restarted (restart 1 by this process): OSError: the emulator is gone; see {log}."]
    assert "Traceback" in log.read_text()


def test_a_failure_after_the_last_check_is_named_at_the_end(tmp_path):
    actors, _, said = supervise(tmp_path, _Actor("first", OSError("gone")), _Actor("second"))
    assert actors.collect(actors.places[0], [_Group()])
    actors.close()
    assert len(said) == actors.restarts == 1


def test_failures_in_a_row_end_the_run_and_an_unroll_between_them_does_not(tmp_path):
    error = ValueError("no")
    bad = [_Actor(str(i), error) for i in range(MAX_FAILURES)]
    actors, asked, _ = supervise(tmp_path, *bad)
    with pytest.raises(ActorPoolError, match=f"Actor 0 failed {MAX_FAILURES} times in a row, .* ValueError: no; see"):
        actors.collect(actors.places[0], [])
    assert len(asked) == actors.restarts == MAX_FAILURES - 1

    better = [_Actor(str(i), None, error) for i in range(MAX_FAILURES + 3)]
    actors, asked, _ = supervise(tmp_path, *better)
    for _ in range(MAX_FAILURES + 3):
        assert actors.collect(actors.places[0], [])
    assert actors.restarts == MAX_FAILURES + 2
    assert asked == [(0, start) for start in range(1, MAX_FAILURES + 3)]


def test_an_environment_that_cannot_be_made_again_is_a_failure_too(tmp_path):
    actors, asked, _ = supervise(tmp_path, _Actor("first", OSError("gone")), MemoryError(), _Actor("third"))
    assert actors.collect(actors.places[0], [])
    assert (actors.places[0].actor.name, actors.restarts, len(asked)) == ("third", 1, 2)
    actors, _, _ = supervise(tmp_path, _Actor("first", OSError("gone")), *[MemoryError()] * MAX_FAILURES)
    with pytest.raises(ActorPoolError, match="the last time with MemoryError"):
        actors.collect(actors.places[0], [])


def test_after_too_many_failures_the_environment_is_freed_unless_a_thread_hangs_in_it(tmp_path):
    failing = [_Actor(str(i), OSError("gone")) for i in range(MAX_FAILURES)]
    actors, _, _ = supervise(tmp_path, *failing)
    with pytest.raises(ActorPoolError):
        actors.collect(actors.places[0], [])
    assert [actor.closed for actor in failing] == [True, True, False]
    actors.close()
    assert failing[-1].closed

    hung = _Actor("hung")
    actors, _, _ = supervise(tmp_path, hung, *[OSError("gone")] * MAX_FAILURES)
    successor = actors.supersede(actors.places[0])
    with pytest.raises(ActorPoolError):
        actors.collect(successor, [])
    actors.close()
    assert not hung.closed


def test_an_actor_that_hangs_loses_its_place_and_what_it_brings_is_refused(tmp_path, clock):
    awake, results = threading.Event(), []
    hung, second = _Actor("hung", awake), _Actor("second")
    actors, _, said = supervise(tmp_path, hung, second, silent_seconds=100.0)
    (place,) = actors.places
    thread = threading.Thread(target=lambda: results.append(actors.collect(place, [_Group()])), daemon=True)
    thread.start()
    while place.began is None:
        time.sleep(0.01)
    for clock["seconds"] in range(10, 110, 10):
        assert actors.check() == []
    clock["seconds"] = 111
    assert actors.check() == [place]

    successor = actors.supersede(place)
    assert hung.abandoned
    assert actors.check() == []  # nobody plays yet
    group = _Group()
    assert actors.collect(successor, [group])
    assert group.new_games
    assert not hung.closed  # a thread is in it
    assert (actors.places[0].actor, actors.restarts, second.weights) == (second, 1, "hung")
    awake.set()
    thread.join(SECONDS)
    assert results == [False]
    assert hung.closed
    assert not second.closed
    actors.check()
    assert said == ["Actor 0 was restarted (restart 1 by this process): no unroll for 100 seconds."]


def test_an_actor_that_was_made_too_late_plays_nothing(tmp_path, clock):
    """A thread that hangs while it makes an environment loses its place, and closes what it has made at last."""
    making, made, results = threading.Event(), threading.Event(), []
    late, second = _Actor("late", AssertionError("it plays")), _Actor("second")

    def remake(index, start):
        if making.is_set():
            return second
        making.set()
        assert made.wait(SECONDS)
        return late

    first = _Actor("first", OSError("gone"))
    said = []
    actors = SupervisedActors([first], remake, Supervision(said.append, tmp_path, 100.0))
    (place,) = actors.places
    thread = threading.Thread(target=lambda: results.append(actors.collect(place, [])), daemon=True)
    thread.start()
    assert making.wait(SECONDS)
    for clock["seconds"] in range(10, 130, 10):
        hung = actors.check()
    assert hung == [place]
    assert actors.collect(actors.supersede(place), [])
    made.set()
    thread.join(SECONDS)
    assert (results, late.closed, actors.restarts) == ([False], True, 1)
    assert len(late.unrolls) == 1
    actors.check()
    assert said == ["Actor 0 was restarted (restart 1 by this process): no unroll for 100 seconds."]


def test_an_actor_between_unrolls_does_not_hang(tmp_path, clock):
    actors, _, _ = supervise(tmp_path, _Actor("waits"), silent_seconds=5.0)
    assert actors.collect(actors.places[0], [])
    for clock["seconds"] in range(1, 100):
        assert actors.check() == []


def test_time_in_which_nobody_looked_hardly_counts(clock):
    for silent_seconds, most in ((1800.0, supervision.AWAY_SECONDS), (8.0, 4.0)):
        clock["seconds"] = 0.0
        patient = PatientClock(silent_seconds)
        for clock["seconds"] in (3.0, 5.0, 1e6, 1e6 + 1.0):
            patient.look()
        assert patient.seconds == 5.0 + most + 1.0


def test_one_absence_of_the_learner_makes_no_actor_silent(tmp_path, clock):
    hung = threading.Event()
    actors, _, _ = supervise(tmp_path, _Actor("plays", hung), silent_seconds=4.0)
    thread = threading.Thread(target=lambda: actors.collect(actors.places[0], [_Group()]), daemon=True)
    thread.start()
    while actors.places[0].began is None:
        time.sleep(0.01)
    for clock["seconds"] in (1.0, 100.0, 101.0):
        assert actors.check() == []
    clock["seconds"] = 102.0
    assert actors.check() == [actors.places[0]]
    hung.set()
    thread.join(SECONDS)


def test_restarts_after_a_resume_have_other_numbers(tmp_path):
    error = OSError("gone")
    actors, asked, said = supervise(tmp_path, *[_Actor(str(i), None, error) for i in range(2)], _Actor("last"))
    actors.set_predecessors(np.array([4]))
    for _ in range(3):
        assert actors.collect(actors.places[0], [])
    assert asked == [(0, 5), (0, 6)]
    assert actors.restarts == 2  # of this process
    assert actors.get_predecessors().tolist() == [6]


def test_actors_that_begin_again_come_after_all_of_before(tmp_path):
    first = _Actor("first", None, OSError("gone"))
    actors, asked, _ = supervise(tmp_path, first, _Actor("second"))
    actors.set_predecessors(np.array([4]))
    actors.begin_again()
    assert first.number == 5
    for _ in range(2):
        assert actors.collect(actors.places[0], [])
    assert asked == [(0, 6)]
    assert actors.restarts == 1  # to begin again is none
    assert actors.get_predecessors().tolist() == [6]


def test_no_time_at_all_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"runtime\.silent_seconds must be above 0, got 0"):
        supervise(tmp_path, _Actor("first"), silent_seconds=0.0)


def fail_at(monkeypatch, calls, fault):
    """Lets some steps of Catch, counted over all environments, do something else than to step."""
    step, count, lock = Catch.step, iter(range(10**9)), threading.Lock()

    def faulty(environment, actions):
        with lock:
            number = next(count)
        if number in calls:
            fault()
        return step(environment, actions)

    monkeypatch.setattr(Catch, "step", faulty)


def waiting(source):
    """Unrolls of a lockstep source that wait to be learned from."""
    return [*source._learning, *(group for played in source._rounds for group in played.groups)]


def raise_error():
    raise OSError("the emulator is gone")


@pytest.mark.parametrize(
    "settings",
    [
        {"schedule": "async"},
        {"schedule": "lockstep", "dynamic_batching": True},
        pytest.param({"schedule": "lockstep"}, marks=pytest.mark.slow),
        pytest.param({"schedule": "a3c", "envs_per_actor": 8, "batch_size": 8}, marks=pytest.mark.slow),
        pytest.param({"schedule": "async", "dynamic_batching": True}, marks=pytest.mark.slow),
    ],
    ids=lambda settings: " and ".join(map(str, settings.values())),
)
def test_a_run_goes_on_after_failures_and_says_how_many(tmp_path, monkeypatch, settings):
    fail_at(monkeypatch, {5, 47, 90}, raise_error)
    said = []
    loop, episodes, agent = make_loop(tmp_path, updates=30, warn=said.append, **settings)
    updates = []
    for update in loop:
        updates.append(update)
        if update.updates == 20:  # all three have failed, and on a busy machine another actor may take long to make
            wait(lambda: loop.actor_restarts == 3)
    loop.close()
    assert int(agent.train_step_counter) == 30
    assert updates[-1].actor_restarts == loop.summary()["actor_restarts"] == 3
    assert len(said) == 3
    assert episodes.games > 100
    assert all(update.lag <= 3 for update in updates) or settings["schedule"] != "lockstep"

    monkeypatch.undo()
    again, _, _ = make_loop(tmp_path, updates=30, **settings)
    begun_again = len(again._source._actors) if settings["schedule"] != "lockstep" else 0
    assert again.actor_restarts == again._source._actors.get_predecessors().sum() - begun_again == 3
    again.close()


def test_games_that_end_after_the_last_update_do_not_count(tmp_path):
    """Actors play on until the run is closed."""
    loop, episodes, _ = make_loop(tmp_path, updates=5, schedule="async")
    last = list(loop)[-1]
    time.sleep(0.5)
    loop.close()
    assert (episodes.games, episodes.mean_return()) == (last.games, last.mean_return)
    assert loop.summary()["mean_return"] == last.mean_return


def test_a_run_without_failures_names_none(tmp_path):
    loop, _, _ = make_loop(tmp_path, updates=2)
    assert [update.actor_restarts for update in loop] == [0, 0]
    loop.close()
    assert "actor_restarts" not in loop.summary()


@pytest.mark.slow
@pytest.mark.parametrize("lag", [0, 1])
def test_in_lockstep_an_unroll_is_played_again_under_its_own_weights(tmp_path, monkeypatch, lag):
    """All versions of a round are the same, although the learner may have published others meanwhile."""
    fail_at(monkeypatch, {41}, lambda: time.sleep(1.0) or raise_error())
    loop, _, _ = make_loop(tmp_path, updates=12, lag=lag)
    lags = [update.lag for update in loop]
    loop.close()
    assert loop.actor_restarts == 1
    assert lags == [0, 1] + 5 * [2 * lag, 2 * lag + 1]


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["async", "lockstep", "a3c"])
def test_a_run_goes_on_while_a_thread_hangs(tmp_path, monkeypatch, schedule):
    """At its end all environments are closed but the one that the thread is in, which is closed when it wakes up."""
    awake, closed = threading.Event(), []
    fail_at(monkeypatch, {25}, lambda: awake.wait(SECONDS))
    monkeypatch.setattr(Catch, "close", lambda environment: closed.append(environment))
    for module in ("workers", "lockstep_source"):
        monkeypatch.setattr(f"repro.acting.{module}.CLOSE_SECONDS", 0.5)
    said = []
    loop, _, agent = make_loop(tmp_path, updates=30, schedule=schedule, warn=said.append, silent_seconds=6.0)
    for _ in loop:
        pass
    while not said:  # the other actor was enough for all updates
        loop._source._check()
        time.sleep(0.05)
    loop.close()
    before = list(closed)
    assert {id(place.actor.environment) for place in loop._source._actors.places} <= set(map(id, before))
    awake.set()
    deadline = time.monotonic() + SECONDS
    while len(closed) == len(before) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert closed[-1] not in before
    assert int(agent.train_step_counter) == 30
    assert "no unroll for 6 seconds" in said[0]


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["async", "lockstep"])
def test_after_repeated_failure_the_run_is_saved_and_goes_on_later(tmp_path, monkeypatch, schedule):
    fail_at(monkeypatch, set(range(200, 10**4)), raise_error)
    loop, _, agent = make_loop(tmp_path, updates=60, schedule=schedule)
    with pytest.raises(ActorPoolError, match=f"failed {MAX_FAILURES} times in a row"):
        for _ in loop:
            pass
    loop.close()
    assert loop.updates > 0
    monkeypatch.undo()
    resumed, _, resumed_agent = make_loop(tmp_path, updates=60, schedule=schedule)
    assert resumed.updates == loop.updates
    for a, b in zip(weights_of(agent), weights_of(resumed_agent), strict=True):
        np.testing.assert_array_equal(a, b)
    for _ in resumed:
        pass
    resumed.close()
    assert int(resumed_agent.train_step_counter) == 60


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["async", "lockstep"])
def test_a_wait_for_a_hung_actor_is_interrupted_and_saved(tmp_path, monkeypatch, schedule):
    monkeypatch.setattr("repro.acting.lockstep_source.PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(f"repro.acting.{'workers' if schedule == 'async' else 'lockstep_source'}.CLOSE_SECONDS", 0.5)
    hung, ended, awake = threading.Event(), threading.Event(), threading.Event()
    fail_at(monkeypatch, set(range(100, 10**6)), lambda: hung.set() or awake.wait(SECONDS))
    loop, _, _ = make_loop(tmp_path, updates=10**6, schedule=schedule)

    def interrupt():
        assert hung.wait(SECONDS)
        time.sleep(0.5)  # until all that was played is learned from
        loop.interrupt()
        if not ended.wait(10.0):
            awake.set()

    threading.Thread(target=interrupt, daemon=True).start()
    for _ in loop:
        assert not awake.is_set(), "the wait was not interrupted"
    ended.set()
    assert loop.updates > 0
    loop.save()
    loop.close()
    awake.set()
    resumed, _, _ = make_loop(tmp_path, updates=10**6, schedule=schedule)
    assert resumed.updates == loop.updates
    resumed.close()


@pytest.mark.slow
def test_in_lockstep_what_was_played_is_kept_where_an_actor_cannot_finish(tmp_path, monkeypatch):
    """With lag 2 the third round fails: of the first a batch was learned from, its last unroll and the second wait."""
    settings = {"updates": 100, "num_actors": 3, "batch_size": 16, "lag": 2}
    begun = []
    monkeypatch.setattr(Catch, "get_counters", lambda self: {"episodes": np.array([7])}, raising=False)
    monkeypatch.setattr(Catch, "set_counters", lambda self, counters: begun.append(counters["episodes"]), raising=False)
    fail_at(monkeypatch, set(range(75, 10**4)), raise_error)
    loop, _, _ = make_loop(tmp_path, **settings)
    with pytest.raises(ActorPoolError):
        for _ in loop:
            pass
    loop.close()
    assert loop.updates == 1
    assert [len(loop._source._learning), *(len(x.groups) for x in loop._source._rounds)] == [1, 3]
    begun.clear()
    resumed, _, _ = make_loop(tmp_path, **settings)
    assert begun == [[7]] * 3
    for kept, restored in zip(waiting(loop._source), waiting(resumed._source), strict=True):
        assert (kept.version, restored.new_games) == (restored.version, False)
        for a, b in zip(tf.nest.flatten(kept.arrays), tf.nest.flatten(restored.arrays), strict=True):
            np.testing.assert_array_equal(a, b)
    monkeypatch.undo()
    fresh = [group.new_games for _ in zip(resumed, range(3)) for group in waiting(resumed._source)]
    assert fresh.count(True) >= 3  # the first round after the start of other games
    resumed._source.finish_playing()
    assert not any(group.new_games for group in resumed._source._rounds[-1].groups)
    resumed.close()


def test_an_unroll_that_waits_keeps_that_its_games_are_new(tmp_path):
    loop, _, _ = make_loop(tmp_path, updates=9, lag=2)
    next(iter(loop))
    loop._source.finish_playing()
    loop._source._rounds[0].groups[1].new_games = True
    state = loop._source.get_state()
    loop.close()
    other, _, _ = make_loop(tmp_path / "other", updates=9, lag=2)
    other._source.set_state(state)
    assert [group.new_games for group in other._source._rounds[0].groups] == [False, True]
    other.close()


def test_an_interrupt_in_lockstep_waits_for_an_unroll_that_ends_soon(tmp_path, monkeypatch):
    fail_at(monkeypatch, set(range(10**4)), lambda: time.sleep(0.05))
    loop, _, _ = make_loop(tmp_path, updates=10)
    for update in loop:
        if update.updates == 4:
            loop.interrupt()
            loop.save()
            break
    assert loop._source.get_state()["actors"].keys() == {"0", "1"}
    loop.close()


def test_another_thread_has_memory_in_place_of_that_of_one_that_hangs(tmp_path, monkeypatch):
    loop, _, _ = make_loop(tmp_path, updates=1, schedule="async", envs_per_actor=8, batch_size=4)
    source, started = loop._source, []
    hung, free = source._actors.places[1], source._memory_of(1).qsize()
    monkeypatch.setattr(source._actors, "check", lambda: [hung])
    monkeypatch.setattr(source, "_start_actor", started.append)
    source._check()
    assert source._memory_of(1).qsize() == free + 2  # groups of four of its eight environments
    assert started == [source._actors.places[1]]
    assert started != [hung]


def test_an_interrupt_says_so(tmp_path):
    loop, _, _ = make_loop(tmp_path, updates=10, schedule="async")
    loop.interrupt()
    with pytest.raises(Interrupted):
        loop._source.next()
    loop.close()


def test_a_run_that_fails_before_its_first_update_saves_nothing(tmp_path, monkeypatch):
    fail_at(monkeypatch, set(range(10**4)), raise_error)
    loop, _, _ = make_loop(tmp_path, updates=10, schedule="async")
    with pytest.raises(ActorPoolError):
        for _ in loop:
            pass
    loop.close()
    assert not list(tmp_path.glob("checkpoint_*"))
