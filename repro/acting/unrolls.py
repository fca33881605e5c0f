"""Preallocated memory for unrolls: actors write into it, and a batch's tensors on the CPU share it (`as_tensor`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import Trajectory

from repro.aligned import aligned_zeros, concatenated
from repro.environments.specs import STACK, FrameStackSpec, unwrapped
from repro.machine_memory import available_bytes
from repro.replay.frame_stacks import OLDER, Frames, game_starts


class UnrollGroup:
    """Unrolls of several environments whose new steps have one behaviour version.

    Args:
        trajectory_spec: spec of one step of one environment.
        group_size: number of environments.
        unroll_length: T.

    Attributes:
        spec: `trajectory_spec`, unwrapped.
        arrays: `Trajectory` of NumPy arrays [group_size, T+1, ...], with `Frames` in place of frame stacks; in the last
            row only the observation and its step type count.
        version: number of gradient steps behind the behaviour weights; steps that an unroll shares with the one before
            it were played with older weights.
        acting: the learner's variables at that version (`WeightsSnapshot.acting`); () unless the publisher keeps them.
        actor: number of the actor that plays in it.
        new_games: whether another actor played the unroll before, so that all games are new.
    """

    def __init__(self, trajectory_spec: Trajectory, group_size: int, unroll_length: int) -> None:
        self.spec = unwrapped(trajectory_spec)
        self._rows = unroll_length + 1

        def allocate(spec: tf.TensorSpec) -> np.ndarray | Frames:
            if isinstance(spec, FrameStackSpec):
                return Frames(aligned_zeros((group_size, OLDER + self._rows, *spec.shape[:2]), np.uint8))
            return aligned_zeros((group_size, self._rows, *spec.shape), spec.dtype.as_numpy_dtype)

        self.arrays: Trajectory = tf.nest.map_structure(allocate, self.spec)
        self.version = 0
        self.acting: tuple[tf.Tensor, ...] = ()
        self.actor = 0
        self.new_games = False
        self._flat = {name: tf.nest.flatten(getattr(self.arrays, name)) for name in Trajectory._fields}

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the arrays take once they are fully written."""
        return sum(array.nbytes for arrays in self._flat.values() for array in arrays)

    def write(self, row: int, **fields: Any) -> None:
        """Copies fields of `Trajectory`, [group_size, ...], into one time row.

        From a frame stack only the newest frame is copied, since rows share older frames; the first row gets the whole
        stack.
        """
        for name, value in fields.items():
            for array, leaf in zip(self._flat[name], tf.nest.flatten(value)):
                if array.shape[1] == self._rows:
                    array[:, row] = leaf
                elif row == 0:
                    array[:, :STACK] = np.moveaxis(leaf, -1, 1)
                else:
                    array[:, OLDER + row] = leaf[..., -1]

    def get_rows(self, rows: slice) -> list[np.ndarray]:
        """Copies time rows of every array, in the order of `tf.nest.flatten`; frame stacks as their `Frames`."""
        copied = [array[:, self._with_older(rows, array)].copy() for array in tf.nest.flatten(self.arrays)]
        for env, start in np.argwhere(game_starts(self.arrays.step_type[:, : rows.start + 1])) + (0, 1):
            for array in copied:
                if array.shape[1] > rows.stop - rows.start:  # older frames, black where they are of the game before
                    array[env, : max(0, OLDER - rows.start + start)] = 0
        return copied

    def set_rows(self, rows: slice, values: Iterable[np.ndarray | int]) -> None:
        """Writes time rows of every array, as `get_rows` gave them."""
        for array, value in zip(tf.nest.flatten(self.arrays), values):
            array[:, self._with_older(rows, array)] = value

    def set_all(self, values: Iterable[np.ndarray]) -> None:
        """Writes every array, in the order of `tf.nest.flatten`."""
        self.set_rows(slice(0, self._rows), values)

    def _with_older(self, rows: slice, array: np.ndarray) -> slice:
        """Slice of time rows in an array, which may begin with the older frames of the first row's stack."""
        return slice(rows.start, rows.stop + array.shape[1] - self._rows)

    def split_into(self, groups: Sequence[UnrollGroup]) -> None:
        """Copies the unrolls into smaller groups of equal size, one after the other."""
        size = len(self.arrays.reward) // len(groups)
        for i, group in enumerate(groups):
            group.version, group.acting = self.version, self.acting
            for name, arrays in self._flat.items():
                for array, part in zip(arrays, group._flat[name]):
                    part[:] = array[i * size : (i + 1) * size]


def make_groups(make_group: Callable[[], UnrollGroup], count: int) -> list[UnrollGroup]:
    """Returns `count` groups of the same size, at least one.

    Raises:
        MemoryError: all of them, once written, would take more memory than is available.
    """
    first, available = make_group(), available_bytes()
    if (needed := count * first.nbytes) > available:
        raise MemoryError(f"unrolls take {needed / 1e9:.1f} GB, and {available / 1e9:.1f} GB are available")
    return [first, *(make_group() for _ in range(count - 1))]


def stack_groups(groups: Sequence[UnrollGroup]) -> Trajectory:
    """Returns one batch [B, T+1, ...] from its groups; a single group is passed on without a copy."""
    if len(groups) == 1:
        return groups[0].arrays
    return tf.nest.map_structure(lambda *parts: concatenated(parts), *[group.arrays for group in groups])
