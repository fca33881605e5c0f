"""Catch by hand."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from repro.regression.environments import COLUMNS, ROWS


@pytest.mark.parametrize("name", ["Catch-v0", "MemoryCatch-v0"])
def test_it_is_a_gymnasium_environment(name):
    check_env(gymnasium.make(f"repro/{name}").unwrapped)


@pytest.mark.parametrize(("name", "seen"), [("Catch-v0", ROWS), ("MemoryCatch-v0", 2)])
def test_the_ball_is_seen_in_its_first_rows(name, seen):
    env = gymnasium.make(f"repro/{name}")
    obs, _ = env.reset(seed=0)
    column = int(np.argmax(obs[ROWS : ROWS + COLUMNS]))
    for row in range(ROWS):
        assert obs[:ROWS].tolist() == np.eye(ROWS)[row].tolist()
        assert obs[ROWS : ROWS + COLUMNS].tolist() == ((row < seen) * np.eye(COLUMNS)[column]).tolist()
        if row < ROWS - 1:
            obs, _, over, cut, _ = env.step(1)
            assert (over, cut) == (row == ROWS - 2, False)


@pytest.mark.parametrize("column", range(COLUMNS))
def test_the_paddle_under_the_ball_is_rewarded(column):
    env = gymnasium.make("repro/Catch-v0")
    for seed in range(100):
        obs, _ = env.reset(seed=seed)
        if obs[ROWS + column]:
            break
    rewards = []
    for _ in range(ROWS - 1):
        paddle = int(np.argmax(obs[ROWS + COLUMNS :]))
        obs, reward, *_ = env.step(1 + np.sign(column - paddle))
        rewards.append(reward)
    assert rewards == [0.0] * (ROWS - 2) + [1.0]


def test_a_missed_ball_costs_1():
    env = gymnasium.make("repro/Catch-v0")
    obs, _ = env.reset(seed=0)
    away = 0 if obs[ROWS + COLUMNS - 1] else 2 if obs[ROWS] else 0 if obs[ROWS + 3] else 2
    for _ in range(ROWS - 1):
        _, reward, *_ = env.step(away)
    assert reward == -1.0
