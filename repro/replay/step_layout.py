"""How one step of a trajectory is stored: its newest frame, its small values as bytes, and the core's state."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import Trajectory

from repro.environments.specs import FrameStackSpec, unwrapped
from repro.replay.frame_stacks import OLDER

FRAME, STEP, STATE = "frame", "step", "state"
"""Names of the columns: newest frame of the stack; bytes of the step's small values; core's state."""


class StepLayout:
    """Assignment of the leaves of a step to columns.

    A stack of frames (`FrameStackSpec`) is stored as its newest frame, since earlier steps contain the others.
    `policy_info["core_state"]` is stored separately, since only a sequence's first step needs it. All other leaves are
    packed into one column of bytes, which costs a fraction of one column for each.

    Args:
        spec: spec of one step of one environment.

    Attributes:
        spec: the spec, unwrapped.
        image: index of the stack of frames among the flattened leaves; None without one.
        states: indices of the leaves of the core's state.
        small: indices of all other leaves.

    Raises:
        ValueError: a step has more than one stack of frames.
    """

    def __init__(self, spec: Trajectory) -> None:
        self.spec = unwrapped(spec)
        self._leaves = tf.nest.flatten(spec)
        images = [i for i, leaf in enumerate(self._leaves) if isinstance(leaf, FrameStackSpec)]
        if len(images) > 1:
            raise ValueError("A step with several stacks of frames cannot be stored.")
        self.image = images[0] if images else None
        self.states = state_indices(spec)
        self.small = [i for i in range(len(self._leaves)) if i != self.image and i not in self.states]
        self._record = np.dtype(
            [(str(i), self._leaves[i].dtype.as_numpy_dtype, tuple(self._leaves[i].shape)) for i in self.small]
        )

    def signature(self, rows: int) -> dict[str, Any]:
        """Returns the specs of the columns of a sequence of `rows` rows."""
        columns: dict[str, Any] = {STEP: tf.TensorSpec([rows, self._record.itemsize], tf.uint8)}
        if self.image is not None:
            columns[FRAME] = tf.TensorSpec([OLDER + rows, *self._leaves[self.image].shape[:2]], tf.uint8)
        if self.states:
            columns[STATE] = tf.TensorSpec([self._state_size], tf.float32)
        return columns

    def pack(self, leaves: list[np.ndarray]) -> np.ndarray:
        """Returns the small values of T steps as bytes, uint8 [T, bytes], given all leaves [T, ...]."""
        record = np.empty(len(leaves[0]), self._record)
        for i in self.small:
            record[str(i)] = leaves[i]
        return record.view(np.uint8).reshape(len(record), -1)

    def pack_state(self, leaves: list[np.ndarray], row: int) -> np.ndarray:
        """Returns the core's state before a row, float32 [units], with all its parts concatenated."""
        return np.concatenate([leaves[i][row].ravel() for i in self.states])

    def unpack(self, steps: np.ndarray, states: np.ndarray | None) -> list[Any]:
        """Returns the leaves of steps and core states; the leaf of the stack of frames is None.

        Args:
            steps: bytes of the small values, uint8 [B, rows, bytes] or [rows, bytes].
            states: core states, float32 [B, units]; None leaves their leaves None.

        Returns:
            Leaves in the order of the flattened spec: small values [B, rows, ...] or [rows, ...], and core states
            [B, ...].
        """
        record = np.ascontiguousarray(steps).view(self._record)[..., 0]  # [B, rows]
        leaves: list[Any] = [None] * len(self._leaves)
        for i in self.small:
            leaves[i] = np.ascontiguousarray(record[str(i)])
        if states is not None:
            sizes = [self._leaves[i].shape.num_elements() for i in self.states]
            for i, part in zip(self.states, np.split(states, np.cumsum(sizes)[:-1], axis=-1)):
                leaves[i] = part.reshape(len(states), *self._leaves[i].shape)
        return leaves

    @property
    def _state_size(self) -> int:
        return sum(self._leaves[i].shape.num_elements() for i in self.states)


def state_indices(spec: Trajectory) -> list[int]:
    """Returns the indices of the flattened leaves that belong to the core's state."""
    marks = tf.nest.map_structure(lambda _: False, spec)
    if isinstance(spec.policy_info, dict) and "core_state" in spec.policy_info:
        states = tf.nest.map_structure(lambda _: True, spec.policy_info["core_state"])
        marks = marks._replace(policy_info=marks.policy_info | {"core_state": states})
    return [i for i, is_state in enumerate(tf.nest.flatten(marks)) if is_state]
