"""Preallocated memory that actors write unrolls into and the learner reads without copying."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import Trajectory

from repro.environments.specs import unwrapped

ALIGNMENT = 64
"""Bytes. TensorFlow takes a NumPy array as a tensor without a copy if its memory is aligned to this."""


def aligned_zeros(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """`np.zeros` whose first byte lies on an `ALIGNMENT` boundary."""
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.zeros(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


class UnrollGroup:
    """Unrolls of several environments whose new steps have one behaviour version.

    Args:
        trajectory_spec: of one step of one environment.
        group_size: environments.
        unroll_length: T.

    Attributes:
        spec: `trajectory_spec`, unwrapped.
        arrays: `Trajectory` of NumPy arrays [group_size, T+1, ...]; in the last row only the observation and
            its step type count.
        version: gradient steps made before the behaviour weights were taken; those of steps that an unroll shares with
            the one before it are older.
        acting: the learner's variables at that version (`WeightsSnapshot.acting`); () unless the publisher keeps them.
        actor: number of the actor that plays in it.
        new_games: whether another actor plays than in the unroll before, so that all its games are new.
    """

    def __init__(self, trajectory_spec: Trajectory, group_size: int, unroll_length: int) -> None:
        self.spec = unwrapped(trajectory_spec)
        self.arrays: Trajectory = tf.nest.map_structure(
            lambda spec: aligned_zeros(
                (group_size, unroll_length + 1, *spec.shape), np.dtype(spec.dtype.as_numpy_dtype)
            ),
            self.spec,
        )
        self.version = 0
        self.acting: tuple[tf.Tensor, ...] = ()
        self.actor = 0
        self.new_games = False
        self._flat = {name: tf.nest.flatten(getattr(self.arrays, name)) for name in Trajectory._fields}

    def write(self, row: int, **fields: Any) -> None:
        """Copies fields of `Trajectory`, [group_size, ...], into one time row."""
        for name, value in fields.items():
            for array, leaf in zip(self._flat[name], tf.nest.flatten(value)):
                array[:, row] = leaf

    def get_rows(self, rows: slice) -> list[np.ndarray]:
        """Copies time rows of every array, in the order of `tf.nest.flatten`."""
        return [array[:, rows].copy() for array in tf.nest.flatten(self.arrays)]

    def set_rows(self, rows: slice, values: Iterable[np.ndarray | int]) -> None:
        """Writes time rows of every array, as `get_rows` gave them."""
        for array, value in zip(tf.nest.flatten(self.arrays), values):
            array[:, rows] = value

    def split_into(self, groups: Sequence[UnrollGroup]) -> None:
        """Copies the unrolls into smaller groups of equal size, one after the other."""
        size = len(self.arrays.reward) // len(groups)
        for i, group in enumerate(groups):
            group.version, group.acting = self.version, self.acting
            for name, arrays in self._flat.items():
                for array, part in zip(arrays, group._flat[name]):
                    part[:] = array[i * size : (i + 1) * size]


def stack_groups(groups: Sequence[UnrollGroup]) -> Trajectory:
    """One batch [B, T+1, ...] from its groups; a single group is passed on without a copy."""
    if len(groups) == 1:
        return groups[0].arrays
    return tf.nest.map_structure(lambda *parts: np.concatenate(parts), *[group.arrays for group in groups])
