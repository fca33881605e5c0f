"""Multi-layer perceptrons: initial weights, and equal numbers in learning and acting."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repro.networks import mlp

GLOROT = 6**0.5


def weights(sizes=(17, 128, 128), outputs=13, hidden_scale=GLOROT, output_scale=0.1, seed=0):
    return mlp.init_mlp(np.random.default_rng(seed), sizes, outputs, hidden_scale, output_scale)


def random_weights():
    """With biases that are not 0 and outputs that are not small."""
    rng = np.random.default_rng(1)
    return [rng.normal(size=x.shape).astype(np.float32) for x in weights()]


def test_shapes_and_types():
    found = weights()
    assert [x.shape for x in found] == [(17, 128), (128,), (128, 128), (128,), (128, 13), (13,)]
    assert {x.dtype for x in found} == {np.dtype(np.float32)}
    assert all((bias == 0).all() for bias in found[1::2])
    assert [x.shape for x in weights(sizes=(3,), outputs=2)] == [(3, 2), (2,)]


@pytest.mark.parametrize("hidden_scale", [GLOROT, 6.0])
def test_weights_are_uniform_within_their_bounds(hidden_scale):
    """Bounds of Appendix A; a uniform variable's std is its bound / sqrt(3), here within 4 standard errors."""
    bounds = [hidden_scale / (17 + 128) ** 0.5, hidden_scale / 256**0.5, 0.1 / 128**0.5]
    for layer, bound in zip(weights(hidden_scale=hidden_scale)[::2], bounds):
        assert 0.99 * bound < np.abs(layer).max() <= bound * (1 + 1e-6)
        assert layer.std() == pytest.approx(bound / 3**0.5, rel=4 * 0.45 / layer.size**0.5)
        assert abs(layer.mean()) < 4 * bound / 3**0.5 / layer.size**0.5


def test_weights_depend_on_the_generator():
    np.testing.assert_array_equal(weights()[2], weights()[2])
    assert (weights()[2] != weights(seed=1)[2]).any()


def test_outputs_by_hand():
    """One input, two Softsign units, one output: softsign(2 + 1) = 3/4, softsign(-2 + 1) = -1/2."""
    layers = [np.array([[2.0, -2.0]]), np.array([1.0, 1.0]), np.array([[4.0], [2.0]]), np.array([0.5])]
    layers = [x.astype(np.float32) for x in layers]
    expected = 4 * 0.75 + 2 * -0.5 + 0.5
    np.testing.assert_allclose(mlp.apply_mlp(layers, tf.ones([1, 1])), [[expected]], rtol=1e-6)
    np.testing.assert_allclose(mlp.apply_numpy(layers, np.ones(1, np.float32)), [expected], rtol=1e-6)


def test_acting_and_learning_agree():
    layers, x = random_weights(), np.random.default_rng(2).normal(size=(256, 17)).astype(np.float32)
    before = x.copy()
    learnt = mlp.apply_mlp(layers, x).numpy()
    assert learnt.shape == (256, 13)
    acted = np.stack([mlp.apply_numpy(layers, row) for row in x])
    assert acted.dtype == np.float32
    np.testing.assert_allclose(acted, learnt, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(mlp.apply_numpy(layers, x), learnt, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(x, before)
    for jit_compile in (False, True):
        compiled = tf.function(mlp.apply_mlp, jit_compile=jit_compile, autograph=False)
        np.testing.assert_allclose(compiled(layers, x), learnt, rtol=1e-4, atol=1e-4)


def test_every_weight_receives_a_gradient():
    variables = [tf.Variable(x) for x in random_weights()]
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(tf.square(mlp.apply_mlp(variables, tf.ones([2, 17]))))
    gradients = tape.gradient(total, variables)
    assert all(np.isfinite(gradient).all() and np.any(gradient) for gradient in gradients)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_gradient_of_a_bias_is_the_sum_over_the_batch(jit_compile):
    rng = np.random.default_rng(3)
    x, bias, upstream = (tf.constant(rng.normal(size=shape), tf.float32) for shape in ((256, 7), (7,), (256, 7)))

    @tf.function(jit_compile=jit_compile, autograph=False)
    def gradients():
        with tf.GradientTape() as tape:
            tape.watch([x, bias])
            total = tf.reduce_sum(upstream * mlp.add_bias(x, bias))
        return tape.gradient(total, [x, bias])

    of_x, of_bias = gradients()
    np.testing.assert_array_equal(of_x, upstream)
    np.testing.assert_allclose(of_bias, upstream.numpy().sum(axis=0), rtol=1e-5, atol=1e-5)


def test_second_derivatives_pass_through_a_bias():
    bias = tf.Variable([0.5, -2.0])
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            total = tf.reduce_sum(mlp.add_bias(x, bias) ** 3)
        first = inner.gradient(total, bias)
        summed = tf.reduce_sum(first)
    np.testing.assert_allclose(first, 3 * np.square(x + bias).sum(axis=0))
    np.testing.assert_allclose(outer.gradient(summed, bias), 6 * (x + bias).numpy().sum(axis=0))
