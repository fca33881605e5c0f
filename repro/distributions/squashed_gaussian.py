"""The Gaussian with diagonal covariance squashed into (-1, 1)^A by a tanh, given by mean and std before the tanh.

    u ~ N(m, s),    a = tanh(u),    log pi(a) = log N(u; m, s) - sum_i log(1 - a_i^2)

Means and stds are [..., A], with two dimensions or more; results keep their dtype, float32 or float64. The tanh is the
same one-to-one map for every policy, so the divergence between two policies is `gaussian.kl`.

A component nearer to 1 or -1 than 2^-24 is treated as if it were that far away, at the largest float32 below 1, where
u is 8.7. Everything is finite there, gradients too.
"""

from __future__ import annotations

import tensorflow as tf

from repro.distributions import gaussian

LARGEST = 1.0 - 2.0**-24
"""Bound on |a|: the largest float32 below 1."""


def mean_from_raw(raw: tf.Tensor) -> tf.Tensor:
    """Means before squashing, tanh(raw), from raw network outputs [..., A] (STAC, Section 9.3). Differentiable."""
    return tf.tanh(raw)


def std_from_raw(raw: tf.Tensor, log_std_min: float, log_std_max: float) -> tf.Tensor:
    """Stds before squashing, from raw network outputs (STAC, Section 9.3).

        sigma(y) = exp(log_std_min + 0.5 (log_std_max - log_std_min) (tanh(y) + 1))

    Args:
        raw: y, unbounded, [..., A].
        log_std_min, log_std_max: sigma_min and sigma_max of the paper, bounds on the logarithm of the std.

    Returns:
        Stds in [exp(log_std_min), exp(log_std_max)], in the shape of `raw`. Differentiable.
    """
    return tf.exp(log_std_min + 0.5 * (log_std_max - log_std_min) * (tf.tanh(raw) + 1.0))


def log_prob(mean: tf.Tensor, std: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """Logarithm of the density of `action`.

        log pi(a) = log N(artanh(a); m, s) - sum_i log(1 - a_i^2)

    Args:
        mean: [..., A].
        std: [..., A], above 0.
        action: [..., A], in [-1, 1]; no gradient at the bounds.

    Returns:
        [...], of the arguments' dtype.

    Raises:
        ValueError: wrong shapes.
    """
    action = _inside(action)
    log_jacobian = tf.math.log1p(action) + tf.math.log1p(-action)  # [..., A]
    return gaussian.log_prob(mean, std, unsquash(action)) - tf.reduce_sum(log_jacobian, axis=-1)


def log_ratio(
    target_mean: tf.Tensor,
    target_std: tf.Tensor,
    behaviour_mean: tf.Tensor,
    behaviour_std: tf.Tensor,
    action: tf.Tensor,
) -> tf.Tensor:
    """Logarithm of the importance ratio pi(a|s) / mu(a|s); the squashing's Jacobian is the same in both.

    Arguments, value and errors are those of `gaussian.log_ratio`, with `action` in [-1, 1].
    """
    return gaussian.log_ratio(target_mean, target_std, behaviour_mean, behaviour_std, unsquash(action))


def kl_to_standard_normal(mean: tf.Tensor, std: tf.Tensor) -> tf.Tensor:
    """Divergence KL(N(m, s) || N(0, 1)) before squashing in nats, [...] for mean and std [..., A].

    Raises:
        ValueError: the shapes differ.
    """
    mean, std = tf.convert_to_tensor(mean), tf.convert_to_tensor(std)
    return gaussian.kl(mean, std, tf.zeros_like(mean), tf.ones_like(std))


def sample(mean: tf.Tensor, std: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Independent samples, one per distribution: tanh(m + s noise).

    The same seed gives the same samples, eagerly and in a graph. Compiled by XLA it gives different samples, also the
    same each time. The samples are meant to be used as constants; the gradient is not stopped here.

    Args:
        mean: [..., A].
        std: [..., A], above 0.
        seed: integers [2]; use each seed only once.

    Returns:
        Actions in [-1, 1], in the shape and dtype of `mean`.
    """
    noise = tf.random.stateless_normal(tf.shape(mean), seed, dtype=mean.dtype, alg="philox")
    return tf.tanh(mean + std * noise)


def unsquash(action: tf.Tensor) -> tf.Tensor:
    """Inverts the squashing: u = artanh(a), finite, for actions [..., A] in [-1, 1]."""
    action = _inside(action)
    return 0.5 * (tf.math.log1p(action) - tf.math.log1p(-action))


def _inside(action: tf.Tensor) -> tf.Tensor:
    """Clips actions to [-`LARGEST`, `LARGEST`]."""
    return tf.clip_by_value(action, -LARGEST, LARGEST)
