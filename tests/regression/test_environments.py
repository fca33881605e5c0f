"""Catch, worked out by hand."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from repro.regression.environments import COLUMNS, EDGE, MEAN_LIFE, ROWS


@pytest.mark.parametrize("name", ["Catch-v0", "MemoryCatch-v0", "Homing-v0"])
def test_it_is_a_gymnasium_environment(name):
    check_env(gymnasium.make(f"repro/{name}").unwrapped)


@pytest.mark.parametrize(("name", "seen"), [("Catch-v0", ROWS), ("MemoryCatch-v0", 2)])
def test_ball_and_paddle_are_seen_in_the_first_rows(name, seen):
    env = gymnasium.make(f"repro/{name}")
    obs, _ = env.reset(seed=0)
    column = int(np.argmax(obs[ROWS : ROWS + COLUMNS]))
    for row in range(ROWS):
        assert obs[:ROWS].tolist() == np.eye(ROWS)[row].tolist()
        assert obs[ROWS : ROWS + COLUMNS].tolist() == ((row < seen) * np.eye(COLUMNS)[column]).tolist()
        assert obs[ROWS + COLUMNS :].tolist() == ((row < seen) * np.eye(COLUMNS)[COLUMNS // 2]).tolist()
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


@pytest.mark.parametrize(("name", "loss"), [("Catch-v0", -1.0), ("MemoryCatch-v0", -10.0)])
def test_a_missed_ball_costs_its_reward(name, loss):
    env = gymnasium.make(f"repro/{name}")
    obs, _ = env.reset(seed=0)
    away = 0 if obs[ROWS + COLUMNS - 1] else 2 if obs[ROWS] else 0 if obs[ROWS + 3] else 2
    for _ in range(ROWS - 1):
        _, reward, *_ = env.step(away)
    assert reward == loss


def test_a_point_at_home_earns_1_a_step_until_an_end_by_chance():
    env = gymnasium.make("repro/Homing-v0")
    lengths = []
    for seed in range(400):
        obs, _ = env.reset(seed=seed)
        over, rewards = False, []
        while not over:
            obs, reward, over, cut, _ = env.step(np.clip(-obs, -1.0, 1.0))
            rewards.append(reward)
            assert reward == pytest.approx(1.0 - float(obs[0]) ** 2, abs=1e-5)
            assert not cut
        lengths.append(len(rewards))
        assert rewards[1:] == pytest.approx([1.0] * (len(rewards) - 1))
    assert abs(np.mean(lengths) - MEAN_LIFE) < 3 * MEAN_LIFE / 400**0.5


def test_a_random_point_loses():
    env = gymnasium.make("repro/Homing-v0")
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    obs, rewards = [], []
    for _ in range(2_000):
        observation, reward, over, *_ = env.step(rng.uniform(-1.0, 1.0, 1).astype(np.float32))
        obs.append(abs(float(observation[0])))
        rewards.append(reward)
        if over:
            env.reset()
    assert max(obs) <= EDGE
    assert np.mean(rewards) < 0.0
