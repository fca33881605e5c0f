"""Memory that NumPy arrays and TensorFlow's tensors share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

ALIGNMENT = 64
"""Bytes. TensorFlow's operations may read tensors with instructions that need their memory aligned to this."""


def aligned_empty(shape: Sequence[int], dtype: np.dtype | type) -> np.ndarray:
    """`np.empty` whose first byte lies on an `ALIGNMENT` boundary, so that `as_tensor` need not copy it."""
    return _aligned(np.empty, shape, np.dtype(dtype))


def aligned_zeros(shape: Sequence[int], dtype: np.dtype | type) -> np.ndarray:
    """`np.zeros` whose first byte lies on an `ALIGNMENT` boundary, so that `as_tensor` need not copy it."""
    return _aligned(np.zeros, shape, np.dtype(dtype))


def concatenated(parts: Sequence[np.ndarray]) -> np.ndarray:
    """`np.concatenate` along the first dimension into aligned memory."""
    out = aligned_empty((sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype)
    return np.concatenate(parts, out=out)


def as_tensor(value: Any) -> tf.Tensor:
    """A tensor on the CPU over the memory of an array, which it keeps alive; a tensor is returned as it is.

    Until nothing reads the tensor any more, the array must not change. What TensorFlow cannot use where it lies is
    copied: an array whose memory is not contiguous, aligned to `ALIGNMENT` and writable, and one of booleans.
    """
    if isinstance(value, np.ndarray) and _can_share(value):
        return tf.experimental.dlpack.from_dlpack(value.__dlpack__())
    return tf.convert_to_tensor(value)


def _aligned(allocate: Any, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    size = int(np.prod(shape)) * dtype.itemsize
    memory = allocate(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def _can_share(array: np.ndarray) -> bool:
    flags = array.flags
    return flags.c_contiguous and flags.writeable and array.ctypes.data % ALIGNMENT == 0 and array.dtype.kind in "iuf"
