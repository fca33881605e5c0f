"""The measure of papers that evaluate while they train: mean return of the last window's episodes."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from repro.evidence.statistics import summarize_returns

BEFORE_LEARNING = -1
"""Step of episodes that end before the first update, in play on top of the budget; no window includes them."""


class NoEpisodeError(RuntimeError):
    """No episode ended, so that there is nothing to evaluate."""


class TrailingReturns:
    """Returns of the episodes that ended in the last window of steps.

    Args:
        steps: length of the window, in units of the budget.
        protocol: protocol of the evaluation: which episodes, and how they were played, with {} for the number of steps.
        unit: unit of the returns.
    """

    def __init__(self, steps: int, protocol: str, unit: str) -> None:
        self._steps = steps
        self._protocol = protocol
        self._unit = unit
        self._entered: deque[tuple[int, float]] = deque()  # step and return

    def append(self, step: int, score: float) -> None:
        self._entered.append((step, score))
        while self._entered[0][0] < step - self._steps:
            self._entered.popleft()

    def evaluation(self, step: int) -> dict[str, Any]:
        """Returns the `evaluation` of a record at a step, by the last episode alone if none ended in the window.

        Raises:
            NoEpisodeError: no episode has ended so far.
        """
        if not self._entered:
            raise NoEpisodeError("No episode of training has ended yet; train for longer")
        begin = max(step - self._steps, BEFORE_LEARNING)
        returns = [score for entered, score in self._entered if entered > begin]
        protocol = self._protocol.format(min(step, self._steps))
        if not returns:
            returns, protocol = [self._entered[-1][1]], f"the last episode of all, as there are no {protocol}"
        return summarize_returns(self._unit, protocol, returns, digits=7)

    def get_state(self) -> np.ndarray:
        return np.array(self._entered, np.float64).reshape(-1, 2)

    def set_state(self, state: np.ndarray) -> None:
        self._entered.extend((int(step), float(score)) for step, score in state)
