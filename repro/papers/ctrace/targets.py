"""Targets of C-trace's agents (Section 4; Appendix E): four methods for a batch of sequences.

    method       target of Q(x_s, a_s)                                    policy in it
    double_dqn   n-step uncorrected return with n = 1                     pi
    n_step       n-step uncorrected return (Eq. 2)                        pi
    retrace      Retrace (Eq. 4)                                          pi
    c_trace      alpha-Retrace (Section 3), alpha adapted by Eq. 7        alpha pi + (1 - alpha) mu

pi is greedy on the online network, and the values are those of the target network, as in Double DQN (Appendix E.2).
lambda multiplies the traces of Retrace and C-trace; the paper uses 1 and tried 0.97 (Appendix E).
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from repro.ops import q_targets, ranges, traces
from repro.ops.constants import Scalar
from repro.papers.ctrace import alpha_update

METHODS = ("double_dqn", "n_step", "retrace", "c_trace")


class Sequences(NamedTuple):
    """T steps of B sequences; names that end in `_t` belong to x_{s+1}, as in `repro.ops.q_targets`.

    Attributes:
        r_t: reward received after a_s, float32 [T, B].
        discount_t: gamma, and 0 where step s ended the episode, float32 [T, B]. A time limit keeps gamma.
        q_t: Q(x_{s+1}, .) of the target network, in units of the return, float32 [T, B, A].
        q_t_a: entry of `q_t` at a_{s+1}, float32 [T, B].
        pi_t, mu_t: target and behaviour policy in x_{s+1}, float32 [T, B, A]. mu_t is also read where a time limit made
            x_{s+1} the last observation.
        log_rho_t: log(pi(a_{s+1}|x_{s+1}) / mu(a_{s+1}|x_{s+1})), float32 [T, B]; -inf where pi is 0.
        is_boundary: bool [T, B], true for rows that are no transition.
    """

    r_t: tf.Tensor
    discount_t: tf.Tensor
    q_t: tf.Tensor
    q_t_a: tf.Tensor
    pi_t: tf.Tensor
    mu_t: tf.Tensor
    log_rho_t: tf.Tensor
    is_boundary: tf.Tensor


class Target(NamedTuple):
    """The target G_s of Q(x_s, a_s) and its contraction rate C_hat_s, each float32 [T, B]."""

    target: tf.Tensor
    contraction: tf.Tensor


def n_step(sequences: Sequences, gamma: float, n: int) -> Target:
    """The n-step uncorrected return (C-trace, Eq. 2); n = 1 is Double DQN. Windows stop at the sequence's end.

    A piece of N steps contracts by gamma^min(n, N) (Definition 1.2), as (T^mu)^(n-1) T^pi does (Proposition B.1).

    Args:
        sequences: the batch.
        gamma: discount in [0, 1).
        n: number of rewards in a full window, at least 1.

    Gradients: none. Boundary and errors are those of `q_targets.n_step_uncorrected`; on boundary rows the target is 0
        and the contraction 1.
    """
    r_t, discount_t, q_t, _, pi_t, _, _, is_boundary = sequences
    expected_q_t = traces.expected_value(q_t, pi_t)  # [T, B]
    target = q_targets.n_step_uncorrected(r_t, discount_t, expected_q_t, n=n, is_boundary=is_boundary)
    contraction = alpha_update.contraction_target(
        discount_t, gamma=gamma, target_rate=gamma**n, is_boundary=is_boundary
    )
    return Target(target, contraction)


def alpha_retrace(sequences: Sequences, gamma: float, alpha: Scalar, trace_lambda: float = 1.0) -> Target:
    """alpha-Retrace (C-trace, Section 3) and its observed contraction rate (Appendix E); alpha = 1 is Retrace (Eq. 4).

    Args:
        sequences: the batch.
        gamma: discount in [0, 1).
        alpha: share of pi in the target policy, scalar in [0, 1].
        trace_lambda: factor of every trace coefficient, in [0, 1].

    Gradients: none through the target; exact to `alpha` through the contraction. Boundary and errors are those of
        `q_targets.multistep_q`; on boundary rows the target is 0 and the contraction 1.
    """
    r_t, discount_t, q_t, q_t_a, pi_t, mu_t, log_rho_t, is_boundary = sequences
    target = q_targets.multistep_q(
        r_t,
        discount_t,
        c_t=traces.alpha_retrace(log_rho_t, alpha),
        expected_q_t=traces.expected_value(q_t, traces.mixture(pi_t, mu_t, alpha)),
        q_t_a=q_t_a,
        lambda_=trace_lambda,
        is_boundary=is_boundary,
    )
    contraction = alpha_update.contraction_estimate(
        log_rho_t, discount_t, alpha, gamma=gamma, trace_lambda=trace_lambda, is_boundary=is_boundary
    )
    return Target(target, contraction)


def compute_target(
    method: str, sequences: Sequences, *, gamma: float, n: int, alpha: Scalar, trace_lambda: float = 1.0
) -> Target:
    """Computes the target of one of the four methods.

    Args:
        method: one of `METHODS`.
        sequences, gamma: as for `n_step`.
        n: as for `n_step`; read only by that method.
        alpha: as for `alpha_retrace`; read only by `c_trace`.
        trace_lambda: as for `alpha_retrace`; read only by `retrace` and `c_trace`.

    Raises:
        ValueError: the method is unknown; otherwise as for the method's function.
    """
    if method == "double_dqn":
        return n_step(sequences, gamma, 1)
    if method == "n_step":
        return n_step(sequences, gamma, n)
    if method == "retrace":
        return alpha_retrace(sequences, gamma, 1.0, trace_lambda)
    if method == "c_trace":
        return alpha_retrace(sequences, gamma, alpha, trace_lambda)
    raise ValueError(f"Unknown method {method!r}: choose one of {', '.join(METHODS)}.")


def greedy(q: tf.Tensor) -> tf.Tensor:
    """The greedy policy, with the first of equal actions: [..., A] to probabilities [..., A]. Gradients: none."""
    return tf.one_hot(tf.argmax(q, axis=-1), q.shape[-1])


def epsilon_greedy(greedy_actions: tf.Tensor, epsilon: Scalar, num_actions: int) -> tf.Tensor:
    """mu(a|x) = (1 - epsilon) [a is greedy] + epsilon / A, from the two numbers that actors store.

    mu of the action taken would not suffice: the mixture's expectation reads all of mu(.|x), and an exploratory action
    does not reveal which action was greedy for the actor.

    Args:
        greedy_actions: greedy actions of the actor's network when it acted, int [...], in [0, A).
        epsilon: epsilon of that actor, float32 in [0, 1], a scalar or in the shape of `greedy_actions`.
        num_actions: A.

    Returns:
        Probabilities, float32 [..., A]. Gradients: none to `greedy_actions`, exact to `epsilon`.

    Raises:
        ValueError: `epsilon` is a number outside its range.
    """
    ranges.assert_in("epsilon_greedy", "[0, 1]", epsilon=epsilon)
    epsilon = tf.convert_to_tensor(epsilon, tf.float32)[..., tf.newaxis]
    return (1.0 - epsilon) * tf.one_hot(greedy_actions, num_actions) + epsilon / num_actions
