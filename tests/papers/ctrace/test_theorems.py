"""C-trace's printed results as a study: its answers, those of wrong updates, and what its bounds need."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from paper_configs.ctrace import theorems as theorems_config
from repro.papers.ctrace import theorems, update_errors
from repro.tabular import mdps, operators, paths
from repro.tabular.mdps import Problem
from repro.tabular.operators import Method
from repro.tabular.simulation import sampled_targets
from tests.support.theorems import BROKEN, check_records, values
from tests.tabular.problems import random_problem

SEEDS = range(4)
EXACT = (
    "rate",
    "estimate",
    "least_rate",
    "growth_printed",
    "growth_on_policy",
    "truncated_on_policy",
    "uncorrected",
    "importance",
    "periodic_policy",
    "mixture",
)


def smoke(**changes):
    config = theorems_config.get_config("smoke")
    config.evaluation.episodes = 2
    config.update(changes)
    return config


def test_its_records_have_the_statements_but_the_printed_one_of_the_first_state(tmp_path):
    found = check_records(theorems, smoke(), tmp_path)
    assert {name: found.pop(name) for name in EXACT} == dict.fromkeys(EXACT, 0.0)
    assert found.pop("growth") > BROKEN
    assert found.pop("trade_off") > 1.0
    assert found.pop("truncated") > 1.0 + BROKEN
    assert set(found) == {"largest_rate", "greedy", "error", "squared_error"}
    assert all(0.1 < number < 1.0 for number in found.values())


def test_the_operators_of_the_agents_targets_are_the_closed_forms():
    problem = random_problem(3, 3, 2)
    batch = theorems.Batch(problem, 3)
    for alpha in (0.0, 0.3, 1.0):
        exact = operators.operator(*problem, Method("retrace", alpha=alpha))
        assert paths.distance(batch.alpha_retrace(alpha), exact) < 1e-5
        printed = operators.alpha_retrace_rates(*problem, np.array([alpha]))[0].ravel()
        np.testing.assert_allclose(theorems.printed_rates(problem, alpha), printed, atol=1e-12)
    truncated = operators.operator(*problem, Method("retrace"), horizon=3)
    assert paths.distance(batch.truncated_retrace(), truncated) < 1e-5
    for n in (1, 2, 3):
        exact = operators.operator(*problem, Method("uncorrected", n=n))
        assert paths.distance(batch.uncorrected(n), exact) < 1e-5
        assert paths.distance(theorems.power(problem, problem.mu, n), exact) < 1e-12
        exact = operators.operator(*problem, Method("importance", n=n))
        assert paths.distance(batch.importance(n), exact) < 1e-5
        assert paths.distance(theorems.power(problem, problem.pi, n), exact) < 1e-12


@pytest.mark.parametrize("n", [2, 3])
def test_the_periodic_policy_begins_with_mu(n):
    problem = random_problem(n)
    exact = operators.fixed_point(operators.operator(*problem, Method("uncorrected", n=n)), problem.mdp)
    np.testing.assert_allclose(theorems.periodic_values(problem, n), exact, atol=1e-10)
    other = Problem(problem.mdp, problem.mu, problem.pi)
    assert np.abs(theorems.periodic_values(other, n) - exact).max() > BROKEN


def test_traces_that_are_not_truncated_contract_at_another_rate(monkeypatch):
    monkeypatch.setattr(theorems.targets.traces, "alpha_retrace", lambda log_rho, alpha: tf.exp(alpha * log_rho))
    found = values(theorems, smoke())
    assert found["rate"] > BROKEN
    assert found["uncorrected"] == found["importance"] == 0.0


def test_traces_that_are_cut_contract_at_another_rate_than_the_lowest(monkeypatch):
    monkeypatch.setattr(theorems.targets.traces, "alpha_retrace", lambda log_rho, alpha: 0.9 * tf.exp(alpha * log_rho))
    found = values(theorems, smoke())
    assert found["truncated_on_policy"] > BROKEN


def test_a_target_without_the_mixture_has_another_fixed_point(monkeypatch):
    monkeypatch.setattr(theorems.targets.traces, "mixture", lambda pi, mu, alpha: pi)
    found = values(theorems, smoke())
    assert found["mixture"] > BROKEN
    assert found["estimate"] == 0.0


def test_an_estimate_of_one_more_term_is_biased(monkeypatch):
    right = theorems.contraction_estimate
    monkeypatch.setattr(
        theorems, "contraction_estimate", lambda *args, gamma: 1 - gamma + gamma * right(*args, gamma=gamma)
    )
    assert values(theorems, smoke())["estimate"] > BROKEN


@pytest.mark.parametrize(
    ("name", "answers"), [("n_step", ("uncorrected", "periodic_policy")), ("importance", ("importance",))]
)
def test_a_return_of_a_step_less_is_another_operator(monkeypatch, name, answers):
    if name == "n_step":
        right = theorems.targets.n_step
        monkeypatch.setattr(theorems.targets, "n_step", lambda s, gamma, n: right(s, gamma, max(n - 1, 1)))
    else:
        right = theorems.q_targets.n_step_importance_weighted
        monkeypatch.setattr(
            theorems.q_targets, "n_step_importance_weighted", lambda *args, n: right(*args, n=max(n - 1, 1))
        )
    found = values(theorems, smoke())
    assert all(found[answer] > BROKEN for answer in answers)
    assert found["rate"] == 0.0


def test_the_rate_grows_where_pi_and_mu_differ_after_the_first_step():
    """As the proof of Proposition 3.2 has it, and not its Definition 3.1."""
    problem, alphas = random_problem(0, 3, 3), np.array([0.0, 0.5, 1.0])
    assert theorems.growth_unvisited(problem, alphas, 3) == 0.0
    rates = np.array([theorems.printed_rates(problem, alpha) for alpha in alphas])
    assert theorems.slopes(rates, alphas).min() > BROKEN


@pytest.mark.parametrize("seed", range(8))
def test_an_alpha_below_1_keeps_the_greedy_policy(seed):
    problem, alphas = random_problem(seed), 1 - 0.5 ** np.arange(1, theorems.HALVINGS)
    *rates, of_retrace = operators.alpha_retrace_rates(*problem, np.append(alphas, 1.0)).max((1, 2))
    found = theorems.greedy_rate(problem)
    assert found < 1 - 1e-9
    assert np.isclose(found, np.array(rates) / of_retrace, rtol=1e-9).any()


def test_not_every_alpha_keeps_it(monkeypatch):
    changed = [
        not np.array_equal(mdps.action_values(m, pi).argmax(1), mdps.action_values(m, mu).argmax(1))
        for m, pi, mu in map(random_problem, range(8))
    ]
    assert any(changed)
    monkeypatch.setattr(theorems, "HALVINGS", 1)
    assert theorems.greedy_rate(random_problem(0)) == 1.0


def updates(seed: int) -> list[update_errors.UpdateErrors]:
    return list(update_errors.sampled_updates(random_problem(seed, 2, 2), np.random.default_rng(seed)))


def certain_update(n: int, offset: float, num_actions: int = 2) -> update_errors.UpdateErrors:
    """Update of n uncorrected steps from Q_tilde + offset, nothing being random.

    One state; its last action gains 1 and is always taken by pi, the first one by mu.
    """
    rewards, actions = np.zeros((1, num_actions)), np.eye(num_actions)
    rewards[0, -1] = 1.0
    mdp = mdps.FiniteMDP(np.ones((1, num_actions, 1)), rewards, 0.9, np.zeros(1, bool), np.ones(1))
    problem, method = Problem(mdp, actions[-1:], actions[:1]), Method("uncorrected", n=n)
    fixed = operators.fixed_point(operators.operator(*problem, method), mdp)
    return update_errors.update_errors(problem, method, fixed + offset)


def test_sampled_updates_have_their_operator_in_expectation():
    problem, q = random_problem(1, 2, 2), np.random.default_rng(0).normal(size=(2, 2))
    every = paths.all_paths(problem.mdp, problem.mu, update_errors.NUM_STEPS)
    for method in update_errors.METHODS:
        targets = sampled_targets(problem.mdp, every.trajectories, problem.pi, problem.mu, [method], q)[0]
        op = operators.operator(*problem, method, horizon=update_errors.NUM_STEPS)
        np.testing.assert_allclose(every.expectation(targets, problem.mdp), op(q), atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_errors_stay_below_their_bounds(seed):
    for found in updates(seed):
        assert found.error <= found.bound + 1e-9
        assert found.square <= found.bound_of_square + 1e-9


def test_the_bound_needs_each_of_its_terms():
    alone = {
        "variance": updates(0)[2],  # one step from Q^pi
        "distance": certain_update(1, 3.0),
        "bias": certain_update(2, 0.0),
    }
    for name, found in alone.items():
        others = {"variance", "distance", "bias"} - {name}
        assert max(getattr(found, other) for other in others) < 1e-9, name
        assert found.error > 0.01, name


def test_the_bound_of_the_square_needs_its_factors():
    """3 where contraction and bias point the same way; |X| |A| where all four entries of Q are off."""
    aligned = certain_update(2, -5.0)
    assert aligned.bound_of_square / 2 < aligned.square <= aligned.bound_of_square
    wide = certain_update(1, 5.0, num_actions=4)
    assert wide.bound_of_square / 4 < wide.square <= wide.bound_of_square


@pytest.mark.parametrize("samples", [1, 2, 3, 4])
def test_variance_rate_and_bias_exceed_their_bound_together(samples):
    rng = np.random.default_rng(samples)
    every = update_errors.trade_offs(random_problem(samples, 2, 2), rng.dirichlet(np.full(4, 0.5)), samples)
    assert set(every) == set(itertools.product(update_errors.RULES, update_errors.RATES))
    for found in every.values():
        assert found.bound > 1
        assert found.total >= found.bound
    assert samples > 1 or every["seen", 0.0].root_variance < found.bound  # variance alone does not carry it
    assert every["importance", 0.0].bias < 1e-9 < every["ignoring", 0.0].bias
    assert every["ignoring", 0.0].root_variance == 0.0 < every["importance", 0.0].root_variance


def test_each_term_of_the_trade_off_is_needed_by_some_rule():
    """Two pairs of one state, of which one sample is the first in nine of ten cases."""
    problem = random_problem(0, 1, 2)
    gamma = problem.mdp.discount
    found = update_errors.trade_offs(problem, np.array([0.9, 0.1]), 1)
    largest = 1 + gamma * problem.pi[0] / (1 - gamma)  # of Q^pi, with a reward of 1 for one of the actions
    assert found["seen", 0.0].bound == pytest.approx(max(0.1 * largest[0], 0.9 * largest[1]))
    for rule, rate in found:
        assert found[rule, rate].root_variance == pytest.approx((1 - rate) * found[rule, 0.0].root_variance)
        assert found[rule, rate].bias == pytest.approx(found[rule, 0.0].bias)
    assert found["ignoring", 0.5].total == pytest.approx(found["ignoring", 0.0].total + 1 / (1 - gamma))
    assert found["ignoring", 0.5].total - found["ignoring", 0.5].bias > found["ignoring", 0.5].bound  # the rate's term
