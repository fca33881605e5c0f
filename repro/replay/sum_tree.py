"""Sampling in proportion to weights that change, in time logarithmic in their number."""

from __future__ import annotations

import numba
import numpy as np


class SumTree:
    """A binary tree of sums over weights.

    A node is the sum of its two children and recomputed whenever one of them changes, so that the tree depends on the
    current weights only and rounding errors do not accumulate.

    Args:
        capacity: number of weights, all 0 at first.
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
        """View of all weights, float64 [capacity]; do not write to it."""
        return self._nodes[self._leaves : self._leaves + self._capacity]

    def set(self, places: np.ndarray, weights: np.ndarray) -> None:
        """Sets the weights, float64 [B], 0 or more, of positions, int64 [B]; of duplicates the last counts."""
        _set(self._nodes, places + self._leaves, weights)

    def set_all(self, weights: np.ndarray) -> None:
        """Sets the first N weights to `weights`, float64 [N], and all others to 0."""
        self._nodes[:] = 0.0
        self._nodes[self._leaves : self._leaves + len(weights)] = weights
        begin = self._leaves
        while begin > 1:  # level by level, up to the root
            self._nodes[begin // 2 : begin] = self._nodes[begin : 2 * begin].reshape(-1, 2).sum(axis=1)
            begin //= 2

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Samples positions, int64 [size], in proportion to their weights, with replacement; `total` must exceed 0."""
        return _find(self._nodes, rng.random(size) * self.total) - self._leaves

    def check_valid(self) -> None:
        """Checks the sums.

        Raises:
            RuntimeError: a node is not the sum of its children, or a weight is negative.
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
    """Returns for each point in [0, total) the leaf whose interval contains it."""
    found = np.empty(points.size, np.int64)
    for i in range(points.size):
        node, point = 1, points[i]
        while 2 * node < nodes.size:
            node *= 2
            if point >= nodes[node] and nodes[node + 1] > 0.0:  # rounding may leave a point after the last weight
                point -= nodes[node]
                node += 1
        found[i] = node
    return found
