"""The resetting LSTM against its equations, TensorFlow 1's cell, and its own pieces."""

import inspect

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels

from repro.networks import recurrent
from repro.networks.recurrent import ResettingLSTM

B, T, F, UNITS = 3, 6, 4, 5
# Row 0 never starts again, row 1 in the middle and at the end, row 2 at once and twice in a row.
IS_FIRST = np.array([[0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 1], [1, 0, 0, 1, 1, 0]], dtype=bool)  # [B, T]


def make():
    rng = np.random.default_rng(0)
    core = ResettingLSTM(UNITS, seed=1)
    inputs = rng.normal(size=(B, T, F)).astype(np.float32)
    state = tuple(rng.normal(size=(B, UNITS)).astype(np.float32) for _ in range(2))
    core(inputs, IS_FIRST, state)
    for variable in core.trainable_variables:
        variable.assign_add(rng.normal(size=variable.shape))
    return core, tf.constant(inputs), tuple(map(tf.constant, state))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def by_equations(core, inputs, is_first, state):
    """The docstring's lines, one row and one step at a time, float64."""
    kernel, bias = (v.numpy().astype(np.float64) for v in core.trainable_variables)
    outputs = np.empty((*inputs.shape[:2], UNITS))
    final = np.empty((2, inputs.shape[0], UNITS))
    for b in range(inputs.shape[0]):
        h, c = state[0][b].numpy().astype(np.float64), state[1][b].numpy().astype(np.float64)
        for t in range(inputs.shape[1]):
            if is_first[b, t]:
                h, c = np.zeros(UNITS), np.zeros(UNITS)
            z = np.concatenate([inputs[b, t].numpy(), h]) @ kernel + bias
            i, g, f, o = z[:UNITS], z[UNITS : 2 * UNITS], z[2 * UNITS : 3 * UNITS], z[3 * UNITS :]
            c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            outputs[b, t] = h
        final[:, b] = h, c
    return outputs, final


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_equals_the_equations(mode):
    core, inputs, state = make()
    run = core if mode == "eager" else tf.function(core, jit_compile=mode == "xla", autograph=False)
    outputs, final = run(inputs, tf.constant(IS_FIRST), state)
    expected_outputs, expected_final = by_equations(core, inputs, IS_FIRST, state)
    np.testing.assert_allclose(outputs, expected_outputs, atol=1e-5)
    np.testing.assert_allclose(np.stack(final), expected_final, atol=1e-5)
    assert core(inputs, IS_FIRST, state)[0].shape == (B, T, UNITS)


def test_without_resets_the_answer_is_another():
    core, inputs, state = make()
    outputs, _ = core(inputs, np.zeros([B, T], bool), state)
    expected, _ = by_equations(core, inputs, IS_FIRST, state)
    np.testing.assert_allclose(outputs[0], expected[0], atol=1e-5)  # row 0 has none
    assert np.abs(outputs[1, 2:] - expected[1, 2:]).max() > 1e-2
    assert np.abs(outputs[2] - expected[2]).max() > 1e-2


def test_a_step_is_tensorflow_1s_lstm_cell():
    core, inputs, (h, c) = make()
    kernel, bias = core.trainable_variables
    zeros = tf.zeros([UNITS])
    cell = tf.raw_ops.LSTMBlockCell(
        x=inputs[:, 0],
        cs_prev=c,
        h_prev=h,
        w=kernel,
        wci=zeros,
        wcf=zeros,
        wco=zeros,
        b=bias,
        forget_bias=1.0,
    )
    outputs, (final_h, final_c) = core(inputs[:, :1], np.zeros([B, 1], bool), (h, c))
    np.testing.assert_allclose(final_h, cell.h, atol=1e-6)
    np.testing.assert_allclose(final_c, cell.cs, atol=1e-5)
    np.testing.assert_array_equal(outputs[:, 0], final_h)


def test_a_reset_inside_an_unroll_is_two_pieces_apart():
    core, inputs, state = make()
    is_first = np.zeros([B, T], bool)
    is_first[:, 4] = True
    outputs, final = core(inputs, is_first, state)
    before, _ = core(inputs[:, :4], is_first[:, :4], state)
    after, after_final = core(inputs[:, 4:], np.zeros([B, 2], bool), core.initial_state(B))
    np.testing.assert_allclose(outputs, np.concatenate([before, after], axis=1), atol=1e-6)
    np.testing.assert_allclose(np.stack(final), np.stack(after_final), atol=1e-6)


@pytest.mark.parametrize("cut", [1, 3, 5])
def test_carrying_the_state_over_two_calls_is_one_call(cut):
    core, inputs, state = make()
    outputs, final = core(inputs, IS_FIRST, state)
    first, carried = core(inputs[:, :cut], IS_FIRST[:, :cut], state)
    second, carried = core(inputs[:, cut:], IS_FIRST[:, cut:], carried)
    np.testing.assert_allclose(outputs, np.concatenate([first, second], axis=1), atol=1e-6)
    np.testing.assert_allclose(np.stack(final), np.stack(carried), atol=1e-6)


def test_a_state_that_is_reset_is_not_read():
    core, inputs, state = make()
    poisoned = tuple(tf.fill([B, UNITS], np.float32(np.nan)) for _ in range(2))
    is_first = np.zeros([B, T], bool)
    is_first[:, 0] = True
    outputs, _ = core(inputs, is_first, poisoned)
    np.testing.assert_array_equal(outputs, core(inputs, is_first, state)[0])
    assert np.isnan(core(inputs, np.zeros([B, T], bool), poisoned)[0]).all()


def test_gradient_stops_at_a_reset_and_passes_elsewhere():
    core, inputs, state = make()
    with tf.GradientTape() as tape:
        tape.watch([inputs, state])
        outputs, _ = core(inputs, IS_FIRST, state)
        loss = tf.reduce_sum(outputs[:, -1])
    inputs_gradient, state_gradient = tape.gradient(loss, [inputs, state])
    reached = np.abs(inputs_gradient).max(axis=-1) > 0  # [B, T]
    np.testing.assert_array_equal(reached, [[1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 1, 1]])
    for part in state_gradient:
        np.testing.assert_array_equal(np.abs(part).max(axis=-1) > 0, [1, 0, 0])


def test_weights_follow_from_the_seed():
    def kernel(seed):
        core = ResettingLSTM(UNITS, seed)
        core(tf.zeros([1, 1, F]), np.zeros([1, 1], bool), core.initial_state(1))
        weights, bias = core.get_weights()
        assert weights.shape == (F + UNITS, 4 * UNITS)
        assert not bias.any()
        return weights

    np.testing.assert_array_equal(kernel(1), kernel(1))
    assert not np.array_equal(kernel(1), kernel(2))


def test_needs_a_static_time_dimension():
    core, _, state = make()

    @tf.function(input_signature=[tf.TensorSpec([B, None, F])], autograph=False)
    def run(inputs):
        return core(inputs, tf.zeros(tf.shape(inputs)[:2], tf.bool), state)

    with pytest.raises(ValueError, match="static"):
        run(tf.zeros([B, T, F]))


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_the_loop_of_a_gpu_has_the_same_values_and_gradients(mode, monkeypatch):
    core, inputs, state = make()
    is_first = tf.constant(IS_FIRST)

    def values_and_gradients(inputs, state):
        with tf.GradientTape() as tape:
            tape.watch((inputs, state))
            outputs, final = core(inputs, is_first, state)
            loss = tf.reduce_sum(tf.sin(outputs)) + tf.reduce_sum(final[0] * final[1])
        gradients = tape.gradient(loss, (core.trainable_variables, inputs, state))
        return outputs, final, gradients

    def run():
        function = values_and_gradients
        if mode != "eager":
            function = tf.function(function, jit_compile=mode == "xla", autograph=False)
        return tf.nest.flatten(function(inputs, state))

    unrolled = run()
    calls = []
    looped = recurrent._looped
    monkeypatch.setattr(recurrent, "_looped", lambda *arguments: calls.append(1) or looped(*arguments))
    monkeypatch.setattr(recurrent, "UNROLLED", T - 1)
    monkeypatch.setattr(recurrent, "visible_gpus", lambda: ["GPU:0"])
    for one, other in zip(unrolled, run(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert calls


def test_the_fused_lstm_of_cudnn_is_not_compiled_by_xla_and_resets_nothing_inside_a_sequence():
    """Why learning on a GPU goes without it: an update is one program of XLA, and episodes end inside unrolls."""
    # XLA registers its kernels at the first program.
    tf.function(tf.matmul, jit_compile=True, autograph=False)(tf.eye(2), tf.eye(2))
    fused, product = (
        {kernel.device_type for kernel in kernels.get_registered_kernels_for_op(name).kernel}
        for name in ("CudnnRNNV3", "MatMul")
    )
    assert fused == {"GPU"}
    assert product >= {"GPU", "XLA_GPU_JIT"}
    operation = inspect.signature(tf.raw_ops.CudnnRNNV3).parameters.values()
    tensors = [argument.name for argument in operation if argument.default is inspect.Parameter.empty]
    assert tensors == ["input", "input_h", "input_c", "params", "sequence_lengths"]
