"""How one step of a trajectory is stored: its newest frame, its small values as bytes, and the core's state."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import Trajectory

from repro.environments.specs import FrameStackSpec, unwrapped
from repro.replay.frame_stacks import OLDER

FRAME, STEP, STATE = "frame", "step", "state"
"""Columns: the newest frame of the stack; all other values of the step, byte after byte; the core's state."""


class StepLayout:
    """Where the leaves of a step lie.

    A stack of frames (`FrameStackSpec`) is stored as its newest frame: the steps before have the others.
    `policy_info["core_state"]` is stored apart, since only a sequence's first step needs it. One column of bytes for
    all the rest costs a fraction of a column for each.

    Args:
        spec: of one step of one environment.

    Attributes:
        spec: as given, unwrapped.
        image: index of the stack among the flattened leaves; None without one.
        states: indices of the core state's leaves.
        small: indices of all others.

    Raises:
        ValueError: more than one stack.
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
        """Specs of the columns of a sequence of `rows` steps."""
        columns: dict[str, Any] = {STEP: tf.TensorSpec([rows, self._record.itemsize], tf.uint8)}
        if self.image is not None:
            columns[FRAME] = tf.TensorSpec([OLDER + rows, *self._leaves[self.image].shape[:2]], tf.uint8)
        if self.states:
            columns[STATE] = tf.TensorSpec([self._state_size], tf.float32)
        return columns

    def pack(self, leaves: list[np.ndarray]) -> np.ndarray:
        """The small values of T steps as bytes, uint8 [T, bytes], from leaves [T, ...]."""
        record = np.empty(len(leaves[0]), self._record)
        for i in self.small:
            record[str(i)] = leaves[i]
        return record.view(np.uint8).reshape(len(record), -1)

    def pack_state(self, leaves: list[np.ndarray], row: int) -> np.ndarray:
        """The core's state before a row, float32 [units of all its parts]."""
        return np.concatenate([leaves[i][row].ravel() for i in self.states])

    def unpack(self, steps: np.ndarray, states: np.ndarray | None) -> list[Any]:
        """Leaves [B, rows, ...] from columns [B, rows, bytes] and [B, units], or without B; the stack's stays None."""
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
    """Which of the flattened leaves belong to the core's state."""
    marks = tf.nest.map_structure(lambda _: False, spec)
    if isinstance(spec.policy_info, dict) and "core_state" in spec.policy_info:
        states = tf.nest.map_structure(lambda _: True, spec.policy_info["core_state"])
        marks = marks._replace(policy_info=marks.policy_info | {"core_state": states})
    return [i for i, is_state in enumerate(tf.nest.flatten(marks)) if is_state]
