"""The loss of C-trace's agents (Section 4; Appendix E): one regression loss for all target operators."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from repro.ops import ranges, recursion, shapes, traces, value_rescaling
from repro.ops.constants import Scalar
from repro.papers.ctrace import targets


class SequenceLossSettings(NamedTuple):
    """Settings of the loss.

    Attributes:
        method: one of `targets.METHODS`.
        n: steps of `n_step`, at least 1; other methods do not read it.
        discount: gamma in [0, 1).
        clip_error: bound on the gradient with respect to a TD error, above 0: 1 for DQN (Mnih et al., 2015), infinity
            for R2D2 (assumed: no paper prints its loss; Acme and SEED RL use half of the square).
        rescaling: epsilon of h, R2D2's rescaling of values (C-trace, Table 1); None for DQN, which does not rescale.
        trace_lambda: factor of the traces of `retrace` and `c_trace`, in [0, 1]; other methods do not read it.
    """

    method: str
    n: int
    discount: float
    clip_error: float
    rescaling: float | None
    trace_lambda: float = 1.0


class DqnLoss(NamedTuple):
    """Per-step loss, float32 [T, B] and zero on boundary rows, and named extras of the same shape.

    The extras are `td_error`, h(G_s) - Q(x_s, a_s), 0 on boundary rows; `targets`, h(G_s); `values`, Q(x_s, a_s); and
    `contraction`, C_hat_s, the `estimate` of `alpha_update.alpha_loss`. The first three are constants, `contraction`
    is differentiable with respect to alpha.
    """

    total: tf.Tensor
    extras: dict[str, tf.Tensor]


def dqn_loss(
    q: tf.Tensor,
    target_q: tf.Tensor,
    behaviour: tf.Tensor,
    actions: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    is_boundary: tf.Tensor,
    settings: SequenceLossSettings,
    alpha: Scalar = 1.0,
) -> DqnLoss:
    """Computes the Q-learning loss of Section 4's agents, unreduced.

        total_s = huber(h(G_s) - Q(x_s, a_s)),   huber(d) = d^2 / 2 where |d| <= k, k |d| - k^2 / 2 beyond

    G_s is computed from h^-1(Q') of the target network Q', with pi greedy on Q (Appendix E); k is
    `settings.clip_error`, and h is the identity for DQN.

    Args:
        q: Q(x_s, .) of the online network for s = 0 to T, float32 [T + 1, B, A].
        target_q: Q'(x_s, .) of the target network, likewise; no gradient.
        behaviour: mu(.|x_s) of the actor that made the step, float32 [T + 1, B, A], from `targets.epsilon_greedy`; no
            gradient. Only `c_trace` reads entries of actions that were not taken.
        actions: a_s, int [T, B], in [0, A), also on boundary rows.
        r_t: reward received after a_s, clipped as the agent clips it, float32 [T, B].
        discount_t: gamma, and 0 where step s ended the episode, float32 [T, B]. A time limit keeps gamma: the target
            bootstraps from the last observation, in the boundary row that follows.
        is_boundary: bool [T, B], true for rows that are no transition.
        settings: see `SequenceLossSettings`.
        alpha: share of pi in the target policy of `c_trace`, scalar in [0, 1]: tf.sigmoid(phi).

    Returns:
        The loss and its extras.

    Gradients: `total` has a gradient only to Q(x_s, a_s) in `q`: -clip(h(G_s) - Q(x_s, a_s), -k, k).

    Boundary: as in `q_targets.multistep_q`; if a sequence ends before its episode, the targets bootstrap from row T.

    Raises:
        ValueError: the method is unknown, `clip_error` is not above 0, `trace_lambda` is outside [0, 1], or shapes do
            not fit.
        tf.errors.InvalidArgumentError: shapes do not fit, for dimensions known only when the graph runs.
    """
    ranges.assert_in("dqn_loss", "(0, inf]", clip_error=settings.clip_error)
    ranges.assert_in("dqn_loss", "[0, 1]", trace_lambda=settings.trace_lambda)
    shapes.assert_rank_at_least("dqn_loss", 3, q=q)
    shapes.assert_same_shape("dqn_loss", q=q, target_q=target_q, behaviour=behaviour)
    q_a = tf.gather(q[:-1], actions, batch_dims=2)  # [T, B]
    shapes.assert_same_shape("dqn_loss", r_t=r_t, actions=actions, q_a=q_a, is_boundary=is_boundary)

    pi_t, mu_t = targets.greedy(q[1:]), behaviour[1:]  # [T, B, A]
    q_t = target_q[1:]  # [T, B, A]
    if settings.rescaling is not None:
        q_t = value_rescaling.inverse_rescale(q_t, epsilon=settings.rescaling)
    a_t = recursion.later(actions, 1)  # [T, B]
    q_t_a, pi_t_a, mu_t_a = (tf.gather(x, a_t, batch_dims=2) for x in (q_t, pi_t, mu_t))  # [T, B]
    log_rho_t = traces.log_ratio(pi_t_a, mu_t_a)
    sequences = targets.Sequences(r_t, discount_t, q_t, q_t_a, pi_t, mu_t, log_rho_t, is_boundary)
    target, contraction = targets.compute_target(
        settings.method,
        sequences,
        gamma=settings.discount,
        n=settings.n,
        alpha=alpha,
        trace_lambda=settings.trace_lambda,
    )
    if settings.rescaling is not None:
        target = value_rescaling.rescale(target, epsilon=settings.rescaling)

    td_error = tf.where(is_boundary, 0.0, target - q_a)
    constants = {"td_error": td_error, "targets": target, "values": q_a}
    extras = {name: tf.stop_gradient(x) for name, x in constants.items()}
    return DqnLoss(huber(td_error, settings.clip_error), {**extras, "contraction": contraction})


def huber(error: tf.Tensor, clip: float) -> tf.Tensor:
    """error^2 / 2 where |error| <= clip, clip |error| - clip^2 / 2 beyond; clip = infinity: error^2 / 2 everywhere.

    Args:
        error: float32 of any shape.
        clip: above 0.

    Returns:
        Float32 in the shape of `error`. Gradients: exact, `error` clipped to [-clip, clip].
    """
    size = tf.abs(error)
    inner = tf.minimum(size, clip)
    return inner * (size - 0.5 * inner)
