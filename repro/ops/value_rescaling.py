"""The invertible rescaling of action values of R2D2 (Kapturowski et al., 2019; C-trace, Table 1).

The target of a rescaled value is rescale(G), where G is computed from inverse_rescale(Q): the inverse is applied to
every action value before any expectation, the rescaling once, to the finished target.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from repro.ops import ranges


def rescale(x: tf.Tensor, *, epsilon: float) -> tf.Tensor:
    """h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x.

    Computed as x (1 / (sqrt(|x| + 1) + 1) + epsilon), which loses no digits near 0.

    Args:
        x: float32 of any shape.
        epsilon: at least 0; 1e-3 in C-trace's Table 1.

    Returns:
        h(x), float32 in the shape of `x`. Gradients: exact, also at 0, where h' is 1/2 + epsilon.

    Raises:
        ValueError: `epsilon` is outside [0, inf).
    """
    ranges.assert_in("rescale", "[0, inf)", epsilon=epsilon)
    x = tf.convert_to_tensor(x, tf.float32)
    return x * (1.0 / (tf.sqrt(tf.abs(x) + 1.0) + 1.0) + epsilon)


def inverse_rescale(y: tf.Tensor, *, epsilon: float) -> tf.Tensor:
    """Returns the x for which `rescale(x)` is y.

        h^-1(y) = sign(y) (((sqrt(1 + 4 epsilon (|y| + 1 + epsilon)) - 1) / (2 epsilon))^2 - 1)

    This form subtracts nearly equal numbers twice and divides by epsilon. Instead s = sqrt(|x| + 1) - 1, the positive
    root of epsilon s^2 + (1 + 2 epsilon) s = |y|, is computed without subtraction, and |x| = s (s + 2).

    Args:
        y: float32 of any shape.
        epsilon: as given to `rescale`; 0 is allowed.

    Returns:
        x, float32 in the shape of `y`. Gradients: exact, also at 0.

    Raises:
        ValueError: as for `rescale`.
    """
    ranges.assert_in("inverse_rescale", "[0, inf)", epsilon=epsilon)
    y = tf.convert_to_tensor(y, tf.float32)
    b = 1.0 + 2.0 * epsilon
    ratio = 2.0 / (b + tf.sqrt(b**2 + 4.0 * epsilon * tf.abs(y)))  # s / |y|
    return y * ratio * (tf.abs(y) * ratio + 2.0)


def rescale_numpy(x: np.ndarray, *, epsilon: float) -> np.ndarray:
    """`rescale` in NumPy and float64, for acting; the printed formula, whose rounding of 1e-16 near 0 is harmless."""
    return np.sign(x) * (np.sqrt(np.abs(x) + 1.0) - 1.0) + epsilon * x


def inverse_rescale_numpy(y: np.ndarray, *, epsilon: float) -> np.ndarray:
    """`inverse_rescale` in NumPy and float64, for acting."""
    size, b = np.abs(y), 1.0 + 2.0 * epsilon
    s = 2.0 * size / (b + np.sqrt(b**2 + 4.0 * epsilon * size))
    return np.sign(y) * (s * (s + 2.0))
