"""The stochastic dueling network of ACER (Section 5.1), as pure functions of an MLP's weights.

Weights are those of `repro.networks.mlp`; the input is a state followed by an action.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from repro.networks import mlp
from repro.ops import shapes


def advantages(weights: Sequence[tf.Tensor], state: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
    """A(x, a) for K actions in every state.

    The first layer is linear before its activation, so the state's part of it is computed once for all K actions.

    Args:
        weights: weights of an MLP from S + A inputs, the state first, with at least one hidden layer, to one output.
        state: x, float32 [N, S].
        actions: float32 [N, K, A].

    Returns:
        float32 [N, K]: entry k is the MLP's output for the concatenation of x and action k. Differentiable with respect
        to all arguments.

    Raises:
        ValueError: the ranks are wrong, N differs, or the weights have fewer than two layers.
    """
    first, bias, *rest = weights
    if len(rest) < 2:
        raise ValueError(f"advantages: the MLP needs a hidden layer, got {len(weights)} arrays of weights")
    state, actions = tf.convert_to_tensor(state), tf.convert_to_tensor(actions)
    shapes.assert_rank_at_least("advantages", 2, state=state)
    shapes.assert_rank_at_least("advantages", 3, actions=actions)
    shapes.assert_same_shape("advantages", **{"state[:, 0]": state[:, 0], "actions[:, 0, 0]": actions[:, 0, 0]})
    state_size, action_size, count = state.shape[1], actions.shape[2], actions.shape[1]
    state_part = state @ first[:state_size] + bias  # [N, H]
    action_part = tf.reshape(actions, [-1, action_size]) @ first[state_size:]  # [N K, H]
    action_part = tf.reshape(action_part, [-1, count, first.shape[1]])  # [N, K, H]
    hidden = tf.nn.softsign(state_part[:, tf.newaxis] + action_part)  # [N, K, H]
    outputs = mlp.apply_mlp(rest, tf.reshape(hidden, [-1, first.shape[1]]))  # [N K, 1]
    return tf.reshape(outputs, [-1, count])


def stochastic_q(
    weights: Sequence[tf.Tensor], state: tf.Tensor, value: tf.Tensor, actions: tf.Tensor, samples: tf.Tensor
) -> tf.Tensor:
    """The estimate Q~ of Q^pi (Eq. 13).

        Q~(x, a) = V(x) + A(x, a) - 1/n sum_i A(x, u_i),    u_i ~ pi(.|x)

    Its expectation over the samples and over a ~ pi(.|x) is V(x), whatever A is. The K actions share the samples.

    Args:
        weights: weights of A, as for `advantages`.
        state: x, float32 [N, S].
        value: V(x), float32 [N].
        actions: a, float32 [N, K, A].
        samples: u_1 to u_n, sampled from pi(.|x), float32 [N, n, A].

    Returns:
        float32 [N, K].

    Gradients: to `weights` and `value`, which are the theta_v of Algorithm 3. None to `actions` and `samples`: the
        algorithm takes no derivative of Q~ with respect to theta, through which the samples depend on pi.

    Raises:
        ValueError: the shapes do not fit, or `weights` are wrong as for `advantages`.
    """
    state, value = tf.convert_to_tensor(state), tf.convert_to_tensor(value)
    shapes.assert_same_shape("stochastic_q", **{"state[:, 0]": state[:, 0], "value": value})
    points = tf.stop_gradient(tf.concat([actions, samples], axis=1))  # [N, K + n, A]
    count = actions.shape[1]
    found = advantages(weights, state, points)  # [N, K + n]
    return value[:, tf.newaxis] + found[:, :count] - tf.reduce_mean(found[:, count:], axis=1, keepdims=True)
