"""IMPALA, Appendix A: contraction rate and fixed point of V-trace, and what its policy gradient estimates."""

from __future__ import annotations

from collections.abc import Sequence

import ml_collections
import numpy as np

from repro.ops import v_targets
from repro.tabular import mdps, operators, paths, vtrace
from repro.tabular.mdps import Problem
from repro.tabular.vtrace import Weights
from repro.training.experiment import FindExperiment
from repro.training.problem_study import run_on_problems
from repro.training.study import Advance, Study

UNITS = {
    "contraction": "contraction rate over 1 - (1 - gamma) beta",
    "eta": "difference of the contraction rate from eta",
    "fixed_point": "distance of its fixed point from V of pi_rho_bar",
    "unbiased_q": "largest difference of E[q_s] from Q of pi_rho_bar",
}
"""Unit of each answer."""


def run(
    config: ml_collections.ConfigDict,
    seed: int,
    cores: Sequence[int],
    advance: Advance,
    find_experiment: FindExperiment | None = None,
) -> Study:
    """Answers the configuration's statements on random problems; nothing is simulated. Arguments as for `RunStudy`."""
    return run_on_problems(config, seed, advance, find_on_problem, UNITS, {"contraction": "largest"})


def find_on_problem(config: ml_collections.ConfigDict, problem: Problem, rng: np.random.Generator) -> dict[str, float]:
    """The answers on one problem, each the largest over the truncation levels."""
    found = [_find(config, problem, Weights(rho or None, c or None), rng) for rho, c in config.clips]
    return {name: max(result[name] for result in found) for name in found[0]}


def _find(
    config: ml_collections.ConfigDict, problem: Problem, weights: Weights, rng: np.random.Generator
) -> dict[str, float]:
    expected = vtrace.expected_targets(problem, weights, config.num_steps)
    op = paths.endless(expected, problem.mdp.num_states)
    exact = operators.contraction_rate(op)
    rate = max(exact, paths.sampled_rate(expected, op, config.pairs, rng))
    return {
        "contraction": rate / vtrace.contraction_bound(problem, weights),
        "eta": abs(exact - eta(problem, weights)),
        "fixed_point": vtrace.value_distance(op, problem, vtrace.evaluated_policy(problem, weights)),
        "unbiased_q": q_bias(problem, weights, config.num_steps),
    }


def eta(problem: Problem, weights: Weights) -> float:
    """Theorem 1's modulus, the largest over first states:

        eta = gamma^-1 - (gamma^-1 - 1) E_mu[sum_{t >= 0} gamma^t (c_0 .. c_{t-2}) rho_{t-1}],

    where empty products and rho_{-1} are 1.
    """
    mdp = problem.mdp
    rho, c = vtrace.expected_weights(problem, weights)
    decay = mdp.discount * np.einsum("xa,xay->xy", c, mdp.transitions)
    following = np.linalg.solve(np.eye(mdp.num_states) - decay, rho.sum(1))  # sum_k (gamma P_c)^k E_mu rho
    sums = 1 + mdp.discount * following
    return float((1 / mdp.discount - (1 / mdp.discount - 1) * sums).max())


def q_bias(problem: Problem, weights: Weights, num_steps: int) -> float:
    """Largest |E_mu[q_s | x_s, a_s] - Q(x_s, a_s)| for V = V^{pi_rho_bar} and Q of that policy (Appendix A.3).

    q_s = r_s + gamma v_{s+1} is read from `v_targets.vtrace`'s advantages pg_rho (q_s - V(x_s)), with pg_rho clipped
    at the smallest ratio of all, so that it is the same everywhere.
    """
    mdp, pi, mu = problem
    policy = vtrace.evaluated_policy(problem, weights)
    values, ratios = mdps.state_values(mdp, policy), pi / mu
    every = paths.all_paths(mdp, mu, num_steps)
    x, a = every.trajectories
    output = v_targets.vtrace(
        log_rho=np.log(ratios[x[:-1], a]),
        discount_t=np.full(a.shape, mdp.discount),
        r_t=mdp.rewards[x[:-1], a],
        v_tm1=values[x[:-1]],
        v_t=values[x[1:]],
        clip_rho=weights.clip_rho,
        clip_c=weights.clip_c,
        clip_pg_rho=ratios.min(),
    )
    advantages = every.expectation(output.pg_advantages[0].numpy(), mdp) / ratios.min()
    return float(np.abs(values[:, None] + advantages - mdps.action_values(mdp, policy)).max())
