"""Arrays whose memory TensorFlow's tensors can share, without TensorFlow itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

ALIGNMENT = 64
"""Bytes. TensorFlow's operations may read tensors with instructions that need their memory aligned to this."""


def aligned_empty(shape: Sequence[int], dtype: np.dtype | type) -> np.ndarray:
    """`np.empty` whose first byte lies on an `ALIGNMENT` boundary, so that `memory.as_tensor` need not copy it."""
    return _aligned(np.empty, shape, np.dtype(dtype))


def aligned_zeros(shape: Sequence[int], dtype: np.dtype | type) -> np.ndarray:
    """`np.zeros` whose first byte lies on an `ALIGNMENT` boundary, so that `memory.as_tensor` need not copy it."""
    return _aligned(np.zeros, shape, np.dtype(dtype))


def concatenated(parts: Sequence[np.ndarray]) -> np.ndarray:
    """`np.concatenate` along the first dimension into aligned memory."""
    out = aligned_empty((sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype)
    return np.concatenate(parts, out=out)


def _aligned(allocate: Any, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    size = int(np.prod(shape)) * dtype.itemsize
    memory = allocate(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)
