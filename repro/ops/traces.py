"""Trace coefficients c_t of action-value targets, each a one-line formula.

With rho = pi(a|x) / mu(a|x) for the action a taken in x:

    rule                  c_t of the step (x, a)               policy in the expectations of `q_targets`
    importance_sampling   rho                                  pi
    q_lambda              1                                    pi
    tree_backup           pi(a|x)                              pi
    retrace               min(1, rho)                          pi
    alpha_retrace         (1 - alpha) + alpha min(1, rho)      mixture(pi, mu, alpha)
    alpha_tree_backup     alpha pi(a|x) + (1 - alpha) mu(a|x)  mixture(pi, mu, alpha)
    acer_truncated        min(1, rho^(1/d))                    pi

A rule and its policy belong together: `q_targets.multistep_q` takes c_t from here, and Q's expectation under the
policy in the right-hand column from `expected_value`. It multiplies c_t by lambda itself.

Rules work element by element on tensors of any shape, so they can be given the rows of this step or of the next. None
passes a gradient to policies or values; `alpha` receives the exact gradient. A tensor whose type is not float32 raises
a ValueError that names function and argument. A ratio of 0, as under a greedy pi, and one that overflows to infinity
are safe in every rule; only `importance_sampling` returns that infinity.
"""

from __future__ import annotations

import tensorflow as tf

from repro.ops import ranges, shapes
from repro.ops.constants import Scalar


def importance_sampling(log_rho: tf.Tensor) -> tf.Tensor:
    """c = rho: per-decision importance sampling (Munos et al., 2016, Section 2, with lambda = 1).

    Args:
        log_rho: log(pi(a|x) / mu(a|x)) of the action taken, float32 of any shape; -inf where pi(a|x) is 0.

    Returns:
        c, in [0, inf], in the shape of `log_rho`. Gradients: none.
    """
    (log_rho,) = _constants("importance_sampling", log_rho=log_rho)
    return tf.exp(log_rho)


def q_lambda(log_rho: tf.Tensor) -> tf.Tensor:
    """c = 1: Q(lambda) with off-policy corrections (Harutyunyan et al., 2016); with lambda = 1 ACER's Q^opc (Eq. 21).

    Args:
        log_rho: as for `importance_sampling`; only its shape is read.

    Returns:
        Ones in the shape of `log_rho`. Gradients: none.
    """
    (log_rho,) = _constants("q_lambda", log_rho=log_rho)
    return tf.ones_like(log_rho)


def tree_backup(pi_a: tf.Tensor) -> tf.Tensor:
    """c = pi(a|x): TreeBackup (Precup et al., 2000; C-trace, Appendix D.1).

    Args:
        pi_a: pi(a|x) of the action taken, float32 of any shape, in [0, 1].

    Returns:
        c, in [0, 1], in the shape of `pi_a`. Gradients: none.
    """
    (pi_a,) = _constants("tree_backup", pi_a=pi_a)
    return pi_a


def retrace(log_rho: tf.Tensor) -> tf.Tensor:
    """c = min(1, rho): Retrace (Munos et al., 2016; C-trace, Eq. 4; ACER, Eq. 5).

    Args:
        log_rho: as for `importance_sampling`.

    Returns:
        c, in [0, 1], in the shape of `log_rho`. Gradients: none.
    """
    (log_rho,) = _constants("retrace", log_rho=log_rho)
    return tf.exp(tf.minimum(0.0, log_rho))


def alpha_retrace(log_rho: tf.Tensor, alpha: Scalar) -> tf.Tensor:
    """c = (1 - alpha) + alpha min(1, rho): alpha-Retrace (C-trace, Section 3 and Eq. 5).

    This equals min(1, (alpha pi(a|x) + (1 - alpha) mu(a|x)) / mu(a|x)), Retrace towards `mixture(pi, mu, alpha)`.

    Args:
        log_rho: as for `importance_sampling`.
        alpha: share of pi in the target policy, scalar in [0, 1]; 1 gives Retrace, 0 never cuts.

    Returns:
        c, in [0, 1], in the shape of `log_rho`. Gradients: exact to `alpha`, none to `log_rho`.

    Raises:
        ValueError: `alpha` is not a scalar, or is a number outside its range.
    """
    ranges.assert_in("alpha_retrace", "[0, 1]", alpha=alpha)
    (alpha,) = shapes.convert("alpha_retrace", alpha=alpha).values()
    (log_rho,) = _constants("alpha_retrace", log_rho=log_rho)
    shapes.assert_scalar("alpha_retrace", alpha=alpha)
    return (1.0 - alpha) + alpha * retrace(log_rho)


def alpha_tree_backup(pi_a: tf.Tensor, mu_a: tf.Tensor, alpha: Scalar) -> tf.Tensor:
    """c = alpha pi(a|x) + (1 - alpha) mu(a|x): TreeBackup towards `mixture(pi, mu, alpha)` (C-trace, Appendix D.1).

    Args:
        pi_a, mu_a: pi(a|x) and mu(a|x) of the action taken, float32 of one shape, in [0, 1].
        alpha: share of pi in the target policy, scalar in [0, 1]; 1 gives TreeBackup.

    Returns:
        c, in [0, 1], in the shape of `pi_a`. Gradients: exact to `alpha`, none to the probabilities.

    Raises:
        ValueError: the shapes differ, or `alpha` is not a scalar or is a number outside its range.
    """
    return _mixture("alpha_tree_backup", alpha, pi_a=pi_a, mu_a=mu_a)


def acer_truncated(log_rho: tf.Tensor, action_dimension: int) -> tf.Tensor:
    """c = min(1, rho^(1/d)): ACER in continuous action spaces (Section 5.1; Algorithm 3).

    Args:
        log_rho: as for `importance_sampling`, with densities in place of probabilities.
        action_dimension: d, at least 1; 1 gives Retrace.

    Returns:
        c, in [0, 1], in the shape of `log_rho`. Gradients: none.

    Raises:
        ValueError: `action_dimension` below 1.
    """
    ranges.assert_in("acer_truncated", "[1, inf)", action_dimension=action_dimension)
    (log_rho,) = _constants("acer_truncated", log_rho=log_rho)
    return retrace(log_rho / action_dimension)


def log_ratio(pi_a: tf.Tensor, mu_a: tf.Tensor) -> tf.Tensor:
    """log rho = log(pi(a|x) / mu(a|x)) from probabilities.

    Args:
        pi_a, mu_a: pi(a|x) and mu(a|x) of the action taken, float32 of one shape, in [0, 1].

    Returns:
        log rho, float32 in the shape of `pi_a`: -inf where pi(a|x) is 0, whatever mu(a|x) is, and inf where
        only mu(a|x) is 0. Gradients: none.

    Raises:
        ValueError: different shapes.
    """
    pi_a, mu_a = _constants("log_ratio", pi_a=pi_a, mu_a=mu_a)
    shapes.assert_same_shape("log_ratio", pi_a=pi_a, mu_a=mu_a)
    # Where pi is 0 the difference may be -inf + inf.
    return tf.where(tf.equal(pi_a, 0.0), tf.math.log(pi_a), tf.math.log(pi_a) - tf.math.log(mu_a))


def mixture(pi: tf.Tensor, mu: tf.Tensor, alpha: Scalar) -> tf.Tensor:
    """alpha pi + (1 - alpha) mu: the target policy of alpha-Retrace and C-trace (Section 3).

    C-trace's Appendix E prints (1 - alpha) pi + alpha mu; alpha is the share of pi throughout this suite.

    Args:
        pi, mu: probabilities, float32 of one shape, for instance [T, B, A].
        alpha: share of pi, scalar in [0, 1].

    Returns:
        Probabilities in the shape of `pi`. Gradients: exact to `alpha`, none to the probabilities.

    Raises:
        ValueError: as for `alpha_tree_backup`.
    """
    return _mixture("mixture", alpha, pi=pi, mu=mu)


def expected_value(q: tf.Tensor, probabilities: tf.Tensor) -> tf.Tensor:
    """E_{a ~ policy} Q(x, a) = sum_a policy(a|x) Q(x, a).

    Args:
        q: Q(x, .), float32 [..., A].
        probabilities: policy(.|x), float32 [..., A].

    Returns:
        Float32 [...]. Gradients: none.

    Raises:
        ValueError: different shapes, or no dimension of actions.
    """
    q, probabilities = _constants("expected_value", q=q, probabilities=probabilities)
    shapes.assert_rank_at_least("expected_value", 1, q=q, probabilities=probabilities)
    shapes.assert_same_shape("expected_value", q=q, probabilities=probabilities)
    return tf.reduce_sum(probabilities * q, axis=-1)


def _mixture(operator: str, alpha: Scalar, **policies: tf.Tensor) -> tf.Tensor:
    """Computes `mixture` for `operator`; alpha is the share of the first of `policies`."""
    ranges.assert_in(operator, "[0, 1]", alpha=alpha)
    (alpha,) = shapes.convert(operator, alpha=alpha).values()
    pi, mu = _constants(operator, **policies)
    shapes.assert_scalar(operator, alpha=alpha)
    shapes.assert_same_shape(operator, **dict(zip(policies, (pi, mu))))
    return alpha * pi + (1.0 - alpha) * mu


def _constants(operator: str, **arrays: tf.Tensor) -> list[tf.Tensor]:
    """Returns the arrays as float32 without gradient, after `operator`'s check of their types."""
    return [tf.stop_gradient(x) for x in shapes.convert(operator, **arrays).values()]
