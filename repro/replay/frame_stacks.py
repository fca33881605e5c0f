"""Stacks of the last four grey frames, stored without storing a frame once for every stack that it is in."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

STACK = 4
"""Frames in a stack: its pixels are read as 32-bit integers, a byte for each frame, the newest in the highest."""


class FrameStacks:
    """A ring of frames. Sequences of stacks go in; numbers come out, by which the stacks are found again.

    A stack whose older frames are those of the stack before it adds one frame; any other, as after a game's start,
    adds all of its frames. Frames are numbered from the first one that ever came; the ring keeps the last ones.

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

    def append(self, stacks: np.ndarray) -> np.ndarray:
        """Stores a sequence of stacks, uint8 [T, height, width, 4]; returns the numbers of their frames, [T, 4]."""
        pixels = np.ascontiguousarray(stacks).view("<u4").reshape(len(stacks), -1)
        numbers = np.empty((len(stacks), STACK), np.int64)
        self._end = _append(self._frames, self._end, pixels, numbers)
        return numbers

    def take(self, numbers: np.ndarray) -> np.ndarray:
        """The stacks, uint8 [..., height, width, 4], of numbers [..., 4] whose frames are still kept."""
        out = np.empty((numbers.size // STACK, self._frames.shape[1]), "<u4")
        _take(self._frames, numbers.reshape(-1, STACK), out)
        return out.view(np.uint8).reshape(*numbers.shape[:-1], *self._size, STACK)

    def get_state(self) -> dict[str, Any]:
        return {"frames": self._frames[: self._end], "end": self._end}

    def set_state(self, state: dict[str, Any]) -> None:
        self._frames[: len(state["frames"])] = state["frames"]
        self._end = state["end"]


def restack(frames: np.ndarray) -> np.ndarray:
    """Stacks of frames that follow each other: [B, rows + 3, height, width] to [B, rows, height, width, 4]."""
    sequences, count, height, width = frames.shape
    out = np.empty((sequences, count - STACK + 1, height * width), "<u4")
    _restack(frames.reshape(sequences, count, -1), out)
    return out.view(np.uint8).reshape(*out.shape[:2], height, width, STACK)


@numba.njit(cache=True)
def _append(frames: np.ndarray, end: int, stacks: np.ndarray, numbers: np.ndarray) -> int:
    """Writes the frames of stacks uint32 [T, pixels] behind frame `end - 1`; returns the new end."""
    capacity, pixels = frames.shape
    for t in range(len(stacks)):
        changed = np.uint32(t == 0)
        if t > 0:
            for p in range(pixels):
                changed |= (stacks[t, p] & np.uint32(0xFFFFFF)) ^ (stacks[t - 1, p] >> np.uint32(8))
        for s in range(STACK):
            if changed == 0 and s < STACK - 1:
                numbers[t, s] = numbers[t - 1, s + 1]
            else:
                frame, shift = frames[end % capacity], np.uint32(8 * s)
                for p in range(pixels):
                    frame[p] = np.uint8(stacks[t, p] >> shift)
                numbers[t, s] = end
                end += 1
    return end


@numba.njit(cache=True)
def _take(frames: np.ndarray, numbers: np.ndarray, out: np.ndarray) -> None:
    """Copies frames into stacks uint32 [N, pixels]."""
    capacity, pixels = frames.shape
    for i in range(len(numbers)):
        a, b = frames[numbers[i, 0] % capacity], frames[numbers[i, 1] % capacity]
        c, d = frames[numbers[i, 2] % capacity], frames[numbers[i, 3] % capacity]
        for p in range(pixels):
            low = np.uint32(a[p]) | np.uint32(b[p]) << np.uint32(8)
            out[i, p] = low | np.uint32(c[p]) << np.uint32(16) | np.uint32(d[p]) << np.uint32(24)


@numba.njit(cache=True)
def _restack(frames: np.ndarray, out: np.ndarray) -> None:
    """Writes stacks uint32 [B, rows, pixels] of frames uint8 [B, rows + 3, pixels]."""
    sequences, rows, pixels = out.shape
    for b in range(sequences):
        for t in range(rows):
            first, second, third, fourth = frames[b, t], frames[b, t + 1], frames[b, t + 2], frames[b, t + 3]
            for p in range(pixels):
                low = np.uint32(first[p]) | np.uint32(second[p]) << np.uint32(8)
                out[b, t, p] = low | np.uint32(third[p]) << np.uint32(16) | np.uint32(fourth[p]) << np.uint32(24)
