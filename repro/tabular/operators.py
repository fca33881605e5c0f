"""Evaluation operators in closed form, T Q = A Q + b on action values: C-trace, Sections 1 to 3 and Appendix B, D.

A `Method` specifies an evaluation method. Multi-step trace rules differ in their entries in `TRACES`; n-step returns
bootstrap after n steps instead. Rows and columns of a matrix [SA, SA] are pairs (x, a), with index x A + a.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from repro.tabular.mdps import FiniteMDP, action_values, mix

UNCORRECTED, IMPORTANCE = "uncorrected", "importance"
"""Names of the rules of n-step returns, Eqs. (2) and (3)."""


class Method(NamedTuple):
    """An evaluation method.

    Attributes:
        rule: `uncorrected` or `importance`, with `n` steps, or a key of `TRACES`.
        n: number of steps of an n-step return, at least 1.
        alpha: share of pi in the target policy alpha pi + (1 - alpha) mu, in [0, 1]; for rules in `TRACES`.
        lambda_: factor of every trace coefficient, in [0, 1]; for rules in `TRACES`.
        dimension: d in ACER's rho^(1/d), the dimension of the action.
    """

    rule: str
    n: int = 0
    alpha: float = 1.0
    lambda_: float = 1.0
    dimension: int = 1


TRACES: Mapping[str, Callable[[np.ndarray, np.ndarray, Method], np.ndarray]] = {
    "retrace": lambda pi, mu, method: np.minimum(mu, pi),
    "tree_backup": lambda pi, mu, method: mu * pi,
    "acer": lambda pi, mu, method: np.minimum(mu, mu * ratio(pi, mu) ** (1 / method.dimension)),
    "q_lambda": lambda pi, mu, method: mu,
    "importance_sampling": lambda pi, mu, method: np.where(mu > 0, pi, 0.0),
}
"""mu(a|x) c(x, a) of each rule for target policy pi, both [S, A], without the factor lambda.

With rho = pi / mu, Retrace has c = min(1, rho), TreeBackup c = pi, ACER's continuous Retrace c = min(1, rho^(1/d)),
Q(lambda) c = 1, importance sampling c = rho. On endless trajectories with lambda = 1 the latter never bootstraps.
"""


class Operator(NamedTuple):
    """T Q = matrix Q + offset, [SA, SA] and [SA]."""

    matrix: np.ndarray
    offset: np.ndarray

    def __call__(self, q: np.ndarray) -> np.ndarray:
        """Applies T to action values [S, A]; the result has the same shape."""
        return (self.matrix @ q.ravel() + self.offset).reshape(q.shape)


def operator(mdp: FiniteMDP, pi: np.ndarray, mu: np.ndarray, method: Method, horizon: int | None = None) -> Operator:
    """Returns the expected update of a method (Definition 1.1).

    uncorrected       (T^mu)^(n-1) T^pi, Proposition B.1
    importance        (T^pi)^n, Section 2
    traces            Q + sum_s gamma^s E_mu[c_1 .. c_s Delta_s], Eq. (4), with the target policy inside Delta_s

    Args:
        mdp: the MDP.
        pi: target policy before mixing, [S, A].
        mu: behaviour policy, [S, A].
        method: the method.
        horizon: number of steps of the trajectory, and the most that an n-step return uses; None for an endless one.

    Raises:
        ValueError: the rule is unknown, or an n-step rule has an n below 1.
    """
    if method.rule in TRACES:
        return _trace_operator(mdp, mix(pi, mu, method.alpha), weighted_trace(pi, mu, method), horizon)
    n = n_step_length(method)
    if horizon is not None:
        n = min(n, horizon)
    followed = step_matrix(mdp, mu if method.rule == UNCORRECTED else pi)
    matrix, offset = step_matrix(mdp, pi), mdp.rewards.ravel()
    for _ in range(n - 1):
        matrix, offset = followed @ matrix, mdp.rewards.ravel() + followed @ offset
    return Operator(matrix, offset)


def weighted_trace(pi: np.ndarray, mu: np.ndarray, method: Method) -> np.ndarray:
    """mu(a|x) c(x, a) of a trace rule with its mixture and lambda, [S, A]."""
    return method.lambda_ * TRACES[method.rule](mix(pi, mu, method.alpha), mu, method)


def trace_coefficients(pi: np.ndarray, mu: np.ndarray, method: Method) -> np.ndarray:
    """c(x, a) of a trace rule, [S, A]; 0 for actions that mu never takes."""
    return ratio(weighted_trace(pi, mu, method), mu)


def step_matrix(mdp: FiniteMDP, weights: np.ndarray) -> np.ndarray:
    """gamma P(y|x, a) w(b|y) from (x, a) to (y, b), [SA, SA]: the matrix of T^w in Eq. (1) for a policy w [S, A]."""
    size = mdp.rewards.size
    return (mdp.discount * mdp.continuing[..., None] * weights).reshape(size, size)


def contraction_rates(op: Operator) -> np.ndarray:
    """The contraction rate of each row, [SA]: the row sums of |A|."""
    return np.abs(op.matrix).sum(1)


def contraction_rate(op: Operator) -> float:
    """The contraction rate (Definition 1.2) in sup norm: the largest row sum of |A|."""
    return float(contraction_rates(op).max())


def fixed_point(op: Operator, mdp: FiniteMDP) -> np.ndarray:
    """Q with T Q = Q, [S, A]; unique where T contracts."""
    return np.linalg.solve(np.eye(len(op.offset)) - op.matrix, op.offset).reshape(mdp.rewards.shape)


def fixed_point_bias(op: Operator, mdp: FiniteMDP, pi: np.ndarray) -> float:
    """The fixed-point bias (Definition 1.3): Euclidean distance of the fixed point from Q^pi, pi before mixing."""
    return float(np.linalg.norm(fixed_point(op, mdp) - action_values(mdp, pi)))


def update_variance(mdp: FiniteMDP, pi: np.ndarray, mu: np.ndarray, method: Method, q: np.ndarray) -> np.ndarray:
    """Var_mu[target | x, a] of the sampled update on an endless trajectory, [S, A], from its first two moments.

    Its average over the first pair is Definition 1.4. It is finite for every rule whose E_mu[c^2] gamma^2 contracts,
    so for every rule with c <= 1 and every n-step return.

    Args:
        mdp, pi, mu, method: as for `operator`.
        q: current estimate, [S, A]; values of terminal states are replaced by 0.

    Raises:
        ValueError: as for `operator`.
    """
    q = np.where(mdp.terminal[:, None], 0.0, q)
    moments = _trace_moments if method.rule in TRACES else _n_step_moments
    mean, square = moments(mdp, pi, mu, method, q)
    return np.maximum(square - mean**2, 0.0)


def _trace_moments(
    mdp: FiniteMDP, pi: np.ndarray, mu: np.ndarray, method: Method, q: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """E[e] and E[e^2] of the correction e_t = Delta_t + gamma c_{t+1} e_{t+1} that a trace rule adds to q, [S, A]."""
    c = trace_coefficients(pi, mu, method)
    v = np.einsum("xa,xa->x", mix(pi, mu, method.alpha), q)
    td = mdp.rewards[..., None] + mdp.discount * v - q[..., None]  # [S, A, S]
    mean = operator(mdp, pi, mu, method)(q) - q
    offset = np.einsum("xay,xay->xa", mdp.transitions, td**2)
    following = 2 * mdp.discount * np.einsum("yb,yb->y", mu * c, mean)
    offset += np.einsum("xay,xay,y->xa", mdp.continuing, td, following)
    matrix = np.eye(q.size) - mdp.discount * step_matrix(mdp, mu * c**2)
    return mean, np.linalg.solve(matrix, offset.ravel()).reshape(q.shape)


def _n_step_moments(
    mdp: FiniteMDP, pi: np.ndarray, mu: np.ndarray, method: Method, q: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """E[G] and E[G^2] of an n-step return G, [S, A]."""
    weights = np.ones_like(mu) if method.rule == UNCORRECTED else ratio(pi, mu)
    v = np.einsum("xa,xa->x", pi, q)
    later, later_square = v, v**2  # moments of the return after the first step, by the state that it leads to
    for steps in range(1, n_step_length(method) + 1):
        mean = mdp.rewards + mdp.discount * mdp.continuing @ later
        square = mdp.rewards * (2 * mean - mdp.rewards) + mdp.discount**2 * mdp.continuing @ later_square
        if steps < method.n:
            later, later_square = (mu * weights * mean).sum(1), (mu * weights**2 * square).sum(1)
    return mean, square


def alpha_retrace_rates(mdp: FiniteMDP, pi: np.ndarray, mu: np.ndarray, alphas: np.ndarray) -> np.ndarray:
    """Contraction rates of alpha-Retrace, Eq. (5) of Proposition 3.2: C(alpha|x, a), [K, S, A].

    As in `contraction_rate`, the value of a terminal state is known, so that a step into one ends the trajectory;
    without terminal states this is exactly Eq. (5). Solved over states only, so that many alphas are cheap.

    Args:
        mdp, pi, mu: as for `operator`; lambda is 1.
        alphas: [K], each in [0, 1].
    """
    target = mix(pi, mu, np.asarray(alphas)[:, None, None])
    keep = np.minimum(mu, target)  # [K, S, A]
    cut = (target - keep).sum(-1)  # weight on the bootstrap in each state
    reach = np.einsum("kxa,xay->kxy", keep, mdp.continuing)
    # u(x, a) = gamma sum_y P(y|x, a) (cut(y) + sum_b keep(y, b) u(y, b)); solved for w(y) = sum_b keep(y, b) u(y, b)
    w = np.linalg.solve(
        np.eye(mdp.num_states) - mdp.discount * reach, mdp.discount * np.einsum("kxy,ky->kx", reach, cut)[..., None]
    )[..., 0]
    return mdp.discount * np.einsum("xay,ky->kxa", mdp.continuing, cut + w)


def alpha_for_rate(mdp: FiniteMDP, pi: np.ndarray, mu: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Finds by bisection the alphas at which alpha-Retrace has given contraction rates, max over (x, a), [K].

    Args:
        mdp, pi, mu: as for `operator`.
        rates: contraction rates, [K]; alpha is 1 where the rate of Retrace itself is not above them.
    """
    low, high = np.zeros(len(rates)), np.ones(len(rates))
    reached = alpha_retrace_rates(mdp, pi, mu, np.ones(1)).max() <= rates
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        above = alpha_retrace_rates(mdp, pi, mu, middle).max((1, 2)) > rates
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.where(reached, 1.0, low)


BISECTIONS = 40
"""Number of halvings of [0, 1] in `alpha_for_rate`, which give alpha to 1e-12."""


def uncorrected_fixed_points(mdp: FiniteMDP, pi: np.ndarray, mu: np.ndarray, n_max: int) -> np.ndarray:
    """Fixed points of the uncorrected returns of 1 to n_max steps, [n_max, S, A], solved over states only.

    They equal `fixed_point(operator(...))` but are many times cheaper.
    """
    step = mdp.discount * np.einsum("xa,xay->xy", mu, mdp.continuing)
    states = mdp.num_states
    reach, offset = np.empty((n_max, *mdp.transitions.shape)), np.empty((n_max, *mdp.rewards.shape))
    reach[0], offset[0] = mdp.discount * mdp.continuing, mdp.rewards
    for i in range(1, n_max):
        reach[i] = reach[i - 1] @ step
        offset[i] = offset[i - 1] + reach[i - 1] @ np.einsum("xa,xa->x", mu, mdp.rewards)
    matrix = np.eye(states) - np.einsum("xa,nxay->nxy", pi, reach)
    v = np.linalg.solve(matrix, np.einsum("xa,nxa->nx", pi, offset)[..., None])[..., 0]
    return offset + np.einsum("nxay,ny->nxa", reach, v)


def uncorrected_rates(mdp: FiniteMDP, mu: np.ndarray, n_max: int) -> np.ndarray:
    """Contraction rates of the uncorrected returns of 1 to n_max steps, [n_max]; solved over states only.

    They equal `contraction_rate(operator(...))`: the largest gamma^n P(no end within n steps | x, a), gamma^n without
    terminal states. They do not depend on the target policy.

    Args:
        mdp: the MDP.
        mu: behaviour policy, [S, A].
        n_max: largest n.
    """
    rates, following = np.empty(n_max), np.ones(mdp.num_states)
    for i in range(n_max):
        goes_on = mdp.discount * mdp.continuing @ following  # [S, A]
        rates[i] = goes_on.max()
        following = (mu * goes_on).sum(-1)
    return rates


def _trace_operator(mdp: FiniteMDP, target: np.ndarray, keep: np.ndarray, horizon: int | None) -> Operator:
    """Q + (sum_s M^s) (r + gamma P^target Q - Q), with M = gamma P^(mu c), where `keep` is mu c."""
    identity = np.eye(mdp.rewards.size)
    traces = step_matrix(mdp, keep)
    total = np.linalg.inv(identity - traces)
    if horizon is not None:
        total = total @ (identity - np.linalg.matrix_power(traces, horizon))
        matrix = identity + total @ (step_matrix(mdp, target) - identity)
    else:  # the same, without adding and taking away the identity
        matrix = total @ (step_matrix(mdp, target) - traces)
    matrix[np.repeat(mdp.terminal, mdp.num_actions)] = 0.0
    return Operator(matrix, total @ mdp.rewards.ravel())


def n_step_length(method: Method) -> int:
    """Returns the n of an n-step return.

    Raises:
        ValueError: the rule is unknown, or n is below 1.
    """
    if method.rule not in (UNCORRECTED, IMPORTANCE):
        known = ", ".join([UNCORRECTED, IMPORTANCE, *TRACES])
        raise ValueError(f"Unknown rule {method.rule!r}: choose one of {known}.")
    if method.n < 1:
        raise ValueError(f"{method.rule}: n must be 1 or more, got {method.n}")
    return method.n


def ratio(numerator: np.ndarray, mu: np.ndarray) -> np.ndarray:
    """numerator / mu; 0 where mu is 0."""
    return np.divide(numerator, mu, out=np.zeros(np.broadcast_shapes(numerator.shape, mu.shape)), where=mu > 0)
