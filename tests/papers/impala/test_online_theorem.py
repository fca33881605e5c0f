"""IMPALA's Theorem 2 as a study: what is learned online, and what wrong updates learn."""

from __future__ import annotations

import numpy as np
import pytest

from paper_configs.impala import online_theorem as online_config
from repro.ops import v_targets
from repro.papers.impala import online_theorem
from repro.tabular import mdps, online_vtrace, vtrace
from repro.tabular.simulation import simulate
from repro.tabular.vtrace import Weights
from tests.support.theorems import answers, check_records, values

MARGIN = 0.05
"""Of the published row."""


def smoke(**changes):
    config = online_config.get_config("smoke")
    config.update(changes)
    return config


def left(**changes):
    return values(online_theorem, smoke(**changes))["online_values"]


def test_its_record_has_the_papers_statement(tmp_path):
    found = check_records(online_theorem, smoke(), tmp_path, sampled={"online_values"})
    assert 0.0 < found["online_values"] < MARGIN


def test_each_value_is_the_largest_over_the_truncation_levels_of_a_problem(monkeypatch):
    numbers = iter([0.1, 0.5, 0.2, 0.3, 0.4] + [0.0, 0.0, 0.0, 0.0, 0.25] + [1.0] * 5 + [0.0] * 5)
    monkeypatch.setattr(online_theorem, "share_left", lambda *_: next(numbers))
    found = answers(online_theorem, smoke())["online_values"]
    np.testing.assert_array_equal(found.values, [0.5, 0.25, 1.0, 0.0])
    assert "4 random problems, the largest over 5 pairs" in found.protocol


def test_less_is_left_after_more_trajectories():
    counts = (200, 2_000, 20_000)
    shares = [left(num_trajectories=count) for count in counts]
    assert shares == sorted(shares, reverse=True)
    assert shares[1] > MARGIN


def test_an_update_with_untruncated_rho_comes_to_another_policy_s_value(monkeypatch):
    right = online_vtrace.learn
    monkeypatch.setattr(online_vtrace, "learn", lambda p, w, *rest: right(p, Weights(None, w.clip_c), *rest))
    assert left() > 5 * MARGIN


@pytest.mark.parametrize("policy", ["pi", "mu"])
def test_the_limit_is_neither_the_target_s_nor_the_behaviour_s_value(monkeypatch, policy):
    monkeypatch.setattr(vtrace, "evaluated_policy", lambda problem, weights: getattr(problem, policy))
    assert left() > 5 * MARGIN


def test_another_truncation_of_c_has_the_same_limit():
    assert left(clips=((1.0, 0.2),)) < MARGIN
    assert left(clips=((2.0, 0.2),)) < MARGIN


def test_step_sizes_that_are_not_robbins_and_monro_s_leave_more():
    assert left(step_size_power=0.2) > 2 * MARGIN  # the sum of their squares is infinite
    assert left(step_size_power=2.0) > 5 * MARGIN  # their own sum is finite


def test_corrections_are_those_of_the_training_code():
    problem = mdps.random_problem(4, 3, (0.9, 0.9), np.random.default_rng(0))
    mdp, pi, mu = problem
    weights = Weights(1.3, 0.8)
    (x,), (a,) = (rows.T for rows in simulate(mdp, mu, 1, 12, np.random.default_rng(1)))
    v = np.random.default_rng(2).normal(size=4)
    output = v_targets.vtrace(
        log_rho=np.log(pi / mu)[x[:-1], a][:, None],
        discount_t=np.full((12, 1), mdp.discount),
        r_t=mdp.rewards[x[:-1], a][:, None],
        v_tm1=v[x[:-1], None],
        v_t=v[x[1:], None],
        **weights._asdict(),
    )
    rho, c = (weighted / mu for weighted in vtrace.expected_weights(problem, weights))
    found = online_vtrace.corrections(v, mdp.rewards, mdp.discount, rho, c, x, a)
    np.testing.assert_allclose(found, output.targets[:, 0].numpy() - v[x[:-1]], atol=1e-5)


def test_a_trajectory_moves_each_state_by_the_values_that_it_found():
    """Of one step size, 1: a state that is visited once has its target, one visited twice both corrections."""
    problem = mdps.random_problem(3, 2, (0.9, 0.9), np.random.default_rng(3))
    mdp, pi, mu = problem
    rho = np.minimum(pi / mu, 1.0)
    once = [online_vtrace.learn(problem, Weights(1.0, 1.0), 1, 6, 0.0, np.random.default_rng(i)) for i in range(2000)]
    trajectories = simulate(mdp, mu, 20_000, 6, np.random.default_rng(0))
    moved = np.zeros(3)
    for x, a in zip(trajectories.states.T, trajectories.actions.T):
        np.add.at(moved, x[:-1], online_vtrace.corrections(np.zeros(3), mdp.rewards, 0.9, rho, rho, x, a))
    np.testing.assert_allclose(np.mean(once, axis=0), moved / 20_000, atol=4 * np.std(once, axis=0).max() / 2000**0.5)
