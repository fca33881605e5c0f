"""STAC, Sections 3.1 and 10: contraction rate and variance of leaky V-trace by alpha, on random finite MDPs."""

from __future__ import annotations

from collections.abc import Sequence

import ml_collections
import numpy as np

from repro.tabular import operators, vtrace
from repro.tabular.mdps import Problem
from repro.tabular.vtrace import Weights
from repro.training.problem_study import OnProblems

UNITS = {
    "rate_by_alpha": "contraction rate with more of alpha minus that with less",
    "rate_at_alpha_0": "contraction rate with alpha_rho of 0 minus gamma",
    "variance_by_alpha": "orders of magnitude by which v_s varies more with alpha of 0 than with 1",
}
"""Unit of each answer, by name."""


def find_on_problem(config: ml_collections.ConfigDict, problem: Problem, rng: np.random.Generator) -> dict[str, float]:
    """Computes the answers on one problem, each for the truncation levels and alphas least favourable to the paper."""
    del rng
    clips = [Weights(*levels) for levels in config.clips]
    at_0 = [clip._replace(alpha_rho=0.0, alpha_c=alpha_c) for clip in clips for alpha_c in config.alphas]
    return {
        "rate_by_alpha": min(min_fall(problem, clip, config.alphas) for clip in clips),
        "rate_at_alpha_0": max(rate(problem, weights) for weights in at_0) - problem.mdp.discount,
        "variance_by_alpha": min(variance_of_importance_sampling(problem, clip, config.num_steps) for clip in clips),
    }


run = OnProblems(find_on_problem, UNITS, {"rate_at_alpha_0": "largest"}, means=("rate_by_alpha", "variance_by_alpha"))
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
