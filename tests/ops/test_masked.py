"""Means over masks: masked entries are not read, and a mean over no entry is 0."""

import numpy as np
import pytest
import tensorflow as tf

from repro.ops.masked import masked_mean

X = np.array([[1.0, np.nan, 3.0], [np.inf, np.nan, 5.0]], np.float32)
MASK = np.array([[True, False, True], [False, False, True]])


def run(mode, *arguments):
    """Mean and gradient: all of it, and over the first dimension."""

    def both(x, mask, axis):
        with tf.GradientTape() as tape:
            tape.watch(x)
            mean = masked_mean(x, mask, axis)
        return mean, tape.gradient(mean, x)

    x, mask, axis = tf.constant(arguments[0]), tf.constant(arguments[1]), arguments[2]
    call = both if mode == "eager" else tf.function(both, jit_compile=mode == "xla", autograph=False)
    return [tensor.numpy() for tensor in call(x, mask, axis)]


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_masked_entries_are_not_read_and_get_no_gradient(mode):
    """(1 + 3 + 5) / 3; by columns 1, nothing, (3 + 5) / 2."""
    mean, gradient = run(mode, X, MASK, None)
    assert mean == 3.0
    np.testing.assert_allclose(gradient, MASK / 3)
    mean, gradient = run(mode, X, MASK, 0)
    np.testing.assert_array_equal(mean, [1.0, 0.0, 4.0])
    np.testing.assert_allclose(gradient, [[1, 0, 0.5], [0, 0, 0.5]])


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_an_empty_mask_gives_0_and_no_gradient(mode):
    mean, gradient = run(mode, X, np.zeros_like(MASK), None)
    assert mean == 0.0
    np.testing.assert_array_equal(gradient, np.zeros_like(X))


def test_a_full_mask_is_the_mean():
    x = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    full = np.ones(x.shape, bool)
    for axis in (None, 0, 1):
        np.testing.assert_allclose(masked_mean(x, full, axis), x.mean(axis), rtol=1e-6)


def test_a_loop_over_columns():
    rng = np.random.default_rng(1)
    x, mask = rng.normal(size=(6, 7)).astype(np.float32), rng.random((6, 7)) < 0.5
    expected = [sum(x[t, b] for t in range(6) if mask[t, b]) / mask[:, b].sum() for b in range(7)]
    np.testing.assert_allclose(masked_mean(x, mask, 0), expected, rtol=1e-5)


def test_a_mask_of_another_shape_is_refused():
    for mask in (MASK[0], MASK[..., np.newaxis]):
        with pytest.raises(ValueError, match="^masked_mean: mask must have the shape of x"):
            masked_mean(X, mask)
