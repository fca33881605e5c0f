"""The order of a batch's first two dimensions: actors and networks have [B, T, ...], operators [T, B, ...]."""

from __future__ import annotations

import tensorflow as tf


def time_major(x: tf.Tensor) -> tf.Tensor:
    """Transposes [B, T, ...] to [T, B, ...]."""
    return tf.transpose(x, [1, 0, *range(2, x.shape.rank)])
