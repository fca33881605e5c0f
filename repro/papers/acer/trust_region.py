"""ACER's trust region (Section 3.3): the projection of a gradient with respect to a distribution's statistics.

The region bounds, step by step, how fast the current policy may move away from the average policy. It acts on the
gradient with respect to phi, the network's statistics of the distribution f(.|phi), before that gradient is
back-propagated: `project` is Eq. 12, `surrogate` the loss whose back-propagation starts from the projected gradient.
"""

from __future__ import annotations

import tensorflow as tf

from repro.ops import ranges, shapes


def project(g: tf.Tensor, k: tf.Tensor, delta: float) -> tf.Tensor:
    """The gradient nearest to g that keeps the linearised divergence within delta (Eqs. 11 and 12).

        z* = argmin_z 1/2 |g - z|^2  subject to  k.z <= delta
           = g - max(0, (k.g - delta) / |k|^2) k

    Args:
        g: gradient of the objective, to be ascended, with respect to phi, float32 [..., N].
        k: gradient of KL(f(.|phi_avg) || f(.|phi)) with respect to phi, float32 [..., N].
        delta: bound on k.z, at least 0, in nats: the divergence gained to first order by the step phi + z.

    Returns:
        z*, float32 [..., N]; g itself where k.g <= delta.

    Gradients: none to any argument; z* is a constant.

    Boundary: where k is 0 the constraint holds for every z, and z* = g. k is first scaled so that its largest absolute
        entry is 1: neither |k|^2 nor delta / |k| overflows for any finite k.

    Raises:
        ValueError: wrong types, different shapes, no dimension of statistics, or a negative delta, for which the
            constraint cannot be met where k is 0.
    """
    g, k = (tf.stop_gradient(x) for x in shapes.convert("project", g=g, k=k).values())
    shapes.assert_rank_at_least("project", 1, g=g, k=k)
    shapes.assert_same_shape("project", g=g, k=k)
    ranges.assert_in("project", "[0, inf]", delta=delta)
    largest = tf.reduce_max(tf.abs(k), axis=-1, keepdims=True)  # [..., 1]
    direction = tf.math.divide_no_nan(k, largest)  # [..., N], in [-1, 1]
    excess = tf.reduce_sum(direction * g, axis=-1, keepdims=True) - tf.math.divide_no_nan(delta, largest)
    step = tf.math.divide_no_nan(excess, tf.reduce_sum(tf.square(direction), axis=-1, keepdims=True))
    return g - tf.maximum(0.0, step) * direction


def surrogate(z: tf.Tensor, phi: tf.Tensor) -> tf.Tensor:
    """A loss whose descent moves phi along z: -sum_n z_n phi_n (Section 3.3, second stage).

        d/d theta surrogate = -(d phi / d theta)^T z

    Args:
        z: gradient of the objective with respect to phi, float32 [..., N]; no gradient.
        phi: the network's statistics, float32 [..., N]; receive the gradient -z.

    Returns:
        float32 [...]. Only the gradient is meaningful, not the value.

    Raises:
        ValueError: wrong types, different shapes, or no dimension of statistics.
    """
    z, phi = shapes.convert("surrogate", z=z, phi=phi).values()
    shapes.assert_rank_at_least("surrogate", 1, z=z, phi=phi)
    shapes.assert_same_shape("surrogate", z=z, phi=phi)
    return -tf.reduce_sum(tf.stop_gradient(z) * phi, axis=-1)
