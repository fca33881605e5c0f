"""Checks of shapes, made before any arithmetic so that nothing broadcasts by accident."""

from __future__ import annotations

import tensorflow as tf


def assert_rank_at_least(operator: str, rank: int, **tensors: tf.Tensor) -> None:
    """Asserts that every tensor has `rank` dimensions or more.

    Args:
        operator: name of the caller, the first word of the message.
        rank: the least rank allowed.
        **tensors: tensors by the name of the caller's argument.

    Raises:
        ValueError: naming the operator, the argument and its shape; also where the rank is unknown.
    """
    for name, tensor in tensors.items():
        if tensor.shape.rank is None or tensor.shape.rank < rank:
            raise ValueError(f"{operator}: {name} must have rank {rank} or more, got shape {tensor.shape}")


def assert_scalar(operator: str, *, or_shape: tf.TensorShape | None = None, **tensors: tf.Tensor) -> None:
    """Asserts that every tensor has rank 0, or the shape `or_shape`. Other arguments and errors as above."""
    for name, tensor in tensors.items():
        if tensor.shape.rank != 0 and (or_shape is None or tensor.shape.as_list() != or_shape.as_list()):
            other = f" or have shape {or_shape}" if or_shape else ""
            raise ValueError(f"{operator}: {name} must be a scalar{other}, got shape {tensor.shape}")


def assert_same_shape(operator: str, **tensors: tf.Tensor) -> None:
    """Asserts that all tensors have the shape of the first: exactly, not up to broadcasting.

    Dimensions unknown when a graph is traced are compared when it runs (XLA knows them all at compilation).

    Args:
        operator: name of the caller, the first word of the message.
        **tensors: two or more tensors by the name of the caller's argument.

    Raises:
        ValueError: naming the operator, both arguments and both shapes, where the shapes are known.
        tf.errors.InvalidArgumentError: the same, for dimensions that are known only when the graph runs.
    """
    (first_name, first), *others = tensors.items()
    for name, tensor in others:
        message = f"{operator}: {name} must have the shape of {first_name}"
        if not tensor.shape.is_compatible_with(first.shape):
            raise ValueError(f"{message}, got {tensor.shape} and {first.shape}")
        if not (tensor.shape.is_fully_defined() and first.shape.is_fully_defined()):
            tf.debugging.assert_equal(tf.shape(tensor), tf.shape(first), message)


def assert_steps(operator: str, **tensors: tf.Tensor) -> None:
    """Asserts that time, every tensor's first dimension, is known when a graph is traced, and at least 1.

    Args:
        operator: name of the caller, the first word of the message.
        **tensors: tensors of rank 1 or more by the name of the caller's argument.

    Raises:
        ValueError: naming the operator, the argument and its shape.
    """
    for name, tensor in tensors.items():
        if not tensor.shape[0]:
            raise ValueError(f"{operator}: {name} must have a known number of steps, 1 or more, got {tensor.shape}")
