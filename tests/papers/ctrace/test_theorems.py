"""C-trace's printed results as a study: its answers, those of wrong updates, and what its bounds need."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from paper_configs.ctrace import theorems as theorems_config
from repro.papers.ctrace import path_batch, theorems, update_errors
from repro.tabular import mdps, operators, paths
from repro.tabular.mdps import Problem
from repro.tabular.operators import Method
from repro.tabular.simulation import sampled_targets
from tests.support.theorems import BROKEN, check_records, values
from tests.tabular.problems import random_problem

SEEDS = range(4)
EXACT = (
    "clipping_bias",
    "lambda_rate",
    "lambda_least_rate_on_policy",
    "lambda_mixture",
    "one_retrace",
    "double_dqn",
    "jump",
    "jump_of_supremum",
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
    readings = ("clipping_variance_at_q_pi", "lambda_least_rate")
    found = check_records(theorems, smoke(), tmp_path, not_printed=readings, sampled=theorems.MEANS)
    assert {name: found.pop(name) for name in EXACT} == dict.fromkeys(EXACT, 0.0)
    for name in ("growth", "growth_of_supremum", "lambda_growth", *theorems.MEANS):
        assert found.pop(name) > BROKEN
    assert found.pop("lower_bound") == 1.0
    assert found.pop("trade_off") > 1.0
    assert found.pop("truncated") > 1.0 + BROKEN
    assert set(found) == {"largest_rate", "lambda_largest_rate", "greedy", "error", "squared_error"}
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


@pytest.mark.parametrize("lambda_", [0.0, 0.5, 0.97])
def test_the_operators_with_lambda_are_the_closed_forms(lambda_):
    problem = random_problem(3, 3, 2)
    batch = theorems.Batch(problem, 2)
    for alpha in (0.0, 0.3, 1.0):
        exact = operators.operator(*problem, Method("retrace", alpha=alpha, lambda_=lambda_))
        assert paths.distance(batch.alpha_retrace(alpha, lambda_), exact) < 1e-5
        rates = theorems.printed_rates(problem, alpha, lambda_=lambda_)
        np.testing.assert_allclose(rates, operators.contraction_rates(exact), atol=1e-12)


def test_answers_about_lambda_are_the_worst_of_all_lambdas():
    problem, alphas = random_problem(3, 3, 2), np.array([0.0, 1.0])
    batch = theorems.Batch(problem, 2)
    alone = [theorems.find_by_lambda(batch, problem, [lambda_], alphas) for lambda_ in (0.5, 0.97)]
    together = theorems.find_by_lambda(batch, problem, [0.5, 0.97], alphas)
    assert together["lambda_least_rate"] == alone[0]["lambda_least_rate"] > alone[1]["lambda_least_rate"] > BROKEN
    assert together["lambda_growth"] == alone[0]["lambda_growth"] < alone[1]["lambda_growth"]


def test_traces_without_lambda_contract_at_another_rate(monkeypatch):
    right = theorems.targets.q_targets.multistep_q
    monkeypatch.setattr(
        theorems.targets.q_targets, "multistep_q", lambda *args, lambda_=1.0, **kwargs: right(*args, **kwargs)
    )
    found = values(theorems, smoke())
    assert min(found["lambda_rate"], found["lambda_least_rate_on_policy"]) > BROKEN
    assert found["lambda_least_rate"] == found["rate"] == found["lambda_mixture"] == 0.0


@pytest.mark.parametrize("at_values", [False, True])
def test_variances_are_those_of_sampled_targets_over_all_paths(at_values):
    problem = random_problem(5, 3, 2)
    mdp, pi, mu = problem
    q = mdps.action_values(mdp, pi) if at_values else np.zeros_like(pi)
    every = paths.all_paths(mdp, mu, 3)
    methods = [Method("retrace"), Method("importance", n=3)]
    variances = []
    for targets in sampled_targets(mdp, every.trajectories, pi, mu, methods, q):
        spread = targets.reshape(pi.size, -1) - every.expectation(targets, mdp).reshape(-1, 1)
        variances.append((every.probability.reshape(pi.size, -1) * spread**2).sum(axis=1).mean())
    batch = theorems.Batch(problem, 3)
    assert [batch.retrace_variance(q), batch.importance_variance(q, 3)] == pytest.approx(variances, rel=1e-4)
    name = "clipping_variance_at_q_pi" if at_values else "clipping_variance"
    found = theorems.find_by_clipping(theorems.Batch(problem, 3), problem, 3)
    assert found[name] == pytest.approx(np.log10(variances[1] / variances[0]), abs=1e-4)


def test_retrace_that_clips_nothing_gains_nothing(monkeypatch):
    monkeypatch.setattr(theorems.targets.traces, "alpha_retrace", lambda log_rho, alpha: tf.exp(log_rho))
    problem = random_problem(5, 3, 2)
    found = theorems.find_by_clipping(theorems.Batch(problem, 3), problem, 3)
    assert found["clipping_rate"] == pytest.approx(0.0, abs=1e-5)
    assert found["clipping_variance"] == pytest.approx(0.0, abs=1e-5)
    assert found["clipping_bias"] < 1e-5
    monkeypatch.setattr(theorems.targets.traces, "expected_value", lambda q, pi: tf.reduce_mean(q, -1))
    assert theorems.find_by_clipping(theorems.Batch(problem, 3), problem, 3)["clipping_bias"] > BROKEN


def test_a_rate_with_a_jump_has_its_size(monkeypatch):
    right = operators.alpha_retrace_rates
    problem = random_problem(0, 3, 3)
    smooth = theorems.find_jumps(problem, 20_000)
    assert max(smooth.values()) < 1e-5
    rates_of_retrace = right(*problem, np.ones(1))[0]
    largest = np.unravel_index(rates_of_retrace.argmax(), problem.pi.shape)
    action = largest[1] - 1
    other = (rates_of_retrace[:, action].argmax(), action)  # its rate is the largest of its action alone

    def jumping(pair, size):
        def rates(mdp, pi, mu, alphas):
            found = right(mdp, pi, mu, alphas)
            found[(alphas > 0.7, *pair)] += size
            return found

        monkeypatch.setattr(operators, "alpha_retrace_rates", rates)
        return theorems.find_jumps(problem, 20_000)

    found = jumping(other, -0.1)
    assert found["jump"] == pytest.approx(0.1, abs=1e-3)
    assert found["jump_of_supremum"] < 1e-5
    assert jumping(largest, 0.1)["jump_of_supremum"] == pytest.approx(0.1, abs=1e-3)


def test_other_traces_are_not_those_of_retrace(monkeypatch):
    problem = random_problem(4, 3, 2)
    batch, q = theorems.Batch(problem, 3), np.random.default_rng(0).normal(size=(3, 2))
    assert theorems.one_retrace(batch, q) < 1e-5
    monkeypatch.setattr(theorems.targets.traces, "alpha_retrace", lambda log_rho, alpha: tf.exp(alpha * log_rho))
    assert theorems.one_retrace(batch, q) > BROKEN


def test_the_difference_of_targets_is_the_largest_of_all_paths_and_steps():
    problem = random_problem(4, 3, 2)
    batch, q = theorems.Batch(problem, 3), np.random.default_rng(0).normal(size=(3, 2))

    def last(sequences):
        return tf.concat([tf.zeros_like(sequences.r_t[:-1]), sequences.q_t_a[:1]], axis=0)

    size = batch.largest_difference(last, lambda sequences: tf.zeros_like(sequences.r_t), q)
    assert size == pytest.approx(np.abs(q).max())


def test_a_policy_of_the_target_network_is_not_double_dqns(monkeypatch):
    problem = random_problem(4, 3, 2)
    assert max(theorems.double_dqn(problem, np.random.default_rng(seed)) for seed in range(4)) < 1e-5
    monkeypatch.setattr(theorems.loss.targets, "greedy", lambda q: tf.one_hot(tf.argmin(q, axis=-1), q.shape[-1]))
    assert theorems.double_dqn(problem, np.random.default_rng(0)) > BROKEN


@pytest.mark.parametrize(("n", "remainder"), [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
def test_the_periodic_policy_is_that_of_its_times(n, remainder):
    """By backward induction from a time so late that nothing after it counts; the given action is that of time 0."""
    mdp, pi, mu = problem = random_problem(n)
    q = np.zeros_like(pi)
    for t in reversed(range(600)):
        following = pi if (t + 1) % n == remainder else mu
        q = mdp.rewards + mdp.discount * mdp.transitions @ (following * q).sum(axis=1)
    np.testing.assert_allclose(theorems.periodic_values(problem, n, remainder), q, atol=1e-8)


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
    right = path_batch.contraction_estimate
    monkeypatch.setattr(
        path_batch, "contraction_estimate", lambda *args, gamma: 1 - gamma + gamma * right(*args, gamma=gamma)
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
        right = path_batch.q_targets.n_step_importance_weighted
        monkeypatch.setattr(
            path_batch.q_targets, "n_step_importance_weighted", lambda *args, n: right(*args, n=max(n - 1, 1))
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


def test_the_expected_error_reaches_the_bound_of_the_proof():
    """Two pairs of one state, of which one sample is the first in nine of ten cases."""
    found = update_errors.trade_offs(random_problem(0, 1, 2), np.array([0.9, 0.1]), 1)
    assert found["seen", 0.0].error == pytest.approx(1.0)  # a seen pair leaves no error
    assert found["ignoring", 0.0].error == pytest.approx(1 / 0.9)  # the second pair alone, which is seen in one of ten
    assert all(item.error >= 1 - 1e-9 for item in found.values())


def test_the_larger_error_by_hand():
    """Q = 1 and Q^pi = 2 or -2, Gamma = 1/2: T_hat Q is 3/2 or -1/2 if the reward is seen, else 1/2."""
    arrays = [np.array(x) for x in ([1.0], [[2.0], [0.0]], [2.0], [0.25, 0.75])]
    q, estimates, q_pi, chances = arrays
    found = update_errors.larger_error(q, 0.5, estimates, q_pi, chances)
    assert found == pytest.approx(max(0.25 * 0.5 + 0.75 * 1.5, 0.25 * 1.5 + 0.75 * 2.5))
    known = update_errors.larger_error(q, 0.0, np.array([[2.0], [2.0]]), q_pi, chances)
    assert known == 0.0


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
