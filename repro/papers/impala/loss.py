"""The IMPALA loss: V-trace actor-critic (Section 4.2) and the other corrections of Table 2."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from repro.distributions import categorical
from repro.ops import ranges, v_targets

CORRECTIONS = {
    "vtrace": v_targets.vtrace,
    "one_step": v_targets.one_step_importance_sampling,
    "epsilon": v_targets.no_correction,
    "none": v_targets.no_correction,
}
"""Target operators of the corrections of Section 5.2.2; `epsilon` differs from `none` only in the policy gradient."""

EPSILON_CORRECTION = 1e-6
"""Constant added to pi(a|x) in the policy gradient's logarithm (Section 5.2.2, item 2; assumed: only there)."""


class VtraceLossSettings(NamedTuple):
    """Settings of the loss: all fields of a configuration's `loss` section except the discount.

    correction: one of `CORRECTIONS`.
    lambda_, clip_rho, clip_c, clip_pg_rho, alpha_rho, alpha_c: as for `v_targets.vtrace`.
    entropy_cost, baseline_cost: weights of the entropy bonus and of the baseline loss.
    half_baseline: whether the baseline loss is half the square instead of the square.
    """

    correction: str
    lambda_: float
    clip_rho: float | None
    clip_c: float | None
    clip_pg_rho: float | None
    alpha_rho: float
    alpha_c: float
    entropy_cost: float
    baseline_cost: float
    half_baseline: bool


class ImpalaLoss(NamedTuple):
    """Losses of each step, float32 [T, B], zero on boundary rows, and named extras of the same shape.

    The three terms have their weights and add up to `total`; `extras["entropy"]` is H itself.
    """

    total: tf.Tensor
    policy_gradient: tf.Tensor
    baseline: tf.Tensor
    entropy: tf.Tensor
    extras: dict[str, tf.Tensor]


def impala_loss(
    target_logits: tf.Tensor,
    behaviour_logits: tf.Tensor,
    actions: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    v_tm1: tf.Tensor,
    v_t: tf.Tensor,
    is_boundary: tf.Tensor,
    settings: VtraceLossSettings,
) -> ImpalaLoss:
    """Computes the three terms of Section 4.2, unreduced; the paper sums them over batch and time.

        total_s = - rho_s log pi(a_s|x_s) (r_s + gamma v_{s+1} - V(x_s))      policy gradient
                  + baseline_cost * 1/2 (v_s - V(x_s))^2                       baseline (1/2: `half_baseline`)
                  - entropy_cost * H(pi(.|x_s))                                entropy bonus

    with v_s the V-trace target of Eq. (1), or the target of another correction of Table 2. The extras, [T, B], are
    `entropy`, `rho_clipped`, `targets` and `values`, with entries for boundary rows, too, which are no transitions.

    Args:
        target_logits: pi's logits, float32 [T, B, A]; receive the policy and entropy gradients.
        behaviour_logits: mu's logits when the actions were chosen, float32 [T, B, A]; no gradient.
        actions: int32 [T, B].
        r_t: reward after each action, float32 [T, B].
        discount_t: gamma, or 0 where the step ended the episode, float32 [T, B].
        v_tm1: V(x_s), float32 [T, B]; receives the baseline gradient.
        v_t: V(x_{s+1}), float32 [T, B]; no gradient.
        is_boundary: bool [T, B], true for rows that are no transition (the observation is the last of a game).
        settings: coefficients and the name of the correction.

    Raises:
        ValueError: the correction is unknown; otherwise as for `v_targets.vtrace`.
    """
    ranges.assert_one_of("impala_loss", CORRECTIONS, correction=settings.correction)
    log_rho = tf.stop_gradient(categorical.log_ratio(target_logits, behaviour_logits, actions))
    targets, pg_advantages, rho_clipped = CORRECTIONS[settings.correction](
        log_rho,
        discount_t,
        r_t,
        v_tm1,
        v_t,
        lambda_=settings.lambda_,
        clip_rho=settings.clip_rho,
        clip_c=settings.clip_c,
        clip_pg_rho=settings.clip_pg_rho,
        alpha_rho=settings.alpha_rho,
        alpha_c=settings.alpha_c,
        is_boundary=is_boundary,
    )
    log_pi = categorical.log_prob(target_logits, actions)
    if settings.correction == "epsilon":
        log_pi = tf.math.log(tf.exp(log_pi) + EPSILON_CORRECTION)
    entropy = categorical.entropy(target_logits)

    policy_gradient = -log_pi * pg_advantages
    baseline = (0.5 if settings.half_baseline else 1.0) * tf.square(targets - v_tm1)
    losses = [policy_gradient, settings.baseline_cost * baseline, -settings.entropy_cost * entropy]
    losses = [tf.where(is_boundary, 0.0, loss) for loss in losses]
    extras = {"entropy": entropy, "rho_clipped": rho_clipped, "targets": targets, "values": v_tm1}
    return ImpalaLoss(tf.add_n(losses), losses[0], losses[1], losses[2], extras)
