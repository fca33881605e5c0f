"""Local actors of a replay: which steps follow each other."""

from __future__ import annotations

import numpy as np
from tf_agents.trajectories import Trajectory

from repro.acting.actor_pool import LocalActorPool


class _Writer:
    def __init__(self):
        self.rewards = [[]]

    def append(self, unroll):
        self.rewards[-1] += unroll.reward.tolist()

    def restart(self):
        self.rewards.append([])


class _Replay:
    def __init__(self):
        self.writers = [_Writer() for _ in range(4)]


class _Group:
    """Two environments and three steps; the last row is the first of the unroll that follows."""

    def __init__(self, begin, new_games=False):
        rows = begin + np.arange(4.0)
        self.arrays = Trajectory(*[np.stack([rows, rows + 100])] * len(Trajectory._fields))
        self.new_games = new_games


class _Source:
    between_rounds, restarts = True, 0
    versions = (0,)

    def __init__(self, *batches):
        self.batches = list(batches)
        self.finished = False

    def finish_playing(self):
        self.finished = True

    def next(self):
        self.finished = False
        self.groups = self.batches.pop(0)
        return self

    def release(self, batch):
        assert batch is self


def test_steps_of_new_games_do_not_follow_those_of_the_actor_before():
    """The second actor is replaced before the third unroll: its two environments' writers begin again."""
    replay = _Replay()
    source = _Source([_Group(0), _Group(1000)], [_Group(3), _Group(1003)], [_Group(6), _Group(2000, new_games=True)])
    pool = LocalActorPool(source, replay, lambda frames: None)
    pool.start()
    for step in range(3):
        pool.play(step, 12 * step)
    assert [writer.rewards for writer in replay.writers] == [
        [[*range(9)]],
        [[*range(100, 109)]],
        [[*range(1000, 1006)], [*range(2000, 2003)]],
        [[*range(1100, 1106)], [*range(2100, 2103)]],
    ]


def test_epsilon_changes_while_no_actor_plays():
    source, found = _Source(_Group(0), _Group(3)), []
    source.batches = [[group] for group in source.batches]
    pool = LocalActorPool(source, _Replay(), lambda frames: found.append((frames, source.finished)))
    pool.play(0, 6)
    pool.play(1, 12)
    assert found == [(6, True), (12, True)]
