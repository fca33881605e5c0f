"""Torsos that compute in bfloat16 against the same weights in float32, and what stays float32."""

from __future__ import annotations

import ml_collections
import numpy as np
import pytest
import tensorflow as tf

from repro.networks.atari import Conv2D, Dense, FrameConv2D, ResidualBlock, deep_torso
from repro.networks.torsos import TORSOS, make_torso
from repro.training import devices

pytestmark = pytest.mark.skipif(
    not devices.is_fast_in_bfloat16(), reason="neither a GPU from Ampere on nor a processor with AVX512-BF16 or AMX"
)
ROUNDING = 2.0**-8
"""Largest relative error of a number that is rounded to bfloat16."""
FRAME = tf.TensorSpec([44, 44, 4], tf.uint8)


def frames(count=32):
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, size=(count, *FRAME.shape), dtype=np.uint8)


def distance(found, expected):
    """Norm of the difference, relative to that of what is expected."""
    found, expected = (np.asarray(x, np.float64) for x in (found, expected))
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def value_and_gradients(layer, x, weight=1.0):
    """Output, and gradients of its weighted sum, as a graph computes them."""
    layer(x)

    @tf.function(autograph=False)
    def compute():
        with tf.GradientTape() as tape:
            y = layer(x)
            total = tf.reduce_sum(weight * tf.cast(y, tf.float32))
        return y, tape.gradient(total, layer.trainable_variables)

    return compute()


@pytest.mark.parametrize("name", TORSOS)
def test_features_and_gradients_are_those_of_float32_but_for_rounding(name):
    """A ReLU or a maximum that rounding moves to the other side lets another part of a gradient through."""
    found, expected = (value_and_gradients(TORSOS[name](1, dtype), frames()) for dtype in (tf.bfloat16, tf.float32))
    assert ROUNDING / 8 < distance(found[0], expected[0]) < 3 * ROUNDING
    for gradient, exact in zip(found[1], expected[1], strict=True):
        assert 0 < distance(gradient, exact) < 0.15


@pytest.mark.parametrize("name", TORSOS)
def test_weights_gradients_and_features_are_float32_and_all_between_is_not(name):
    torso = TORSOS[name](1, tf.bfloat16)
    features, gradients = value_and_gradients(torso, frames())
    assert {x.dtype for x in (features, *gradients, *torso.variables)} == {tf.float32}
    x = frames()
    for layer in torso._layers:
        x = layer(x)
        assert x.dtype == tf.bfloat16, layer.name
    for ours, other in zip(torso.variables, TORSOS[name](1).variables):
        np.testing.assert_array_equal(ours, other)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda dtype: Conv2D(3, 3, dtype), (4, 40, 40, 2)),
        (lambda dtype: FrameConv2D(3, 3, dtype), (4, 40, 40, 2)),
        (lambda dtype: Dense(3, dtype), (6_000, 2)),
    ],
)
def test_sums_of_thousands_of_terms_are_exact(make, shape):
    """A sum in bfloat16 stops growing at 256 times its terms."""
    x = tf.constant(np.random.default_rng(0).integers(0, 4, size=shape).astype(np.uint8))
    results = []
    for dtype in (tf.bfloat16, tf.float32):
        layer = make(dtype)
        results.append(value_and_gradients(layer, x if isinstance(layer, FrameConv2D) else tf.cast(x, dtype)))
    for gradient, exact in zip(results[0][1], results[1][1], strict=True):
        np.testing.assert_allclose(gradient, exact, rtol=2 * ROUNDING)
    assert results[1][1][1].numpy().min() > 5_000  # terms of the bias's gradient


def test_a_residual_block_adds_what_it_computes():
    x = tf.random.stateless_normal([8, 9, 9, 4], [1, 2])
    blocks = [ResidualBlock(4, iter([1, 2]), dtype) for dtype in (tf.bfloat16, tf.float32)]
    found, expected = (block(tf.cast(x, dtype)) for block, dtype in zip(blocks, (tf.bfloat16, tf.float32)))
    assert found.dtype == tf.bfloat16
    assert distance(tf.cast(found, tf.float32), expected) < 2 * ROUNDING


def test_a_metagradient_passes_through_gradients_in_bfloat16():
    """z = |grad (s sum y^2)|^2 is a square of s: dz/ds = 2 z at s = 1, and z is that of float32 but for rounding."""
    squares = []
    for dtype in (tf.bfloat16, tf.float32):
        torso, x = deep_torso(1, dtype), frames(8)
        torso(x)

        @tf.function(autograph=False)
        def square_and_slope(scale, torso=torso, x=x):
            with tf.GradientTape() as outer:
                outer.watch(scale)
                with tf.GradientTape() as inner:
                    total = scale * tf.reduce_sum(tf.square(torso(x)))
                gradients = inner.gradient(total, torso.trainable_variables)
                square = tf.add_n([tf.reduce_sum(tf.square(gradient)) for gradient in gradients])
            return square, outer.gradient(square, scale)

        square, slope = square_and_slope(tf.constant(1.0))
        np.testing.assert_allclose(slope, 2 * square, rtol=0.02)
        squares.append(square)
    np.testing.assert_allclose(*squares, rtol=0.05)


def network(**fields):
    return ml_collections.ConfigDict({"torso": "shallow", "units": (8,)} | fields)


def test_a_torso_computes_in_float32_where_a_run_of_before_does_not_say():
    for fields in ({}, {"compute_dtype": "float32"}):
        assert make_torso(network(**fields), 0, ("shallow",), FRAME)._layers[0](frames()).dtype == tf.float32
    other = make_torso(network(compute_dtype="bfloat16"), 0, ("shallow",), FRAME)
    assert other._layers[0](frames()).dtype == tf.bfloat16


def test_another_type_and_a_dense_torso_are_refused():
    with pytest.raises(ValueError, match=r"network.compute_dtype='float16': choose float32 or bfloat16 with"):
        make_torso(network(compute_dtype="float16"), 0, ("shallow",), FRAME)
    dense = network(torso="dense", compute_dtype="bfloat16")
    with pytest.raises(ValueError, match=r"network.compute_dtype='bfloat16': choose float32 with network.torso=dense"):
        make_torso(dense, 0, ("shallow",), tf.TensorSpec([3], tf.float32))
