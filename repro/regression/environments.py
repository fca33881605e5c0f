"""Small Gymnasium environments that agents learn within seconds; the import of this module registers them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

ROWS, COLUMNS = 8, 5
EDGE = 2.0
MEAN_LIFE = 20
"""Mean number of steps of a `Homing` episode."""


class Catch(gymnasium.Env):
    """Game in which a ball falls by one row per step, and a paddle in the last row must be under it when it lands.

    The actions are left, stay and right. An observation is the ball's row and column and the paddle's column, each
    one-hot.

    Args:
        seen: number of rows, from the first, in which both columns are observed. With fewer than all, an agent must
            remember the columns and count the paddle's moves.
        reward: reward for catching the ball; the reward for missing it is its negative.
    """

    action_space = spaces.Discrete(3)
    observation_space = spaces.Box(0.0, 1.0, (ROWS + 2 * COLUMNS,), np.float32)

    def __init__(self, seen: int = ROWS, reward: float = 1.0) -> None:
        self._seen, self._reward = seen, reward

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._row, self._paddle = 0, COLUMNS // 2
        self._column = int(self.np_random.integers(COLUMNS))
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._row += 1
        self._paddle = min(max(self._paddle + int(action) - 1, 0), COLUMNS - 1)
        over = self._row == ROWS - 1
        reward = 0.0 if not over else self._reward if self._column == self._paddle else -self._reward
        return self._observe(), reward, over, False, {}

    def _observe(self) -> np.ndarray:
        obs = np.zeros(ROWS + 2 * COLUMNS, np.float32)
        obs[self._row] = 1.0
        if self._row < self._seen:
            obs[ROWS + self._column] = obs[ROWS + COLUMNS + self._paddle] = 1.0
        return obs


class Homing(gymnasium.Env):
    """Task of pushing a point on a line to the origin: the reward is 1 - x^2, and any step may end the episode.

    No observation announces the end. So an agent that wrongly bootstraps past it learns values of about
    1 / (1 - gamma), whatever its network. The action is the push, in [-1, 1]. The observation is x, which begins
    anywhere in [-2, 2] and stays in this range.
    """

    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    observation_space = spaces.Box(-EDGE, EDGE, (1,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._x = self.np_random.uniform(-EDGE, EDGE)
        return np.array([self._x], np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._x = float(np.clip(self._x + np.clip(action[0], -1.0, 1.0), -EDGE, EDGE))
        over = bool(self.np_random.random() < 1 / MEAN_LIFE)
        return np.array([self._x], np.float32), 1.0 - self._x**2, over, False, {}


gymnasium.register("repro/Catch-v0", entry_point=f"{__name__}:Catch")
gymnasium.register("repro/MemoryCatch-v0", entry_point=f"{__name__}:Catch", kwargs={"seen": 2, "reward": 10.0})
gymnasium.register("repro/Homing-v0", entry_point=f"{__name__}:Homing", max_episode_steps=50 * MEAN_LIFE)
