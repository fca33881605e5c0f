"""C-trace's update of alpha by the contraction rate of its traces (Section 3.2, Eqs. 6 and 7).

    alpha       = sigmoid(phi), the share of pi in the target policy alpha pi + (1 - alpha) mu
    phi_{k+1}   = phi_k - epsilon_k (C_hat(alpha(phi_k)) - max(Gamma, gamma^N))

Each row of a sequence begins its own piece of trajectory, with the N temporal differences from that row to the end of
the sequence or of the episode: in a replayed sequence of T steps N is T, T - 1, ..., 1 (Appendix E.2).

Deviations from the text:
- Appendix E sums C_hat from t = 0 to N, Section 3.2 sets gamma^N as the lowest rate of a piece. Both hold only if the
  last index is N - 1: with N temporal differences there are N terms, and alpha = 0 gives exactly gamma^N.
- Appendix E writes the target policy as (1 - alpha) pi + alpha mu, but C_hat with alpha as in the main text. Here alpha
  is that of the main text, the share of pi.
- The effect of an episode's end is not specified; here a piece stops there as it does at the sequence's end.
"""

from __future__ import annotations

import tensorflow as tf

from repro.ops import ranges, recursion, shapes, traces
from repro.ops.constants import Scalar

LOSS_SCALE = 1000.0
"""Scale of `alpha_loss` (divided there by 1 - gamma), for the shared optimiser's small learning rate (Appendix E)."""


def contraction_estimate(
    log_rho_t: tf.Tensor,
    discount_t: tf.Tensor,
    alpha: Scalar,
    *,
    gamma: float,
    trace_lambda: float = 1.0,
    is_boundary: tf.Tensor | None = None,
) -> tf.Tensor:
    """Estimates the contraction rate of alpha-Retrace from each piece of trajectory (C-trace, Eq. 5 and Appendix E).

        C_hat_s(alpha) = 1 - (1 - gamma) sum_{t=0}^{N_s-1} gamma^t prod_{u=s+1}^{s+t} c_u
        c_u            = lambda ((1 - alpha) + alpha min(1, rho_u))

    It grows with alpha, to at most gamma; at alpha = 0 and with lambda = 1, as printed, it is gamma^N_s. A smaller
    lambda cuts every trace, and C_hat stays above gamma^N_s.

    Args:
        log_rho_t: log(pi(a_{s+1}|x_{s+1}) / mu(a_{s+1}|x_{s+1})) of the next action, float32 [T, B, ...]; -inf where
            pi is 0.
        discount_t: 0 where step s ended the episode, any other value where it did not, float32 [T, B, ...].
        alpha: share of pi in the target policy, scalar in [0, 1].
        gamma: discount in [0, 1).
        trace_lambda: lambda in [0, 1], as in the targets (Appendix E).
        is_boundary: bool [T, B, ...], true for rows that are no transition. None: no such rows.

    Returns:
        C_hat_s, float32 [T, B, ...], in [0, 1].

    Gradients: exact to `alpha`; none to `log_rho_t` and `discount_t`.

    Boundary: the last row, a row that ends the episode and a row before a boundary row are pieces of one step, with
        C_hat = gamma; they do not read `log_rho_t`. A boundary row has N = 0 and C_hat = 1. Entries that are not read
        may be NaN.

    Raises:
        ValueError: wrong types, different shapes, a rank below 2, an `alpha` that is not a scalar, an `alpha`, `gamma`
            or `trace_lambda` outside its range, or a number of steps that is 0 or, when a graph is traced, unknown. An
            `alpha` that is a tensor is not compared with its range.
        tf.errors.InvalidArgumentError: different shapes, for dimensions known only when the graph runs.
    """
    ranges.assert_in("contraction_estimate", "[0, 1]", alpha=alpha, trace_lambda=trace_lambda)
    data = shapes.convert("contraction_estimate", log_rho_t=log_rho_t, alpha=alpha)
    alpha = data.pop("alpha")
    shapes.assert_scalar("contraction_estimate", alpha=alpha)
    is_step, reads_next = _pieces("contraction_estimate", data, discount_t, gamma, is_boundary)
    log_rho = tf.where(reads_next, data["log_rho_t"], 0.0)
    c = trace_lambda * traces.alpha_retrace(log_rho, alpha)
    discounted_length, _ = recursion.backward_recursion(tf.cast(is_step, tf.float32), gamma * c, reads_next)
    return 1.0 - (1.0 - gamma) * discounted_length


def contraction_target(
    discount_t: tf.Tensor, *, gamma: float, target_rate: float, is_boundary: tf.Tensor | None = None
) -> tf.Tensor:
    """Returns max(Gamma, gamma^N_s), the target rate for the piece of trajectory from row s (C-trace, Eq. 7).

    Args:
        discount_t, gamma, is_boundary: as for `contraction_estimate`.
        target_rate: Gamma in [0, 1]; gamma^10 in Section 4.

    Returns:
        Float32 [T, B, ...].

    Gradients: none.

    Boundary: a boundary row has N = 0 and a target of 1, which equals its estimate.

    Raises:
        As for `contraction_estimate`; ValueError also for a `target_rate` outside [0, 1].
    """
    ranges.assert_in("contraction_target", "[0, 1]", target_rate=target_rate)
    is_step, reads_next = _pieces("contraction_target", {}, discount_t, gamma, is_boundary)
    steps = tf.cast(is_step, tf.float32)
    num_steps, _ = recursion.backward_recursion(steps, steps, reads_next)  # N_s
    return tf.maximum(target_rate, tf.pow(gamma, num_steps))


def alpha_loss(phi: tf.Tensor, estimate: tf.Tensor, target: tf.Tensor, *, gamma: float) -> tf.Tensor:
    """Expresses the update of Eq. 7 as a loss, for a shared optimiser (C-trace, Appendix E).

        loss_s = 1000 / (1 - gamma) (C_hat_s - max(Gamma, gamma^N_s)) phi

    A gradient step on its mean over the rows of a minibatch is Eq. 7 with epsilon = learning rate x 1000 / (1 - gamma).
    C_hat is a constant in the loss, so only the gradient is meaningful, not the value.

    Args:
        phi: scalar variable; alpha is tf.sigmoid(phi).
        estimate: result of `contraction_estimate` at that alpha, float32 [T, B, ...].
        target: result of `contraction_target` for the same rows, float32 [T, B, ...].
        gamma: discount in [0, 1).

    Returns:
        Float32 [T, B, ...], not reduced.

    Gradients: to `phi` exactly the scaled difference; none to `estimate` and `target`.

    Boundary: 0 on boundary rows.

    Raises:
        ValueError: wrong types, different shapes, a `phi` that is not a scalar, or a `gamma` outside [0, 1).
    """
    ranges.assert_in("alpha_loss", "[0, 1)", gamma=gamma)
    phi, estimate, target = shapes.convert("alpha_loss", phi=phi, estimate=estimate, target=target).values()
    shapes.assert_scalar("alpha_loss", phi=phi)
    estimate, target = tf.stop_gradient(estimate), tf.stop_gradient(target)
    shapes.assert_same_shape("alpha_loss", estimate=estimate, target=target)
    return LOSS_SCALE / (1.0 - gamma) * (estimate - target) * phi


def _pieces(
    operator: str, data: dict[str, tf.Tensor], discount_t: tf.Tensor, gamma: float, is_boundary: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Makes `operator`'s checks, and returns whether row s is a step and whether its piece continues at row s + 1."""
    data = {**shapes.convert(operator, discount_t=discount_t), **data}
    discount_t = data["discount_t"]
    boundary = shapes.convert_boundary(operator, is_boundary, discount_t)
    shapes.assert_rank_at_least(operator, 2, **data)
    shapes.assert_same_shape(operator, **data, is_boundary=boundary)
    shapes.assert_steps(operator, discount_t=discount_t)
    ranges.assert_in(operator, "[0, 1)", gamma=gamma)
    goes_on = tf.not_equal(discount_t, 0.0) & ~boundary
    return ~boundary, goes_on & recursion.later(~boundary, 1)
