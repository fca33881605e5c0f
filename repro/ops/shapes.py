"""Checks of types and shapes, made before any arithmetic so that nothing broadcasts by accident."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import tensorflow as tf


def convert(operator: str, dtype: tf.DType = tf.float32, **arrays: Any) -> dict[str, tf.Tensor]:
    """Returns all arrays as tensors of one type, by name.

    Args:
        operator: name of the caller, the first word of the message.
        dtype: type of the results. Numbers, lists and NumPy arrays are converted to it; tensors must already have it.
        **arrays: numbers, lists, arrays or tensors by the name of the caller's argument.

    Raises:
        ValueError: an argument cannot be converted; names the operator, the argument and its type.
    """
    tensors = {}
    for name, x in arrays.items():
        if tf.is_tensor(x) and x.dtype != dtype:
            cast = f"convert it by tf.cast({name}, tf.{dtype.name})"
            raise ValueError(f"{operator}: {name} must be {dtype.name}, got {x.dtype.name}; {cast}")
        if isinstance(x, np.ndarray) and x.dtype == object:  # TensorFlow would make NaN of None
            raise ValueError(f"{operator}: {name} must be {dtype.name}, got an array of Python objects")
        try:
            tensors[name] = tf.convert_to_tensor(x, dtype)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{operator}: {name} must be {dtype.name}, got {type(x).__name__}: {error}") from None
    return tensors


def convert_boundary(operator: str, is_boundary: Any, like: tf.Tensor) -> tf.Tensor:
    """Returns `is_boundary` as a bool tensor; for None all false, in the shape of `like`.

    Raises:
        ValueError: as for `convert`.
    """
    if is_boundary is None:
        return tf.zeros_like(like, tf.bool)
    return convert(operator, tf.bool, is_boundary=is_boundary)["is_boundary"]


def assert_rank_at_least(operator: str, rank: int, **tensors: tf.Tensor) -> None:
    """Asserts that every tensor has `rank` dimensions or more.

    Args:
        operator: name of the caller, the first word of the message.
        rank: the smallest rank allowed.
        **tensors: tensors by the name of the caller's argument.

    Raises:
        ValueError: a rank is smaller or unknown; names the operator, the argument and its shape.
    """
    for name, tensor in tensors.items():
        if tensor.shape.rank is None or tensor.shape.rank < rank:
            raise ValueError(f"{operator}: {name} must have rank {rank} or more, got shape {tensor.shape}")


def assert_scalar(operator: str, *, or_shape: tf.TensorShape | None = None, **tensors: tf.Tensor) -> None:
    """Asserts that every tensor has rank 0 or the shape `or_shape`. The rest is as for `assert_rank_at_least`."""
    for name, tensor in tensors.items():
        if tensor.shape.rank != 0 and (or_shape is None or tensor.shape.as_list() != or_shape.as_list()):
            other = f" or have shape {or_shape}" if or_shape else ""
            raise ValueError(f"{operator}: {name} must be a scalar{other}, got shape {tensor.shape}")


def assert_same_shape(operator: str, **tensors: tf.Tensor) -> None:
    """Asserts that all tensors have the shape of the first: exactly, not up to broadcasting.

    Dimensions unknown when a graph is traced are compared when it runs, or by XLA when it compiles.

    Args:
        operator: name of the caller, the first word of the message.
        **tensors: two or more tensors by the name of the caller's argument.

    Raises:
        ValueError: known shapes differ; names the operator, both arguments and both shapes.
        tf.errors.InvalidArgumentError: dimensions known only when the graph runs differ; with the same message, or that
            of another operation that fails on them first.
    """
    (first_name, first), *others = tensors.items()
    for name, tensor in others:
        message = f"{operator}: {name} must have the shape of {first_name}"
        if not tensor.shape.is_compatible_with(first.shape):
            raise ValueError(f"{message}, got {tensor.shape} and {first.shape}")
        if not (tensor.shape.is_fully_defined() and first.shape.is_fully_defined()):
            assertion = tf.debugging.assert_equal(tf.shape(tensor), tf.shape(first), message)
            with tf.control_dependencies([assertion]):
                _compare_in_xla(tensor, first, re.sub(r"[^\w.]+", "_", message))


def _compare_in_xla(tensor: tf.Tensor, other: tf.Tensor, node: str) -> None:
    """Adds a node that fails where shapes differ, also in XLA, which drops assertions but not what they read."""
    empty = [tf.zeros(tf.concat([[0], tf.shape(x)], axis=0)) for x in (tensor, other)]  # [0, ...] costs nothing
    tf.debugging.Assert(tf.equal(tf.size(tf.concat(empty, axis=0, name=node)), 0), ["shapes differ"])


def assert_steps(operator: str, **tensors: tf.Tensor) -> None:
    """Asserts that every tensor's first dimension, time, is known when a graph is traced and at least 1.

    Args:
        operator: name of the caller, the first word of the message.
        **tensors: tensors of rank 1 or more by the name of the caller's argument.

    Raises:
        ValueError: a number of steps is unknown or 0; names the operator, the argument and its shape.
    """
    for name, tensor in tensors.items():
        if not tensor.shape[0]:
            given = "" if tensor.shape[0] == 0 else f"; set it, for example with tf.ensure_shape({name}, [20, None])"
            raise ValueError(
                f"{operator}: {name} must have a known number of steps, 1 or more, got {tensor.shape}{given}"
            )
