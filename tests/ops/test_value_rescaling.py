"""The rescaling and its inverse against the printed formulas in extended precision."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repro.ops import value_rescaling

EPSILON = 1e-3
MAGNITUDES = np.concatenate([[0.0], np.logspace(-30, 8, 400)])
X = np.concatenate([-MAGNITUDES[::-1], MAGNITUDES]).astype(np.float32)


def printed(x: np.ndarray, epsilon: float) -> np.ndarray:
    """C-trace, Table 1, in 80 bits where these are to be had; |x| is computed where the root would lose it."""
    x = x.astype(np.longdouble)
    root = np.where(np.abs(x) < 1e-6, np.abs(x) / 2, np.sqrt(np.abs(x) + 1) - 1)
    return np.sign(x) * root + epsilon * x


def test_equals_the_printed_formula():
    np.testing.assert_allclose(value_rescaling.rescale(X, epsilon=EPSILON), printed(X, EPSILON), rtol=1e-6)


@pytest.mark.parametrize(("x", "h"), [(0.0, 0.0), (3.0, 1.3), (-3.0, -1.3), (99.0, 18.9), (1e6, 100999.0005)])
def test_by_hand(x, h):
    """h(3) = 2 - 1 + 3/10, h(99) = 10 - 1 + 99/10, h(1e6) = 1000.0005 - 1 + 1e5, with epsilon 1/10."""
    assert value_rescaling.rescale(x, epsilon=0.1).numpy() == pytest.approx(h, rel=1e-6)
    assert value_rescaling.inverse_rescale(h, epsilon=0.1).numpy() == pytest.approx(x, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 1e-2, 1.0])
def test_round_trips(epsilon):
    """From 1e-30 to 1e8, to a few units in the last place of float32; the printed inverse fails at both ends."""
    there = value_rescaling.rescale(X, epsilon=epsilon)
    np.testing.assert_allclose(value_rescaling.inverse_rescale(there, epsilon=epsilon), X, rtol=1e-6)
    back = value_rescaling.inverse_rescale(X[np.abs(X) < 1e4], epsilon=epsilon)
    np.testing.assert_allclose(value_rescaling.rescale(back, epsilon=epsilon), X[np.abs(X) < 1e4], rtol=1e-6)


def test_the_printed_inverse_in_single_precision_is_worse():
    y = value_rescaling.rescale(X, epsilon=EPSILON).numpy()
    e = np.float32(EPSILON)
    x = np.sign(y) * (((np.sqrt(1 + 4 * e * (np.abs(y) + 1 + e)) - 1) / (2 * e)) ** 2 - 1)
    assert np.max(np.abs(x - X)[np.abs(X) < 1e-3]) > 1e-5  # the reason for the other form


@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 1.0])
def test_numpy_agrees(epsilon):
    """To float32's last digits; of the first, near 0, to float64's."""
    y, x = X[np.abs(X) < 1e4], X.astype(np.float64)
    rescaled = value_rescaling.rescale_numpy(x, epsilon=epsilon)
    np.testing.assert_allclose(rescaled, value_rescaling.rescale(X, epsilon=epsilon), rtol=1e-6, atol=1e-15)
    inverse = value_rescaling.inverse_rescale_numpy(y.astype(np.float64), epsilon=epsilon)
    np.testing.assert_allclose(inverse, value_rescaling.inverse_rescale(y, epsilon=epsilon), rtol=1e-6)
    assert rescaled.dtype == inverse.dtype == np.float64


def test_a_wrong_epsilon_gives_a_wrong_answer():
    there = value_rescaling.rescale(X, epsilon=EPSILON)
    assert not np.allclose(there, printed(X, 2e-3), rtol=1e-4, atol=0)
    assert not np.allclose(value_rescaling.inverse_rescale(there, epsilon=0.0), X, rtol=1e-2, atol=0)


def test_gradients_are_exact():
    """h'(x) = 1 / (2 sqrt(|x| + 1)) + epsilon, and the inverse has its reciprocal; at 0 as everywhere."""
    x = tf.constant([-1e6, -50.0, -1e-6, 0.0, 1e-6, 2.0, 1e6])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = value_rescaling.rescale(x, epsilon=EPSILON)
        tape.watch(y)
        back = value_rescaling.inverse_rescale(y, epsilon=EPSILON)
    slope = 0.5 / np.sqrt(np.abs(x.numpy().astype(np.float64)) + 1) + EPSILON
    np.testing.assert_allclose(tape.gradient(y, x), slope, rtol=1e-5)
    np.testing.assert_allclose(tape.gradient(back, y), 1 / slope, rtol=1e-5)


def test_a_negative_epsilon_is_refused():
    for name in ("rescale", "inverse_rescale"):
        with pytest.raises(ValueError, match=f"^{name}: epsilon must lie in \\[0, inf\\)"):
            getattr(value_rescaling, name)(1.0, epsilon=-1e-3)


def test_eager_graph_and_xla_agree():
    def both(x: tf.Tensor) -> tuple:
        y = value_rescaling.rescale(x, epsilon=EPSILON)
        return y, value_rescaling.inverse_rescale(y, epsilon=EPSILON)

    x = tf.constant(X)
    for jit_compile in (False, True):
        for actual, eager in zip(tf.function(both, jit_compile=jit_compile, autograph=False)(x), both(x)):
            np.testing.assert_allclose(actual, eager, rtol=2e-6)
