"""Stacks of the last four grey frames, stored without storing a frame once for every stack that it is in."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import StepType, Trajectory

from repro.aligned import aligned_empty
from repro.environments.specs import STACK

OLDER = STACK - 1
"""Frames of a stack besides its newest."""


class Frames(NamedTuple):
    """In a trajectory, in place of the stacks of its rows: each frame once, in the order of play.

    The stack of row t is `pixels[:, t : t + STACK]`. Frames before the start of a game are black in it, whatever stands
    there: the last ones of the game before.

    pixels: uint8 [B, OLDER + rows, height, width]; the first `OLDER` are those of the first row's stack.
    """

    pixels: Any


def game_starts(step_type: Any) -> Any:
    """Which rows but the first start a game, bool [B, rows - 1], from step types [B, rows]; arrays or tensors.

    A game starts behind a row LAST. FIRST alone may be a lost life, and a row LAST behind another fills up a sequence.
    """
    return (step_type[:, 1:] == StepType.FIRST) & (step_type[:, :-1] == StepType.LAST)


@tf.function(jit_compile=True, autograph=False)
def to_stacks(frames: Frames, step_type: tf.Tensor) -> tf.Tensor:
    """Stacks of `Frames`, uint8 [B, rows, height, width, STACK], to the bit those that were played.

    Compiled by XLA on any device: one pass over the frames, where the plain graph takes a pass for each of several
    operations. The four pixels of a place are put together as one word of 32 bits, its lowest byte the oldest, since
    bytes that lie apart would be written one by one.

    Args:
        frames: as above.
        step_type: of the rows, int32 [B, rows].
    """
    pixels, rows = tf.cast(frames.pixels, tf.uint32), step_type.shape[1]
    starts = tf.pad(game_starts(step_type), [[0, 0], [1, 0]])  # [B, rows]
    black = tf.zeros_like(starts)  # whether a frame of this age was before its row's game
    words = tf.bitwise.left_shift(pixels[:, OLDER:], tf.constant(8 * OLDER, tf.uint32))
    for age in range(1, STACK):
        black |= tf.pad(starts, [[0, 0], [age - 1, 0]])[:, :rows]  # a game that started age - 1 rows before
        frame = pixels[:, OLDER - age : OLDER - age + rows]
        frame = tf.where(black[..., tf.newaxis, tf.newaxis], tf.constant(0, tf.uint32), frame)
        words |= tf.bitwise.left_shift(frame, tf.constant(8 * (OLDER - age), tf.uint32))
    return tf.bitcast(words, tf.uint8)


def with_stacks(trajectory: Trajectory) -> Trajectory:
    """A trajectory of tensors [B, rows, ...] with stacks in place of all `Frames` of its observation."""

    def stacked(observation: Any) -> Any:
        if isinstance(observation, Frames):
            return to_stacks(observation, trajectory.step_type)
        if isinstance(observation, dict):
            return {key: stacked(value) for key, value in observation.items()}
        return observation

    return trajectory._replace(observation=stacked(trajectory.observation))


class FrameRing:
    """A ring of frames. Frames of unrolls go in; numbers come out, by which they are found again.

    An unroll's first row adds a whole stack, a later row one frame; a row that starts a game adds a whole stack again,
    unless all frames before it are black in any case. Frames are numbered from the first one that ever came; the ring
    keeps the last ones.

    Args:
        capacity: frames.
        height, width: of a frame, pixels.
    """

    def __init__(self, capacity: int, height: int, width: int) -> None:
        self._size = height, width
        self._frames = np.zeros((capacity, height * width), np.uint8)
        self._end = 0  # number of the next frame

    @property
    def first(self) -> int:
        """Number of the oldest frame still kept."""
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
            pixels: of one unroll's `Frames`, uint8 [OLDER + rows, height, width].
            starts: `game_starts` of it, bool [rows - 1].

        Returns:
            numbers of the frames of each row's stack, int64 [rows, STACK].
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
        """`Frames` of unrolls from the numbers of their rows, int64 [B, rows, STACK], all of which are still kept."""
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
        """Writes one frame, [height * width], or one colour everywhere; returns its number."""
        self._frames[self._end % len(self._frames)] = frame
        self._end += 1
        return self._end - 1
