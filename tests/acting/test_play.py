"""Evaluation games: each environment plays the same number, however long they last."""

from __future__ import annotations

import numpy as np
import pytest

from repro.acting.play import play
from tests.support.catch import Catch
from tests.support.training import make_policy


class UnevenCatch(Catch):
    """The first environment's games end twelve times as often; its returns are 0, the others' 1."""

    def step(self, actions):
        observation, reward, over, truncated, info = super().step(actions)
        self._clock = getattr(self, "_clock", 0) + 1
        slow = self._clock % 12 == 0
        over = np.array([over[0], *[slow] * (self.num_envs - 1)])
        info["game_over"] = over
        info["episode_return"] = np.array([0.0, *[1.0] * (self.num_envs - 1)])
        return observation, reward, over, truncated, info


def test_every_environment_counts_the_same_number_of_games():
    environment = UnevenCatch(4, seed=0)
    seen = []
    games = play(make_policy(environment), environment, 8, 1, seen.append)
    assert [game.score for game in games] == [0.0, 0.0, *[1.0] * 6]
    assert len(seen) == 8


def test_the_seed_decides_the_games():
    def scores(seed):
        environment = Catch(10, seed=3)
        return [g.score for g in play(make_policy(environment), environment, 100, seed, lambda _: None)]

    assert scores(1) == scores(1)
    assert scores(1) != scores(2)


def test_games_that_do_not_divide_are_refused():
    environment = Catch(4, seed=0)
    with pytest.raises(ValueError, match="9 episodes do not divide evenly among 4"):
        play(make_policy(environment), environment, 9, 1, print)
