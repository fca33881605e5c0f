"""Actors in processes that fill a replay which may be away."""

import types

import pytest

from repro.acting.remote import PlayedUnroll
from repro.acting.remote_actor_pool import RemoteActorPool
from repro.acting.supervision import Interrupted


class Actors:
    """Processes of actors, who count how often they were looked at."""

    launcher = types.SimpleNamespace(home=None)
    restarts = broken_off = looks = 0

    def look(self):
        self.looks += 1

    def check(self):
        pass

    def report(self, actor):
        pass

    def get_state(self):
        return {}

    def set_state(self, state):
        pass


class Replay:
    """A replay that serves when it was looked at so many times."""

    lost = restarts = 0

    def __init__(self, away):
        self._away, self.interrupted = away, False

    @property
    def serves(self):
        return self._away <= 0

    def look(self):
        self._away -= 1

    def interrupt(self):
        self.interrupted = True


class Reports:
    """Has an unroll of 10 steps at weights 6 whenever a replay serves."""

    def __init__(self, replay):
        self._replay = replay

    def read_unrolls(self, max_count):
        return [PlayedUnroll(0, 10, 6, 1)] * self._replay.serves

    def read_games(self):
        return []


def make_pool(away):
    replay, actors = Replay(away), Actors()
    pool = RemoteActorPool(replay, None, actors, 2, lambda episode: None, 1)
    pool._reports = Reports(replay)
    return pool, replay, actors


def test_actors_are_not_silent_while_they_wait_for_a_replay():
    pool, _, actors = make_pool(away=5)
    assert pool.play(7, 10) == 1
    assert actors.looks == 1


def test_a_signal_ends_the_wait_for_samples_as_well():
    pool, replay, _ = make_pool(away=10**6)
    pool.interrupt()
    with pytest.raises(Interrupted):
        pool.play(7, 10)
    assert replay.interrupted


def test_an_update_that_was_broken_off_behind_its_steps_has_their_lag():
    pool, _, _ = make_pool(away=0)
    pool.play(7, 10)
    again, _, _ = make_pool(away=0)
    again.set_state(pool.get_state())
    assert again.play(8, 10) == 2
