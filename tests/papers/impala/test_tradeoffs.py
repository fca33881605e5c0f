"""Bias and variance of V-trace by truncation level as a study: its answers, and those of wrong operators."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from paper_configs.impala import tradeoffs as tradeoffs_config
from repro.ops import q_targets
from repro.papers.impala import tradeoffs
from repro.tabular import mdps, vtrace
from tests.support.theorems import BROKEN, check_records


def make_problem(num_states=3, discount=0.9):
    return mdps.random_problem(num_states, 2, (discount, discount), np.random.default_rng(0))


def test_its_records_have_the_papers_statements(tmp_path):
    found = check_records(tradeoffs, tradeoffs_config.get_config("smoke"), tmp_path, sampled=tradeoffs.UNITS)
    assert found.pop("variance_grows") == 1.0
    assert 0.0 <= found.pop("bias_falls") <= 1.0
    assert min(found.values()) > BROKEN


def test_the_variance_is_that_of_one_truncated_step():
    """v_0 = V + rho (r + V / 2 - V) in one state with V = 0.2: rho is min(2, 9) once in ten times, or 1/9."""
    mdp = dataclasses.replace(make_problem(num_states=1, discount=0.5).mdp, rewards=np.array([[1.0, 0.5]]))
    problem = mdps.Problem(mdp, np.array([[0.9, 0.1]]), np.array([[0.1, 0.9]]))
    targets = np.array([0.2 + 2 * (1.0 - 0.1), 0.2 + (0.5 - 0.1) / 9])
    mean = 0.1 * targets[0] + 0.9 * targets[1]
    variance = 0.1 * (targets[0] - mean) ** 2 + 0.9 * (targets[1] - mean) ** 2
    weights = vtrace.Weights(2.0, 1.0)
    assert vtrace.target_variance(problem, weights, np.array([0.2]), 1) == pytest.approx(variance, rel=1e-4)


def test_the_levels_are_those_of_the_configuration():
    problem = make_problem()
    same = tradeoffs.find_by_rho_bar(problem, (2.0, 2.0), 2)
    assert (same["bias_by_rho_bar"], same["variance_by_rho_bar"]) == (0.0, 0.0)
    rising = tradeoffs.find_by_rho_bar(problem, (1.0, 4.0), 2)
    falling = tradeoffs.find_by_rho_bar(problem, (4.0, 1.0), 2)
    assert rising["bias_by_rho_bar"] == -falling["bias_by_rho_bar"] > BROKEN
    assert (rising["bias_falls"], falling["bias_falls"]) == (1.0, 0.0)
    assert (rising["variance_grows"], falling["variance_grows"]) == (1.0, 0.0)


def test_without_ratios_above_1_there_is_nothing_to_truncate():
    mdp, pi, _ = make_problem()
    on_policy = mdps.Problem(mdp, pi, pi)
    assert tradeoffs.variance_without_c_bar(on_policy, 3) == 0.0
    assert tradeoffs.variance_without_c_bar(make_problem(), 3) > BROKEN


def test_retrace_is_the_n_step_return_where_its_differences_cancel(monkeypatch):
    """With E[Q] in place of Q(x, a); and with one step, which has none."""
    problem = make_problem()
    assert tradeoffs.retrace_on_policy(problem, 1, np.random.default_rng(0)) < 1e-6
    assert tradeoffs.retrace_on_policy(problem, 3, np.random.default_rng(0)) > BROKEN
    right = q_targets.multistep_q
    monkeypatch.setattr(q_targets, "multistep_q", lambda **own: right(**(own | {"q_t_a": own["expected_q_t"]})))
    assert tradeoffs.retrace_on_policy(problem, 3, np.random.default_rng(0)) < 1e-6
