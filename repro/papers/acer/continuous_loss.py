"""The ACER loss for continuous actions (Section 5 and Algorithm 3), in the order of the paper's equations.

f(.|phi) is a normal with diagonal covariance and a fixed std sigma; its statistics phi are the mean.
rho_s is f(a_s|phi(x_s)) / mu(a_s|x_s) for the stored action, with the stored mean and std of mu.
Rows are steps (x_s, a_s) -> x_{s+1}. All weights are computed from logarithms, so none of them overflows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import tensorflow as tf

from repro.distributions import gaussian
from repro.ops import q_targets, ranges, recursion, shapes, traces
from repro.ops.constants import constant
from repro.papers.acer.loss import correction_weight, truncated_weight
from repro.papers.acer.trust_region import project, surrogate

TRACES = ("root", "plain")
"""Traces of Q_ret: min(1, rho^(1/d)) of Section 5.1, and for comparison min(1, rho) of Algorithm 2."""
POLICY_TARGETS = ("q_opc", "q_ret")
"""Targets in the policy gradient: Q_opc of Eq. 16, and Q_ret, with which Appendix B compares it."""


class ContinuousLossSettings(NamedTuple):
    """Settings of the losses, from a configuration's `loss` section except where the seed samples delta.

    truncation: c of ACER (Eq. 16) and the bound on TIS's product (Appendix E.2), above 0; infinity for none.
    delta: size of the trust region, at least 0, in nats; not read without one.
    traces: traces of Q_ret, one of `TRACES`; read only by ACER.
    policy_target: estimate of Q^pi in the policy gradient's first term, one of `POLICY_TARGETS`; read only by ACER.
    """

    truncation: float
    delta: float
    traces: str = "root"
    policy_target: str = "q_opc"


class Steps(NamedTuple):
    """Data of unrolls that the losses of ACER and its baselines read.

    action: a_s as it was sampled, float32 [T, B, A].
    mean: phi(x_s), float32 [T, B, A]; receives the policy's gradient.
    std: sigma, float32 [T, B, A], above 0; no gradient.
    behaviour_mean, behaviour_std: mean and std of mu when a_s was sampled, float32 [T, B, A].
    average_mean: mean of the average policy, float32 [T, B, A]; None without a trust region.
    r_t: reward after a_s, float32 [T, B].
    discount_t: gamma, or 0 where step s ended the episode, float32 [T, B]. A time limit does not end it.
    v_tm1: V(x_s), float32 [T, B]; receives the critic's gradient.
    v_t: V(x_{s+1}), float32 [T, B]; no gradient.
    is_boundary: bool [T, B], true for rows that are no transition (the observation is the last of an episode).
    """

    action: tf.Tensor
    mean: tf.Tensor
    std: tf.Tensor
    behaviour_mean: tf.Tensor
    behaviour_std: tf.Tensor
    average_mean: tf.Tensor | None
    r_t: tf.Tensor
    discount_t: tf.Tensor
    v_tm1: tf.Tensor
    v_t: tf.Tensor
    is_boundary: tf.Tensor


class ContinuousLoss(NamedTuple):
    """Per-step losses, each float32 [T, B] and zero on boundary rows, and named extras of the same shape.

    `policy`, and so `total`, are surrogates: only their gradients are meaningful, not their values.
    """

    total: tf.Tensor
    policy: tf.Tensor
    critic: tf.Tensor
    extras: dict[str, tf.Tensor]


def log_ratios(steps: Steps) -> tf.Tensor:
    """Returns log rho_s, float32 [T, B], without gradient; 0 on boundary rows, where nothing is read."""
    ratio = gaussian.log_ratio(steps.mean, steps.std, steps.behaviour_mean, steps.behaviour_std, steps.action)
    return tf.where(steps.is_boundary, 0.0, tf.stop_gradient(ratio))


def q_ret_and_q_opc(steps: Steps, q: tf.Tensor, which: str = "root") -> tuple[tf.Tensor, tf.Tensor]:
    """Computes Q_ret (Eq. 5, with the weights of Section 5.1) and Q_opc (Eq. 21).

        Q_ret(x_s, a_s) = r_s + gamma (V(x_{s+1}) + c_{s+1} (Q_ret(x_{s+1}, a_{s+1}) - Q~(x_{s+1}, a_{s+1})))
        c_s = min(1, rho_s^(1/d)),    d = A, the dimension of the actions;    min(1, rho_s) for `plain`

    Q_opc is the same with c_s = 1. Both begin with V(x_k) at the end of the unroll, or 0 at a terminal state.

    Args:
        steps: steps of the unrolls; mean and value receive no gradient here.
        q: Q~(x_s, a_s), float32 [T, B]; no gradient.
        which: traces of Q_ret, one of `TRACES`.

    Returns:
        Q_ret and Q_opc, float32 [T, B].

    Gradients: none. Boundary and errors are those of `q_targets.multistep_q`; ValueError also for unknown traces.
    """
    ranges.assert_one_of("q_ret_and_q_opc", TRACES, which=which)
    log_rho = log_ratios(steps)
    ret = traces.acer_truncated(log_rho, steps.action.shape[-1]) if which == "root" else traces.retrace(log_rho)
    q_ret, q_opc = (
        q_targets.multistep_q(
            steps.r_t,
            steps.discount_t,
            c_t=recursion.later(c, 1),
            expected_q_t=steps.v_t,
            q_t_a=recursion.later(q, 1),
            is_boundary=steps.is_boundary,
        )
        for c in (ret, traces.q_lambda(log_rho))
    )
    return q_ret, q_opc


def value_target(log_rho: tf.Tensor, q_ret: tf.Tensor, q: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    """Computes the target of V (Eq. 14).

        V_target(x_s) = min(1, rho_s) (Q_ret(x_s, a_s) - Q~(x_s, a_s)) + V(x_s)

    Args:
        log_rho, q_ret, q, v: float32 [T, B]. The ratio has no exponent 1/d here.

    Returns:
        float32 [T, B]. Gradients: none.

    Raises:
        ValueError: the shapes differ.
    """
    log_rho, q_ret, q, v = (constant(x) for x in (log_rho, q_ret, q, v))
    shapes.assert_same_shape("value_target", log_rho=log_rho, q_ret=q_ret, q=q, v=v)
    return traces.retrace(log_rho) * (q_ret - q) + v


def mean_gradient(action: tf.Tensor, mean: tf.Tensor, std: tf.Tensor) -> tf.Tensor:
    """d log f(a|phi) / d phi = (a - phi) / sigma^2, for action and mean float32 [..., A]; no gradient.

    Raises:
        ValueError: action and mean have different shapes.
    """
    action, mean, std = (constant(x) for x in (action, mean, std))
    shapes.assert_same_shape("mean_gradient", action=action, mean=mean)
    return (action - mean) / tf.square(std)


def divergence_gradient(average_mean: tf.Tensor, mean: tf.Tensor, std: tf.Tensor) -> tf.Tensor:
    """k = d KL(f(.|phi_avg) || f(.|phi)) / d phi = (phi - phi_avg) / sigma^2 (Eq. 11), [..., A]; no gradient.

    Raises:
        ValueError: the means have different shapes.
    """
    return -mean_gradient(average_mean, mean, std)


def policy_gradient(
    steps: Steps,
    target: tf.Tensor,
    sampled_action: tf.Tensor,
    sampled_q: tf.Tensor,
    truncation: float,
) -> tf.Tensor:
    """The ACER gradient with respect to phi, estimated with one sampled action a' (Eq. 16).

        g = min(c, rho) d log f(a|phi) / d phi (Q_opc(x, a) - V(x))
            + [1 - c / rho']_+ d log f(a'|phi) / d phi (Q~(x, a') - V(x))
        rho' = f(a'|phi) / mu(a'|x),    a' ~ f(.|phi),    [x]_+ = max(0, x)

    The first weight, rho_bar in the paper's equations, is truncated at c, as Algorithm 3 prints it: with the exponent
    1/d, which Section 5.1 puts into rho_bar for Q_ret, the two terms would not add up to the gradient (Eq. 7).

    Args:
        steps: steps of the unrolls; action, mean, std, mu and V are read.
        target: Q_opc(x_s, a_s) or Q_ret(x_s, a_s), float32 [T, B].
        sampled_action: a', float32 [T, B, A].
        sampled_q: Q~(x_s, a'), float32 [T, B].
        truncation: c, above 0; infinity for no truncation.

    Returns:
        g, to be ascended, float32 [T, B, A].

    Gradients: none.

    Raises:
        ValueError: `truncation` is not above 0, or shapes do not fit.
    """
    ranges.assert_in("policy_gradient", "(0, inf]", truncation=truncation)
    v, target, sampled_q = constant(steps.v_tm1), constant(target), constant(sampled_q)
    shapes.assert_same_shape("policy_gradient", v_tm1=v, target=target, sampled_q=sampled_q)
    sampled_log_rho = log_ratios(steps._replace(action=sampled_action))
    weight = truncated_weight(log_ratios(steps), truncation)  # [T, B]
    correction = correction_weight(sampled_log_rho, truncation)  # [T, B]
    truncated = (weight * (target - v))[..., tf.newaxis] * mean_gradient(steps.action, steps.mean, steps.std)
    corrected = (correction * (sampled_q - v))[..., tf.newaxis] * mean_gradient(sampled_action, steps.mean, steps.std)
    return truncated + corrected  # [T, B, A]


def policy_loss(g: tf.Tensor, steps: Steps, delta: float) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """The loss whose descent moves phi along z*, which is g within the trust region (Eq. 12, Section 3.3).

    Args:
        g: gradient of the objective with respect to phi, to be ascended, float32 [T, B, A].
        steps: steps of the unrolls; the mean, which receives -z*, the std and the average policy's mean are read.
            Without the latter z* = g.
        delta: bound on k.z*, at least 0, in nats.

    Returns:
        - z*_s . phi(x_s), float32 [T, B], 0 on boundary rows; and with a trust region the extras `kl`, the divergence
        from the average policy to pi, and `trust_region_active` (1 where z* is not g).

    Raises:
        ValueError: shapes do not fit, or delta is negative.
    """
    z, extras = g, {}
    if steps.average_mean is not None:
        k = divergence_gradient(steps.average_mean, steps.mean, steps.std)  # [T, B, A]
        z = project(g, k, delta)
        extras["kl"] = constant(gaussian.kl(steps.average_mean, steps.std, steps.mean, steps.std))
        extras["trust_region_active"] = tf.cast(tf.reduce_sum(k * g, axis=-1) > delta, tf.float32)
    return surrogate(tf.where(steps.is_boundary[..., tf.newaxis], 0.0, z), steps.mean), extras


def continuous_acer_loss(
    steps: Steps, q: tf.Tensor, sampled_action: tf.Tensor, sampled_q: tf.Tensor, settings: ContinuousLossSettings
) -> ContinuousLoss:
    """Computes the per-step losses that one call of Algorithm 3 minimizes.

        total_s = - z*_s . phi(x_s)                           policy: g of Eq. 16, projected by Eq. 12
                  + 1/2 (Q_ret(x_s, a_s) - Q~(x_s, a_s))^2    critic: Q~, and through it V and A
                  + 1/2 (V_target(x_s) - V(x_s))^2            critic: V (Eq. 14)

    The negative gradients are those that Algorithm 3 accumulates: (Q_ret - Q~) grad Q~ and
    min(1, rho) (Q_ret - Q~) grad V. There is no entropy bonus, since the std is fixed, and so is the entropy. With a
    `settings.policy_target` of q_ret, g has Q_ret in place of Q_opc.

    Args:
        steps: steps of the unrolls.
        q: Q~(x_s, a_s), float32 [T, B]; receives the critic's gradient.
        sampled_action: a'_s ~ f(.|phi(x_s)), float32 [T, B, A]; no gradient.
        sampled_q: Q~(x_s, a'_s), float32 [T, B]; no gradient.
        settings: settings of the loss, all of which are read.

    The extras are `q` (of the action taken), `value`, `importance_weight` (min(c, rho)), `truncated` (1 where rho
    exceeds c), and `kl` and `trust_region_active` of `policy_loss`.

    Raises:
        ValueError: shapes do not fit, the truncation is not above 0, delta is negative, or a name is unknown.
    """
    ranges.assert_one_of("continuous_acer_loss", TRACES, traces=settings.traces)
    ranges.assert_one_of("continuous_acer_loss", POLICY_TARGETS, policy_target=settings.policy_target)
    q_ret, q_opc = q_ret_and_q_opc(steps, q, settings.traces)
    target = q_opc if settings.policy_target == "q_opc" else q_ret
    g = policy_gradient(steps, target, sampled_action, sampled_q, settings.truncation)
    policy, extras = policy_loss(g, steps, settings.delta)
    log_rho = log_ratios(steps)
    v_target = value_target(log_rho, q_ret, q, steps.v_tm1)
    errors = (tf.where(steps.is_boundary, 0.0, error) for error in (q_ret - q, v_target - steps.v_tm1))
    critic = 0.5 * tf.add_n([tf.square(error) for error in errors])
    extras |= {
        "q": constant(q),
        "value": constant(steps.v_tm1),
        "importance_weight": truncated_weight(log_rho, settings.truncation),
        "truncated": tf.cast(log_rho > math.log(settings.truncation), tf.float32),
    }
    return ContinuousLoss(policy + critic, policy, critic, extras)
