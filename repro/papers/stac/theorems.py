"""STAC, Section 10: contraction rate and fixed point of leaky V-trace, and its limits at alpha = 0 and 1."""

from __future__ import annotations

from collections.abc import Callable

import ml_collections
import numpy as np

from repro.ops import q_targets, v_targets
from repro.tabular import mdps, paths, vtrace
from repro.tabular.mdps import Problem
from repro.tabular.operators import Operator
from repro.tabular.paths import ExpectedTargets
from repro.tabular.vtrace import Weights
from repro.training.problem_study import Extreme, OnProblems

BOUND = "contraction rate over 1 - (1 - gamma)(alpha_rho beta + 1 - alpha_rho)"
KAPPA = "smallest expected coefficient over states"
UNITS = {
    "contraction": BOUND,
    "contraction_proved": BOUND,
    "eta": "contraction rate minus eta",
    "eta_proved": "contraction rate minus eta",
    "weights": "smallest difference over states and actions",
    "fixed_point": "distance of its fixed point from V of pi_rho_bar_alpha_rho",
    "truncated_contraction": BOUND,
    "truncated_fixed_point": "distance of its fixed point from V of pi_rho_bar_alpha_rho",
    "between": "1 if the fixed point is as near to V of pi and to V of mu as these are to each other, else 0",
    "between_states": "1 if the fixed point lies between V of pi and V of mu in every state, else 0",
    "alpha_1": "largest difference",
    "alpha_0": "largest difference",
    "kappa": KAPPA,
    "kappa_proved": KAPPA,
    "eta_bound": "eta minus 1 - (1 - gamma)(alpha_rho beta + 1 - alpha_rho)",
    "mixture": "largest relative difference of the weights from their mixture",
    "on_policy": "largest difference of v_s from the n-step return",
}
"""Unit of each answer. `contraction`, `eta`, `weights`, `kappa` and `eta_bound` are for the printed condition alpha_rho
>= alpha_c, `contraction_proved`, `eta_proved`, `kappa_proved` and `truncated_contraction` for alpha_rho <= alpha_c,
which the proof needs, and the others for both."""
LARGEST = ("contraction", "contraction_proved", "eta", "eta_proved", "truncated_contraction", "eta_bound")
EXTREMES: dict[str, Extreme] = {
    **dict.fromkeys(LARGEST, "largest"),
    **dict.fromkeys(("weights", "kappa", "kappa_proved"), "smallest"),
}


def find_on_problem(config: ml_collections.ConfigDict, problem: Problem, rng: np.random.Generator) -> dict[str, float]:
    """Computes the answers on one problem, each the extreme over truncation levels and alphas."""
    clips = [Weights(*levels) for levels in config.clips]
    printed, proved = (
        [Weights(*levels, *pair) for levels in config.clips for pair in pairs]
        for pairs in (config.alphas_printed, config.alphas_proved)
    )
    rates = {
        weights: vtrace.operator_rates(problem, weights, config.num_steps, config.pairs, rng)
        for weights in [*printed, *proved]
    }
    ratio = {weights: rate.largest / rate.bound for weights, rate in rates.items()}
    above_eta = {weights: rate.largest - vtrace.eta(problem, weights) for weights, rate in rates.items()}
    ends = [_ends(config, problem, levels) for levels in clips]
    return {
        "contraction": max(ratio[weights] for weights in printed),
        "contraction_proved": max(ratio[weights] for weights in proved),
        "eta": max(above_eta[weights] for weights in printed),
        "eta_proved": max(above_eta[weights] for weights in proved),
        "weights": min(smallest_difference(problem, weights) for weights in printed),
        "fixed_point": max(rate.distance for rate in rates.values()),
        "truncated_contraction": max(rates[weights].truncated / rates[weights].bound for weights in proved),
        "truncated_fixed_point": max(rate.truncated_distance for rate in rates.values()),
        "between": float(all(is_between(problem, weights, sup_norm) for weights in rates)),
        "between_states": float(all(is_between(problem, weights, np.abs) for weights in rates)),
        "alpha_1": max(at_1 for at_1, _ in ends),
        "alpha_0": max(at_0 for _, at_0 in ends),
        "kappa": min(smallest_kappa(problem, weights) for weights in printed),
        "kappa_proved": min(smallest_kappa(problem, weights) for weights in proved),
        "eta_bound": max(vtrace.eta(problem, weights) - rates[weights].bound for weights in printed),
        "mixture": max(distance_from_mixture(problem, weights) for weights in rates),
        "on_policy": max(on_policy_difference(problem, weights, config.num_steps, rng) for weights in rates),
    }


run = OnProblems(find_on_problem, UNITS, EXTREMES, means=("between", "between_states"))
"""Checks the statements on random problems; no trajectories are sampled."""


def sup_norm(difference: np.ndarray) -> np.ndarray:
    """Sup norm of value functions by their difference [S], [1]."""
    return np.abs(difference).max(keepdims=True)


def is_between(problem: Problem, weights: Weights, norm: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Whether the fixed point is between V of pi and V of mu, see `vtrace.is_between`; with `np.abs` in every state."""
    mdp, pi, mu = problem
    policies = vtrace.evaluated_policy(problem, weights), pi, mu
    fixed, target, behaviour = (mdps.state_values(mdp, policy) for policy in policies)
    return vtrace.is_between(fixed, target, behaviour, norm)


def step_weights(problem: Problem, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    """rho and c of every state and action, [S A] each, computed by `v_targets.vtrace`.

    c is the factor with which the second step's correction, which is 1, enters the first step's target.
    """
    log_rho = np.log(problem.pi / problem.mu).reshape(1, -1)
    second = min(1.0, weights.clip_rho or 1.0)  # a ratio that no truncation changes
    zeros = np.zeros_like(log_rho)
    output = v_targets.vtrace(
        log_rho=np.concatenate([log_rho, zeros + np.log(second)]),
        discount_t=np.concatenate([zeros + 1, zeros]),
        r_t=np.concatenate([zeros, zeros + 1 / second]),
        v_tm1=np.zeros((2, log_rho.size)),
        v_t=np.zeros((2, log_rho.size)),
        **weights._asdict(),
    )
    return output.rho_clipped[0].numpy(), output.targets[0].numpy()


def smallest_difference(problem: Problem, weights: Weights) -> float:
    """Smallest rho - c over states and actions."""
    rho, c = step_weights(problem, weights)
    return float((rho - c).min())


def distance_from_mixture(problem: Problem, weights: Weights) -> float:
    """Largest relative difference of rho and c from alpha times the truncated plus 1 - alpha times the other weight."""
    alphas = np.array([[weights.alpha_rho], [weights.alpha_c]])
    leaky, truncated, importance = (
        np.array(step_weights(problem, weights._replace(**alpha)))
        for alpha in ({}, {"alpha_rho": 1.0, "alpha_c": 1.0}, {"alpha_rho": 0.0, "alpha_c": 0.0})
    )
    return float(np.abs((alphas * truncated + (1 - alphas) * importance) / leaky - 1).max())


def smallest_kappa(problem: Problem, weights: Weights) -> float:
    """Smallest E_mu[rho_{t-1} - c_{t-1} rho_t | x_{t-1}] over states: the expected coefficients of the proof.

    Given an earlier state, the expectation is a mean of these, so it is no smaller.
    """
    rho, c = vtrace.expected_weights(problem, weights)
    following = np.einsum("xa,xay,y->x", c, problem.mdp.transitions, rho.sum(1))
    return float((rho.sum(1) - following).min())


def on_policy_difference(problem: Problem, weights: Weights, num_steps: int, rng: np.random.Generator) -> float:
    """Largest difference of v_s from the n-step return over all paths of pi, with pi as behaviour (Section 2).

    V is random. Levels below 1 are raised to 1: below, the ratios of 1 are truncated on-policy, too.
    """
    mdp, pi, _ = problem
    values = rng.normal(size=mdp.num_states)
    x, a = trajectories = paths.all_paths(mdp, pi, num_steps).trajectories  # [T + 1, N], [T, N]
    raised = weights._replace(clip_rho=max(weights.clip_rho or 1.0, 1.0), clip_c=max(weights.clip_c or 1.0, 1.0))
    output = vtrace.path_targets(Problem(mdp, pi, pi), trajectories, values, **raised._asdict())
    n_step = mdp.discount ** np.arange(num_steps) @ mdp.rewards[x[:-1], a] + mdp.discount**num_steps * values[x[-1]]
    return float(np.abs(output.targets[0].numpy() - n_step).max())


def _ends(config: ml_collections.ConfigDict, problem: Problem, clips: Weights) -> tuple[float, float]:
    """Differences from V-trace (IMPALA, Eq. 5) at alpha_rho = alpha_c = 1, and from importance sampling at 0."""
    size = problem.mdp.num_states
    importance = paths.endless(importance_sampling(problem, config.num_steps), size)

    def difference(alpha: float, other: Operator) -> float:
        weights = clips._replace(alpha_rho=alpha, alpha_c=alpha)
        leaky = paths.endless(vtrace.expected_targets(problem, weights, config.num_steps), size)
        return paths.distance(leaky, other)

    return difference(1.0, vtrace.closed_form(problem, clips)), difference(0.0, importance)


def importance_sampling(problem: Problem, num_steps: int) -> ExpectedTargets:
    """E_mu[rho_0 G_0 | x_0], where G_0 is the importance-weighted return of `q_targets` to the end of each path."""
    mdp, pi, mu = problem
    every = paths.all_paths(mdp, mu, num_steps)
    x, a = every.trajectories  # [T + 1, N], [T, N]
    log_rho = np.log(pi / mu)[x[:-1], a]
    next_log_rho = np.concatenate([log_rho[1:], np.zeros_like(log_rho[:1])])

    def expected(values: np.ndarray, last_targets: np.ndarray) -> np.ndarray:
        shape = (*a.shape, last_targets.shape[1])
        rows = (mdp.rewards[x[:-1], a], np.full(a.shape, mdp.discount), next_log_rho)
        r_t, discount_t, log_rho_t = (np.broadcast_to(row[..., None], shape) for row in rows)
        returns = q_targets.n_step_importance_weighted(
            r_t, discount_t, log_rho_t, last_targets[x[1:]], n=num_steps
        ).numpy()
        return vtrace.expectation_by_state(every, np.exp(log_rho[0])[:, None] * returns[0], problem)

    return expected
