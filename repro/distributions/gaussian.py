"""The Gaussian distribution with diagonal covariance over A action components, given by mean and std.

Means are [..., A], with one or more leading dimensions, such as B states or T steps of B games. Stds (the square roots
of the variances) are above 0 and have the same shape; for means [B, A] they may be [A], where all states share them.
Results keep the dtype of the arguments, float32 or float64. All TensorFlow functions are differentiable with respect to
every mean and std, and to the action.

ReF-ER samples its actions from the normal truncated at three stds (Appendix A), while its ratios and divergences are
those of the normal without truncation, in the paper and here. For ratios that is exact wherever the action lies within
three stds of both means: the normalisation of the truncated density, 0.9973 per component, is then the same in
numerator and denominator. Beyond, the truncated density of pi would be 0, and its ratio and divergence useless
for learning.
"""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf

from repro.ops import shapes

TRUNCATION = 3.0
"""Distance from the mean, in stds, beyond which no action is sampled (ReF-ER, Appendix A)."""

HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


def std_from_raw(raw: tf.Tensor) -> tf.Tensor:
    """Stds sqrt(softplus(raw)) from raw network outputs: Softplus gives the variance (Appendix A).

    Args:
        raw: unbounded, [..., A].

    Returns:
        Stds in the same shape, above 0 unless softplus underflows in float32, at raw values below -103; differentiable.
    """
    return tf.sqrt(tf.nn.softplus(raw))


def std_from_raw_numpy(raw: np.ndarray) -> np.ndarray:
    """`std_from_raw` in NumPy, for acting; finite wherever `raw` is, though exp(raw) overflows above 88 in float32."""
    with np.errstate(over="ignore"):
        variance = np.log1p(np.exp(raw))
    return np.sqrt(np.where(np.isposinf(variance), raw, variance))


def raw_from_variance(variance: float) -> float:
    """Raw output for which `std_from_raw` gives this variance, above 0: log(exp(variance) - 1)."""
    return math.log(math.expm1(variance))


def log_prob(mean: tf.Tensor, std: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """Logarithm of the density of `action`.

        log pi(a) = - sum_i [1/2 ((a_i - m_i) / sigma_i)^2 + log sigma_i + 1/2 log 2 pi]

    Args:
        mean: [..., A].
        std: [..., A], or [A] for means [B, A], above 0.
        action: [..., A].

    Returns:
        [...], of the arguments' dtype.

    Raises:
        ValueError: wrong shapes.
    """
    mean, std, action = _checked("gaussian.log_prob", mean=mean, std=std, action=action)
    return tf.reduce_sum(_log_density(mean, std, action), axis=-1)


def log_ratio(
    target_mean: tf.Tensor,
    target_std: tf.Tensor,
    behaviour_mean: tf.Tensor,
    behaviour_std: tf.Tensor,
    action: tf.Tensor,
) -> tf.Tensor:
    """Logarithm of the importance ratio pi(a|s) / mu(a|s) of densities.

    Args:
        target_mean: mean of pi, [..., A].
        target_std: std of pi, [..., A], or [A] for means [B, A].
        behaviour_mean: mean of mu, [..., A].
        behaviour_std: std of mu, [..., A], or [A] for means [B, A].
        action: [..., A].

    Returns:
        [...], of the arguments' dtype.

    Raises:
        ValueError: wrong shapes.
    """
    target_mean, target_std, behaviour_mean, behaviour_std, action = _checked(
        "gaussian.log_ratio",
        target_mean=target_mean,
        target_std=target_std,
        behaviour_mean=behaviour_mean,
        behaviour_std=behaviour_std,
        action=action,
    )
    target = _log_density(target_mean, target_std, action)
    return tf.reduce_sum(target - _log_density(behaviour_mean, behaviour_std, action), axis=-1)


def kl(mean_p: tf.Tensor, std_p: tf.Tensor, mean_q: tf.Tensor, std_q: tf.Tensor) -> tf.Tensor:
    """Divergence KL(p || q) in nats.

        KL(p || q) = sum_i [log(sigma_q / sigma_p) + (sigma_p^2 + (m_p - m_q)^2) / (2 sigma_q^2) - 1/2]

    Args:
        mean_p: [..., A]. In ReF-ER's penalty p is the behaviour mu, and q is pi.
        std_p: [..., A], or [A] for means [B, A].
        mean_q: [..., A].
        std_q: [..., A], or [A] for means [B, A].

    Returns:
        [...], at least 0 up to rounding, of the arguments' dtype.

    Raises:
        ValueError: wrong shapes.
    """
    mean_p, std_p, mean_q, std_q = _checked("gaussian.kl", mean_p=mean_p, std_p=std_p, mean_q=mean_q, std_q=std_q)
    ratio = std_p / std_q  # [..., A] or [A]
    distance = (mean_p - mean_q) / std_q  # [..., A]
    return tf.reduce_sum(0.5 * (tf.square(ratio) + tf.square(distance) - 1.0) - tf.math.log(ratio), axis=-1)


def sample_truncated(rng: np.random.Generator, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """Samples every component from the normal truncated at `TRUNCATION` stds on both sides of the mean.

    NumPy, for acting: samples beyond the bounds, one in 370, are replaced by new ones until none is left.

    Args:
        rng: source of the samples, advanced by them.
        mean: float [..., A].
        std: float [..., A] or [A].

    Returns:
        Actions of the shape and dtype of `mean`.
    """
    noise = rng.standard_normal(mean.shape)
    while (beyond := np.abs(noise) > TRUNCATION).any():
        noise[beyond] = rng.standard_normal(np.count_nonzero(beyond))
    return (mean + std * noise).astype(mean.dtype)


def _log_density(mean: tf.Tensor, std: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """Log density of each component, [..., A]."""
    return -0.5 * tf.square((action - mean) / std) - tf.math.log(std) - HALF_LOG_2_PI


def _checked(function: str, **tensors: tf.Tensor) -> list[tf.Tensor]:
    """Returns the arguments as tensors, after a check of their shapes; a std may have that of one row of the means."""
    found = {name: tf.convert_to_tensor(x) for name, x in tensors.items()}
    stds = {name: x for name, x in found.items() if "std" in name}
    means = {name: x for name, x in found.items() if name not in stds}
    shapes.assert_rank_at_least(function, 2, **means)
    shapes.assert_same_shape(function, **means)
    shapes.assert_rank_at_least(function, 1, **stds)
    first, mean = next(iter(means.items()))
    for name, std in stds.items():
        like = {f"{first}[0]": mean[0]} if std.shape.rank == 1 else {first: mean}
        shapes.assert_same_shape(function, **like, **{name: std})
    return list(found.values())
