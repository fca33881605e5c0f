"""Numbers that may be tensors, and conversion of inputs that receive no gradient."""

from __future__ import annotations

from typing import TypeAlias

import tensorflow as tf

Scalar: TypeAlias = float | tf.Tensor
"""A setting that may be a tensor, such as one that a metagradient tunes."""


def constant(x: tf.Tensor) -> tf.Tensor:
    """Returns x as float32, in the same shape, without gradient."""
    return tf.stop_gradient(tf.convert_to_tensor(x, tf.float32))
