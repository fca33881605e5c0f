"""The loss of a one-step advantage actor-critic."""

from __future__ import annotations

import tensorflow as tf

from repro.distributions import categorical


def actor_critic_loss(
    logits: tf.Tensor, actions: tf.Tensor, r_t: tf.Tensor, discount_t: tf.Tensor, v_tm1: tf.Tensor, v_t: tf.Tensor
) -> tf.Tensor:
    """Returns -delta log pi(a) + 1/2 delta^2 of every step, [T, B], with delta = r + gamma V(x') - V(x)."""
    delta = r_t + discount_t * tf.stop_gradient(v_t) - v_tm1
    return -tf.stop_gradient(delta) * categorical.log_prob(logits, actions) + 0.5 * tf.square(delta)
