"""IMPALA, Theorem 2: V-trace learned online from sampled trajectories comes to the value of pi_rho_bar."""

from __future__ import annotations

from collections.abc import Sequence

import ml_collections
import numpy as np

from repro.tabular import mdps, online_vtrace, vtrace
from repro.tabular.mdps import Problem
from repro.tabular.vtrace import Weights
from repro.training.experiment import FindExperiment
from repro.training.problem_study import find_on_all
from repro.training.study import Advance, Study, StudyResult

UNITS = {"online_values": "distance of V_k from V of pi_rho_bar over that of V_0"}
"""Unit of each answer."""


def run(
    config: ml_collections.ConfigDict,
    seed: int,
    cores: Sequence[int],
    advance: Advance,
    find_experiment: FindExperiment | None = None,
) -> Study:
    """Learns on random problems, from the behaviour policy. Arguments as for `RunStudy`."""
    found = find_on_all(config, seed, advance, find_on_problem)
    total = len(found)
    levels = f"the largest over {len(config.clips)} pairs of truncation levels"
    sampled = f"after {config.num_trajectories} trajectories of {config.num_steps} steps"
    protocol = f"one value for each of {total} random problems, {levels}, {sampled}"
    answer = StudyResult(UNITS["online_values"], np.array([left["online_values"] for left in found]), protocol)
    steps = total * len(config.clips) * config.num_trajectories * config.num_steps
    return Study({"online_values": answer}, steps)


def find_on_problem(config: ml_collections.ConfigDict, problem: Problem, rng: np.random.Generator) -> dict[str, float]:
    """The answer on one problem, the largest over the truncation levels."""
    return {"online_values": max(share_left(config, problem, Weights(*levels), rng) for levels in config.clips)}


def share_left(
    config: ml_collections.ConfigDict, problem: Problem, weights: Weights, rng: np.random.Generator
) -> float:
    """Largest |V_k - V^{pi_rho_bar}| over states, over the same of V_0 = 0."""
    learned = online_vtrace.learn(
        problem, weights, config.num_trajectories, config.num_steps, config.step_size_power, rng
    )
    limit = mdps.state_values(problem.mdp, vtrace.evaluated_policy(problem, weights))
    return float(np.abs(learned - limit).max() / np.abs(limit).max())
