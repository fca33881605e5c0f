"""PPO's losses (Schulman et al. 2017, Eqs. 7 and 9) as in Appendix A: no entropy bonus, no clipping of values."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from repro.distributions import gaussian
from repro.ops import ranges, shapes
from repro.papers.refer.loss import Policies, value_loss

VARIANCE_EPSILON = 1e-8
"""Constant added to the variance of a minibatch's advantages."""


class PpoLoss(NamedTuple):
    """Results of `ppo_loss`, each [B].

    policy: the clipped surrogate, to be minimised.
    value: loss of the value network.
    extras: `kl`, KL(mu || pi), and `clipped`, whether the ratio lies outside [1 - clip, 1 + clip].
    """

    policy: tf.Tensor
    value: tf.Tensor
    extras: dict[str, tf.Tensor]


def clipped_surrogate(rho: tf.Tensor, advantage: tf.Tensor, clip: float) -> tf.Tensor:
    """- min(rho_t A_t, clip(rho_t, 1 - clip, 1 + clip) A_t) (Schulman et al. 2017, Eq. 7).

    Args:
        rho: pi(a_t|s_t) / mu(a_t|s_t), [B]; receives the gradient, except where it is out of bounds on the side that
            A_t favours: the loss is flat there.
        advantage: A_t, [B]; no gradient.
        clip: above 0.

    Returns:
        [B].

    Raises:
        ValueError: the shapes differ, or `clip` is outside its range.
    """
    ranges.assert_in("clipped_surrogate", "(0, inf]", clip=clip)
    rho, advantage = tf.convert_to_tensor(rho), tf.convert_to_tensor(advantage)
    shapes.assert_same_shape("clipped_surrogate", rho=rho, advantage=advantage)
    advantage = tf.stop_gradient(advantage)
    return -tf.minimum(rho * advantage, tf.clip_by_value(rho, 1.0 - clip, 1.0 + clip) * advantage)


def standardise(advantage: tf.Tensor) -> tf.Tensor:
    """Subtracts the mean of advantages [B] and divides by their std; all 0 if they are equal."""
    mean, variance = tf.nn.moments(advantage, axes=[0])
    return (advantage - mean) * tf.math.rsqrt(variance + VARIANCE_EPSILON)


def ppo_loss(
    action: tf.Tensor, policies: Policies, v: tf.Tensor, advantage: tf.Tensor, target: tf.Tensor, clip: float
) -> PpoLoss:
    """Computes the losses of a minibatch, whose advantages are standardised by their own mean and std.

        policy: - min(rho_t A_t, clip(rho_t, 1 - clip, 1 + clip) A_t)
        value:  1/2 (V(s_t) - G_t)^2

    Many implementations standardise the advantages of a minibatch; others standardise those of all steps together. The
    paper does not specify it.

    Args:
        action: a_t, in the learner's units, [B, A].
        policies: pi(.|s_t), and mu(.|s_t), which sampled the action.
        v: V(s_t), [B]; receives only the gradient of the value loss.
        advantage: A_t as estimated when the rollout ended, [B]; no gradient.
        target: G_t as estimated when the rollout ended, [B]; no gradient.
        clip: above 0.

    Raises:
        ValueError: wrong shapes, or a `clip` outside its range.
    """
    ranges.assert_in("ppo_loss", "(0, inf]", clip=clip)
    rho = tf.exp(gaussian.log_ratio(*policies, action))  # [B]
    v, advantage, target = (tf.convert_to_tensor(x) for x in (v, advantage, target))
    shapes.assert_same_shape("ppo_loss", rho=rho, v=v, advantage=advantage, target=target)
    kl = gaussian.kl(policies.behaviour_mean, policies.behaviour_std, policies.mean, policies.std)
    clipped = tf.abs(rho - 1.0) > clip
    policy = clipped_surrogate(rho, standardise(advantage), clip)
    return PpoLoss(policy, value_loss(v, target), {"kl": kl, "clipped": clipped})
