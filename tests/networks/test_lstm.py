"""LSTM stacks against Keras's layers with the same weights: windows, and equal numbers in learning and acting."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repro.networks import lstm

INPUTS, UNITS, OUTPUTS, T = 3, (6, 5), 4, 7


def weights(inputs=INPUTS, units=UNITS, outputs=OUTPUTS, hidden_scale=6**0.5, output_scale=0.1, seed=0):
    return lstm.init_lstm(np.random.default_rng(seed), inputs, units, outputs, hidden_scale, output_scale)


def random_weights():
    """With biases of all gates and outputs that are not small."""
    rng = np.random.default_rng(1)
    return [rng.normal(size=x.shape).astype(np.float32) for x in weights()]


def random_inputs(batch=8):
    return np.random.default_rng(2).normal(size=(batch, T, INPUTS)).astype(np.float32)


def full(batch=8):
    return np.full(batch, T, np.int32)


def in_kerass_order(array):
    i, f, o, g = np.split(array, 4, axis=-1)
    return np.concatenate([i, f, g, o], axis=-1)


def keras_outputs(layers, x):
    """[B, T, outputs] of Keras's own layers on windows that fill x."""
    for n, units in enumerate(UNITS):
        w_x, bias, w_h = (in_kerass_order(array) for array in layers[3 * n : 3 * n + 3])
        layer = tf.keras.layers.LSTM(units, return_sequences=True)
        layer.build(x.shape)
        layer.set_weights([w_x, w_h, bias])
        x = layer(x).numpy()
    return x @ layers[-2] + layers[-1]


def acted(layers, x):
    """Outputs [T, outputs] of one sequence [T, inputs], one step after the other."""
    state, outputs = lstm.zero_state(layers, 1), []
    for row in x:
        lstm.advance_numpy(layers, row, state)
        outputs.append(lstm.outputs_numpy(layers, state, 0))
    return np.stack(outputs)


def test_shapes_and_types():
    found = weights()
    shapes = [(3, 24), (24,), (6, 24), (6, 20), (20,), (5, 20), (5, 4), (4,)]
    assert [x.shape for x in found] == shapes
    assert {x.dtype for x in found} == {np.dtype(np.float32)}
    for bias, units in ((found[1], 6), (found[4], 5)):
        np.testing.assert_array_equal(bias, np.repeat([0, 1, 0, 0], units))
    assert not found[-1].any()


def test_weights_are_uniform_within_their_bounds():
    """A uniform variable's standard deviation is its bound / sqrt(3), here within 4 standard errors."""
    w_x, _, w_h, deep_w_x, _, deep_w_h, w, _ = weights(17, (32, 24), 13)
    first, second = 6**0.5 / (17 + 32 + 32) ** 0.5, 6**0.5 / (32 + 24 + 24) ** 0.5
    for layer, bound in ((w_x, first), (w_h, first), (deep_w_x, second), (deep_w_h, second), (w, 0.1 / 24**0.5)):
        assert 0.98 * bound < np.abs(layer).max() <= bound * (1 + 1e-6)
        assert layer.std() == pytest.approx(bound / 3**0.5, rel=4 * 0.45 / layer.size**0.5)


def test_weights_depend_on_the_generator():
    np.testing.assert_array_equal(weights()[2], weights()[2])
    assert (weights()[2] != weights(seed=1)[2]).any()


def test_learning_and_acting_are_kerass_lstm():
    layers, x = random_weights(), random_inputs()
    expected = keras_outputs(layers, x)
    for t in range(T):
        learnt = lstm.apply_lstm(layers, x[:, : t + 1], full() - T + t + 1)
        np.testing.assert_allclose(learnt, expected[:, t], rtol=1e-4, atol=1e-5)
    for row, sequence in zip(expected, x):
        np.testing.assert_allclose(acted(layers, sequence), row, rtol=1e-4, atol=1e-5)
    wrong = [np.roll(array, 1, axis=-1) if n == 1 else array for n, array in enumerate(layers)]
    assert not np.allclose(lstm.apply_lstm(wrong, x, full()), expected[:, -1], atol=1e-3)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_compiled_windows_are_the_same(jit_compile):
    layers, x, length = random_weights(), random_inputs(), np.arange(8, dtype=np.int32) % T + 1
    compiled = tf.function(lstm.apply_lstm, jit_compile=jit_compile, autograph=False)
    np.testing.assert_allclose(compiled(layers, x, length), lstm.apply_lstm(layers, x, length), rtol=1e-4, atol=1e-5)


def test_what_is_before_a_window_is_not_read():
    """Nor does it spoil a gradient, though it be NaN."""
    layers, x, length = random_weights(), random_inputs(T), np.arange(1, T + 1, dtype=np.int32)
    poisoned = np.where(np.arange(T)[:, None] >= T - length[:, None, None], x, np.nan)
    variables, gradients = [tf.constant(array) for array in layers], []
    for inputs in (x, poisoned):
        with tf.GradientTape() as tape:
            tape.watch(variables)
            outputs = lstm.apply_lstm(variables, tf.constant(inputs, tf.float32), length)
            total = tf.reduce_sum(tf.square(outputs))
        for row, (sequence, steps) in enumerate(zip(x, length)):
            np.testing.assert_allclose(outputs[row], acted(layers, sequence[T - steps :])[-1], rtol=1e-4, atol=1e-5)
        gradients.append(tape.gradient(total, variables))
    for clean, spoilt in zip(*gradients):
        np.testing.assert_allclose(spoilt, clean, rtol=1e-4, atol=1e-4)
        assert np.any(clean)


def test_gradients_reach_the_first_step_of_a_window_and_no_earlier_one():
    x, length = tf.constant(random_inputs(2)), np.array([T, 3], np.int32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(lstm.apply_lstm(random_weights(), x, length))
    reached = tf.reduce_any(tape.gradient(total, x) != 0, axis=-1).numpy()
    np.testing.assert_array_equal(reached, [[True] * T, [False] * (T - 3) + [True] * 3])


def test_windows_side_by_side_are_windows_alone():
    layers, x = random_weights(), random_inputs(1)[0]
    state = lstm.zero_state(layers, 2)
    for t, row in enumerate(x):
        if t == 4:
            for hc in state:
                hc[:, 1] = 0.0  # the second window begins here
        lstm.advance_numpy(layers, row, state)
    for place, begin in ((0, 0), (1, 4)):
        outputs = lstm.outputs_numpy(layers, state, place)
        assert outputs.dtype == np.float32
        np.testing.assert_allclose(outputs, acted(layers, x[begin:])[-1], rtol=1e-5, atol=1e-6)


def test_a_window_of_unknown_length_is_refused():
    signature = [tf.TensorSpec([2, None, INPUTS]), tf.TensorSpec([2], tf.int32)]
    with pytest.raises(ValueError, match=r"apply_lstm: the time dimension of x \[B, T, inputs\] must be static"):
        tf.function(lambda x, n: lstm.apply_lstm(random_weights(), x, n), autograph=False).get_concrete_function(
            *signature
        )
