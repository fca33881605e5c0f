"""Bias and variance of V-trace by truncation level as a study: its answers, and those of wrong operators."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from paper_configs.impala import tradeoffs as tradeoffs_config
from repro.ops import q_targets
from repro.papers.impala import tradeoffs
from repro.papers.impala.gradient_estimates import estimate_moments, true_gradient
from repro.tabular import mdps, vtrace
from tests.support.theorems import BROKEN, check_records

SAMPLED = (
    "variance_by_c_bar",
    "retrace_on_policy",
    "bias_by_rho_bar",
    "bias_falls",
    "variance_by_rho_bar",
    "variance_grows",
    "reduction_by_horizon",
    "product_by_policies",
    "product_grows",
    "untruncated_by_policies",
    "untruncated_grows",
    "q_by_rho_bar",
    "variance_by_baseline",
    "vtrace_gradient_variance",
    "vtrace_gradient_bias",
    "one_step_gradient_variance",
    "one_step_gradient_bias",
    "one_step_gap",
    "one_step_gap_grows",
)
"""Answers that are means or shares of the problems that are sampled."""


def make_problem(num_states=3, discount=0.9):
    return mdps.random_problem(num_states, 2, (discount, discount), np.random.default_rng(0))


def test_its_records_have_the_papers_statements(tmp_path):
    found = check_records(
        tradeoffs,
        tradeoffs_config.get_config("smoke"),
        tmp_path,
        not_printed=("one_step_gap_grows",),
        sampled=SAMPLED,
    )
    assert found.pop("variance_grows") == found.pop("untruncated_grows") == 1.0
    assert 0.0 <= found.pop("bias_falls") <= 1.0
    assert 0.0 <= found.pop("product_grows") <= 1.0
    assert 0.0 <= found.pop("one_step_gap_grows") <= 1.0
    assert max(found.pop("variance_by_horizon"), found.pop("truncated_product_by_horizon")) <= 0.0
    del found["product_by_policies"], found["one_step_gap"]  # of either sign
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
    there_and_back = tradeoffs.find_by_rho_bar(problem, (1.0, 4.0, 1.0), 2)
    assert (there_and_back["bias_falls"], there_and_back["variance_grows"]) == (0.0, 0.0)


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


def slow_moments(problem, num_steps, number_of):
    """Variance given x_0, mean over x_0, of `number_of(states, actions)` over every path of mu, summed one by one."""
    mdp, _, mu = problem
    states, actions = range(mdp.num_states), range(mdp.num_actions)
    variances = []
    for first in states:
        mean = square = 0.0
        for later in itertools.product(states, repeat=num_steps):
            for a in itertools.product(actions, repeat=num_steps):
                x, probability = (first, *later), 1.0
                for t in range(num_steps):
                    probability *= mu[x[t], a[t]] * mdp.transitions[x[t], a[t], x[t + 1]]
                mean += probability * number_of(x, a)
                square += probability * number_of(x, a) ** 2
        variances.append(square - mean**2)
    return np.mean(variances)


@pytest.mark.parametrize("num_steps", [1, 3])
@pytest.mark.parametrize("c_bar", [None, 1.0, 1.5])
def test_the_variance_of_a_product_is_that_over_all_paths(c_bar, num_steps):
    problem = make_problem()
    _, pi, mu = problem

    def product(x, a):
        found = 1.0
        for t in range(num_steps):
            found *= min(c_bar or np.inf, pi[x[t], a[t]] / mu[x[t], a[t]])
        return found

    expected = slow_moments(problem, num_steps, product)
    assert vtrace.product_variance(problem, c_bar, num_steps) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("weights", [vtrace.Weights(None, 1.0), vtrace.Weights(2.0, 0.5), vtrace.Weights(None, None)])
def test_the_variance_of_v_s_over_the_chain_is_that_over_all_paths(weights):
    """Of Eq. (1)'s double sum, and of the targets that train."""
    problem, values, num_steps = make_problem(), np.array([0.3, -1.0, 2.0]), 3
    mdp, pi, mu = problem

    def target(x, a):
        total = values[x[0]]
        for t in range(num_steps):
            factor = mdp.discount**t
            for i in range(t):
                factor *= min(weights.clip_c or np.inf, pi[x[i], a[i]] / mu[x[i], a[i]])
            rho = min(weights.clip_rho or np.inf, pi[x[t], a[t]] / mu[x[t], a[t]])
            total += factor * rho * (mdp.rewards[x[t], a[t]] + mdp.discount * values[x[t + 1]] - values[x[t]])
        return total

    found = vtrace.chain_target_variance(problem, weights, values, num_steps)
    assert found == pytest.approx(slow_moments(problem, num_steps, target), rel=1e-9)
    assert found == pytest.approx(vtrace.target_variance(problem, weights, values, num_steps), rel=1e-4)


def test_what_explodes_adds_more_with_each_doubling_and_what_settles_less():
    horizons = np.array([1, 2, 4, 8])
    assert tradeoffs.more_by_doubling(0.5 * horizons) == 0.5 * (4 - 2)
    assert tradeoffs.more_by_doubling(np.log10(horizons)) == pytest.approx(0.0)  # as steps of a random walk do
    assert tradeoffs.more_by_doubling(np.log10(1 - 0.5**horizons)) < 0.0


def far_policies():
    """A ratio of 9 for one action and of 1/9 for the other, in every state."""
    return make_problem()._replace(pi=np.tile([0.9, 0.1], (3, 1)), mu=np.tile([0.1, 0.9], (3, 1)))


def test_only_a_product_without_truncation_explodes():
    found = tradeoffs.find_by_horizon(far_policies(), (1, 2, 4, 8, 16))
    assert found["product_by_horizon"] > 1.0
    assert found["reduction_by_horizon"] > 1.0
    assert max(found["variance_by_horizon"], found["truncated_product_by_horizon"]) < 0.0


def test_a_product_explodes_with_a_c_bar_that_truncates_nothing(monkeypatch):
    right = vtrace.product_variance
    monkeypatch.setattr(vtrace, "product_variance", lambda problem, clip_c, n: right(problem, clip_c and 1e9, n))
    found = tradeoffs.find_by_horizon(far_policies(), (1, 2, 4, 8, 16))
    assert found["truncated_product_by_horizon"] == found["product_by_horizon"] > 1.0
    assert found["reduction_by_horizon"] == 0.0


def test_v_s_explodes_with_traces_that_are_not_truncated(monkeypatch):
    right = vtrace.chain_target_variance
    monkeypatch.setattr(
        vtrace,
        "chain_target_variance",
        lambda problem, weights, *rest: right(problem, weights._replace(clip_c=None), *rest),
    )
    assert tradeoffs.find_by_horizon(far_policies(), (1, 2, 4, 8, 16))["variance_by_horizon"] > 1.0


def test_policies_go_from_pi_to_mu():
    """One c_i, by hand: pi and mu of one state have the ratios 9 and 1/9, and halfway between them 1.8 and 0.2."""
    mdp = make_problem(num_states=1).mdp
    problem = mdps.Problem(mdp, np.array([[0.9, 0.1]]), np.array([[0.1, 0.9]]))
    found = tradeoffs.find_by_policies(problem, (0.5, 1.0), 1)

    def spread(mu, first, second):
        return mu * (1 - mu) * (first - second) ** 2

    untruncated = np.log10(spread(0.1, 9, 1 / 9) / spread(0.5, 1.8, 0.2))
    truncated = np.log10(spread(0.1, 1, 1 / 9) / spread(0.5, 1, 0.2))
    assert found["untruncated_by_policies"] == pytest.approx(untruncated)
    assert found["product_by_policies"] == pytest.approx(truncated)
    assert (found["untruncated_grows"], found["product_grows"]) == (1.0, 0.0)
    back = tradeoffs.find_by_policies(problem, (1.0, 0.5), 1)
    assert (back["untruncated_grows"], back["product_grows"]) == (0.0, 1.0)
    there_and_back = tradeoffs.find_by_policies(problem, (1.0, 0.5, 1.0), 1)
    assert (there_and_back["untruncated_grows"], there_and_back["product_grows"]) == (0.0, 0.0)
    assert tradeoffs.find_by_policies(problem, (0.5, 1.0), 2)["untruncated_by_policies"] > untruncated


def test_q_s_comes_nearer_to_the_target_policys_value_by_the_distance_of_the_policies(monkeypatch):
    """E[q_s] is Q of pi_rho_bar, so the answer is the difference of two distances of action values."""
    problem = make_problem()
    q = mdps.action_values(problem.mdp, problem.pi)
    distances = [
        np.abs(mdps.action_values(problem.mdp, vtrace.evaluated_policy(problem, vtrace.Weights(level, 1.0))) - q).max()
        for level in (1.0, 4.0)
    ]
    found = tradeoffs.find_by_rho_bar(problem, (1.0, 2.0, 4.0), 2)["q_by_rho_bar"]
    assert found == pytest.approx(distances[0] - distances[1], abs=1e-5)
    assert found > BROKEN


def test_where_no_ratio_exceeds_1_clipping_changes_nothing():
    mdp, pi, _ = make_problem()
    found = tradeoffs.find_by_clipping(mdps.Problem(mdp, pi, pi), 2)
    assert found.pop("variance_by_baseline") != 0.0
    assert list(found.values()) == pytest.approx([0.0] * 4, abs=1e-6)


def test_clipping_at_1_costs_variance_far_away_and_the_baseline_saves_it():
    problem = far_policies()
    problem.mdp.rewards[:] += 5.0  # V is far from 0
    found = tradeoffs.find_by_clipping(problem, 2)
    assert found["variance_by_baseline"] > 1.0
    for correction in ("vtrace", "one_step"):
        assert found[f"{correction}_gradient_variance"] > 0.5
    assert found["vtrace_gradient_bias"] > BROKEN


def test_the_gap_is_the_bias_of_1_step_less_that_of_v_trace():
    problem, biases = make_problem(), {}
    for correction in ("one_step", "vtrace"):
        mean = estimate_moments(problem, correction, 1.0, 3).mean
        biases[correction] = np.linalg.norm(mean - true_gradient(problem))
    on_policy = tradeoffs.find_one_step_gap(problem, (0.0, 1.0), 3)["one_step_gap"]  # from pi, where it is 0
    assert on_policy == pytest.approx(biases["one_step"] - biases["vtrace"], abs=1e-5)
    assert abs(on_policy) > BROKEN


def test_the_gap_of_1_step_is_that_of_the_ends_and_its_order_counts():
    problem = make_problem()
    rising = tradeoffs.find_one_step_gap(problem, (0.25, 1.0), 2)
    falling = tradeoffs.find_one_step_gap(problem, (1.0, 0.25), 2)
    assert rising["one_step_gap"] == -falling["one_step_gap"]
    assert rising["one_step_gap_grows"] + falling["one_step_gap_grows"] == 1.0
    assert tradeoffs.find_one_step_gap(problem, (1.0, 0.25, 1.0), 2)["one_step_gap_grows"] == 0.0
    mdp, pi, _ = problem
    assert tradeoffs.find_one_step_gap(mdps.Problem(mdp, pi, pi), (0.5, 1.0), 2)["one_step_gap"] == 0.0
