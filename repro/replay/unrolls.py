"""Replay of the actors' latest unrolls, sampled uniformly: ACER's (Section 3) and IMPALA's (Section 5.2.2)."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import Trajectory

from repro.aligned import aligned_zeros
from repro.environments.specs import STACK, FrameStackSpec, unwrapped
from repro.replay.frame_stacks import OLDER, FrameRing, game_starts
from repro.replay.step_layout import state_indices


def min_capacity(spec: Trajectory) -> int:
    """Returns the smallest capacity of a replay that always leaves an unroll to sample.

    It is 2 where stacks of frames are stored, since the additional frames of a game that starts inside an unroll may
    displace the oldest unroll, and 1 otherwise.

    Args:
        spec: as for `UnrollReplay`.
    """
    return 2 if any(isinstance(leaf, FrameStackSpec) for leaf in tf.nest.flatten(spec)) else 1


class UnrollReplay:
    """Stores trajectories of T steps and the observation after them, first in, first out, in preallocated arrays.

    Stacks of frames are added, stored and sampled as `Frames`, and other observations unchanged. Only the first row of
    `policy_info["core_state"]`, the state at the start of an unroll, is stored; the other rows are sampled as zeros.
    Plain arrays are used rather than a Reverb table so that samples are reproducible with a seed and a checkpoint
    holds the same bytes.

    Args:
        spec: spec of one step of one environment, such as an agent's `collect_data_spec`.
        unroll_length: T.
        capacity: number of unrolls.

    Attributes:
        capacity: number of unrolls.

    Raises:
        ValueError: the capacity is below 1.
    """

    def __init__(self, spec: Trajectory, unroll_length: int, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"The capacity of a replay must be 1 or more, got {capacity}.")
        self._spec = unwrapped(spec)
        self.capacity = capacity
        self._end = 0  # number of the next unroll; unroll i is stored at i % capacity
        self._first_found = 0  # `_first` at its last search; it only grows
        self._rows = rows = unroll_length + 1
        self._images: dict[int, FrameRing] = {}
        self._states = frozenset(state_indices(spec))
        self._arrays: list[np.ndarray] = []
        for i, leaf in enumerate(tf.nest.flatten(spec)):
            shape, dtype = tuple(leaf.shape), leaf.dtype.as_numpy_dtype
            if isinstance(leaf, FrameStackSpec):
                # A game that starts inside an unroll takes three more frames, at the cost of the oldest unroll.
                self._images[i] = FrameRing(capacity * (OLDER + rows), shape[0], shape[1])
                shape, dtype = (STACK,), np.int64  # numbers of frames
            stored_rows = 1 if i in self._states else rows
            self._arrays.append(np.zeros((capacity, stored_rows, *shape), dtype))

    def __len__(self) -> int:
        """Number of unrolls that can be sampled."""
        return self._end - self._first

    @property
    def end(self) -> int:
        """Number of the next unroll; the first ever stored is 0."""
        return self._end

    @property
    def nbytes(self) -> int:
        """Bytes of the full replay."""
        images = sum(images.nbytes for images in self._images.values())
        return images + sum(array.nbytes for array in self._arrays)

    @property
    def _first(self) -> int:
        """Number of the oldest unroll whose frames are all still stored."""
        first = max(self._first_found, self._end - self.capacity)
        for i, images in self._images.items():
            while first < self._end and self._arrays[i][first % self.capacity].min() < images.first:
                first += 1
        self._first_found = first
        return first

    def add(self, unrolls: Trajectory) -> None:
        """Stores unrolls, arrays [G, T+1, ...], which replace the oldest ones of a full replay."""
        leaves, starts = tf.nest.flatten(unrolls), game_starts(unrolls.step_type)
        for g in range(len(starts)):
            row = self._end % self.capacity
            for i, (array, leaf) in enumerate(zip(self._arrays, leaves)):
                if i in self._images:
                    array[row] = self._images[i].append(leaf[g], starts[g])
                else:
                    array[row] = leaf[g, : array.shape[1]]
            self._end += 1

    def sample(self, rng: np.random.Generator, size: int) -> Trajectory:
        """Returns copies [size, T+1, ...] of `size` unrolls sampled uniformly with replacement.

        Raises:
            ValueError: no unroll is stored yet.
        """
        return self.take(self.sample_numbers(rng, size))

    def sample_numbers(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Returns the numbers, int64 [size], of `size` unrolls sampled uniformly with replacement.

        Raises:
            ValueError: no unroll is stored yet.
        """
        first = self._first
        if first == self._end:
            raise ValueError("The replay is empty.")
        return rng.integers(first, self._end, size)

    def take(self, numbers: np.ndarray) -> Trajectory:
        """Returns copies [size, T+1, ...] of unrolls that are still stored, given their numbers [size]."""
        rows = numbers % self.capacity
        taken: list[Any] = []
        for i, array in enumerate(self._arrays):
            if i in self._images:
                taken.append(self._images[i].take(array[rows]))
            else:
                taken.append(aligned_zeros((len(rows), self._rows, *array.shape[2:]), array.dtype))
                taken[i][:, : array.shape[1]] = array[rows]
        return tf.nest.pack_sequence_as(self._spec, taken)

    def check_valid(self) -> None:
        """Checks the invariants of unrolls and frames.

        Raises:
            RuntimeError: an invariant is broken; the message says which.
        """
        first = self._first
        if not 0 <= self._end - first <= self.capacity:
            raise RuntimeError(f"Unrolls {first} to {self._end - 1} are more than the capacity of {self.capacity}.")
        rows = np.arange(first, self._end) % self.capacity
        for i, images in self._images.items():
            numbers = self._arrays[i][rows]
            if numbers.size and not (images.first <= numbers.min() and numbers.max() < images.end):
                raise RuntimeError("A stored unroll has a frame that is no longer there.")

    def get_state(self) -> dict[str, Any]:
        filled = min(self._end, self.capacity)
        return {
            "end": self._end,
            "arrays": {str(i): array[:filled] for i, array in enumerate(self._arrays)},
            "images": {str(i): images.get_state() for i, images in self._images.items()},
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self._end, self._first_found = state["end"], 0
        for i, array in enumerate(self._arrays):
            saved = state["arrays"][str(i)]
            array[: len(saved)] = saved
        for i, images in self._images.items():
            images.set_state(state["images"][str(i)])
