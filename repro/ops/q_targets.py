"""Targets for action values from sequences made by another policy.

`multistep_q` covers every method that cuts traces: the methods differ in the coefficients that `repro.ops.traces` lists
and in the policy under which Q is averaged. The two n-step returns take windows of n steps instead.

A row is one step (x_s, a_s) -> x_{s+1}. Names that end in `_t` belong to x_{s+1}, so `c_t`, `q_t_a` and `log_rho_t`
refer to the next action a_{s+1}. The target of Q(x_s, a_s) does not depend on its present value, which is no argument.
"""

from __future__ import annotations

import tensorflow as tf

from repro.ops import ranges, recursion, shapes
from repro.ops.constants import Scalar


def multistep_q(
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    c_t: tf.Tensor,
    expected_q_t: tf.Tensor,
    q_t_a: tf.Tensor,
    *,
    lambda_: Scalar = 1.0,
    is_boundary: tf.Tensor | None = None,
) -> tf.Tensor:
    """Retrace (C-trace, Eq. 4; ACER, Eqs. 5 and 21), TreeBackup (C-trace, Appendix D.1) and their relatives.

        G_s     = Q(x_s, a_s) + sum_{t=s}^{s+N-1} gamma^{t-s} (prod_{u=s+1}^{t} lambda c_u) Delta_t
        Delta_t = r_t + gamma E_{a ~ pi} Q(x_{t+1}, a) - Q(x_t, a_t)

    computed as G_s = r_s + gamma (E_{a ~ pi} Q(x_{s+1}, a) + lambda c_{s+1} (G_{s+1} - Q(x_{s+1}, a_{s+1}))), with
    G_{s+N} = Q(x_{s+N}, a_{s+N}): the sum's N temporal differences end with the last row, or where the episode ends.
    The papers' r_s is `r_t[s]` here, their c_{s+1} `c_t[s]`, their Q(x_{s+1}, a_{s+1}) `q_t_a[s]`.

    Args:
        r_t: reward received after a_s, float32 [T, B, ...].
        discount_t: gamma in [0, 1], and 0 where step s ended the episode, float32 [T, B, ...].
        c_t: trace coefficient of a_{s+1} in x_{s+1}, by a rule of `repro.ops.traces`, float32 [T, B, ...].
        expected_q_t: E_{a ~ pi} Q(x_{s+1}, a), float32 [T, B, ...], under the rule's target policy: `traces.mixture`
            for alpha-Retrace and alpha-TreeBackup, which are wrong with pi.
        q_t_a: Q(x_{s+1}, a_{s+1}), float32 [T, B, ...].
        lambda_: additional discount of the traces, scalar in [0, 1].
        is_boundary: bool [T, B, ...], true for rows that are no transition: their observation is the last of an
            episode, and the next row is the first of another. None: no such rows.

    Returns:
        G_s, the target of Q(x_s, a_s), float32 [T, B, ...].

    Gradients: none to any argument; targets are constants.

    Boundary: where `discount_t[s]` is 0, row s reads `r_t[s]` alone. The last row and a row before a boundary row
        bootstrap from their own `expected_q_t` and read neither `c_t` nor `q_t_a`. A boundary row reads nothing and
        its target is 0: leave it out of the loss. Entries that are not read may be NaN.

    Raises:
        ValueError: wrong types, different shapes, a rank below 2, a `lambda_` that is not a scalar or is a number
            outside its range, or a number of steps that is 0 or, when a graph is traced, unknown.
        tf.errors.InvalidArgumentError: different shapes, for dimensions known only when the graph runs.
    """
    ranges.assert_in("multistep_q", "[0, 1]", lambda_=lambda_)
    data = {"r_t": r_t, "discount_t": discount_t, "c_t": c_t, "expected_q_t": expected_q_t, "q_t_a": q_t_a}
    data, reads_next = _readable("multistep_q", data, is_boundary)
    r_t, discount_t, c_t, expected_q_t, q_t_a = data.values()  # [T, B, ...]
    lambda_ = tf.stop_gradient(shapes.convert("multistep_q", lambda_=lambda_)["lambda_"])
    shapes.assert_scalar("multistep_q", lambda_=lambda_)

    trace = tf.where(reads_next, lambda_ * c_t, 0.0)
    q_t_a = tf.where(reads_next, q_t_a, 0.0)
    delta = r_t + discount_t * (expected_q_t - trace * q_t_a)
    targets, _ = recursion.backward_recursion(delta, discount_t * trace, reads_next)
    return targets


def n_step_uncorrected(
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    expected_q_t: tf.Tensor,
    *,
    n: int,
    is_boundary: tf.Tensor | None = None,
) -> tf.Tensor:
    """The n-step uncorrected return (C-trace, Eq. 2).

        G_s = sum_{t=0}^{m-1} gamma^t r_{s+t} + gamma^m E_{a ~ pi} Q(x_{s+m}, a)

    with m = n, or the number of steps left in the sequence from s if that is smaller. The last term drops out where the
    episode ends within the m steps.

    Args:
        r_t, discount_t, expected_q_t, is_boundary: as for `multistep_q`.
        n: number of rewards in a full window, at least 1.

    Returns:
        G_s, the target of Q(x_s, a_s), float32 [T, B, ...].

    Gradients, boundary and errors are those of `multistep_q`; ValueError also for an `n` below 1.
    """
    data = {"r_t": r_t, "discount_t": discount_t, "expected_q_t": expected_q_t}
    data, reads_next = _readable("n_step_uncorrected", data, is_boundary)
    r_t, discount_t, expected_q_t = data.values()  # [T, B, ...]
    return _n_step("n_step_uncorrected", r_t, discount_t, expected_q_t, tf.ones_like(r_t), reads_next, n)


def n_step_importance_weighted(
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    log_rho_t: tf.Tensor,
    expected_q_t: tf.Tensor,
    *,
    n: int,
    is_boundary: tf.Tensor | None = None,
) -> tf.Tensor:
    """The n-step importance-weighted return (C-trace, Eq. 3).

        G_s = sum_{t=0}^{m-1} rho_{s+1:s+t} gamma^t r_{s+t} + rho_{s+1:s+m-1} gamma^m E_{a ~ pi} Q(x_{s+m}, a)

    with rho_{i:j} = rho_i ... rho_j, 1 where j < i, and m as in `n_step_uncorrected`. The first action needs no weight,
    since Q(x_s, a_s) is conditioned on it; neither does the last, which is averaged over.

    Args:
        r_t, discount_t, expected_q_t, is_boundary: as for `multistep_q`.
        log_rho_t: log(pi(a_{s+1}|x_{s+1}) / mu(a_{s+1}|x_{s+1})), float32 [T, B, ...]; -inf where pi is 0.
        n: number of rewards in a full window, at least 1. Weights are products of n - 1 ratios and may overflow for
            large n.

    Returns:
        G_s, the target of Q(x_s, a_s), float32 [T, B, ...].

    Gradients, boundary and errors are those of `multistep_q`, with `log_rho_t` read in the rows where `c_t` would be;
    ValueError also for an `n` below 1.
    """
    data = {"r_t": r_t, "discount_t": discount_t, "log_rho_t": log_rho_t, "expected_q_t": expected_q_t}
    data, reads_next = _readable("n_step_importance_weighted", data, is_boundary)
    r_t, discount_t, log_rho_t, expected_q_t = data.values()  # [T, B, ...]
    rho = tf.where(reads_next, tf.exp(log_rho_t), 0.0)
    return _n_step("n_step_importance_weighted", r_t, discount_t, expected_q_t, rho, reads_next, n)


def _n_step(
    operator: str,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    expected_q_t: tf.Tensor,
    rho_t: tf.Tensor,
    reads_next: tf.Tensor,
    n: int,
) -> tf.Tensor:
    """Starts from one-step windows and extends each of them by the next row's window, n - 1 times."""
    ranges.assert_in(operator, "[1, inf)", n=n)
    targets = r_t + discount_t * expected_q_t
    for _ in range(min(n, r_t.shape[0]) - 1):
        targets = r_t + discount_t * tf.where(reads_next, rho_t * recursion.later(targets, 1), expected_q_t)
    return targets


def _readable(
    operator: str, data: dict[str, tf.Tensor], is_boundary: tf.Tensor | None
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Checks `data` for `operator` and returns it as constants, and whether row s reads row s + 1, bool [T, B, ...].

    `data` holds `r_t`, `discount_t` and `expected_q_t`, whose entries that no row may read are replaced by 0. Further
    entries are left as they are, to be read only where the second result is true.
    """
    data = {name: tf.stop_gradient(x) for name, x in shapes.convert(operator, **data).items()}
    boundary = shapes.convert_boundary(operator, is_boundary, data["r_t"])
    shapes.assert_rank_at_least(operator, 2, **data)
    shapes.assert_same_shape(operator, **data, is_boundary=boundary)
    shapes.assert_steps(operator, r_t=data["r_t"])

    data["r_t"] = tf.where(boundary, 0.0, data["r_t"])
    data["discount_t"] = tf.where(boundary, 0.0, data["discount_t"])
    goes_on = tf.not_equal(data["discount_t"], 0.0)
    data["expected_q_t"] = tf.where(goes_on, data["expected_q_t"], 0.0)
    return data, goes_on & recursion.later(~boundary, 1)
