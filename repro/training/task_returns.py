"""Returns of each task, where one agent learns several together."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

CAPPED_SCORE = "capped_score"
"""Name of the mean capped human-normalised score in logs, in percent."""


def return_of(task: str) -> str:
    """Returns the name of a task's mean return in logs."""
    return f"return/{task}"


def capped_score(returns: Mapping[str, float], references: Mapping[str, Mapping[str, float]]) -> float:
    """Mean capped human-normalised score in percent (IMPALA, Table B.1).

        100 / N sum_t min(1, (s_t - r_t) / (h_t - r_t))

    Args:
        returns: mean return s_t of each task.
        references: random and human score, r_t and h_t, of each task that has them; the others do not count.

    Returns:
        the score; NaN if no task has these scores, or if a mean return that counts is NaN.
    """
    counted = {task: [value] for task, value in returns.items() if task in references}
    if not counted or any(math.isnan(value) for (value,) in counted.values()):
        return math.nan
    from repro.evidence import statistics  # it takes half a second to import, which most runs can do without

    return 100 * statistics.aggregate(statistics.normalised_scores(counted, references), statistics.mean_capped)


class TaskReturns:
    """The last returns of each task in training.

    Attributes:
        tasks: names of the tasks; `Episode.task` is the index of one.

    Args:
        tasks: see above.
        references: as for `capped_score`.
        recent: number of last games of a task over which its mean return is taken.
    """

    def __init__(self, tasks: Sequence[str], references: Mapping[str, Mapping[str, float]], recent: int) -> None:
        self._returns: dict[str, deque[float]] = {task: deque(maxlen=recent) for task in tasks}
        self.tasks = tuple(tasks)
        self._references = references

    def append(self, task: int, score: float) -> None:
        """Adds a game of the task with this number."""
        self._returns[self.tasks[task]].append(score)

    def means(self) -> dict[str, float]:
        """Returns the mean return of each task; NaN before its first game ended."""
        recent = {task: tuple(returns) for task, returns in self._returns.items()}  # actors append meanwhile
        return {task: float(np.mean(returns)) if returns else math.nan for task, returns in recent.items()}

    def scalars(self) -> dict[str, float]:
        """Returns what is logged: the capped score, NaN until each task has a game, and each task's mean return."""
        means = self.means()
        returns = {return_of(task): value for task, value in means.items()}
        return {CAPPED_SCORE: capped_score(means, self._references), **returns}

    def get_state(self) -> dict[str, Any]:
        return {str(i): np.array(tuple(returns), np.float64) for i, returns in enumerate(self._returns.values())}

    def set_state(self, state: Mapping[str, Any]) -> None:
        for i, returns in enumerate(self._returns.values()):
            returns.extend(np.asarray(state[str(i)]).tolist())
