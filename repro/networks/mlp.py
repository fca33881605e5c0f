"""Multi-layer perceptrons with Softsign units, as pure functions of their weights.

Weights are a list [w_1, b_1, w_2, b_2, ...] of float32 arrays or variables, w [fan in, fan out] and b [fan out],
the linear output layer last. Learning applies them in TensorFlow, acting in NumPy, where one state takes far
less time than one TensorFlow call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf


def init_mlp(
    rng: np.random.Generator,
    sizes: Sequence[int],
    outputs: int,
    hidden_scale: float,
    output_scale: float,
) -> list[np.ndarray]:
    """Samples initial weights (ReF-ER, Appendix A).

        hidden layers: U[-g / sqrt(fan in + fan out), +g / sqrt(fan in + fan out)],    g = hidden_scale
        output layer:  U[-o / sqrt(fan in), +o / sqrt(fan in)],                        o = output_scale

    The paper prints g = 6 and cites Glorot and Bengio (2010), who have g = sqrt(6); and o = 0.1, for outputs
    near 0. Biases begin at 0 (assumed: the paper does not say).

    Args:
        rng: source of the samples, advanced by them.
        sizes: widths of the input and of each hidden layer, each at least 1; the input alone gives a linear map.
        outputs: width of the output layer, at least 1.
        hidden_scale: g, above 0.
        output_scale: o, at least 0.

    Returns:
        [w_1, b_1, ...], float32.
    """
    weights: list[np.ndarray] = []
    for fan_in, fan_out in zip(sizes, [*sizes[1:], outputs]):
        is_output = len(weights) == 2 * (len(sizes) - 1)
        bound = output_scale / fan_in**0.5 if is_output else hidden_scale / (fan_in + fan_out) ** 0.5
        weights.append(rng.uniform(-bound, bound, (fan_in, fan_out)).astype(np.float32))
        weights.append(np.zeros(fan_out, np.float32))
    return weights


def apply_mlp(variables: Sequence[tf.Tensor], x: tf.Tensor) -> tf.Tensor:
    """Outputs [B, outputs] for inputs [B, inputs], in TensorFlow; differentiable with respect to both arguments."""
    *hidden, output_weights, output_bias = variables
    for weights, bias in zip(hidden[::2], hidden[1::2]):
        x = tf.nn.softsign(add_bias(x @ weights, bias))  # [B, units]
    return add_bias(x @ output_weights, output_bias)


@tf.custom_gradient
def add_bias(x: tf.Tensor, bias: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
    """x + bias, [B, units] and [units], whose gradient to the bias, a sum over B, is a product with a row of ones.

    On CPUs XLA gathers the columns of a sum entry by entry, which takes 8 % of V-RACER's gradient step; the product
    takes a fraction of that.
    """

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        ones = tf.ones([1, tf.shape(upstream)[0]], upstream.dtype)
        return upstream, tf.squeeze(ones @ upstream, axis=0)

    return x + bias, gradient


def apply_numpy(weights: Sequence[np.ndarray], x: np.ndarray) -> np.ndarray:
    """Outputs [outputs] for one input [inputs], or [B, outputs] for [B, inputs], in NumPy, for acting."""
    *hidden, output_weights, output_bias = weights
    for layer, bias in zip(hidden[::2], hidden[1::2]):
        x = x @ layer
        x += bias
        x /= 1.0 + np.abs(x)
    return x @ output_weights + output_bias
