"""The categorical distribution over A actions, given by its logits.

Logits are finite floats [..., A], normalised or not; everything is computed and returned in float32. All functions but
`sample` are twice differentiable with respect to all logits.
"""

from __future__ import annotations

import tensorflow as tf

from repro.ops import shapes

SMALLEST_NORMAL_FLOAT32 = 2.0**-126
"""Smallest uniform sample from which Gumbel noise is computed: the logarithm of 0 would be infinite."""


def probs(logits: tf.Tensor) -> tf.Tensor:
    """Probabilities exp(logits_a) / sum_b exp(logits_b), float32 [..., A]."""
    return tf.nn.softmax(tf.cast(logits, tf.float32))


def log_prob(logits: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
    """Logarithm of the probability of `actions`.

    Args:
        logits: [..., A].
        actions: integers in [0, A), [...].

    Returns:
        float32 [...].

    Raises:
        ValueError: `actions` are not integers, or do not have the shape of `logits` without its last dimension.
    """
    logits, actions = tf.cast(logits, tf.float32), tf.convert_to_tensor(actions)
    if not actions.dtype.is_integer:
        raise ValueError(f"categorical.log_prob: actions must be integers, got {actions.dtype.name}")
    shapes.assert_rank_at_least("categorical.log_prob", 1, logits=logits)
    shapes.assert_same_shape("categorical.log_prob", **{"logits[..., 0]": logits[..., 0], "actions": actions})
    return -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=actions, logits=logits)


def entropy(logits: tf.Tensor) -> tf.Tensor:
    """Entropy -sum_a p_a log p_a in nats, in [0, log A], float32 [...], for logits [..., A]."""
    return -tf.reduce_sum(probs(logits) * tf.nn.log_softmax(tf.cast(logits, tf.float32)), axis=-1)


def kl(logits_p: tf.Tensor, logits_q: tf.Tensor) -> tf.Tensor:
    """Divergence KL(p || q) = sum_a p_a (log p_a - log q_a) in nats, for logits [..., A].

    Returns:
        float32 [...], at least 0 up to rounding.

    Raises:
        ValueError: the two shapes differ.
    """
    logits_p, logits_q = tf.cast(logits_p, tf.float32), tf.cast(logits_q, tf.float32)
    shapes.assert_same_shape("categorical.kl", logits_p=logits_p, logits_q=logits_q)
    log_ratios = tf.nn.log_softmax(logits_p) - tf.nn.log_softmax(logits_q)  # [..., A]
    return tf.reduce_sum(probs(logits_p) * log_ratios, axis=-1)


def log_ratio(target_logits: tf.Tensor, behaviour_logits: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
    """Logarithm of the importance ratio pi(a|x) / mu(a|x).

    Args:
        target_logits: pi's logits, [..., A].
        behaviour_logits: mu's logits, [..., A].
        actions: integers in [0, A), [...].

    Returns:
        float32 [...].

    Raises:
        ValueError: the logits' shapes differ, or `actions` does not fit them.
    """
    target_logits, behaviour_logits = (
        tf.cast(target_logits, tf.float32),
        tf.cast(behaviour_logits, tf.float32),
    )
    shapes.assert_same_shape("categorical.log_ratio", target_logits=target_logits, behaviour_logits=behaviour_logits)
    return log_prob(target_logits, actions) - log_prob(behaviour_logits, actions)


def sample(logits: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Independent samples, one per distribution: the argmax of the logits plus standard Gumbel noise.

    The same seed gives the same samples, eagerly and in a graph. Compiled by XLA, which numbers the random bits in
    another order, it gives different samples, also the same each time. No gradient.

    Args:
        logits: [..., A].
        seed: integers [2]; use each seed only once.

    Returns:
        int32 [...], in [0, A).
    """
    logits = tf.cast(logits, tf.float32)
    uniform = tf.random.stateless_uniform(tf.shape(logits), seed, minval=SMALLEST_NORMAL_FLOAT32, alg="philox")
    return tf.argmax(logits - tf.math.log(-tf.math.log(uniform)), axis=-1, output_type=tf.int32)
