"""IMPALA's theorem as a study: its answers, and those of operators that are wrong."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from paper_configs.impala import theorems as theorems_config
from repro.ops import v_targets
from repro.papers.impala import theorems
from repro.tabular import mdps, vtrace
from tests.support.theorems import BROKEN, answers, check_records, values


def smoke(**changes):
    config = theorems_config.get_config("smoke")
    config.update(changes)
    return config


def break_operator(monkeypatch, **replaced):
    """Gives `vtrace` other arguments than it is called with; a callable makes one of the right one."""
    right = v_targets.vtrace

    def wrong(**arguments):
        own = {name: x(arguments[name]) if callable(x) else x for name, x in replaced.items() if name in arguments}
        return right(**(arguments | own))

    monkeypatch.setattr(v_targets, "vtrace", wrong)


def find_on(monkeypatch, find):
    """Has the study find something else on a problem."""
    monkeypatch.setattr(theorems, "run", dataclasses.replace(theorems.run, find=find))


def test_its_records_have_the_papers_statements(tmp_path):
    other = "between_probabilities"
    sampled = ("biased_v", "rate_by_c_bar", "between", other)
    found = check_records(theorems, smoke(), tmp_path, not_printed=(other,), sampled=sampled)
    assert min(found.pop("biased_v"), found.pop("rate_by_c_bar")) > BROKEN
    assert found.pop(other) <= found["between"]
    limits = ("target_limit", "behaviour_limit", "q_limit")
    exact = dict.fromkeys(("eta", "fixed_point", "unbiased_q", "on_policy", "td_lambda", *limits), 0.0)
    exact |= {"truncated_fixed_point": 0.0, "between": 1.0}
    assert found == {"contraction": pytest.approx(0.99, abs=0.01), "truncated_contraction": 1.0} | exact
    assert found["contraction"] <= 1.0


def test_each_difference_is_of_one_problem_and_a_ratio_the_largest_of_all(monkeypatch):
    numbers = iter([0.123456, 0.9, 0.5, 0.2])
    find_on(monkeypatch, lambda config, *rest: dict.fromkeys(config.answers, next(numbers)))
    found = answers(theorems, smoke())
    np.testing.assert_array_equal(found["contraction"].values, [0.9])
    for name in ("eta", "fixed_point", "unbiased_q"):
        np.testing.assert_array_equal(found[name].values, [0.1235, 0.9, 0.5, 0.2])
    assert "largest of 4 random problems" in found["contraction"].protocol
    assert "at most 9.0e-01 unrounded" in found["unbiased_q"].protocol


def test_an_operator_that_does_not_truncate_rho_has_another_fixed_point(monkeypatch):
    break_operator(monkeypatch, clip_rho=None)
    found = values(theorems, smoke())
    assert min(found[name] for name in ("fixed_point", "truncated_fixed_point", "unbiased_q")) > BROKEN


def test_an_operator_without_discount_breaks_every_statement(monkeypatch):
    break_operator(monkeypatch, discount_t=np.sign)
    found = values(theorems, smoke())
    assert min(found["contraction"], found["truncated_contraction"]) > 1 + BROKEN
    assert min(found[name] for name in ("eta", "fixed_point", "unbiased_q", "on_policy", "td_lambda")) > BROKEN


def test_the_limits_without_clipping_are_those_of_the_target_policy(monkeypatch):
    """And not where rho_bar is finite."""
    problem = mdps.random_problem(3, 2, (0.9, 0.9), np.random.default_rng(0))
    found = theorems.limits_without_clipping(problem, 2)
    assert max(found.values()) < 1e-5
    monkeypatch.setattr(theorems, "Weights", lambda clip_rho, clip_c: vtrace.Weights(1.0, clip_c))
    assert min(theorems.limits_without_clipping(problem, 2).values()) > BROKEN


def test_traces_above_rho_break_the_contraction_and_not_the_fixed_point():
    """Without rho_bar >= c_bar some weights are negative, and the rate is no longer eta, which adds them up."""
    found = values(theorems, smoke(clips=((0.1, 20.0),)))
    assert found["contraction"] > 1 + BROKEN
    assert found["eta"] > BROKEN
    assert found["fixed_point"] == 0.0


def test_the_truncation_of_c_moves_the_rate():
    rates = [values(theorems, smoke(clips=((1.0, c),)))["contraction"] for c in (0.3, 1.0)]
    assert rates[0] > rates[1] + 0.5 * BROKEN


def test_zero_means_no_truncation():
    """With neither truncated, an endless trajectory never bootstraps, and a single step does at the rate gamma."""
    found = values(theorems, smoke(clips=((0.0, 0.0),)))
    assert found.pop("truncated_contraction") == found.pop("between") == found.pop("between_probabilities") == 1.0
    assert min(found.pop("biased_v"), found.pop("rate_by_c_bar")) > BROKEN
    assert set(found.values()) == {0.0}


def test_off_policy_v_is_neither_the_n_step_nor_the_lambda_return(monkeypatch):
    problem, rng = mdps.random_problem(3, 2, (0.9, 0.9), np.random.default_rng(0)), np.random.default_rng(1)
    assert max(theorems.on_policy_differences(problem, 3, rng)) < 1e-6
    break_operator(monkeypatch, log_rho=lambda log_rho: log_rho - 0.5)
    assert min(theorems.on_policy_differences(problem, 3, rng)) > BROKEN


def test_a_policy_is_between_two_that_are_no_nearer_to_each_other():
    for x, expected in ((0.0, True), (0.5, True), (1.0, True), (1.5, False), (-0.5, False)):
        assert vtrace.is_between(np.array([x]), np.array([0.0]), np.array([1.0]), np.abs) is expected
    both = np.array([[0.5], [1.5]])  # the second state's is not
    assert not vtrace.is_between(both, np.zeros((2, 1)), np.ones((2, 1)), theorems.total_variation)


def test_a_policy_may_be_between_two_though_its_probabilities_are_not():
    """The second action has the probability 0.3 in both, and 0.5 in the policy in between."""
    mdp = mdps.dirichlet_uniform(1, 3, 0.9, np.random.default_rng(0))
    problem = mdps.Problem(mdp, np.array([[0.6, 0.3, 0.1]]), np.array([[0.2, 0.3, 0.5]]))
    weights = vtrace.Weights(1.0, 1.0)
    assert vtrace.evaluated_policy(problem, weights)[0, 1] == pytest.approx(0.5)
    assert theorems.is_between(problem, weights, theorems.total_variation)
    assert not theorems.is_between(problem, weights, np.abs)


def test_lambda_is_that_of_the_traces(monkeypatch):
    problem, rng = mdps.random_problem(3, 2, (0.9, 0.9), np.random.default_rng(0)), np.random.default_rng(1)
    break_operator(monkeypatch, lambda_=1.0)
    n_step, to_lambda = theorems.on_policy_differences(problem, 3, rng)
    assert n_step < 1e-6
    assert to_lambda > BROKEN


def test_a_larger_rho_bar_moves_the_fixed_point_away_from_the_behaviour_policy_s(monkeypatch):
    problem = mdps.random_problem(3, 2, (0.9, 0.9), np.random.default_rng(0))
    assert theorems.distance_from_behaviour(problem) < 1e-8
    right = vtrace.closed_form
    monkeypatch.setattr(vtrace, "closed_form", lambda problem, weights: right(problem, vtrace.Weights(1.0, 1.0)))
    assert theorems.distance_from_behaviour(problem) > BROKEN


def test_half_of_c_bar_costs_nothing_where_it_truncates_nothing():
    problem = mdps.random_problem(3, 2, (0.9, 0.9), np.random.default_rng(0))
    largest = float((problem.pi / problem.mu).max())
    assert theorems.cost_of_half_c_bar(problem, vtrace.Weights(1.0, 2.5 * largest)) == 0.0
    assert theorems.cost_of_half_c_bar(problem, vtrace.Weights(1.0, 1.0)) > BROKEN


def test_the_action_value_is_of_the_policy_of_the_truncated_weights(monkeypatch):
    problem = mdps.random_problem(3, 2, (0.9, 0.9), np.random.default_rng(0))
    weights = vtrace.Weights(1.0, 1.0)
    assert theorems.biases(problem, weights, 3)[0] < 1e-5
    monkeypatch.setattr(vtrace, "evaluated_policy", lambda problem, weights: problem.pi)
    assert theorems.biases(problem, weights, 3)[0] > BROKEN


def test_v_is_unbiased_where_no_weight_is_cut_and_both_policies_are_one():
    mdp, pi, _ = mdps.random_problem(3, 2, (0.9, 0.9), np.random.default_rng(0))
    on_policy = mdps.Problem(mdp, pi, pi)
    assert theorems.biases(on_policy, vtrace.Weights(1.0, 1.0), 3)[1] < 1e-5


def test_size_and_discount_of_the_problems_are_those_of_the_configuration(monkeypatch):
    seen = []

    def find(config, problem, rng):
        seen.append(problem)
        return dict.fromkeys(config.answers, 0.0)

    find_on(monkeypatch, find)
    config = smoke()
    config.env.update({"num_states": 2, "num_actions": 4, "min_discount": 0.3, "max_discount": 0.4})
    answers(theorems, config)
    assert {(p.mdp.num_states, p.mdp.num_actions) for p in seen} == {(2, 4)}
    assert all(0.3 <= p.mdp.discount <= 0.4 for p in seen)
    assert len({p.mdp.discount for p in seen}) == 4


def test_steps_and_pairs_are_read(monkeypatch):
    seen = []
    right_targets, right_rate = vtrace.expected_targets, theorems.paths.sampled_rate
    monkeypatch.setattr(vtrace, "expected_targets", lambda p, w, n: seen.append(n) or right_targets(p, w, n))
    monkeypatch.setattr(theorems.paths, "sampled_rate", lambda e, o, n, r: seen.append(n) or right_rate(e, o, n, r))
    values(theorems, smoke(num_steps=2, pairs=5))
    assert set(seen) == {1, 2, 5}
