"""V-trace and leaky V-trace on finite MDPs: IMPALA, Appendix A.1, and STAC, Section 10.

`expected_targets` evaluates `repro.ops.v_targets`, `closed_form` the sum of IMPALA's Eq. (5).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from repro.ops import v_targets
from repro.tabular import mdps, operators, paths
from repro.tabular.mdps import Problem
from repro.tabular.operators import Operator
from repro.tabular.paths import ExpectedTargets, Paths, all_paths
from repro.tabular.simulation import Trajectories

ROUNDING = 1e-9
"""Largest rounding of a distance between policies or values, which are solved for in float64."""


class Weights(NamedTuple):
    """Truncation levels (None: no truncation) and the shares alpha of the truncated weights."""

    clip_rho: float | None
    clip_c: float | None
    alpha_rho: float = 1.0
    alpha_c: float = 1.0


def expected_targets(problem: Problem, weights: Weights, num_steps: int) -> ExpectedTargets:
    """Returns the function for E_mu[v_0 | x_0], by `v_targets.vtrace` on every path of `num_steps` steps.

    The last row is the state after these steps. It ends the episode, with an importance ratio that no truncation
    changes and a reward for which its v_s is the given target.
    """
    mdp, pi, mu = problem
    paths = all_paths(mdp, mu, num_steps)
    x, a = paths.trajectories  # [T + 1, N], [T, N]
    log_rho = np.log(pi / mu)[x[:-1], a]
    last_weight = min(1.0, weights.clip_rho or 1.0)
    log_rho = np.concatenate([log_rho, np.full_like(log_rho[:1], np.log(last_weight))])
    discounts = np.full(log_rho.shape, mdp.discount)
    discounts[-1] = 0.0

    def expected(values: np.ndarray, last_targets: np.ndarray) -> np.ndarray:
        v = values[x]  # [T + 1, N, K]
        rewards = np.broadcast_to(mdp.rewards[x[:-1], a][..., None], v[1:].shape)
        last_reward = v[-1:] + (last_targets[x[-1:]] - v[-1:]) / last_weight
        output = v_targets.vtrace(
            log_rho=np.broadcast_to(log_rho[..., None], v.shape),
            discount_t=np.broadcast_to(discounts[..., None], v.shape),
            r_t=np.concatenate([rewards, last_reward]),
            v_tm1=v,
            v_t=np.concatenate([v[1:], np.zeros_like(v[:1])]),
            **weights._asdict(),
        )
        return expectation_by_state(paths, output.targets[0].numpy(), problem)

    return expected


def truncated_operators(problem: Problem, weights: Weights, num_steps: int) -> list[Operator]:
    """Returns the operators of trajectories of 1 to `num_steps` steps, see `paths.truncated`."""
    size = problem.mdp.num_states
    return [paths.truncated(expected_targets(problem, weights, steps), size) for steps in range(1, num_steps + 1)]


class OperatorRates(NamedTuple):
    """Contraction and fixed points of the operator with given weights.

    exact: contraction rate in sup norm.
    largest: the larger of that and of the ratio of distances between random pairs of value functions.
    bound: `contraction_bound`.
    distance: distance of the fixed point from the value of `evaluated_policy`.
    truncated, truncated_distance: largest rate and distance of the operators of `truncated_operators`.
    """

    exact: float
    largest: float
    bound: float
    distance: float
    truncated: float
    truncated_distance: float


def operator_rates(
    problem: Problem, weights: Weights, num_steps: int, num_pairs: int, rng: np.random.Generator
) -> OperatorRates:
    """Computes `OperatorRates` from targets of `num_steps` steps and `num_pairs` pairs of value functions."""
    expected = expected_targets(problem, weights, num_steps)
    op, short = paths.endless(expected, problem.mdp.num_states), truncated_operators(problem, weights, num_steps)
    exact, evaluated = operators.contraction_rate(op), evaluated_policy(problem, weights)
    return OperatorRates(
        exact,
        max(exact, paths.sampled_rate(expected, op, num_pairs, rng)),
        contraction_bound(problem, weights),
        value_distance(op, problem, evaluated),
        max(operators.contraction_rate(each) for each in short),
        max(value_distance(each, problem, evaluated) for each in short),
    )


def target_variance(problem: Problem, weights: Weights, values: np.ndarray, num_steps: int) -> float:
    """Var_mu[v_0 | x_0] of the targets of `v_targets.vtrace` over all paths of `num_steps`, mean over first states.

    Args:
        problem: MDP and policies.
        weights: settings of the V-trace weights.
        values: the estimate V, [S], also for bootstrapping.
        num_steps: length of a path.
    """
    paths = all_paths(problem.mdp, problem.mu, num_steps)
    output = path_targets(problem, paths.trajectories, values, **weights._asdict())
    targets = output.targets[0].numpy().astype(float)
    mean, square = expectation_by_state(paths, np.stack([targets, targets**2], axis=1), problem).T
    return float((square - mean**2).mean())


def path_targets(
    problem: Problem, trajectories: Trajectories, values: np.ndarray, **settings: float | None
) -> v_targets.VTraceOutput:
    """Returns the output of `v_targets.vtrace` with these settings on paths, [T, N], that end with the estimate.

    Args:
        problem: MDP and policies.
        trajectories: states [T + 1, N] and actions [T, N].
        values: the estimate V, [S], also for bootstrapping.
        settings: arguments by name, as for `v_targets.vtrace`.
    """
    mdp, pi, mu = problem
    x, a = trajectories
    return v_targets.vtrace(
        log_rho=np.log(pi / mu)[x[:-1], a],
        discount_t=np.full(a.shape, mdp.discount),
        r_t=mdp.rewards[x[:-1], a],
        v_tm1=values[x[:-1]],
        v_t=values[x[1:]],
        **settings,
    )


def chain_target_variance(problem: Problem, weights: Weights, values: np.ndarray, num_steps: int) -> float:
    """`target_variance` for any number of steps, by a backward recursion for the first two moments of v_s - V(x_s).

        v_s - V(x_s) = rho_s (r_s + gamma V(x_{s+1}) - V(x_s)) + gamma c_s (v_{s+1} - V(x_{s+1}))

    Arguments as for `target_variance`.
    """
    mdp, _, mu = problem
    rho, c = (weighted[..., None] / mu[..., None] for weighted in expected_weights(problem, weights))
    steps = mu[..., None] * mdp.transitions  # [S, A, S], and so all that follows
    errors = rho * (mdp.rewards[..., None] + mdp.discount * values - values[:, None, None])
    traces = mdp.discount * c
    mean = square = np.zeros(mdp.num_states)
    for _ in range(num_steps):
        square = (steps * (errors**2 + 2 * errors * traces * mean + traces**2 * square)).sum((1, 2))
        mean = (steps * (errors + traces * mean)).sum((1, 2))
    return float((square - mean**2).mean())


def product_variance(problem: Problem, clip_c: float | None, num_steps: int) -> float:
    """Var_mu[c_0 c_1 .. c_{n-1} | x_0] of the product of n weights min(c_bar, pi/mu), mean over first states.

    Its mean and mean square are row sums of powers of the matrices sum_a mu(a|x) c(x, a)^k P(y|x, a), k = 1 and 2.
    """
    mdp, pi, mu = problem
    c = pi / mu if clip_c is None else np.minimum(clip_c, pi / mu)
    steps = [np.einsum("xa,xay->xy", mu * c**power, mdp.transitions) for power in (1, 2)]
    mean, square = (np.linalg.matrix_power(step, num_steps).sum(1) for step in steps)
    return float((square - mean**2).mean())


def expected_estimates(problem: Problem, weights: Weights, num_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """E_mu[q_s | x_s, a_s] and E_mu[v_s | x_s, a_s] over all paths, with V that of `evaluated_policy`, each [S, A].

    q_s = r_s + gamma v_{s+1} is recovered from the advantages of `v_targets.vtrace`, pg_rho (q_s - V(x_s)), with pg_rho
    clipped at the smallest of all ratios, so that it is constant; alpha_rho must be 1.
    """
    mdp, pi, mu = problem
    values, ratios = mdps.state_values(mdp, evaluated_policy(problem, weights)), pi / mu
    every = all_paths(mdp, mu, num_steps)
    output = path_targets(problem, every.trajectories, values, clip_pg_rho=ratios.min(), **weights._asdict())
    advantages = every.expectation(output.pg_advantages[0].numpy(), mdp) / ratios.min()
    return values[:, None] + advantages, every.expectation(output.targets[0].numpy(), mdp)


def variance_growth(problem: Problem, first: Weights, second: Weights, num_steps: int) -> float:
    """log10 of the ratio of `target_variance` with the second to that with the first weights, for V of pi."""
    values = mdps.state_values(problem.mdp, problem.pi)
    before, after = (target_variance(problem, weights, values, num_steps) for weights in (first, second))
    return float(np.log10(after / before))


def expectation_by_state(paths: Paths, x: np.ndarray, problem: Problem) -> np.ndarray:
    """E_mu[x | x_0], [S, K], of values x for each path, [N, K]."""
    return np.einsum("xa,xak->xk", problem.mu, paths.expectation(x, problem.mdp))


def expected_weights(problem: Problem, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    """mu(a|x) rho and mu(a|x) c, with rho and c as in STAC's Theorem, each [S, A]."""
    _, pi, mu = problem

    def weighted(clip: float | None, alpha: float) -> np.ndarray:
        return pi if clip is None else alpha * np.minimum(clip * mu, pi) + (1 - alpha) * pi

    return weighted(weights.clip_rho, weights.alpha_rho), weighted(weights.clip_c, weights.alpha_c)


def closed_form(problem: Problem, weights: Weights) -> Operator:
    """The operator of IMPALA's Eq. (5): V + sum_t (gamma P_c)^t (E[rho r] + gamma P_rho V - E[rho] V)."""
    mdp = problem.mdp
    rho, c = expected_weights(problem, weights)
    bootstrap, decay = (mdp.discount * np.einsum("xa,xay->xy", w, mdp.transitions) for w in (rho, c))
    identity = np.eye(mdp.num_states)
    total = np.linalg.inv(identity - decay)
    matrix = identity + total @ (bootstrap - np.diag(rho.sum(1)))
    return Operator(matrix, total @ (rho * mdp.rewards).sum(1))


def evaluated_policy(problem: Problem, weights: Weights) -> np.ndarray:
    """pi_{rho_bar} of IMPALA's Eq. (6), pi_{rho_bar, alpha_rho} of STAC's Eq. (9), [S, A]."""
    rho, _ = expected_weights(problem, weights)
    return rho / rho.sum(1, keepdims=True)


def contraction_bound(problem: Problem, weights: Weights) -> float:
    """1 - (1 - gamma) (alpha_rho beta + 1 - alpha_rho), with the largest beta for which E_mu rho_0 >= beta.

    rho_0 is the truncated weight without the leak; alpha_rho = 1 gives IMPALA's 1 - (1 - gamma) beta.
    """
    rho, _ = expected_weights(problem, weights._replace(alpha_rho=1.0))
    beta, alpha = float(rho.sum(1).min()), weights.alpha_rho
    return 1 - (1 - problem.mdp.discount) * (alpha * beta + 1 - alpha)


def eta(problem: Problem, weights: Weights) -> float:
    """The modulus of IMPALA's Theorem 1 and, with leaks, of STAC's Theorem 2, the largest over first states:

        eta = gamma^-1 - (gamma^-1 - 1) E_mu[sum_{t >= 0} gamma^t (c_0 .. c_{t-2}) rho_{t-1}],

    where empty products and rho_{-1} are 1.
    """
    mdp = problem.mdp
    rho, c = expected_weights(problem, weights)
    decay = mdp.discount * np.einsum("xa,xay->xy", c, mdp.transitions)
    following = np.linalg.solve(np.eye(mdp.num_states) - decay, rho.sum(1))  # sum_k (gamma P_c)^k E_mu rho
    sums = 1 + mdp.discount * following
    return float((1 / mdp.discount - (1 / mdp.discount - 1) * sums).max())


def value_distance(op: Operator, problem: Problem, policy: np.ndarray) -> float:
    """Largest difference between an operator's fixed point and V of a policy."""
    fixed = np.linalg.solve(np.eye(len(op.offset)) - op.matrix, op.offset)
    return float(np.abs(fixed - mdps.state_values(problem.mdp, policy)).max())


def is_between(x: np.ndarray, one: np.ndarray, other: np.ndarray, norm: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Whether x is no further from each of two ends than these are from each other, by every norm that is returned."""
    whole = norm(one - other) + ROUNDING
    return bool(np.all([norm(x - one) <= whole, norm(x - other) <= whole]))
