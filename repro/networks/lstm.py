"""Stacks of LSTM layers with a linear output layer, as pure functions of their weights.

    i, f, o, g = split(x_t w_x + b + h w_h)
    c <- sigmoid(f) c + sigmoid(i) tanh(g),    h <- sigmoid(o) tanh(c)

Weights are a list of float32 arrays: w_x [inputs, 4 units], b [4 units] and w_h [units, 4 units] of each layer, then w
[units, outputs] and b [outputs] of the output layer. Learning applies them to windows in TensorFlow, acting to one
input after the other in NumPy, where a step takes far less time than one TensorFlow call.

The order of the gates differs from Keras (i, f, g, o), so that one sigmoid serves three of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

PER_LAYER = 3
"""Number of arrays per layer."""

GATE_CLOSED_LOGIT = -1e4
"""Input at which a gate is 0 in float32, whatever h w_h adds."""


def init_lstm(
    rng: np.random.Generator,
    inputs: int,
    units: Sequence[int],
    outputs: int,
    hidden_scale: float,
    output_scale: float,
) -> list[np.ndarray]:
    """Samples initial weights, as `mlp.init_mlp` does for feed-forward layers.

        gates:         U[-g / sqrt(fan in + fan out), +g / sqrt(fan in + fan out)],    g = hidden_scale
        output layer:  U[-o / sqrt(fan in), +o / sqrt(fan in)],                        o = output_scale

    A gate's fan in is the size of [x, h], its fan out the number of units. Biases begin at 0, those of the forget gates
    at 1. ReF-ER's paper does not specify an LSTM's initial weights: all of this is assumed.

    Args:
        rng: source of the samples, advanced by them.
        inputs: width of the input, at least 1.
        units: width of each layer, one or more, each at least 1.
        outputs: width of the output layer, at least 1.
        hidden_scale: g, above 0.
        output_scale: o, at least 0.

    Returns:
        [w_x, b, w_h, ..., w, b], float32.
    """
    weights: list[np.ndarray] = []
    for fan_in, width in zip([inputs, *units], units):
        bound = hidden_scale / (fan_in + 2 * width) ** 0.5
        w_x, w_h = (rng.uniform(-bound, bound, (rows, 4 * width)) for rows in (fan_in, width))
        bias = np.repeat([0.0, 1.0, 0.0, 0.0], width)
        weights += [array.astype(np.float32) for array in (w_x, bias, w_h)]
    bound = output_scale / units[-1] ** 0.5
    weights.append(rng.uniform(-bound, bound, (units[-1], outputs)).astype(np.float32))
    weights.append(np.zeros(outputs, np.float32))
    return weights


def apply_lstm(variables: Sequence[tf.Tensor], x: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    """Outputs at the last step of each window, in TensorFlow; h and c are 0 before a window's first step.

    Args:
        variables: the weights; they receive gradients.
        x: inputs, [B, T, inputs], T known when the graph is traced, at least 1; they receive gradients.
        length: number of steps at the end of x that form the window, integer [B], from 1 to T. Earlier steps are not
            read and may be NaN.

    Returns:
        [B, outputs].

    Raises:
        ValueError: T is not known statically.
    """
    steps = x.shape[1]
    if steps is None:
        raise ValueError("apply_lstm: the time dimension of x [B, T, inputs] must be static.")
    *layers, output_weights, output_bias = variables
    inside = tf.range(steps)[:, tf.newaxis] >= steps - tf.cast(length, tf.int32)  # [T, B]
    inside = inside[..., tf.newaxis]  # [T, B, 1]
    h_t = tf.where(inside, tf.transpose(x, [1, 0, 2]), 0.0)  # [T, B, inputs]
    for w_x, bias, w_h in zip(*(layers[i::PER_LAYER] for i in range(PER_LAYER))):
        gates = tf.where(inside, h_t @ w_x + bias, GATE_CLOSED_LOGIT)  # [T, B, 4 units]; c, h are 0 before the window
        h_t = _layer(gates, w_h)  # [T, B, units]
    return h_t[-1] @ output_weights + output_bias


def _layer(projected: tf.Tensor, w_h: tf.Tensor) -> tf.Tensor:
    """Computes h of every step, [T, B, units], from x w_x + b [T, B, 4 units]."""
    width = w_h.shape[0]
    h = c = tf.zeros_like(projected[0, :, :width])  # [B, units]
    every_h = []
    for projected_t in tf.unstack(projected):
        ifo, g = tf.split(projected_t + h @ w_h, [3 * width, width], axis=-1)
        i, f, o = tf.split(tf.sigmoid(ifo), 3, axis=-1)  # [B, units]
        c = f * c + i * tf.tanh(g)
        h = o * tf.tanh(c)
        every_h.append(h)
    return tf.stack(every_h)


def zero_state(weights: Sequence[np.ndarray], rows: int) -> list[np.ndarray]:
    """Returns zero h and c for `rows` windows side by side: one float32 [2, rows, units] for each layer."""
    return [np.zeros((2, rows, w_h.shape[0]), np.float32) for w_h in weights[2:-2:PER_LAYER]]


def advance_numpy(weights: Sequence[np.ndarray], x: np.ndarray, state: Sequence[np.ndarray]) -> None:
    """Advances every window by one step, in NumPy, for acting.

    Args:
        weights: the weights.
        x: input, [inputs], the same for all windows.
        state: h and c of every layer, as returned by `zero_state`; overwritten in place.
    """
    for layer, (h, c) in enumerate(state):  # [rows, units]
        w_x, bias, w_h = weights[PER_LAYER * layer : PER_LAYER * (layer + 1)]
        width = w_h.shape[0]
        gates = h @ w_h  # [rows, 4 units]
        gates += x @ w_x + bias
        ifo, g = gates[:, : 3 * width], gates[:, 3 * width :]
        # sigmoid(z) = tanh(z / 2) / 2 + 1 / 2, so that one call of tanh serves all gates
        ifo *= 0.5
        np.tanh(gates, out=gates)
        ifo *= 0.5
        ifo += 0.5
        c *= ifo[:, width : 2 * width]
        c += ifo[:, :width] * g
        np.multiply(ifo[:, 2 * width :], np.tanh(c), out=h)
        x = h


def outputs_numpy(weights: Sequence[np.ndarray], state: Sequence[np.ndarray], row: int) -> np.ndarray:
    """Returns the outputs, [outputs], of the window at `row` after `advance_numpy`."""
    return state[-1][0, row] @ weights[-2] + weights[-1]
