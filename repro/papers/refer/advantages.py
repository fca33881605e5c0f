"""Closed-form action advantages of V-RACER (Appendix E, Eqs. 18 to 22).

The network outputs the coefficients of a function f(s, a) that is largest at the policy's mean; the advantage is
A(s, a) = f(s, a) - E_{a' ~ pi}[f(s, a')], whose mean under the policy is 0. The expectation is that of the normal
without truncation at three stds. Symbols: m is the mean and Sigma = diag(sigma^2) the covariance of pi, u = a - m.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from repro.ops import shapes

FORMS = ("none", "quadratic", "gaussian")
"""Forms of f: none, as Q := V (Section 2), Eq. 18 and Eq. 20."""


def num_coefficients(form: str, num_actions: int) -> int:
    """Number of network outputs besides V, mean and covariance; num_actions is A.

    0 for `none` (Q := V, Section 2); (A^2 + A) / 2 for `quadratic` (Eq. 18), the triangular L; 1 + 2 A for `gaussian`
    (Eq. 20), K, L_+ and L_-.

    Raises:
        KeyError: the form is unknown.
    """
    return {"none": 0, "quadratic": (num_actions**2 + num_actions) // 2, "gaussian": 1 + 2 * num_actions}[form]


def advantage(form: str, coefficients: tf.Tensor, action: tf.Tensor, mean: tf.Tensor, std: tf.Tensor) -> tf.Tensor:
    """A(s, a) = f(s, a) - E_{a' ~ pi}[f(s, a')].

    Args:
        form: as for `num_coefficients`; `none` gives 0.
        coefficients: raw network outputs, [B, num_coefficients]; receive the gradient.
        action: [B, A]; no gradient.
        mean: mean of pi, [B, A]; no gradient, as Eq. (23) fits "the parameterization coefficients".
        std: std of pi, [B, A] or [A], above 0; no gradient.

    Returns:
        [B], of the coefficients' dtype.

    Raises:
        ValueError: wrong shapes, or a number of coefficients other than `num_coefficients`.
        KeyError: the form is unknown.
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
    """The matrix L [B, A, A] with entries from the network and a positive diagonal (Appendix E).

    It is never built: results are computed from its entries by products with constant matrices of zeros and ones, which
    makes NAF's whole gradient step an eighth faster. Differentiable.

    Args:
        entries: entries of L, row by row, [B, (A^2 + A) / 2]; Softplus makes the diagonal positive.
        num_actions: A.
    """

    def __init__(self, entries: tf.Tensor, num_actions: int) -> None:
        rows, columns = np.tril_indices(num_actions)
        one_hot = np.eye(num_actions, dtype=entries.dtype.as_numpy_dtype)
        self._by_row, self._by_column = one_hot[:, rows], one_hot[columns]  # [A, entries], [entries, A]
        self._diagonal = tf.nn.softplus(entries @ (one_hot[rows] * one_hot[columns]))  # [B, A]
        self._below = entries * (rows > columns).astype(one_hot.dtype)  # [B, entries]

    def transposed_product(self, u: tf.Tensor) -> tf.Tensor:
        """L' u, [B, A], for u [B, A]: sum_i L_ij u_i."""
        return self._diagonal * u + (self._below * (u @ self._by_row)) @ self._by_column

    def trace(self, variance: tf.Tensor) -> tf.Tensor:
        """Tr[L L' Sigma], [B], given the diagonal [B, A] of Sigma: sum_ij L_ij^2 Sigma_ii."""
        diagonal_part = tf.reduce_sum(tf.square(self._diagonal) * variance, axis=-1)
        return diagonal_part + tf.reduce_sum(tf.square(self._below) * (variance @ self._by_row), axis=-1)


def _quadratic(coefficients: tf.Tensor, u: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    """f = -1/2 u' L L' u (Eq. 18), E[f] = -1/2 Tr[L L' Sigma] (Eq. 19, which lacks the factor -1/2 in print)."""
    lower = LowerTriangular(coefficients, u.shape[-1])
    f = -0.5 * tf.reduce_sum(tf.square(lower.transposed_product(u)), axis=-1)  # |L' u|^2
    expected = -0.5 * lower.trace(variance)
    return f - expected


def _asymmetric_gaussian(coefficients: tf.Tensor, u: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    """f = K exp(-1/2 u_+' L_+^-1 u_+ - 1/2 u_-' L_-^-1 u_-) (Eq. 20), with u_+ = max(u, 0) and u_- = min(u, 0).

    E[f] = K prod_i [sqrt(L_+ / (L_+ + Sigma)) + sqrt(L_- / (L_- + Sigma))]_i / 2 (Eqs. 21 and 22).
    The coefficients are K and the diagonals L_+ and L_-, in this order, which Softplus makes positive.
    """
    num_actions = u.shape[-1]
    k, above, below = tf.split(tf.nn.softplus(coefficients), [1, num_actions, num_actions], axis=-1)  # [B, 1 or A]
    width = tf.where(u > 0.0, above, below)  # [B, A]
    f = tf.exp(-0.5 * tf.reduce_sum(tf.square(u) / width, axis=-1))  # [B]
    factors = 0.5 * (tf.sqrt(above / (above + variance)) + tf.sqrt(below / (below + variance)))  # [B, A]
    return k[:, 0] * (f - tf.reduce_prod(factors, axis=-1))
