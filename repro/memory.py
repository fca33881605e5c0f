"""Memory that NumPy arrays and TensorFlow's tensors share, and what eager tensors leave behind."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import tensorflow as tf

from repro.aligned import ALIGNMENT

TP_NEW = 312
"""Offset of `tp_new` in CPython's `PyTypeObject` where pointers have 8 bytes."""


def as_tensor(value: Any) -> tf.Tensor:
    """A tensor on the CPU over the memory of an array, which it keeps alive; a tensor is returned as it is.

    Until nothing reads the tensor any more, the array must not change. What TensorFlow cannot use where it lies is
    copied: an array whose memory is not contiguous, aligned to `ALIGNMENT` and writable, and one of booleans.
    """
    if isinstance(value, tf.Tensor):
        return value
    if isinstance(value, np.ndarray) and _can_share(value):
        return tf.experimental.dlpack.from_dlpack(value.__dlpack__())
    return tf.constant(value)  # in half of the time of `tf.convert_to_tensor`


def stop_tensor_leak() -> bool:
    """Lets CPython 3.11 free the whole of an eager tensor; otherwise each leaves up to 48 bytes for ever.

    CPython 3.11 allocates room for the attributes of an object in `object.__new__` and frees it in the deallocator of
    Python's classes. TensorFlow's `EagerTensor` is created by the first and has a deallocator of its own, which knows
    nothing of this room (`EagerTensor_dealloc`, pywrap_tensor.cc). Double DQN makes a hundred tensors an update, and
    5 kB would be lost with each update. Here the class gets `PyType_GenericNew` for its `tp_new`, which allocates no
    such room: the state of every instance of a class derived from `int` or `tuple`. Attributes set on a tensor work as
    before; with or without this function they are never freed, since that deallocator does not know of them either.

    Returns:
        whether tensors are freed whole: False where the layout of the class is not the expected one; nothing is
        changed then.
    """
    api, tensor_class = ctypes.pythonapi, tf.__internal__.EagerTensor

    def slot(owner: type, offset: int) -> ctypes.c_void_p:
        return ctypes.c_void_p.from_address(id(owner) + offset)

    def address(function: str) -> int | None:
        return ctypes.cast(getattr(api, function), ctypes.c_void_p).value

    if slot(tensor_class, TP_NEW).value == address("PyType_GenericNew"):
        return True
    neighbours = slot(object, TP_NEW - 8).value, slot(object, TP_NEW + 8).value
    expected = neighbours == (address("PyType_GenericAlloc"), address("PyObject_Free"))
    if not expected or slot(tensor_class, TP_NEW).value != slot(object, TP_NEW).value:
        return False
    slot(tensor_class, TP_NEW).value = address("PyType_GenericNew")
    return True


def _can_share(array: np.ndarray) -> bool:
    flags = array.flags
    return flags.c_contiguous and flags.writeable and array.ctypes.data % ALIGNMENT == 0 and array.dtype.kind in "iuf"
