"""Memory shared by NumPy arrays and TensorFlow's tensors, and a leak of eager tensors."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import tensorflow as tf

from repro.aligned import ALIGNMENT

TP_NEW = 312
"""Offset of `tp_new` in CPython's `PyTypeObject` where pointers have 8 bytes."""


def as_tensor(value: Any) -> tf.Tensor:
    """Returns a CPU tensor that shares the memory of an array and keeps it alive; a tensor is returned unchanged.

    The array must not change as long as the tensor is used. Arrays that TensorFlow cannot share are copied: those whose
    memory is not contiguous, aligned to `ALIGNMENT` and writable, and those that are not of integers or floating-point
    numbers, such as booleans.
    """
    if isinstance(value, tf.Tensor):
        return value
    if isinstance(value, np.ndarray) and _can_share(value):
        return tf.experimental.dlpack.from_dlpack(value.__dlpack__())
    return tf.constant(value)  # takes half the time of `tf.convert_to_tensor`


def stop_tensor_leak() -> bool:
    """Makes CPython 3.11 free eager tensors completely; otherwise each one leaks up to 48 bytes.

    CPython 3.11 allocates memory for the attributes of an object in `object.__new__` and frees it in the deallocator of
    Python's classes. TensorFlow's `EagerTensor` is created by the former but has its own deallocator, which does not
    free this memory (`EagerTensor_dealloc`, pywrap_tensor.cc). Double DQN creates a hundred tensors per update and
    would leak 5 kB each time. This function sets the `tp_new` of the class to `PyType_GenericNew`, which does not
    allocate this memory, as for instances of classes derived from `int` or `tuple`. Attributes can be set on tensors as
    before; with or without this function they are never freed, since TensorFlow's deallocator ignores them.

    Returns:
        Whether tensors are freed completely; False if the class does not have the expected layout, in which case
        nothing is changed.
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
