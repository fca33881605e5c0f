"""Rows of arrays that several sequences share, kept as long as one of them is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from repro.aligned import aligned_empty


class SharedRows:
    """Arrays with reference-counted rows: each row is stored once, and free when nobody holds it.

    Memory is taken up as rows arrive: a row that was never used is taken only if no other one is free.

    Args:
        capacity: number of rows.
        leaves: shape of a row and dtype of each array.
    """

    def __init__(self, capacity: int, leaves: Sequence[tuple[tuple[int, ...], np.dtype | type]]) -> None:
        self._arrays = [np.zeros((capacity, *shape), dtype) for shape, dtype in leaves]
        self._holders = np.zeros(capacity, np.int32)
        self._free = np.zeros(capacity, np.int32)  # the first `_num_free` are the numbers of released rows
        self._num_free = 0
        self._used = 0  # number of rows ever used

    @property
    def room(self) -> int:
        """Number of free rows."""
        return self._num_free + len(self._holders) - self._used

    def store(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Stores values [N, ...] of each array in rows that the caller then holds once, and returns their numbers.

        Returns:
            Numbers of the rows, int32 [N].

        Raises:
            ValueError: there is no room; nothing is stored.
        """
        count = len(values[0])
        if count > self.room:
            raise ValueError(f"{count} rows do not fit into the {self.room} free rows.")
        again = min(count, self._num_free)
        rows = np.empty(count, np.int32)
        rows[:again] = self._free[self._num_free - again : self._num_free]
        rows[again:] = np.arange(self._used, self._used + count - again)
        self._num_free -= again
        self._used += count - again
        for array, value in zip(self._arrays, values):
            array[rows] = value
        self._holders[rows] = 1
        return rows

    def hold(self, rows: np.ndarray) -> None:
        """Holds rows, int32 [N], once more for each time that they occur."""
        np.add.at(self._holders, rows, 1)

    def release(self, rows: np.ndarray) -> None:
        """Undoes one `store` or `hold` of rows, int32 [N], for each time that they occur."""
        np.subtract.at(self._holders, rows, 1)
        free = np.unique(rows[self._holders[rows] == 0])
        self._free[self._num_free : self._num_free + len(free)] = free
        self._num_free += len(free)

    def take(self, rows: np.ndarray) -> list[np.ndarray]:
        """Returns aligned copies [..., N, ...] of rows, int32 [..., N], of each array."""
        return [taken(array, rows) for array in self._arrays]

    def get_state(self) -> dict[str, Any]:
        """Returns views of the stored rows; the owner keeps track of which rows are held."""
        return {str(i): array[: self._used] for i, array in enumerate(self._arrays)}

    def set_state(self, state: dict[str, Any], held: Sequence[np.ndarray]) -> None:
        """Restores a state.

        Args:
            state: state from `get_state`.
            held: numbers of held rows, each as often as it was held.
        """
        for i, array in enumerate(self._arrays):
            self._used = len(state[str(i)])
            array[: self._used] = state[str(i)]
        self._holders[:] = 0
        for rows in held:
            np.add.at(self._holders, rows.ravel(), 1)
        free = np.flatnonzero(self._holders[: self._used] == 0)
        self._free[: len(free)] = free
        self._num_free = len(free)

    def check_valid(self, held: Sequence[np.ndarray]) -> None:
        """Checks the counts of holders and the free rows.

        Args:
            held: numbers of held rows, each as often as it is held.

        Raises:
            RuntimeError: they do not match `held`; the message says which.
        """
        counts = np.zeros_like(self._holders)
        for rows in held:
            np.add.at(counts, rows.ravel(), 1)
        if not np.array_equal(counts, self._holders):
            raise RuntimeError("A row is held more or less often than it should be.")
        if not np.array_equal(np.sort(self._free[: self._num_free]), np.flatnonzero(counts[: self._used] == 0)):
            raise RuntimeError("The rows that nobody holds are not those that are free.")


def taken(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns an aligned copy [..., N, ...] of rows, int [..., N], of an array."""
    out = aligned_empty((*rows.shape, *array.shape[1:]), array.dtype)
    return np.take(array, rows, axis=0, out=out, mode="clip")  # a check of the bounds would copy twice
