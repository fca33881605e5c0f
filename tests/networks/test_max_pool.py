"""Pooling against Keras's, bit for bit, and its second derivative against the transpose of its first."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repro.networks.max_pool import MaxPool

MODES = {
    "eager": lambda function: function,
    "graph": lambda function: tf.function(function, autograph=False),
    "xla": lambda function: tf.function(function, jit_compile=True, autograph=False),
}


def frames(height, width, seed=0):
    """Pixels of few values, so that most windows have equal maxima; one frame is constant."""
    x = np.random.default_rng(seed).integers(-1, 2, size=(3, height, width, 2)).astype(np.float32)
    x[1] = -0.7
    return tf.constant(x)


def normal(shape, seed):
    """Numbers that bfloat16 does not have."""
    return tf.constant(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [(6, 5), (7, 8), (1, 2)])
def test_value_and_gradient_are_those_of_keras_to_the_bit(size, mode):
    x = frames(*size)
    found = []
    for layer in (MaxPool(), tf.keras.layers.MaxPool2D(3, 2, padding="same")):

        def value_and_gradient(x, layer=layer):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = layer(x)
                loss = tf.reduce_sum(normal(y.shape, 1) * y)
            return y, tape.gradient(loss, x)

        found.append(MODES[mode](value_and_gradient)(x))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [(6, 5), (7, 8), (1, 2)])
def test_the_second_derivative_is_the_transpose_of_the_first(size, mode):
    """<u, J^T v> has the derivative J u with respect to v; row k of J is the gradient of output k."""
    x, layer = frames(*size), MaxPool()
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tf.reshape(layer(x), [-1])
    jacobian = tape.jacobian(y, x, experimental_use_pfor=False)  # [outputs, N, H, W, C]
    u, v = normal(x.shape, 1), normal(y.shape, 2)

    def second(x, u, v):
        with tf.GradientTape() as outer:
            outer.watch(v)
            with tf.GradientTape() as inner:
                inner.watch(x)
                loss = tf.reduce_sum(v * tf.reshape(layer(x), [-1]))
            product = tf.reduce_sum(u * inner.gradient(loss, x))
        return outer.gradient(product, v)

    found = MODES[mode](second)(x, u, v)
    np.testing.assert_array_equal(found, tf.einsum("knhwc,nhwc->k", jacobian, u))
    assert np.abs(found).min() > 0


@pytest.mark.parametrize("mode", MODES)
def test_a_metagradient_through_convolution_and_pooling(mode):
    """Of weights s of the terms of a loss: its gradient g is linear in s, so that d <g, a> / d s_c is <g(e_c), a>."""
    x = frames(7, 8)
    kernel, direction = normal((3, 3, 2, 4), 1), normal((3, 3, 2, 4), 2)
    layer = MaxPool()

    def gradient(kernel, s):
        with tf.GradientTape() as tape:
            tape.watch(kernel)
            pooled = layer(tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME")))
            loss = tf.reduce_sum(s * tf.square(pooled))
        return tape.gradient(loss, kernel)

    def metagradient(kernel, s):
        with tf.GradientTape() as tape:
            tape.watch(s)
            product = tf.reduce_sum(direction * gradient(kernel, s))
        return tape.gradient(product, s)

    found = MODES[mode](metagradient)(kernel, tf.constant([0.3, 0.6, 0.9, 1.2]))
    expected = [tf.reduce_sum(direction * gradient(kernel, tf.one_hot(c, 4))) for c in range(4)]
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert np.abs(found).min() > 0.1
