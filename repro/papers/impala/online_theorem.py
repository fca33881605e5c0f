"""IMPALA, Theorem 2: V-trace learned online from sampled trajectories converges to the value of pi_rho_bar."""

from __future__ import annotations

import ml_collections
import numpy as np

from repro.tabular import mdps, online_vtrace, vtrace
from repro.tabular.mdps import Problem
from repro.tabular.vtrace import Weights
from repro.training.problem_study import OnlineOnProblems

UNITS = {"online_values": "distance of V_k from V of pi_rho_bar over that of V_0"}
"""Unit of each answer, by name."""


def find_on_problem(config: ml_collections.ConfigDict, problem: Problem, rng: np.random.Generator) -> dict[str, float]:
    """Computes the answer on one problem, the largest over the truncation levels."""
    return {"online_values": max(share_left(config, problem, Weights(*levels), rng) for levels in config.clips)}


run = OnlineOnProblems(find_on_problem, UNITS, cases="clips", words="pairs of truncation levels")
"""Learns from sampled trajectories and compares the results with their limits."""


def share_left(
    config: ml_collections.ConfigDict, problem: Problem, weights: Weights, rng: np.random.Generator
) -> float:
    """Returns max |V_k - V^{pi_rho_bar}| / max |V_0 - V^{pi_rho_bar}|, maxima over states, with V_0 = 0."""
    learned = online_vtrace.learn(
        problem, weights, config.num_trajectories, config.num_steps, config.step_size_power, rng
    )
    limit = mdps.state_values(problem.mdp, vtrace.evaluated_policy(problem, weights))
    return float(np.abs(learned - limit).max() / np.abs(limit).max())
