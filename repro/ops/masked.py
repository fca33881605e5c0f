"""Means over the unmasked entries of a tensor."""

from __future__ import annotations

import tensorflow as tf

from repro.ops import shapes


def masked_mean(x: tf.Tensor, mask: tf.Tensor, axis: int | None = None) -> tf.Tensor:
    """Returns the mean of the entries where the mask is true.

        sum_i mask_i x_i / sum_i mask_i,    0 where no mask_i is true

    Args:
        x: float32 of any shape. Entries where the mask is false are not read and may be NaN or infinite.
        mask: bool, in the shape of x.
        axis: the dimension to average over; None for all.

    Returns:
        float32, a scalar, or in the shape of x without `axis`. Gradients reach the entries where the mask is true; all
        others get 0.

    Raises:
        ValueError: the shapes differ.
    """
    x, mask = tf.convert_to_tensor(x), tf.convert_to_tensor(mask)
    shapes.assert_same_shape("masked_mean", x=x, mask=mask)
    count = tf.reduce_sum(tf.cast(mask, tf.float32), axis=axis)
    return tf.math.divide_no_nan(tf.reduce_sum(tf.where(mask, x, 0.0), axis=axis), count)
