"""Stacks of the last frames, stored without storing a frame once for every stack that it is in."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


class FrameStacks:
    """A ring of frames. Sequences of stacks go in; numbers come out, by which the stacks are found again.

    A stack whose older frames are those of the stack before it adds one frame; any other, as after a game's start,
    adds all of its frames. Frames are numbered from the first one that ever came; the ring keeps the last ones.

    Args:
        capacity: frames.
        shape: of a stack, [height, width, channels], the newest frame's channels last.
        stack: frames in a stack; divides the channels.

    Raises:
        ValueError: the channels are not those of whole frames.
    """

    def __init__(self, capacity: int, shape: tuple[int, ...], stack: int) -> None:
        height, width, channels = shape
        if channels % stack:
            raise ValueError(f"{channels} channels are not those of {stack} frames.")
        self._shape, self._stack = shape, stack
        self._frames = np.zeros((capacity, height * width, channels // stack), np.uint8)
        self._end = 0  # number of the next frame

    @property
    def first(self) -> int:
        """Number of the oldest frame still kept."""
        return max(0, self._end - len(self._frames))

    @property
    def nbytes(self) -> int:
        return self._frames.nbytes

    def append(self, stacks: np.ndarray) -> np.ndarray:
        """Stores a sequence of stacks, uint8 [T, height, width, channels]; returns frame numbers, int64 [T, stack]."""
        planes = np.ascontiguousarray(stacks).reshape(len(stacks), -1, self._shape[2])
        numbers = np.empty((len(stacks), self._stack), np.int64)
        self._end = _append(self._frames, self._end, planes, numbers)
        return numbers

    def take(self, numbers: np.ndarray) -> np.ndarray:
        """The stacks, uint8 [..., height, width, channels], of numbers [..., stack] whose frames are still kept."""
        out = np.empty((numbers.size // self._stack, *self._frames.shape[1:2], self._shape[2]), np.uint8)
        _take(self._frames, numbers.reshape(-1, self._stack), out)
        return out.reshape(*numbers.shape[:-1], *self._shape)

    def get_state(self) -> dict[str, Any]:
        return {"frames": self._frames[: self._end], "end": self._end}

    def set_state(self, state: dict[str, Any]) -> None:
        self._frames[: len(state["frames"])] = state["frames"]
        self._end = state["end"]


@numba.njit(cache=True)
def _append(frames: np.ndarray, end: int, stacks: np.ndarray, numbers: np.ndarray) -> int:
    """Writes the frames of stacks [T, pixels, channels] behind frame `end - 1`; returns the new end."""
    capacity, pixels, channels = frames.shape
    length, stack = numbers.shape
    for t in range(length):
        goes_on = t > 0
        if goes_on:
            for p in range(pixels):
                for c in range((stack - 1) * channels):
                    if stacks[t, p, c] != stacks[t - 1, p, c + channels]:
                        goes_on = False
                        break
                if not goes_on:
                    break
        for s in range(stack):
            if goes_on and s < stack - 1:
                numbers[t, s] = numbers[t - 1, s + 1]
            else:
                numbers[t, s] = end
                frames[end % capacity] = stacks[t, :, s * channels : (s + 1) * channels]
                end += 1
    return end


@numba.njit(cache=True)
def _take(frames: np.ndarray, numbers: np.ndarray, out: np.ndarray) -> None:
    """Copies frames into stacks [N, pixels, channels]."""
    capacity, pixels, channels = frames.shape
    for i in range(numbers.shape[0]):
        for s in range(numbers.shape[1]):
            frame = frames[numbers[i, s] % capacity]
            for p in range(pixels):
                for c in range(channels):
                    out[i, p, s * channels + c] = frame[p, c]
