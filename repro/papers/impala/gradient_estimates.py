"""Moments of the policy gradient that the loss makes from trajectories of the behaviour policy (Sections 4.2, 5.2.2).

The policy is a softmax over one logit for each state and action; gradients are with respect to its logits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from repro.papers.impala.loss import VtraceLossSettings, impala_loss
from repro.tabular import mdps, paths
from repro.tabular.mdps import Problem


class Moments(NamedTuple):
    """Mean and variance of an estimate of the policy gradient in each state.

    mean: [S, A].
    variance: trace of the covariance, mean over states.
    """

    mean: np.ndarray
    variance: float


def true_gradient(problem: Problem) -> np.ndarray:
    """The policy gradient in each state, sum_a pi(a|x) d log pi(a|x) (Q^pi(x, a) - V^pi(x)), [S, A]."""
    mdp, pi, _ = problem
    return pi * (mdps.action_values(mdp, pi) - mdps.state_values(mdp, pi)[:, None])


def estimate_moments(
    problem: Problem, correction: str, clip: float | None, num_steps: int, subtracts_baseline: bool = True
) -> Moments:
    """Computes the moments of the estimate for the first of `num_steps` steps over all paths of mu.

    Args:
        problem: MDP and policies; V is V^pi.
        correction: one of `loss.CORRECTIONS`.
        clip: level at which every importance weight is clipped; None for no clipping.
        num_steps: steps of a path.
        subtracts_baseline: whether V(x_s) is subtracted from q_s.
    """
    mdp, pi, mu = problem
    every = paths.all_paths(mdp, mu, num_steps)
    x, a = every.trajectories  # [T + 1, N], [T, N]
    values = mdps.state_values(mdp, pi).astype(np.float32)[x]
    baseline = values[:-1].copy()
    if not subtracts_baseline:
        baseline[0] = 0.0  # v_s of later steps does not depend on it
    logits = tf.constant(np.log(pi)[x[:-1]], tf.float32)  # [T, N, A]
    with tf.GradientTape() as tape:
        tape.watch(logits)
        losses = impala_loss(
            target_logits=logits,
            behaviour_logits=np.log(mu)[x[:-1]].astype(np.float32),
            actions=a.astype(np.int32),
            r_t=mdp.rewards[x[:-1], a].astype(np.float32),
            discount_t=np.full(a.shape, mdp.discount, np.float32),
            v_tm1=baseline,
            v_t=values[1:],
            is_boundary=np.zeros(a.shape, bool),
            settings=_settings(correction, clip),
        )
        first = losses.policy_gradient[0]
    estimates = -tape.gradient(first, logits)[0].numpy().astype(float)  # [N, A]; the loss is descended
    moments = every.expectation(np.stack([estimates, estimates**2], axis=1), mdp)  # [S, A, 2, A]
    mean, square = np.einsum("xa,xakb->kxb", mu, moments)
    return Moments(mean, float((square - mean**2).sum(axis=1).mean()))


def _settings(correction: str, clip: float | None) -> VtraceLossSettings:
    return VtraceLossSettings(
        correction=correction,
        lambda_=1.0,
        clip_rho=clip,
        clip_c=clip,
        clip_pg_rho=clip,
        alpha_rho=1.0,
        alpha_c=1.0,
        entropy_cost=0.0,
        baseline_cost=0.0,
        half_baseline=True,
    )
