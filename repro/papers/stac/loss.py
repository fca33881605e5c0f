"""The loss of STAC and STACX: leaky V-trace actor-critic with one or several heads (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from repro.ops import v_targets
from repro.papers.stac.action_distribution import ActionDistribution


class Hyperparameters(NamedTuple):
    """zeta, the hyper-parameters of the loss: each is a float or, with a value for each of P heads, float32 [P]."""

    gamma: float | tf.Tensor
    lambda_: float | tf.Tensor
    alpha_rho: float | tf.Tensor
    alpha_c: float | tf.Tensor
    truncation: float | tf.Tensor  # rho_bar and c_bar
    g_v: float | tf.Tensor
    g_p: float | tf.Tensor
    g_e: float | tf.Tensor


class StacLoss(NamedTuple):
    """Losses of every step and head, float32 [T, B, P] and zero on boundary rows, and rho of the same shape."""

    total: tf.Tensor
    value: tf.Tensor
    policy: tf.Tensor
    entropy: tf.Tensor
    rho: tf.Tensor


def stac_loss(
    distribution: ActionDistribution,
    target_outputs: tf.Tensor,
    behaviour: Mapping[str, tf.Tensor],
    actions: tf.Tensor,
    r_t: tf.Tensor,
    continues_t: tf.Tensor,
    v_tm1: tf.Tensor,
    v_t: tf.Tensor,
    is_boundary: tf.Tensor,
    zeta: Hyperparameters,
) -> StacLoss:
    """Computes the terms of Eq. (4), or of Eq. (3) without its KL, unreduced; Algorithm 1 sums over batch and time.

        total_s = g_v (v_s - V(x_s))^2                                              line 19
                  - g_p rho_s log pi(a_s|x_s) (r_s + gamma v_{s+1} - V(x_s))        lines 22, 24
                  - g_e H(pi(.|x_s))                                                line 20

    with v_s and rho_s of leaky V-trace, Eq. (5). Line 20 prints + g_e H, a misprint: the entropy is a bonus. For
    continuous actions H is minus the KL to a standard Gaussian (Section 4.2).

    This function computes both the inner and the outer loss: neither has a gradient to theta through targets, weights
    or the values in them (lines 5, 8 and 15), and through rho and v_{s+1} of line 22 only zeta receives one. Line 24
    stops that gradient, which makes no difference where zeta is constant.

    Args:
        distribution: distribution of the policies; H is its `bonus`.
        target_outputs: outputs of the heads' policies, float32 [T, B, P, K]; receive the policy and entropy gradients.
        behaviour: `distribution.info` of mu when the actions were chosen, float32 [T, B, ...]; no gradient.
        actions: int32 [T, B] or float32 [T, B, A].
        r_t: reward after each action, float32 [T, B].
        continues_t: 1, or 0 where the step ended the episode, float32 [T, B]; gamma is in `zeta`.
        v_tm1: V(x_s) of the heads, float32 [T, B, P]; receives the gradient of the value loss.
        v_t: V(x_{s+1}) of the heads, float32 [T, B, P]; no gradient.
        is_boundary: bool [T, B], true for rows that are no transition (the observation is the last of a game).
        zeta: hyper-parameters, which receive the exact gradient of the losses and of their gradients.

    Raises:
        ValueError: as for `v_targets.vtrace` and the functions of the distribution.
    """
    num_heads = target_outputs.shape[2]

    def each_head(x: tf.Tensor) -> tf.Tensor:
        return tf.repeat(x[:, :, tf.newaxis], num_heads, axis=2)

    actions, boundary = each_head(actions), each_head(is_boundary)  # [T, B, P, ...], [T, B, P]
    behaviour = {name: each_head(x) for name, x in behaviour.items()}
    log_rho = distribution.log_ratio(target_outputs, behaviour, actions)
    targets, advantages, rho = v_targets.vtrace(
        log_rho,
        zeta.gamma * tf.where(boundary, 0.0, each_head(continues_t)),
        each_head(r_t),
        v_tm1,
        v_t,
        lambda_=zeta.lambda_,
        clip_rho=zeta.truncation,
        clip_c=zeta.truncation,
        clip_pg_rho=zeta.truncation,
        alpha_rho=zeta.alpha_rho,
        alpha_c=zeta.alpha_c,
        is_boundary=boundary,
    )
    value = zeta.g_v * tf.square(targets - v_tm1)
    policy = -zeta.g_p * distribution.log_prob(target_outputs, actions) * advantages
    entropy = -zeta.g_e * distribution.bonus(target_outputs)
    value, policy, entropy = (tf.where(boundary, 0.0, loss) for loss in (value, policy, entropy))
    return StacLoss(value + policy + entropy, value, policy, entropy, rho)
