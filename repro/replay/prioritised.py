"""Rank-based prioritised sampling (Schaul, Quan, Antonoglou and Silver 2016, Section 3.3)."""

from __future__ import annotations

import numba
import numpy as np


class RankHeap:
    """Rows ordered by priority, sampled with P(rank i) = i**-alpha / sum_j j**-alpha.

    The ranks are positions in the array of a binary heap (rank 1 has the highest priority): exact after a sort and
    approximate in between, as in Appendix B.2.1 of that paper. The heap is sorted after as many priorities have been
    written as it can hold. Each other operation takes time logarithmic in the size.

    Args:
        capacity: number of rows; rows are numbered from 0 to capacity - 1.
    """

    def __init__(self, capacity: int) -> None:
        self.size = 0
        self._priority = np.zeros(capacity, np.float32)  # by row
        self._heap = np.zeros(capacity, np.int32)  # rows by rank
        self._rank = np.full(capacity, -1, np.int32)  # rank by row, from 0
        self._written = 0
        self._alpha = float("nan")
        self._cumulative = np.zeros(0)

    def insert(self, rows: np.ndarray) -> None:
        """Adds new rows [T] with the highest priority in the heap, or 1 if the heap is empty.

        They rise past rows of lower priorities. Of many new rows most meet others of their kind on the way and stay
        deep in the heap until the next sort.
        """
        priority = self._priority[self._heap[0]] if self.size else np.float32(1.0)
        for row in rows:
            _insert(int(row), priority, self._priority, self._heap, self._rank, self.size)
            self.size += 1

    def remove(self, rows: np.ndarray) -> None:
        """Removes rows [T]."""
        for row in rows:
            self.size -= 1
            _remove(int(row), self._priority, self._heap, self._rank, self.size)

    def write(self, rows: np.ndarray, priorities: np.ndarray) -> None:
        """Sets the priorities [B] of rows [B], in the order of the batch; priorities are float32, 0 or more."""
        _write(rows, priorities, self._priority, self._heap, self._rank, self.size)
        self._written += rows.size
        if self._written >= self._heap.size:
            self.sort()

    def sort(self) -> None:
        """Makes ranks exact; equal priorities keep their order."""
        rows = self._heap[: self.size]
        rows[:] = rows[np.argsort(-self._priority[rows], kind="stable")]
        self._rank[rows] = np.arange(self.size)
        self._written = 0

    def sample(self, rng: np.random.Generator, batch: int, alpha: float, beta: float) -> tuple[np.ndarray, np.ndarray]:
        """Samples rows, one from each of `batch` ranges of ranks of equal probability.

        Args:
            rng: random number generator.
            batch: number of rows to sample, B.
            alpha: exponent of the ranks: 0 samples uniformly, 1 in proportion to 1 / rank.
            beta: exponent of the importance weights: 0 leaves all weights at 1, 1 corrects the sampling in full.

        Returns:
            Rows, int64 [B], and importance weights, float32 [B]: (n P)**-beta divided by the largest such weight of all
            stored rows, which is (rank / n)**(alpha beta).
        """
        if alpha != self._alpha:
            self._alpha = alpha
            self._cumulative = np.cumsum(np.arange(1, self._heap.size + 1, dtype=np.float64) ** -alpha)
        cumulative = self._cumulative[: self.size]
        points = (np.arange(batch) + rng.random(batch)) * (cumulative[-1] / batch)
        ranks = np.minimum(np.searchsorted(cumulative, points, side="right"), self.size - 1)
        weights = ((ranks + 1) / self.size) ** (alpha * beta)
        return self._heap[ranks].astype(np.int64), weights.astype(np.float32)

    def ordered(self) -> tuple[np.ndarray, np.ndarray, int]:
        """Returns rows in order of rank, their priorities, and how many priorities were written since the last sort."""
        rows = self._heap[: self.size].copy()
        return rows, self._priority[rows], self._written

    def restore(self, rows: np.ndarray, priorities: np.ndarray, written: int) -> None:
        """Restores the heap from what `ordered` returned."""
        self._rank[self._heap[: self.size]] = -1
        self.size = rows.size
        self._heap[: self.size] = rows
        self._priority[rows] = priorities
        self._rank[rows] = np.arange(self.size)
        self._written = written

    def find_error(self, rows: np.ndarray) -> str | None:
        """Returns what is wrong with the heap, which should hold exactly `rows`, or None if it is valid."""
        held = self._heap[: self.size]
        if not np.array_equal(np.sort(held), np.sort(rows)):
            return "prioritised rows are not the stored steps"
        if not np.array_equal(self._rank[held], np.arange(self.size)):
            return "ranks of prioritised rows do not match the heap"
        if np.count_nonzero(self._rank >= 0) != self.size:
            return "rows that have left still have a rank in the heap"
        priority = self._priority[held]
        if np.any(priority[1:] > priority[(np.arange(1, self.size) - 1) // 2]):
            return "a prioritised row has a higher priority than the one above it"
        return None


@numba.njit(cache=True)
def _settle(rank: int, priority: np.ndarray, heap: np.ndarray, ranks: np.ndarray, size: int) -> None:
    """Moves the row at `rank` up or down until the heap is ordered."""
    row = heap[rank]
    while rank > 0 and priority[heap[(rank - 1) // 2]] < priority[row]:
        heap[rank] = heap[(rank - 1) // 2]
        ranks[heap[rank]] = rank
        rank = (rank - 1) // 2
    while 2 * rank + 1 < size:
        child = 2 * rank + 1
        if child + 1 < size and priority[heap[child + 1]] > priority[heap[child]]:
            child += 1
        if priority[heap[child]] <= priority[row]:
            break
        heap[rank] = heap[child]
        ranks[heap[rank]] = rank
        rank = child
    heap[rank] = row
    ranks[row] = rank


@numba.njit(cache=True)
def _insert(row: int, value: float, priority: np.ndarray, heap: np.ndarray, ranks: np.ndarray, size: int) -> None:
    priority[row] = value
    heap[size] = row
    _settle(size, priority, heap, ranks, size + 1)


@numba.njit(cache=True)
def _remove(row: int, priority: np.ndarray, heap: np.ndarray, ranks: np.ndarray, size: int) -> None:
    """Removes a row; `size` is the size of the heap afterwards."""
    rank = ranks[row]
    ranks[row] = -1
    if rank < size:
        heap[rank] = heap[size]
        _settle(rank, priority, heap, ranks, size)


@numba.njit(cache=True)
def _write(
    rows: np.ndarray, values: np.ndarray, priority: np.ndarray, heap: np.ndarray, ranks: np.ndarray, size: int
) -> None:
    for i in range(rows.size):
        priority[rows[i]] = values[i]
        _settle(ranks[rows[i]], priority, heap, ranks, size)
