"""IMPALA, Section 4 and Appendix A: limits, contraction and fixed point of V-trace, and biases of q_s and v_s."""

from __future__ import annotations

from collections.abc import Callable

import ml_collections
import numpy as np

from repro.tabular import mdps, paths, vtrace
from repro.tabular.mdps import Problem
from repro.tabular.vtrace import Weights
from repro.training.problem_study import OnProblems

UNITS = {
    "contraction": "contraction rate over 1 - (1 - gamma) beta",
    "eta": "difference of the contraction rate from eta",
    "fixed_point": "distance of its fixed point from V of pi_rho_bar",
    "truncated_contraction": "contraction rate over 1 - (1 - gamma) beta",
    "truncated_fixed_point": "distance of its fixed point from V of pi_rho_bar",
    "between": "1 if pi_rho_bar is as near to pi and to mu as these are to each other, else 0",
    "between_probabilities": "1 if every probability of pi_rho_bar lies between those of pi and mu, else 0",
    "unbiased_q": "largest difference of E[q_s] from Q of pi_rho_bar",
    "biased_v": "largest difference of E[v_s] from Q of pi_rho_bar",
    "on_policy": "largest difference of v_s from the n-step return",
    "td_lambda": "largest difference of v_s from the lambda-return",
    "target_limit": "distance of its fixed point from V of pi",
    "behaviour_limit": "distance of its fixed point from V of mu",
    "rate_by_c_bar": "contraction rate with half of c_bar minus that with c_bar",
    "q_limit": "largest difference of E[q_s] from Q of pi",
}
"""Unit of each answer, by name."""


def find_on_problem(config: ml_collections.ConfigDict, problem: Problem, rng: np.random.Generator) -> dict[str, float]:
    """Computes the answers on one problem, the largest over truncation levels; the smallest if expected above 0."""
    weights = [Weights(rho or None, c or None) for rho, c in config.clips]
    found = [_find(config, problem, levels, rng) for levels in weights]
    n_step, to_lambda = on_policy_differences(problem, config.num_steps, rng)
    return {name: max(result[name] for result in found) for name in found[0]} | {
        "biased_v": min(result["biased_v"] for result in found),
        "on_policy": n_step,
        "td_lambda": to_lambda,
        "behaviour_limit": distance_from_behaviour(problem),
        **limits_without_clipping(problem, config.num_steps),
        "between": float(all(is_between(problem, levels, total_variation) for levels in weights)),
        "between_probabilities": float(all(is_between(problem, levels, np.abs) for levels in weights)),
        "rate_by_c_bar": min(cost_of_half_c_bar(problem, levels) for levels in weights),
    }


run = OnProblems(
    find_on_problem,
    UNITS,
    {"contraction": "largest", "truncated_contraction": "largest"},
    means=("biased_v", "rate_by_c_bar", "between", "between_probabilities"),
)
"""Checks the statements on random problems; no trajectories are sampled."""


def _find(
    config: ml_collections.ConfigDict, problem: Problem, weights: Weights, rng: np.random.Generator
) -> dict[str, float]:
    rates = vtrace.operator_rates(problem, weights, config.num_steps, config.pairs, rng)
    q_bias, v_bias = biases(problem, weights, config.num_steps)
    return {
        "contraction": rates.largest / rates.bound,
        "eta": abs(rates.exact - vtrace.eta(problem, weights)),
        "fixed_point": rates.distance,
        "truncated_contraction": rates.truncated / rates.bound,
        "truncated_fixed_point": rates.truncated_distance,
        "unbiased_q": q_bias,
        "biased_v": v_bias,
    }


def on_policy_differences(problem: Problem, num_steps: int, rng: np.random.Generator) -> tuple[float, float]:
    """Largest differences of v_s from the n-step and the lambda-return over all paths of pi (Eq. 2, Remark 2).

    V and lambda are random. The lambda-return of n steps puts its remaining weight on the n-step return:

        G^lambda = (1 - lambda) sum_{k=1}^{n-1} lambda^{k-1} G^(k) + lambda^{n-1} G^(n)
        G^(k)    = sum_{t=0}^{k-1} gamma^t r_t + gamma^k V(x_k)
    """
    mdp, pi, _ = problem
    values, lambda_ = rng.normal(size=mdp.num_states), rng.uniform()
    x, a = trajectories = paths.all_paths(mdp, pi, num_steps).trajectories  # [T + 1, N], [T, N]
    rewards, v = mdp.rewards[x[:-1], a], values[x]
    powers = mdp.discount ** np.arange(num_steps + 1)[:, None]
    returns = np.cumsum(powers[:-1] * rewards, axis=0) + powers[1:] * v[1:]  # [T, N]
    shares = (1 - lambda_) * lambda_ ** np.arange(num_steps)
    shares[-1] = lambda_ ** (num_steps - 1)

    def distance(expected: np.ndarray, lambda_: float) -> float:
        output = vtrace.path_targets(Problem(mdp, pi, pi), trajectories, values, lambda_=lambda_)
        return float(np.abs(output.targets[0].numpy() - expected).max())

    return distance(returns[-1], 1.0), distance(shares @ returns, lambda_)


def total_variation(difference: np.ndarray) -> np.ndarray:
    """Total variation of policies by their difference [S, A], [S]."""
    return np.abs(difference).sum(1) / 2


def is_between(problem: Problem, weights: Weights, norm: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Whether pi_rho_bar is between pi and mu, see `vtrace.is_between`; with `np.abs` each of its probabilities is."""
    _, pi, mu = problem
    return vtrace.is_between(vtrace.evaluated_policy(problem, weights), pi, mu, norm)


def distance_from_behaviour(problem: Problem) -> float:
    """Distance of the fixed point from V^mu for rho_bar at the smallest ratio, where pi_rho_bar is mu (Section 4.1).

    A smaller rho_bar changes only the contraction rate. As a rate near 1 amplifies rounding, the operator is
    `vtrace.closed_form`.
    """
    smallest = float((problem.pi / problem.mu).min())
    return vtrace.value_distance(vtrace.closed_form(problem, Weights(smallest, smallest)), problem, problem.mu)


def cost_of_half_c_bar(problem: Problem, weights: Weights) -> float:
    """Theorem 1's modulus with half of c_bar, or 1 if c is not truncated, minus that with c_bar (Remark 3)."""
    half = 1.0 if weights.clip_c is None else 0.5 * weights.clip_c
    return vtrace.eta(problem, weights._replace(clip_c=half)) - vtrace.eta(problem, weights)


def biases(problem: Problem, weights: Weights, num_steps: int) -> tuple[float, float]:
    """Largest |E_mu[q_s | x_s, a_s] - Q(x_s, a_s)| and |E_mu[v_s | x_s, a_s] - Q(x_s, a_s)| (Appendix A.3).

    V and Q are those of pi_rho_bar.
    """
    q = mdps.action_values(problem.mdp, vtrace.evaluated_policy(problem, weights))
    estimates = vtrace.expected_estimates(problem, weights, num_steps)
    q_bias, v_bias = (float(np.abs(estimate - q).max()) for estimate in estimates)
    return q_bias, v_bias


def limits_without_clipping(problem: Problem, num_steps: int) -> dict[str, float]:
    """Computes the answers about an infinite rho_bar, with a c_bar of 1 (Sections 4.1 and 4.2)."""
    mdp, pi, _ = problem
    weights = Weights(None, 1.0)
    q_s, _ = vtrace.expected_estimates(problem, weights, num_steps)
    return {
        "target_limit": vtrace.value_distance(vtrace.closed_form(problem, weights), problem, pi),
        "q_limit": float(np.abs(q_s - mdps.action_values(mdp, pi)).max()),
    }
