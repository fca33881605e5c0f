"""STAC, Sections 3.1 and 10: contraction rate and variance of leaky V-trace by alpha and c_bar, on random finite MDPs.

Alphas fall together, as in STAC and STACX, and each alone. Where one falls alone, the printed condition alpha_rho >=
alpha_c lets alpha_c fall from 1 to 0 with alpha_rho = 1, and alpha_rho with alpha_c = 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import ml_collections
import numpy as np

from repro.tabular import mdps, operators, vtrace
from repro.tabular.mdps import Problem
from repro.tabular.vtrace import Weights
from repro.training.problem_study import Extreme, OnProblems

MORE_BY_C_BAR = "orders of magnitude by which v_s varies more with c_bar of 1 than with 1/16"
FALLS_WITH_C_BAR = "1 if v_s varies more at no halving of c_bar from 1 to 1/16, else 0"
RATE_RISES = "1 if the contraction rate rises at no step of {} from 1 to 0, else 0"
UNITS = {
    "rate_by_alpha": "contraction rate with more of alpha minus that with less",
    "rate_at_alpha_0": "contraction rate with alpha_rho of 0 minus gamma",
    "variance_by_alpha": "orders of magnitude by which v_s varies more with alpha of 0 than with 1",
    "rate_by_alpha_c": "contraction rate with alpha_c of 1 minus that with 0",
    "rate_falls_with_alpha_c": RATE_RISES.format("alpha_c"),
    "eta_by_alpha_c": "eta with alpha_c of 1 minus that with 0",
    "eta_falls_with_alpha_c": "1 if eta rises at no step of alpha_c from 1 to 0, else 0",
    "variance_by_alpha_c": "orders of magnitude by which v_s varies more with alpha_c of 0 than with 1",
    "variance_grows_with_alpha_c": "1 if v_s varies less at no step of alpha_c from 1 to 0, else 0",
    "rate_by_alpha_rho": "contraction rate with alpha_rho of 1 minus that with 0",
    "rate_falls_with_alpha_rho": RATE_RISES.format("alpha_rho"),
    "rate_by_alpha_rho_with_c": "contraction rate with alpha_rho of 1 minus that with 0",
    "rate_falls_with_alpha_rho_with_c": RATE_RISES.format("alpha_rho"),
    "rate_without_condition": "contraction rate",
    "rate_by_c_bar": "contraction rate with c_bar of 1/16 minus that with 1",
    "rate_grows_as_c_bar_falls": "1 if the contraction rate falls at no halving of c_bar from 1 to 1/16, else 0",
    "variance_by_c_bar": MORE_BY_C_BAR,
    "variance_falls_with_c_bar": FALLS_WITH_C_BAR,
    "variance_by_c_bar_at_limit": MORE_BY_C_BAR,
    "variance_falls_with_c_bar_at_limit": FALLS_WITH_C_BAR,
}
"""Unit of each answer, by name."""
EXTREMES: dict[str, Extreme] = {"rate_at_alpha_0": "largest", "rate_without_condition": "largest"}
ROUNDING = 1e-5
"""Smallest change of a rate or of a variance's logarithm that counts as a rise or fall; targets are float32."""


def find_on_problem(config: ml_collections.ConfigDict, problem: Problem, rng: np.random.Generator) -> dict[str, float]:
    """Computes the answers on one problem, each for the truncation levels and alphas least favourable to the paper."""
    del rng
    clips = [Weights(*levels) for levels in config.clips]
    mixed = itertools.product(clips, config.alphas, config.alphas)
    unordered = [clip._replace(alpha_rho=rho, alpha_c=c) for clip, rho, c in mixed if rho < c]
    at_0 = [clip._replace(alpha_rho=0.0, alpha_c=alpha_c) for clip in clips for alpha_c in config.alphas]
    return {
        "rate_by_alpha": min(min_fall(problem, clip, config.alphas) for clip in clips),
        "rate_at_alpha_0": max(rate(problem, weights) for weights in at_0) - problem.mdp.discount,
        "variance_by_alpha": min(variance_of_importance_sampling(problem, clip, config.num_steps) for clip in clips),
        "rate_without_condition": max(rate(problem, weights) for weights in unordered),
        **find_by_alpha_c(problem, clips, config.alphas, config.num_steps),
        **find_by_alpha_rho(problem, clips, config.alphas),
        **find_by_c_bar(problem, config.c_bars, config.num_steps),
    }


run = OnProblems(find_on_problem, UNITS, EXTREMES, means=tuple(UNITS.keys() - EXTREMES))
"""Checks the statements on random problems; no trajectories are sampled."""


def rate(problem: Problem, weights: Weights) -> float:
    """The operator's contraction rate in sup norm, from its closed form."""
    return operators.contraction_rate(vtrace.closed_form(problem, weights))


def min_fall(problem: Problem, clip: Weights, alphas: Sequence[float]) -> float:
    """Smallest decrease of the contraction rate from one alpha to the next, the same for alpha_rho and alpha_c."""
    rates = [rate(problem, clip._replace(alpha_rho=alpha, alpha_c=alpha)) for alpha in alphas]
    return float(-np.diff(rates).max())


def variance_of_importance_sampling(problem: Problem, clip: Weights, num_steps: int) -> float:
    """log10 of the variance of v_s with both alphas at 0 over that with both at 1, with V of the target policy."""
    truncated, importance = (clip._replace(alpha_rho=alpha, alpha_c=alpha) for alpha in (1.0, 0.0))
    return vtrace.variance_growth(problem, truncated, importance, num_steps)


def find_by_alpha_c(
    problem: Problem, clips: Sequence[Weights], alphas: Sequence[float], num_steps: int
) -> dict[str, float]:
    """Computes the answers about rate, eta and variance as alpha_c falls alone, with alpha_rho = 1."""
    cases = [[clip._replace(alpha_c=alpha) for alpha in alphas] for clip in clips]
    rates = [[rate(problem, weights) for weights in case] for case in cases]
    etas = [[vtrace.eta(problem, weights) for weights in case] for case in cases]
    variances = [log_variances(problem, case, num_steps, problem.pi) for case in cases]
    return {
        **rise("rate_by_alpha_c", "rate_falls_with_alpha_c", -np.array(rates)),
        **rise("eta_by_alpha_c", "eta_falls_with_alpha_c", -np.array(etas)),
        **rise("variance_by_alpha_c", "variance_grows_with_alpha_c", np.array(variances)),
    }


def find_by_alpha_rho(problem: Problem, clips: Sequence[Weights], alphas: Sequence[float]) -> dict[str, float]:
    """Computes the answers about the rate as alpha_rho falls alone, with alpha_c = 0 and, `with_c`, with alpha_c = 1.

    The former is the only alpha_c for which the printed condition holds at every alpha_rho, the latter that of V-trace.
    """
    found: dict[str, float] = {}
    for alpha_c, suffix in ((0.0, ""), (1.0, "_with_c")):
        cases = [[clip._replace(alpha_rho=alpha, alpha_c=alpha_c) for alpha in alphas] for clip in clips]
        rates = np.array([[rate(problem, weights) for weights in case] for case in cases])
        found |= rise(f"rate_by_alpha_rho{suffix}", f"rate_falls_with_alpha_rho{suffix}", -rates)
    return found


def find_by_c_bar(problem: Problem, c_bars: Sequence[float], num_steps: int) -> dict[str, float]:
    """Computes the answers about rate and variance of V-trace as c_bar falls, with rho_bar = 1.

    The variance is that with V of the target policy and, `at_limit`, with V of pi_rho_bar, to which v_s converges.
    """
    case = [Weights(1.0, c_bar) for c_bar in c_bars]
    found = rise("rate_by_c_bar", "rate_grows_as_c_bar_falls", np.array([[rate(problem, x) for x in case]]))
    policies = {"": problem.pi, "_at_limit": vtrace.evaluated_policy(problem, case[0])}
    for suffix, policy in policies.items():
        variances = log_variances(problem, case, num_steps, policy)
        found |= rise(f"variance_by_c_bar{suffix}", f"variance_falls_with_c_bar{suffix}", -variances[None])
    return found


def log_variances(problem: Problem, case: Sequence[Weights], num_steps: int, policy: np.ndarray) -> np.ndarray:
    """log10 of the variance of v_s with each of K weights, with V of a policy [S, A]: [K]."""
    values = mdps.state_values(problem.mdp, policy)
    return np.log10([vtrace.target_variance(problem, weights, values, num_steps) for weights in case])


def rise(ends: str, steps: str, measured: np.ndarray) -> dict[str, float]:
    """How far a quantity rises from the first to the last of K settings, and whether it falls at none of the steps.

    Args:
        ends, steps: names of the two answers.
        measured: the quantity by truncation levels and setting, [L, K]; the least favourable levels count.
    """
    return {
        ends: float((measured[:, -1] - measured[:, 0]).min()),
        steps: float((np.diff(measured) > -ROUNDING).all()),
    }
