"""The paper's measure of a run: mean return of the episodes that entered the memory in a window of steps."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np


class Window:
    """Returns of the episodes that entered the memory in the last window of steps.

    Args:
        steps: length of the window.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._entered: deque[tuple[int, float]] = deque()  # step and return

    def append(self, step: int, score: float) -> None:
        self._entered.append((step, score))
        while self._entered[0][0] < step - self._steps:
            self._entered.popleft()

    def evaluation(self, step: int) -> dict[str, Any]:
        """The evaluation of a record, at the present step; at least one episode must have ended."""
        returns = [score for entered, score in self._entered if entered > step - self._steps]
        if not returns:  # no episode ended in the window: the last one that did
            returns = [self._entered[-1][1]]
        return {
            "protocol": f"episodes that entered the memory in the last {min(step, self._steps)} steps "
            "of training, actions sampled",
            "episodes": len(returns),
            "unit": "episode return",
            "mean": float(np.mean(returns)),
            "std": float(np.std(returns, ddof=1)) if len(returns) > 1 else 0.0,
            "returns": [float(f"{score:.7g}") for score in returns],
        }

    def get_state(self) -> np.ndarray:
        return np.array(self._entered, np.float64).reshape(-1, 2)

    def set_state(self, state: np.ndarray) -> None:
        self._entered.extend((int(step), float(score)) for step, score in state)
