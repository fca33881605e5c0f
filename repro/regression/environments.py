"""Small Gymnasium environments that agents learn within seconds; importing this module registers them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

ROWS, COLUMNS = 8, 5


class Catch(gymnasium.Env):
    """A ball falls by a row a step, and a paddle in the last row must be under it: reward 1 or -1 when it lands.

    Actions: left, stay, right. Observed are the ball's row and column and the paddle's column, each one-hot.

    Args:
        seen: rows, from the first, in which the ball is seen; with fewer than all, its column must be remembered.
    """

    action_space = spaces.Discrete(3)
    observation_space = spaces.Box(0.0, 1.0, (ROWS + 2 * COLUMNS,), np.float32)

    def __init__(self, seen: int = ROWS) -> None:
        self._seen = seen

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
        reward = 0.0 if not over else 1.0 if self._column == self._paddle else -1.0
        return self._observe(), reward, over, False, {}

    def _observe(self) -> np.ndarray:
        obs = np.zeros(ROWS + 2 * COLUMNS, np.float32)
        obs[self._row] = obs[ROWS + COLUMNS + self._paddle] = 1.0
        if self._row < self._seen:
            obs[ROWS + self._column] = 1.0
        return obs


gymnasium.register("repro/Catch-v0", entry_point=f"{__name__}:Catch")
gymnasium.register("repro/MemoryCatch-v0", entry_point=f"{__name__}:Catch", kwargs={"seen": 2})
