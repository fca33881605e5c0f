"""Actors in processes that fill a replay, which may be unavailable."""

import time
import types

import numpy as np
import pytest

from repro.acting.actor_processes import ActorProcesses
from repro.acting.remote import PlayedUnroll
from repro.acting.remote_actor_pool import RemoteActorPool
from repro.acting.supervision import Interrupted, Supervision
from tests.support.waiting import IdleProcess, wait


class Actors:
    """Processes of actors, who count how often they were looked at and excused."""

    launcher = types.SimpleNamespace(home=None)
    restarts = broken_off = looks = excuses = 0

    def look(self):
        self.looks += 1

    def excuse(self):
        self.excuses += 1

    def check(self):
        pass

    def is_known(self, actor, start):
        return False

    def get_state(self):
        return {}

    def set_state(self, state):
        pass


class Keeper:
    """Of a replay that answers when it was looked at so many times."""

    def __init__(self, away):
        self._away, self.interrupted = away, False

    @property
    def answers(self):
        return self._away <= 0

    def look(self):
        self._away -= 1

    def interrupt(self):
        self.interrupted = True


class Reports:
    """Has an unroll of 10 steps at weights 6 whenever a replay answers."""

    def __init__(self, keeper):
        self._keeper = keeper

    def read_unrolls(self, max_count):
        return [PlayedUnroll(0, 0, 10, 6, 1)] * self._keeper.answers

    def read_games(self):
        return []


def make_pool(away):
    keeper, actors = Keeper(away), Actors()
    pool = RemoteActorPool(None, None, actors, 2, lambda episode: None, 1, keeper=keeper)
    pool._reports = Reports(keeper)
    return pool, keeper, actors


def test_actors_are_not_silent_while_they_wait_for_a_replay():
    pool, _, actors = make_pool(away=5)
    assert pool.play(7, 10) == 1
    assert (actors.looks, actors.excuses) == (1, 4)


def test_silence_that_was_excused_does_not_count(tmp_path):
    lines = []
    actors = ActorProcesses(lambda *_: IdleProcess(), 1, Supervision(lines.append, tmp_path, 0.5))
    actors.start("localhost:1")
    wait(lambda: actors._processes)
    actors.report(0)

    def look_for(seconds, look):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            look()
            actors.check()
            time.sleep(0.02)

    look_for(1.0, actors.excuse)
    look_for(0.2, actors.look)
    assert lines == []
    look_for(1.0, actors.look)
    assert lines[0] == "Actor 0 reported nothing for 0.5 seconds."
    actors.close()


def test_what_waited_of_an_actor_before_a_resume_or_a_restart_says_nothing_of_its_successor(tmp_path):
    """Its steps count; the successor has not begun to play, and an end is a failure at its start."""
    actors = ActorProcesses(lambda *_: IdleProcess(), 1, Supervision(print, tmp_path))
    pool = RemoteActorPool(None, None, actors, 2, print, frames_per_step=1)
    actors_state = {"starts": np.array([5]), "broken_off": 0}
    pool.set_state({"frames": 0, "version": 0.0, "actors": actors_state, "machines": ()})
    waiting = [PlayedUnroll(0, 4, 10, 6, 1), PlayedUnroll(3, 0, 10, 6, 1)]  # the second of another run's learner
    pool._reports = types.SimpleNamespace(read_unrolls=lambda count: [waiting.pop(0)], read_games=list)
    actors.start("localhost:1")
    wait(lambda: actors._processes)
    assert pool.play(7, 20) == 1
    assert actors._reported == set()
    actors._processes[0].kill()
    wait(lambda: actors.get_state()["starts"] == [7])
    assert actors.broken_off == 0
    waiting += [PlayedUnroll(0, 5, 10, 6, 1), PlayedUnroll(0, 6, 10, 6, 1)]
    pool.play(7, 30)
    assert actors._reported == set()
    pool.play(7, 40)
    assert actors._reported == {0}
    actors.close()


def test_a_signal_ends_the_wait_for_samples_as_well():
    pool, keeper, _ = make_pool(away=10**6)
    pool.interrupt()
    with pytest.raises(Interrupted):
        pool.play(7, 10)
    assert keeper.interrupted


def test_an_update_that_was_broken_off_behind_its_steps_has_their_lag():
    pool, _, _ = make_pool(away=0)
    pool.play(7, 10)
    again, _, _ = make_pool(away=0)
    again.set_state(pool.get_state())
    assert again.play(8, 10) == 2
