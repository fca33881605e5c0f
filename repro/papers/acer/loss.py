"""The ACER loss for discrete actions (Section 3), in the order of the paper's equations.

phi, the statistics of the policy's distribution f, is the vector of action probabilities (Section 3.3):
f(a|phi) = phi_a, and d log f(a|phi) / d phi_b is 1 / phi_a for b = a and 0 for any other b. The network gives logits,
and everything is computed from logarithms of probabilities. Divisions by a probability become differences of
logarithms, each bounded by `MAX_LOG_QUOTIENT`, so that gradients stay finite for any finite logits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import tensorflow as tf

from repro.distributions import categorical
from repro.ops import q_targets, ranges, recursion, shapes, traces
from repro.ops.constants import constant
from repro.papers.acer.trust_region import project, surrogate

MAX_LOG_QUOTIENT = 25.0
"""Bound on the logarithm of quotients by a probability: exp(25) = 7e10, so that squared gradients fit into float32.
It never cuts off 1 / mu(a_t|x_t): the float32 noise behind a sample spans 22 nats, and so do the samples."""


class AcerLossSettings(NamedTuple):
    """Settings of the loss, from a configuration's `loss` section.

    truncation: c, above 0; infinity for no truncation.
    delta: size of the trust region, at least 0, in nats; not read without one.
    entropy_cost: weight of the entropy bonus.
    """

    truncation: float
    delta: float
    entropy_cost: float


class AcerLoss(NamedTuple):
    """Per-step losses, each float32 [T, B] and zero on boundary rows, and named extras of the same shape.

    `policy_gradient`, and so `total`, are surrogates: only their gradients are meaningful, not their values.
    """

    total: tf.Tensor
    policy_gradient: tf.Tensor
    critic: tf.Tensor
    entropy: tf.Tensor
    extras: dict[str, tf.Tensor]


def retrace_target(
    logits: tf.Tensor,
    q: tf.Tensor,
    behaviour_logits: tf.Tensor,
    actions: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    is_boundary: tf.Tensor,
) -> tf.Tensor:
    """Computes Q_ret of Eq. 5.

        Q_ret(x_s, a_s) = r_s + gamma (V(x_{s+1}) + min(1, rho_{s+1}) (Q_ret(x_{s+1}, a_{s+1}) - Q(x_{s+1}, a_{s+1})))
        V(x) = sum_a pi(a|x) Q(x, a),    rho_s = pi(a_s|x_s) / mu(a_s|x_s)

    The weight here is truncated at 1 whatever c is (Algorithm 2; the text below Eq. 5 says c).

    Args:
        logits, q: pi's logits and Q(x_s, .) for s = 0 to T, float32 [T + 1, B, A].
        behaviour_logits, actions, r_t, discount_t, is_boundary: as for `acer_loss`.

    Returns:
        float32 [T, B].

    Gradients: none. Boundary and errors are those of `q_targets.multistep_q`.
    """
    log_rho = categorical.log_ratio(logits[:-1], behaviour_logits, actions)  # [T, B]
    q_a = tf.gather(q[:-1], actions, batch_dims=2)  # [T, B]
    values = traces.expected_value(q, categorical.probs(logits))  # [T + 1, B]
    return q_targets.multistep_q(
        r_t,
        discount_t,
        c_t=recursion.later(traces.retrace(log_rho), 1),
        expected_q_t=values[1:],
        q_t_a=recursion.later(q_a, 1),
        is_boundary=is_boundary,
    )


def truncated_weight(log_rho: tf.Tensor, truncation: float) -> tf.Tensor:
    """min(c, rho), the truncated weight of Eq. 7.

    Args:
        log_rho: log(pi(a|x) / mu(a|x)), float32 of any shape.
        truncation: c, at least 0; infinity for no truncation.

    Returns:
        float32 in [0, c], in the shape of `log_rho`.

    Raises:
        ValueError: `truncation` is negative.
    """
    ranges.assert_in("truncated_weight", "[0, inf]", truncation=truncation)
    return tf.exp(tf.minimum(_log(truncation), log_rho))


def correction_weight(log_rho: tf.Tensor, truncation: float) -> tf.Tensor:
    """[1 - c / rho]_+, the weight of Eq. 7's bias correction, in [0, 1].

    Arguments and errors as for `truncated_weight`.
    """
    ranges.assert_in("correction_weight", "[0, inf]", truncation=truncation)
    return -tf.math.expm1(tf.minimum(0.0, _log(truncation) - log_rho))


def _log(truncation: float) -> float:
    return math.log(truncation) if truncation > 0.0 else -math.inf


def policy_gradient(
    logits: tf.Tensor,
    q: tf.Tensor,
    behaviour_logits: tf.Tensor,
    actions: tf.Tensor,
    q_ret: tf.Tensor,
    truncation: float,
) -> tf.Tensor:
    """The ACER gradient with respect to phi (Eqs. 9 and 10), whose weights Eq. 7 truncates and corrects.

        g = min(c, rho) d log f(a_s|phi) / d phi (Q_ret - V)
            + sum_a [1 - c / rho(a)]_+ f(a|phi) d log f(a|phi) / d phi (Q(x_s, a) - V)
        rho(a) = pi(a|x_s) / mu(a|x_s),    [x]_+ = max(0, x)

    As f(a|phi) is phi_a, entry a of the second line is [1 - c / rho(a)]_+ (Q(x_s, a) - V), without a division.

    Args:
        logits, q: pi's logits and Q(x_s, .), float32 [T, B, A].
        behaviour_logits, actions: as for `acer_loss`.
        q_ret: Q_ret(x_s, a_s), float32 [T, B].
        truncation: c, above 0; infinity for no truncation.

    Returns:
        g, to be ascended, float32 [T, B, A].

    Gradients: none. Boundary: min(c, rho) / phi_a is at most exp(`MAX_LOG_QUOTIENT`).

    Raises:
        ValueError: `truncation` is not above 0, or shapes do not fit.
    """
    ranges.assert_in("policy_gradient", "(0, inf]", truncation=truncation)
    logits, q, behaviour_logits = (constant(x) for x in (logits, q, behaviour_logits))
    shapes.assert_same_shape("policy_gradient", logits=logits, q=q, behaviour_logits=behaviour_logits)
    log_pi, log_mu = tf.nn.log_softmax(logits), tf.nn.log_softmax(behaviour_logits)  # [T, B, A]
    log_rho = log_pi - log_mu
    log_pi_a, log_rho_a = (tf.gather(x, actions, batch_dims=2) for x in (log_pi, log_rho))  # [T, B]
    value = traces.expected_value(q, tf.exp(log_pi))  # [T, B]

    log_c = math.log(truncation)
    weight = tf.exp(tf.minimum(tf.minimum(log_c, log_rho_a) - log_pi_a, MAX_LOG_QUOTIENT))  # min(c, rho) / phi_a [T, B]
    truncated = tf.one_hot(actions, logits.shape[-1]) * (weight * (constant(q_ret) - value))[..., tf.newaxis]
    correction = correction_weight(log_rho, truncation) * (q - value[..., tf.newaxis])
    return truncated + correction


def divergence_gradient(average_logits: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """k = d KL(f(.|phi_avg) || f(.|phi)) / d phi (Eq. 11), that is k_a = -phi_avg_a / phi_a.

    Args:
        average_logits: logits of the average policy, float32 [T, B, A].
        logits: logits of pi, float32 [T, B, A].

    Returns:
        float32 [T, B, A], at least -exp(`MAX_LOG_QUOTIENT`). Gradients: none.

    Raises:
        ValueError: the shapes differ.
    """
    average_logits, logits = constant(average_logits), constant(logits)
    shapes.assert_same_shape("divergence_gradient", average_logits=average_logits, logits=logits)
    log_quotient = tf.nn.log_softmax(average_logits) - tf.nn.log_softmax(logits)
    return -tf.exp(tf.minimum(log_quotient, MAX_LOG_QUOTIENT))


def acer_loss(
    logits: tf.Tensor,
    q: tf.Tensor,
    average_logits: tf.Tensor | None,
    behaviour_logits: tf.Tensor,
    actions: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    is_boundary: tf.Tensor,
    settings: AcerLossSettings,
) -> AcerLoss:
    """Computes the per-step losses that one call of Algorithm 2 minimizes.

        total_s = - z*_s . phi(x_s)                          policy: g of Eq. 9, projected by Eq. 12
                  + 1/2 (Q_ret(x_s, a_s) - Q(x_s, a_s))^2    critic (Eq. 6)
                  - entropy_cost * H(pi(.|x_s))              entropy bonus (Section 4), outside of the trust region

    Args:
        logits: logits of pi for the observations x_0 to x_T, float32 [T + 1, B, A]; the first T receive the gradients
            of policy and entropy.
        q: Q(x_s, .) for s = 0 to T, float32 [T + 1, B, A]; in the first T, the action taken receives the critic's
            gradient.
        average_logits: logits of the average policy for x_0 to x_{T-1}, float32 [T, B, A], no gradient; None for ACER
            without a trust region, where z* = g.
        behaviour_logits: logits of mu for x_0 to x_{T-1} when the actions were chosen, float32 [T, B, A]; no gradient.
        actions: int32 [T, B].
        r_t: reward after each action, float32 [T, B].
        discount_t: gamma, or 0 where the step ended the episode, float32 [T, B]. A time limit does not end it.
        is_boundary: bool [T, B], true for rows that are no transition (the observation is the last of a game).
        settings: c, delta and the entropy cost.

    The extras are `entropy`, `q` (of the action taken), `rho_clipped` (min(c, rho)), `truncated` (1 where rho exceeds
    c) and, with a trust region, `kl`, the divergence from the average policy to pi, and `trust_region_active` (1 where
    z* is not g).

    Raises:
        ValueError: types or shapes do not fit, the truncation is not above 0, or delta is negative.
    """
    logits, q, behaviour_logits = shapes.convert(
        "acer_loss", logits=logits, q=q, behaviour_logits=behaviour_logits
    ).values()
    (is_boundary,) = shapes.convert("acer_loss", tf.bool, is_boundary=is_boundary).values()
    shapes.assert_rank_at_least("acer_loss", 3, logits=logits)
    shapes.assert_same_shape("acer_loss", logits=logits, q=q)
    q_ret = retrace_target(logits, q, behaviour_logits, actions, r_t, discount_t, is_boundary)  # [T, B]
    logits, q = logits[:-1], q[:-1]  # [T, B, A]

    g = policy_gradient(logits, q, behaviour_logits, actions, q_ret, settings.truncation)  # [T, B, A]
    if average_logits is None:
        z = g
    else:
        k = divergence_gradient(average_logits, logits)
        z = project(g, k, settings.delta)
    z = tf.where(is_boundary[..., tf.newaxis], 0.0, z)

    q_a = tf.gather(q, actions, batch_dims=2)
    entropy = categorical.entropy(logits)
    losses = [
        surrogate(z, categorical.probs(logits)),
        tf.where(is_boundary, 0.0, 0.5 * tf.square(q_ret - q_a)),
        tf.where(is_boundary, 0.0, -settings.entropy_cost * entropy),
    ]

    log_rho = categorical.log_ratio(logits, behaviour_logits, actions)
    log_c = math.log(settings.truncation)
    extras = {
        "entropy": entropy,
        "q": q_a,
        "rho_clipped": truncated_weight(log_rho, settings.truncation),
        "truncated": tf.cast(log_rho > log_c, tf.float32),
    }
    if average_logits is not None:
        extras["kl"] = categorical.kl(average_logits, logits)
        extras["trust_region_active"] = tf.cast(tf.reduce_sum(k * g, axis=-1) > settings.delta, tf.float32)
    return AcerLoss(tf.add_n(losses), losses[0], losses[1], losses[2], extras)
