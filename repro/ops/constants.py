"""Conversion of inputs that receive no gradient."""

from __future__ import annotations

import tensorflow as tf


def constant(x: tf.Tensor) -> tf.Tensor:
    """Returns x as float32, in the same shape, without gradient."""
    return tf.stop_gradient(tf.convert_to_tensor(x, tf.float32))
