"""Prioritised sampling by rank or by error (Schaul, Quan, Antonoglou and Silver 2016, Section 3.3).

Rows without a priority are not given the highest one, as in Algorithm 1 there, but have the highest probability.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numba
import numpy as np

SWEEP_PERIOD = 11
"""Number of minibatches that `ErrorSampler` takes by the same probabilities, as in the code of ReF-ER's authors
when the paper appeared."""
SQUARE_FLOOR = float(np.finfo(np.float32).eps)
"""Added to squared priorities by `ErrorSampler`, as in the same code."""
_ABSENT, _NEW = -2.0, -1.0


class Sampler(Protocol):
    """Rows with priorities, numbered from 0 to capacity - 1. New rows have none until the first one is written."""

    def insert(self, rows: np.ndarray) -> None:
        """Adds new rows [T]."""

    def remove(self, rows: np.ndarray) -> None:
        """Removes rows [T]."""

    def write(self, rows: np.ndarray, priorities: np.ndarray) -> None:
        """Sets the priorities [B] of rows [B], in the order of the batch; priorities are float32, 0 or more."""

    def sample(self, rng: np.random.Generator, batch: int, alpha: float, beta: float) -> tuple[np.ndarray, np.ndarray]:
        """Samples rows, one from each of `batch` ranges of equal probability.

        Args:
            rng: random number generator.
            batch: number of rows to sample, B.
            alpha: exponent of the priorities or ranks: 0 samples uniformly.
            beta: exponent of the importance weights: 0 leaves all weights at 1, 1 corrects the sampling in full.

        Returns:
            Rows, int64 [B], and importance weights, float32 [B]: (n P)**-beta divided by the largest such weight of all
            n stored rows with a priority.
        """

    def get_state(self, rows: np.ndarray) -> dict[str, Any]:
        """Returns what `set_state` needs; arrays belong to `rows`, which are all stored ones."""

    def set_state(self, rows: np.ndarray, state: Mapping[str, Any]) -> None:
        """Restores what `get_state` returned, in one with the same capacity."""

    def find_error(self, rows: np.ndarray) -> str | None:
        """Returns what is wrong, if the stored rows should be exactly `rows`, or None if all is valid."""


class RankHeap:
    """Rows ordered by priority, sampled with P(rank i) ~ i**-alpha; rows without a priority weigh as rank 1 does.

    The ranks are positions in the array of a binary heap (rank 1 has the highest priority): exact after a sort and
    approximate in between, as in Appendix B.2.1 of that paper. The heap is sorted after as many priorities have been
    written as it can hold. Each other operation takes time logarithmic in the size. See `Sampler` for the methods.

    Args:
        capacity: number of rows; rows are numbered from 0 to capacity - 1.
    """

    NUMBERS = 5
    """4-byte numbers that are kept for each row."""

    def __init__(self, capacity: int) -> None:
        self._priority = np.zeros(capacity, np.float32)  # by row
        self._order = np.zeros(capacity, np.int32)  # ranked rows from the front, new ones from the back
        self._place = np.full(capacity, -1, np.int32)  # place in the order by row
        self._ranked = 0
        self._new = 0
        self._written = 0
        self._alpha = float("nan")
        self._cumulative = np.zeros(0)

    def insert(self, rows: np.ndarray) -> None:
        places = self._order.size - self._new - 1 - np.arange(rows.size)
        self._order[places] = rows
        self._place[rows] = places
        self._new += rows.size

    def remove(self, rows: np.ndarray) -> None:
        for row in rows:
            if self._place[row] < self._ranked:
                self._ranked -= 1
                _remove_ranked(int(row), self._priority, self._order, self._place, self._ranked)
            else:
                _remove_new(int(row), self._order, self._place, self._new)
                self._new -= 1

    def write(self, rows: np.ndarray, priorities: np.ndarray) -> None:
        arrays = self._priority, self._order, self._place
        self._ranked, self._new = _write(rows, priorities, *arrays, self._ranked, self._new)
        self._written += rows.size
        if self._written >= self._order.size:
            self.sort()

    def sort(self) -> None:
        """Makes ranks exact; equal priorities keep their order."""
        rows = self._order[: self._ranked]
        rows[:] = rows[np.argsort(-self._priority[rows], kind="stable")]
        self._place[rows] = np.arange(self._ranked)
        self._written = 0

    def sample(self, rng: np.random.Generator, batch: int, alpha: float, beta: float) -> tuple[np.ndarray, np.ndarray]:
        if alpha != self._alpha:
            self._alpha = alpha
            self._cumulative = np.cumsum(np.arange(1, self._order.size + 1, dtype=np.float64) ** -alpha)
        cumulative = self._cumulative[: self._ranked]
        total = self._new + (cumulative[-1] if self._ranked else 0.0)
        points = (np.arange(batch) + rng.random(batch)) * (total / batch)
        ranks = np.minimum(np.searchsorted(cumulative, points - self._new, side="right"), max(self._ranked - 1, 0))
        new = np.minimum(points.astype(np.int64), self._new - 1)
        is_new = points < self._new if self._ranked else np.full(batch, True)
        weights = ((ranks + 1) / max(self._ranked, 1)) ** (alpha * beta)  # rank 1 for new rows
        return self._order[np.where(is_new, -1 - new, ranks)].astype(np.int64), weights.astype(np.float32)

    def get_state(self, rows: np.ndarray) -> dict[str, Any]:
        return {
            "priorities": self._priority[rows],
            "places": self._place[rows],
            "num_ranked": self._ranked,
            "num_written": self._written,
        }

    def set_state(self, rows: np.ndarray, state: Mapping[str, Any]) -> None:
        self._place[:] = -1
        self._priority[rows], self._place[rows] = state["priorities"], state["places"]
        self._order[self._place[rows]] = rows
        self._ranked, self._written = int(state["num_ranked"]), int(state["num_written"])
        self._new = rows.size - self._ranked

    def find_error(self, rows: np.ndarray) -> str | None:
        places = np.r_[: self._ranked, self._order.size - self._new : self._order.size]
        held = self._order[places]
        if not np.array_equal(np.sort(held), np.sort(rows)):
            return "prioritised rows are not the stored steps"
        if not np.array_equal(self._place[held], places):
            return "places of prioritised rows do not match their order"
        if np.count_nonzero(self._place >= 0) != held.size:
            return "rows that have left still have a place in the order"
        priority = self._priority[held[: self._ranked]]
        if np.any(priority[1:] > priority[(np.arange(1, self._ranked) - 1) // 2]):
            return "a prioritised row has a higher priority than the one above it"
        return None


class ErrorSampler:
    """Rows sampled with P ~ (priority**2 + SQUARE_FLOOR)**(alpha / 2); rows without a priority weigh as the heaviest.

    The probabilities are computed again, in time linear in the number of rows, after `SWEEP_PERIOD` minibatches and
    whenever rows have entered or left. See `Sampler` for the methods.

    Args:
        capacity: number of rows; rows are numbered from 0 to capacity - 1.
    """

    NUMBERS = 6
    """4-byte numbers that are kept for each row."""

    def __init__(self, capacity: int) -> None:
        self._priority = np.full(capacity, _ABSENT, np.float32)  # by row
        self._mass = np.zeros(capacity)  # by row, of the last sweep
        self._rows = np.zeros(0, np.int32)  # stored at the last sweep
        self._cumulative = np.zeros(0)  # masses of these rows
        self._least = 1.0  # mass of a row with a priority
        self._left = 0  # minibatches until the next sweep

    def insert(self, rows: np.ndarray) -> None:
        self._priority[rows] = _NEW
        self._left = 0

    def remove(self, rows: np.ndarray) -> None:
        self._priority[rows] = _ABSENT
        self._left = 0

    def write(self, rows: np.ndarray, priorities: np.ndarray) -> None:
        self._priority[rows] = priorities

    def sample(self, rng: np.random.Generator, batch: int, alpha: float, beta: float) -> tuple[np.ndarray, np.ndarray]:
        if not self._left:
            self._sweep(alpha)
        self._left -= 1
        points = (np.arange(batch) + rng.random(batch)) * (self._cumulative[-1] / batch)
        places = np.minimum(np.searchsorted(self._cumulative, points, side="right"), self._rows.size - 1)
        rows = self._rows[places].astype(np.int64)
        return rows, ((self._least / self._mass[rows]) ** beta).astype(np.float32)

    def _sweep(self, alpha: float) -> None:
        self._rows = np.flatnonzero(self._priority != _ABSENT).astype(np.int32)
        priority = self._priority[self._rows].astype(np.float64)
        mass = (priority**2 + SQUARE_FLOOR) ** (0.5 * alpha)
        known = mass[priority != _NEW]
        mass[priority == _NEW] = known.max() if known.size else 1.0
        self._least = known.min() if known.size else 1.0
        self._mass[self._rows] = mass
        self._cumulative = np.cumsum(mass)
        self._left = SWEEP_PERIOD

    def get_state(self, rows: np.ndarray) -> dict[str, Any]:
        return {
            "priorities": self._priority[rows],
            "masses": self._mass[rows],
            "least_mass": self._least,
            "num_left": self._left,
        }

    def set_state(self, rows: np.ndarray, state: Mapping[str, Any]) -> None:
        self._priority[:] = _ABSENT
        self._priority[rows], self._mass[rows] = state["priorities"], state["masses"]
        self._least, self._left = float(state["least_mass"]), int(state["num_left"])
        self._rows = np.sort(rows).astype(np.int32)
        self._cumulative = np.cumsum(self._mass[self._rows])

    def find_error(self, rows: np.ndarray) -> str | None:
        if not np.array_equal(np.flatnonzero(self._priority != _ABSENT), np.sort(rows)):
            return "prioritised rows are not the stored steps"
        return None


SAMPLERS: Mapping[str, type[RankHeap] | type[ErrorSampler]] = {"rank": RankHeap, "error": ErrorSampler}
"""Samplers by what they go by."""


@numba.njit(cache=True)
def _settle(rank: int, priority: np.ndarray, order: np.ndarray, places: np.ndarray, ranked: int) -> None:
    """Moves the row at `rank` up or down until the heap is ordered."""
    row = order[rank]
    while rank > 0 and priority[order[(rank - 1) // 2]] < priority[row]:
        order[rank] = order[(rank - 1) // 2]
        places[order[rank]] = rank
        rank = (rank - 1) // 2
    while 2 * rank + 1 < ranked:
        child = 2 * rank + 1
        if child + 1 < ranked and priority[order[child + 1]] > priority[order[child]]:
            child += 1
        if priority[order[child]] <= priority[row]:
            break
        order[rank] = order[child]
        places[order[rank]] = rank
        rank = child
    order[rank] = row
    places[row] = rank


@numba.njit(cache=True)
def _remove_ranked(row: int, priority: np.ndarray, order: np.ndarray, places: np.ndarray, ranked: int) -> None:
    """Removes a row of the heap; `ranked` is the size of the heap afterwards."""
    rank = places[row]
    places[row] = -1
    if rank < ranked:
        order[rank] = order[ranked]
        _settle(rank, priority, order, places, ranked)


@numba.njit(cache=True)
def _remove_new(row: int, order: np.ndarray, places: np.ndarray, new: int) -> None:
    """Removes one of the `new` rows without a priority; the latest one takes its place."""
    place, latest = places[row], order[order.size - new]
    order[place] = latest
    places[latest] = place
    places[row] = -1


@numba.njit(cache=True)
def _write(
    rows: np.ndarray,
    values: np.ndarray,
    priority: np.ndarray,
    order: np.ndarray,
    places: np.ndarray,
    ranked: int,
    new: int,
) -> tuple[int, int]:
    """Writes priorities and returns the number of ranked and of new rows afterwards."""
    for i in range(rows.size):
        row = rows[i]
        if places[row] >= ranked:
            _remove_new(row, order, places, new)
            new -= 1
            order[ranked] = row
            places[row] = ranked
            ranked += 1
        priority[row] = values[i]
        _settle(places[row], priority, order, places, ranked)
    return ranked, new
