"""ACER's baselines: A3C on Atari (Section 4), A3C and truncated importance sampling (TIS) in control (Section 6).

All have a policy and V of the same architecture as ACER, and no action values. In continuous control, with the average
policy's mean in `Steps`, they are Trust-A3C and Trust-TIS: the gradient with respect to the mean is projected as in
ACER. The std is fixed there, and with it the entropy: A3C's entropy bonus has no gradient and is left out.
"""

from __future__ import annotations

import math

import tensorflow as tf

from repro.distributions import categorical
from repro.ops import ranges, recursion, shapes, v_targets
from repro.papers.acer.continuous_loss import (
    ContinuousLoss,
    ContinuousLossSettings,
    Steps,
    log_ratios,
    mean_gradient,
    policy_loss,
)
from repro.papers.acer.loss import AcerLoss


def discrete_a3c_loss(
    logits: tf.Tensor,
    values: tf.Tensor,
    actions: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    is_boundary: tf.Tensor,
    entropy_cost: float,
) -> AcerLoss:
    """Advantage actor-critic for discrete actions (Eq. 2; Mnih et al., 2016, Algorithm S3; entropy: Section 4).

        total_s = - (R_s - V(x_s)) log pi(a_s|x_s) + 1/2 (R_s - V(x_s))^2 - entropy_cost * H(pi(.|x_s))
        R_s = sum_{i=0}^{k-s-1} gamma^i r_{s+i} + gamma^{k-s} V(x_k)

    Eq. 2 sums k rewards from each step on; here, as in S3, the sum goes to the end of the unroll. S3 takes the gradient
    of the square, this loss that of half the square.

    Unrolls are treated as on-policy, which `UnrollAgent.train_on_policy` ensures. The return ends with the episode, at
    a time limit with V.

    Args:
        logits: logits of pi for x_0 to x_{T-1}, float32 [T, B, A]; receive the gradients of policy and entropy.
        values: V(x_s) for s = 0 to T, float32 [T + 1, B]; the first T receive the critic's gradient.
        actions: int32 [T, B].
        r_t: reward after each action, float32 [T, B].
        discount_t: gamma, or 0 where the step ended the episode, float32 [T, B]. A time limit does not end it.
        is_boundary: bool [T, B], true for rows that are no transition (the observation is the last of a game).
        entropy_cost: weight of the entropy bonus, at least 0.

    The extras are `entropy` and `value`.

    Raises:
        ValueError: types or shapes do not fit, or `entropy_cost` is negative.
    """
    ranges.assert_in("discrete_a3c_loss", "[0, inf)", entropy_cost=entropy_cost)
    logits, values = shapes.convert("discrete_a3c_loss", logits=logits, values=values).values()
    (is_boundary,) = shapes.convert("discrete_a3c_loss", tf.bool, is_boundary=is_boundary).values()
    v_tm1 = values[:-1]  # [T, B]
    log_prob = categorical.log_prob(logits, actions)
    returns, advantages, _ = v_targets.no_correction(
        tf.zeros_like(log_prob),  # of ratios, which this method does not read
        discount_t,
        r_t,
        v_tm1,
        values[1:],
        is_boundary=is_boundary,
    )
    entropy = categorical.entropy(logits)
    policy = tf.where(is_boundary, 0.0, -advantages * log_prob)
    critic = tf.where(is_boundary, 0.0, 0.5 * tf.square(returns - v_tm1))
    bonus = tf.where(is_boundary, 0.0, -entropy_cost * entropy)
    extras = {"entropy": entropy, "value": tf.stop_gradient(v_tm1)}
    return AcerLoss(policy + critic + bonus, policy, critic, bonus, extras)


def a3c_loss(steps: Steps, settings: ContinuousLossSettings) -> ContinuousLoss:
    """Advantage actor-critic on the returns up to the end of the unroll (Mnih et al., 2016, Algorithm S3).

        total_s = - z*_s . phi(x_s) + 1/2 (R_s - V(x_s))^2
        R_s = sum_{i=0}^{k-s-1} gamma^i r_{s+i} + gamma^{k-s} V(x_k),    g = (R_s - V(x_s)) d log f(a_s|phi) / d phi

    Unrolls are treated as on-policy, which `UnrollAgent.train_on_policy` ensures: mu is not read. The return ends with
    the episode, at a time limit with V.

    Args:
        steps: steps of the unrolls.
        settings: only delta is read, and only with a trust region.

    The extras are `value`, and `kl` and `trust_region_active` of `policy_loss`.

    Raises:
        ValueError: shapes do not fit, or delta is negative.
    """
    return _loss(steps, settings, tf.ones_like(steps.r_t))


def tis_loss(steps: Steps, settings: ContinuousLossSettings) -> ContinuousLoss:
    """Truncated importance sampling over trajectories (Appendix E.2; Wawrzynski, 2009).

        total_s = - z*_s . phi(x_s) + w_s 1/2 (R_s - V(x_s))^2
        g = w_s (R_s - V(x_s)) d log f(a_s|phi) / d phi,    w_s = min(5, prod_{i=0}^{k-s-1} rho_{s+i})

    with R_s as in `a3c_loss`; the weight receives no gradient. The product is over the steps whose rewards R_s sums:
    the paper's k steps from t are read as those from t to the end of the unroll, for each of its steps.

    Args:
        steps: steps of the unrolls.
        settings: `truncation`, the 5 above, and with a trust region delta.

    The extras are those of `a3c_loss`, `importance_weight` (w_s) and `truncated` (1 where the product exceeds
    `truncation`).

    Raises:
        ValueError: shapes do not fit, `truncation` is not above 0, or delta is negative.
    """
    ranges.assert_in("tis_loss", "(0, inf]", truncation=settings.truncation)
    log_c = math.log(settings.truncation)
    log_product = log_trajectory_ratio(steps)
    weight = tf.exp(tf.minimum(log_c, log_product))
    loss = _loss(steps, settings, weight)
    extras = {"importance_weight": weight, "truncated": tf.cast(log_product > log_c, tf.float32)}
    return loss._replace(extras=loss.extras | extras)


def log_trajectory_ratio(steps: Steps) -> tf.Tensor:
    """log prod_i rho_{s+i} over the steps from s to the end of the unroll or of the episode, float32 [T, B].

    Gradients: none. It is 0 on boundary rows, so that the row before one can add it.
    """
    ratios = log_ratios(steps)
    goes_on = tf.not_equal(steps.discount_t, 0.0) & ~steps.is_boundary
    return recursion.backward_recursion(ratios, tf.ones_like(ratios), goes_on)[0]


def _loss(steps: Steps, settings: ContinuousLossSettings, weight: tf.Tensor) -> ContinuousLoss:
    """Computes both baselines: `a3c_loss` with its gradients weighted by `weight` [T, B], a constant."""
    returns, advantages, _ = v_targets.no_correction(
        tf.zeros_like(steps.r_t),  # of ratios, which this method does not read
        steps.discount_t,
        steps.r_t,
        steps.v_tm1,
        steps.v_t,
        is_boundary=steps.is_boundary,
    )
    score = mean_gradient(steps.action, steps.mean, steps.std)  # [T, B, A]
    policy, extras = policy_loss((weight * advantages)[..., tf.newaxis] * score, steps, settings.delta)
    error = tf.where(steps.is_boundary, 0.0, returns - steps.v_tm1)
    critic = 0.5 * weight * tf.square(error)
    extras["value"] = tf.stop_gradient(steps.v_tm1)
    return ContinuousLoss(policy + critic, policy, critic, extras)
