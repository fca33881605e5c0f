"""Stacks of the last four grey frames, stored so that a frame shared by several stacks takes memory once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import StepType, Trajectory

from repro.aligned import aligned_empty
from repro.environments.specs import STACK

OLDER = STACK - 1
"""Number of frames of a stack besides its newest."""


class Frames(NamedTuple):
    """The frames of a trajectory, each stored once in the order of play; they replace the stacks of its rows.

    The stack of row t is `pixels[:, t : t + STACK]`. In a stack, frames from before the start of its game are black,
    although `pixels` may hold the last frames of the previous game in their places.

    Attributes:
        pixels: frames, uint8 [B, OLDER + rows, height, width]; the first `OLDER` belong to the first row's stack.
    """

    pixels: Any


def game_starts(step_type: Any) -> Any:
    """Returns which rows after the first start a game, bool [B, rows - 1], given step types [B, rows].

    A game starts with a row FIRST that follows a row LAST. FIRST after any other row is a lost life, and LAST after
    LAST is padding of a sequence. Works on arrays and on tensors.
    """
    return (step_type[:, 1:] == StepType.FIRST) & (step_type[:, :-1] == StepType.LAST)


@tf.function(jit_compile=True, autograph=False)
def to_stacks(frames: Frames, step_type: tf.Tensor) -> tf.Tensor:
    """Rebuilds the stacks, uint8 [B, rows, height, width, STACK], bit-identical to the stacks that were played.

    XLA compiles it on any device into one pass over the frames, where the plain graph takes a pass for each operation.
    The four pixels of a position are packed into one 32-bit word, the oldest in the lowest byte, because bytes that
    are not adjacent would be written one by one.

    Args:
        frames: frames of the trajectory.
        step_type: step types of the rows, int32 [B, rows].
    """
    pixels, rows = tf.cast(frames.pixels, tf.uint32), step_type.shape[1]
    starts = tf.pad(game_starts(step_type), [[0, 0], [1, 0]])  # [B, rows]
    black = tf.zeros_like(starts)  # whether the frame of this age precedes the row's game
    words = tf.bitwise.left_shift(pixels[:, OLDER:], tf.constant(8 * OLDER, tf.uint32))
    for age in range(1, STACK):
        black |= tf.pad(starts, [[0, 0], [age - 1, 0]])[:, :rows]  # a game that started age - 1 rows before
        frame = pixels[:, OLDER - age : OLDER - age + rows]
        frame = tf.where(black[..., tf.newaxis, tf.newaxis], tf.constant(0, tf.uint32), frame)
        words |= tf.bitwise.left_shift(frame, tf.constant(8 * (OLDER - age), tf.uint32))
    return tf.bitcast(words, tf.uint8)


def with_stacks(trajectory: Trajectory) -> Trajectory:
    """Returns a trajectory of tensors [B, rows, ...] with stacks in place of all `Frames` in its observation."""

    def stacked(observation: Any) -> Any:
        if isinstance(observation, Frames):
            return to_stacks(observation, trajectory.step_type)
        if isinstance(observation, dict):
            return {key: stacked(value) for key, value in observation.items()}
        return observation

    return trajectory._replace(observation=stacked(trajectory.observation))


class FrameRing:
    """A ring buffer of frames; `append` stores the frames of an unroll and returns the numbers that `take` reads.

    An unroll's first row adds a whole stack and a later row one frame. A row that starts a game adds a whole stack
    again, unless the frames before it are already black. Frames are numbered from 0 in the order of their arrival; the
    ring keeps the newest.

    Args:
        capacity: number of frames.
        height, width: size of a frame in pixels.
    """

    def __init__(self, capacity: int, height: int, width: int) -> None:
        self._size = height, width
        self._frames = np.zeros((capacity, height * width), np.uint8)
        self._end = 0  # number of the next frame

    @property
    def first(self) -> int:
        """Number of the oldest frame in the ring."""
        return max(0, self._end - len(self._frames))

    @property
    def end(self) -> int:
        """Number of the next frame."""
        return self._end

    @property
    def nbytes(self) -> int:
        return self._frames.nbytes

    def append(self, pixels: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Stores the frames of an unroll.

        Args:
            pixels: pixels of one unroll's `Frames`, uint8 [OLDER + rows, height, width].
            starts: the unroll's `game_starts`, bool [rows - 1].

        Returns:
            Numbers of the frames of each row's stack, int64 [rows, STACK].
        """
        pixels = pixels.reshape(len(pixels), -1)
        numbers = np.empty((len(starts) + 1, STACK), np.int64)
        numbers[0] = [self._put(frame) for frame in pixels[:STACK]]
        for row, starts_game in enumerate(starts, 1):
            numbers[row, :OLDER] = older = numbers[row - 1, 1:]
            if starts_game and self._frames[older % len(self._frames)].any():
                numbers[row, :OLDER] = [self._put(0) for _ in range(OLDER)]
            numbers[row, OLDER] = self._put(pixels[OLDER + row])
        return numbers

    def take(self, numbers: np.ndarray) -> Frames:
        """Returns the `Frames` of unrolls by the numbers of their stacks, int64 [B, rows, STACK], all still stored."""
        wanted = np.concatenate([numbers[:, 0, :OLDER], numbers[:, :, -1]], axis=1)  # [B, OLDER + rows]
        out = aligned_empty((*wanted.shape, self._frames.shape[1]), np.uint8)
        np.take(self._frames, wanted, axis=0, out=out, mode="wrap")
        return Frames(out.reshape(*wanted.shape, *self._size))

    def get_state(self) -> dict[str, Any]:
        return {"frames": self._frames[: self._end], "end": self._end}

    def set_state(self, state: dict[str, Any]) -> None:
        self._frames[: len(state["frames"])] = state["frames"]
        self._end = state["end"]

    def _put(self, frame: np.ndarray | int) -> int:
        """Writes a frame, [height * width], or one value for all its pixels, and returns its number."""
        self._frames[self._end % len(self._frames)] = frame
        self._end += 1
        return self._end - 1
