"""Arrays whose memory TensorFlow's tensors can share; importing this module does not load TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

ALIGNMENT = 64
"""Alignment in bytes; TensorFlow's operations may use instructions that need tensors aligned to it."""


def aligned_empty(shape: Sequence[int], dtype: np.dtype | type) -> np.ndarray:
    """Returns `np.empty(shape, dtype)` aligned to `ALIGNMENT`, so that `memory.as_tensor` need not copy it."""
    return _aligned(np.empty, shape, np.dtype(dtype))


def aligned_zeros(shape: Sequence[int], dtype: np.dtype | type) -> np.ndarray:
    """Returns `np.zeros(shape, dtype)` aligned to `ALIGNMENT`, so that `memory.as_tensor` need not copy it."""
    return _aligned(np.zeros, shape, np.dtype(dtype))


def concatenated(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Returns arrays concatenated along the first dimension in aligned memory."""
    out = aligned_empty((sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype)
    return np.concatenate(parts, out=out)


def _aligned(allocate: Any, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    size = int(np.prod(shape)) * dtype.itemsize
    memory = allocate(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)
