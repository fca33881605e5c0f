"""Max pooling that is twice differentiable."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

SIZE, STRIDE = 3, 2


class MaxPool(tf.keras.layers.Layer):
    """The maximum of 3x3 windows at every second pixel, padded so that the size is halved, rounded up.

    Maps [N, H, W, C], float32 or bfloat16, to [N, ceil(H / 2), ceil(W / 2), C]. Value and gradient are bit for bit
    those of `tf.keras.layers.MaxPool2D(3, 2, "same")`: among equal pixels of a window the first, row by row, gets the
    gradient. The gradient of that gradient, which metagradients need, is exactly its transpose; TensorFlow's own is
    rounded to bfloat16 under XLA and picks a different one of equal pixels. A third derivative is not defined.
    """

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Pools x [N, H, W, C], whose H, W and C are known when the graph is traced."""
        return _max_pool(x)


@tf.custom_gradient
def _max_pool(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    y = tf.nn.max_pool2d(x, SIZE, STRIDE, "SAME")
    return y, lambda dy: _to_maxima(tf.stop_gradient(x), tf.stop_gradient(y), dy)


@tf.custom_gradient
def _to_maxima(
    x: tf.Tensor, y: tf.Tensor, dy: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[None, None, tf.Tensor]]]:
    """Adds every entry of dy at the maximum of its window: the transpose of `_at_maxima`."""
    window, strides = [1, SIZE, SIZE, 1], [1, STRIDE, STRIDE, 1]
    dx = tf.raw_ops.MaxPoolGrad(orig_input=x, orig_output=y, grad=dy, ksize=window, strides=strides, padding="SAME")
    return dx, lambda u: (None, None, _at_maxima(x, y, u))


def _at_maxima(x: tf.Tensor, y: tf.Tensor, u: tf.Tensor) -> tf.Tensor:
    """Picks u [N, H, W, C] at the maximum y of each window of x, at the first of equal ones: [N, h, w, C]."""
    paddings = [[0, 0], *(_padding(x.shape[i], y.shape[i]) for i in (1, 2)), [0, 0]]
    x = tf.pad(x, paddings, constant_values=x.dtype.min)
    u = tf.pad(u, paddings)
    rows, columns = (STRIDE * (y.shape[i] - 1) + 1 for i in (1, 2))
    found, selected = tf.zeros_like(y, tf.bool), tf.zeros_like(y)
    for i in range(SIZE):
        for j in range(SIZE):
            at = (slice(None), slice(i, i + rows, STRIDE), slice(j, j + columns, STRIDE))
            is_first = tf.logical_and(tf.equal(x[at], y), tf.logical_not(found))
            selected = tf.where(is_first, u[at], selected)
            found = tf.logical_or(found, is_first)
    return selected


def _padding(size: int, pooled_size: int) -> tuple[int, int]:
    """Returns the numbers of rows that `SAME` adds before and after."""
    total = max(STRIDE * (pooled_size - 1) + SIZE - size, 0)
    return total // 2, total - total // 2
