"""Targets of C-trace's agents (Section 4; Appendix E): one batch of sequences, four methods.

    method       target of Q(x_s, a_s)                                    policy in it
    double_dqn   n-step uncorrected return with n = 1                     pi
    n_step       n-step uncorrected return (Eq. 2)                        pi
    retrace      Retrace (Eq. 4)                                          pi
    c_trace      alpha-Retrace (Section 3), alpha adapted by Eq. 7        alpha pi + (1 - alpha) mu

pi is greedy on the online network, the values come from the target network: every method selects as Double DQN does
(Appendix E.2). lambda multiplies the traces of Retrace and C-trace; the paper uses 1 and tried 0.97 (Appendix E).
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import tensorflow as tf

from repro.ops import q_targets, ranges, traces
from repro.papers.ctrace import alpha_update

Scalar: TypeAlias = float | tf.Tensor

METHODS = ("double_dqn", "n_step", "retrace", "c_trace")


class Sequences(NamedTuple):
    """T steps of B sequences; what ends in `_t` belongs to x_{s+1}, as everywhere in `repro.ops.q_targets`.

    Attributes:
        r_t: reward received after a_s, float32 [T, B].
        discount_t: gamma, and 0 where step s ended the episode, float32 [T, B]. A time limit keeps gamma.
        q_t: Q(x_{s+1}, .) of the target network, in units of the return, float32 [T, B, A].
        q_t_a: its entry at a_{s+1}, float32 [T, B].
        pi_t, mu_t: target and behaviour policy in x_{s+1}, float32 [T, B, A]. mu_t is needed where a time limit made
            x_{s+1} the last observation, too.
        log_rho_t: log(pi(a_{s+1}|x_{s+1}) / mu(a_{s+1}|x_{s+1})), float32 [T, B]; -inf where pi is 0.
        is_boundary: bool [T, B], rows that are no transition.
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
    """G_s, the target of Q(x_s, a_s), and C_hat_s, the rate at which it contracts, each float32 [T, B]."""

    target: tf.Tensor
    contraction: tf.Tensor


def n_step(sequences: Sequences, gamma: float, n: int) -> Target:
    """The n-step uncorrected return (C-trace, Eq. 2); n = 1 is Double DQN. Windows stop at the sequence's end.

    A piece of N steps contracts by gamma^min(n, N) (Definition 1.2), as (T^mu)^(n-1) T^pi does (Proposition B.1).

    Args:
        sequences: the batch.
        gamma: discount in [0, 1).
        n: steps of reward, at least 1.

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
    """The target of one of the four methods.

    Args:
        method: one of `METHODS`.
        sequences, gamma: as for `n_step`.
        n: read by `n_step` alone.
        alpha: read by `c_trace` alone.
        trace_lambda: read by `retrace` and `c_trace`.

    Raises:
        ValueError: unknown method, and as the method's function.
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
    """The greedy policy, the first of equal actions: [..., A] to probabilities [..., A]. Gradients: none."""
    return tf.one_hot(tf.argmax(q, axis=-1), q.shape[-1])


def epsilon_greedy(greedy_actions: tf.Tensor, epsilon: Scalar, num_actions: int) -> tf.Tensor:
    """mu(a|x) = (1 - epsilon) [a is greedy] + epsilon / A, from the two numbers that an actor has to store.

    mu of the taken action alone does not do: the mixture's expectation reads all of mu(.|x), and after an exploratory
    action nobody knows which one the actor held for greedy.

    Args:
        greedy_actions: of the actor's network when it acted, int [...], in [0, A).
        epsilon: of that actor, float32 in [0, 1], scalar or in the shape of `greedy_actions`.
        num_actions: A.

    Returns:
        Probabilities, float32 [..., A]. Gradients: none to `greedy_actions`, exact to `epsilon`.

    Raises:
        ValueError: an `epsilon` that is a number outside its range.
    """
    ranges.assert_in("epsilon_greedy", "[0, 1]", epsilon=epsilon)
    epsilon = tf.convert_to_tensor(epsilon, tf.float32)[..., tf.newaxis]
    return (1.0 - epsilon) * tf.one_hot(greedy_actions, num_actions) + epsilon / num_actions
