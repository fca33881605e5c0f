"""Sampling in proportion to weights that change, at the cost of the logarithm of their number."""

from __future__ import annotations

import numba
import numpy as np


class SumTree:
    """A binary tree of sums over weights.

    Each node is the sum of its two, computed again when one of them changes, so that the tree depends on the present
    weights alone and no rounding adds up.

    Args:
        capacity: weights, all 0 at first.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._leaves = 1 << (capacity - 1).bit_length()
        self._nodes = np.zeros(2 * self._leaves)  # the root is node 1, the children of node i are 2 i and 2 i + 1

    @property
    def total(self) -> float:
        """Sum of all weights."""
        return float(self._nodes[1])

    @property
    def weights(self) -> np.ndarray:
        """All of them, float64 [capacity], not to be written to."""
        return self._nodes[self._leaves : self._leaves + self._capacity]

    def set(self, places: np.ndarray, weights: np.ndarray) -> None:
        """Gives places, int64 [B], new weights, float64 [B], not negative; of one place twice the last counts."""
        _set(self._nodes, places + self._leaves, weights)

    def set_all(self, weights: np.ndarray) -> None:
        """Gives the first places new weights, float64 [N], and all others 0."""
        self._nodes[:] = 0.0
        self._nodes[self._leaves : self._leaves + len(weights)] = weights
        begin = self._leaves
        while begin > 1:  # from level to level
            self._nodes[begin // 2 : begin] = self._nodes[begin : 2 * begin].reshape(-1, 2).sum(axis=1)
            begin //= 2

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Places sampled in proportion to their weights, with replacement, int64 [size]; one weight is above 0."""
        return _find(self._nodes, rng.random(size) * self.total) - self._leaves

    def check_valid(self) -> None:
        """Checks the sums.

        Raises:
            RuntimeError: a node is not the sum of its two, or a weight is negative.
        """
        sums = self._nodes[2:].reshape(-1, 2).sum(axis=1)
        if not np.array_equal(self._nodes[1 : self._leaves], sums) or (self._nodes < 0.0).any():
            raise RuntimeError("A sum over priorities is wrong.")


@numba.njit(cache=True)
def _set(nodes: np.ndarray, leaves: np.ndarray, weights: np.ndarray) -> None:
    for i in range(leaves.size):
        node = leaves[i]
        nodes[node] = weights[i]
        while node > 1:
            node //= 2
            nodes[node] = nodes[2 * node] + nodes[2 * node + 1]


@numba.njit(cache=True)
def _find(nodes: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The leaf in whose part of [0, total) each point lies."""
    found = np.empty(points.size, np.int64)
    for i in range(points.size):
        node, point = 1, points[i]
        while 2 * node < nodes.size:
            node *= 2
            if point >= nodes[node] and nodes[node + 1] > 0.0:  # rounding may leave a point behind the last weight
                point -= nodes[node]
                node += 1
        found[i] = node
    return found
