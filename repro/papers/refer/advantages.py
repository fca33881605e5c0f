"""Closed-form action advantages of V-RACER (Appendix E, Eqs. 18 to 22).

The network gives the coefficients of a function f(s, a) that is largest at the policy's mean; the advantage is
A(s, a) = f(s, a) - E_{a' ~ pi}[f(s, a')], whose mean under the policy is 0. The expectation is that of the normal
without the cut at three standard deviations. Symbols: m mean, Sigma = diag(sigma^2) covariance of pi, u = a - m.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from repro.ops import shapes

FORMS = ("none", "quadratic", "gaussian")
"""Forms of f: Q := V (Section 2), Eq. 18 and Eq. 20."""


def num_coefficients(form: str, num_actions: int) -> int:
    """Outputs that the network has besides V, mean and covariance; num_actions is A.

    Forms of f: none (Q := V, Section 2): 0. quadratic (Eq. 18): (A^2 + A) / 2, the triangular L. gaussian (Eq. 20):
    1 + 2 A, for K, L_+ and L_-.

    Raises:
        KeyError: unknown form.
    """
    return {"none": 0, "quadratic": (num_actions**2 + num_actions) // 2, "gaussian": 1 + 2 * num_actions}[form]


def advantage(form: str, coefficients: tf.Tensor, action: tf.Tensor, mean: tf.Tensor, std: tf.Tensor) -> tf.Tensor:
    """A(s, a) = f(s, a) - E_{a' ~ pi}[f(s, a')].

    Args:
        form: as for `num_coefficients`; `none` gives 0.
        coefficients: raw network outputs, [B, num_coefficients]; receive the gradient.
        action: [B, A]; no gradient.
        mean: pi's, [B, A]; no gradient, as Eq. (23) fits "the parameterization coefficients".
        std: pi's, [B, A] or [A], above 0; no gradient.

    Returns:
        [B], of the coefficients' dtype.

    Raises:
        ValueError: wrong shapes, or another number of coefficients than `num_coefficients`.
        KeyError: unknown form.
    """
    coefficients = tf.convert_to_tensor(coefficients)
    action, mean, std = (tf.stop_gradient(tf.convert_to_tensor(x)) for x in (action, mean, std))
    shapes.assert_rank_at_least("advantage", 2, coefficients=coefficients, action=action)
    like = {"action[0]": action[0]} if std.shape.rank == 1 else {"action": action}
    shapes.assert_same_shape("advantage", action=action, mean=mean)
    shapes.assert_same_shape("advantage", **like, std=std)
    num_actions = action.shape[-1]
    if coefficients.shape[-1] != num_coefficients(form, num_actions):
        raise ValueError(
            f"advantage: {form} with {num_actions} actions takes {num_coefficients(form, num_actions)} "
            f"coefficients, got shape {coefficients.shape}"
        )
    if form == "none":
        return tf.zeros_like(action[:, 0])
    variance = tf.square(std) + tf.zeros_like(mean)  # [B, A]
    f_minus_mean = _quadratic if form == "quadratic" else _asymmetric_gaussian
    return f_minus_mean(coefficients, action - mean, variance)


class LowerTriangular:
    """The matrix L [B, A, A] of which the network gives the entries, with a positive diagonal (Appendix E).

    It is never built: what is asked of it are products of entries with constant matrices of zeros and ones, which make
    NAF's whole gradient step an eighth faster. Differentiable.

    Args:
        entries: L row by row, [B, (A^2 + A) / 2]; Softplus makes those of the diagonal positive.
        num_actions: A.
    """

    def __init__(self, entries: tf.Tensor, num_actions: int) -> None:
        rows, columns = np.tril_indices(num_actions)
        one_hot = np.eye(num_actions, dtype=entries.dtype.as_numpy_dtype)
        self._by_row, self._by_column = one_hot[:, rows], one_hot[columns]  # [A, entries], [entries, A]
        self._diagonal = tf.nn.softplus(entries @ (one_hot[rows] * one_hot[columns]))  # [B, A]
        self._below = entries * (rows > columns).astype(one_hot.dtype)  # [B, entries]

    def transposed_product(self, u: tf.Tensor) -> tf.Tensor:
        """L' u, [B, A], of u [B, A]: sum_i L_ij u_i."""
        return self._diagonal * u + (self._below * (u @ self._by_row)) @ self._by_column

    def trace(self, variance: tf.Tensor) -> tf.Tensor:
        """Tr[L L' Sigma], [B], of the diagonal [B, A] of Sigma: sum_ij L_ij^2 Sigma_ii."""
        of_diagonal = tf.reduce_sum(tf.square(self._diagonal) * variance, axis=-1)
        return of_diagonal + tf.reduce_sum(tf.square(self._below) * (variance @ self._by_row), axis=-1)


def _quadratic(coefficients: tf.Tensor, u: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    """f = -1/2 u' L L' u (Eq. 18), E[f] = -1/2 Tr[L L' Sigma] (Eq. 19, which lacks the factor -1/2 in print)."""
    lower = LowerTriangular(coefficients, u.shape[-1])
    f = -0.5 * tf.reduce_sum(tf.square(lower.transposed_product(u)), axis=-1)  # |L' u|^2
    expected = -0.5 * lower.trace(variance)
    return f - expected


def _asymmetric_gaussian(coefficients: tf.Tensor, u: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    """f = K exp(-1/2 u_+' L_+^-1 u_+ - 1/2 u_-' L_-^-1 u_-) (Eq. 20), with u_+ = max(u, 0) and u_- = min(u, 0).

    E[f] = K prod_i [sqrt(L_+ / (L_+ + Sigma)) + sqrt(L_- / (L_- + Sigma))]_i / 2 (Eqs. 21 and 22).
    K and the diagonals L_+ and L_- are made positive by Softplus, and stand in this order in the coefficients.
    """
    num_actions = u.shape[-1]
    k, above, below = tf.split(tf.nn.softplus(coefficients), [1, num_actions, num_actions], axis=-1)  # [B, 1 or A]
    width = tf.where(u > 0.0, above, below)  # [B, A]
    f = tf.exp(-0.5 * tf.reduce_sum(tf.square(u) / width, axis=-1))  # [B]
    factors = 0.5 * (tf.sqrt(above / (above + variance)) + tf.sqrt(below / (below + variance)))  # [B, A]
    return k[:, 0] * (f - tf.reduce_prod(factors, axis=-1))
