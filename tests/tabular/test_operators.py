"""Closed forms against sums over every path, and against each other."""

from __future__ import annotations

import numpy as np
import pytest

from repro.tabular import mdps, operators
from repro.tabular.operators import Method
from repro.tabular.simulation import sampled_targets
from tests.tabular.problems import METHODS, all_paths, chain_problem, printed_target, random_problem

SMALL = [random_problem(0, 2, 2), random_problem(1, 2, 2), chain_problem(2)]


@pytest.mark.parametrize("problem", SMALL)
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_sampled_targets_are_the_printed_sums(problem, method):
    paths = all_paths(problem, 4).trajectories
    q = np.random.default_rng(0).normal(size=problem.pi.shape)
    ours = sampled_targets(*problem[:1], paths, *problem[1:], [method], q)[0]
    some = np.random.default_rng(1).choice(len(ours), 60)
    printed = [printed_target(problem, method, q, paths.states[:, i], paths.actions[:, i]) for i in some]
    np.testing.assert_allclose(ours[some], printed, atol=1e-12)


@pytest.mark.parametrize("problem", SMALL)
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_an_operator_is_the_expectation_of_its_targets(problem, method):
    """Definition 1.1, exactly: over every path of four steps."""
    mdp, pi, mu = problem
    paths = all_paths(problem, 4)
    q = np.random.default_rng(0).normal(size=pi.shape)
    expected = paths.expectation(sampled_targets(mdp, paths.trajectories, pi, mu, [method], q)[0], mdp)
    found = operators.operator(mdp, pi, mu, method, horizon=4)(q)
    running = ~mdp.terminal
    np.testing.assert_allclose(found[running], expected[running], atol=1e-12)
    assert not found[mdp.terminal].any()


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_an_endless_operator_is_the_limit_of_long_ones(method):
    mdp, pi, mu = random_problem(3)
    endless = operators.operator(mdp, pi, mu, method)
    long = operators.operator(mdp, pi, mu, method, horizon=400)
    np.testing.assert_allclose(long.matrix, endless.matrix, atol=1e-10)
    np.testing.assert_allclose(long.offset, endless.offset, atol=1e-10)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_variance_is_that_of_the_targets_over_every_path(method):
    """Definition 1.4; discount 0.1 makes six steps nearly endless."""
    problem = random_problem(4, 2, 2, discount=0.1)
    mdp, pi, mu = problem
    paths = all_paths(problem, 6)
    q = np.random.default_rng(0).normal(size=pi.shape)
    targets = sampled_targets(mdp, paths.trajectories, pi, mu, [method], q)[0]
    mean = paths.expectation(targets, mdp)
    variance = paths.expectation(targets**2, mdp) - mean**2
    np.testing.assert_allclose(operators.update_variance(mdp, pi, mu, method, q), variance, rtol=2e-3)


def test_variance_on_the_chain_knows_its_end():
    problem = chain_problem(0, discount=0.2)
    mdp, pi, mu = problem
    paths = all_paths(problem, 6)
    q = np.random.default_rng(0).normal(size=pi.shape)
    for method in (Method("retrace", alpha=0.5), Method("uncorrected", n=3), Method("importance", n=2)):
        targets = sampled_targets(mdp, paths.trajectories, pi, mu, [method], q)[0]
        variance = paths.expectation(targets**2, mdp) - paths.expectation(targets, mdp) ** 2
        found = operators.update_variance(mdp, pi, mu, method, q)
        np.testing.assert_allclose(found[:2], variance[:2], rtol=1e-2, atol=1e-9)


def test_contraction_rate_is_attained_and_never_exceeded():
    """Definition 1.2: the supremum over pairs of action values."""
    mdp, pi, mu = random_problem(5)
    rng = np.random.default_rng(0)
    for method in METHODS:
        op = operators.operator(mdp, pi, mu, method)
        rate = operators.contraction_rate(op)
        worst = np.sign(op.matrix[np.abs(op.matrix).sum(1).argmax()]).reshape(pi.shape)
        zeros = np.zeros_like(pi)
        assert np.abs(op(worst) - op(zeros)).max() == pytest.approx(rate, abs=1e-12)
        for _ in range(20):
            q, other = rng.normal(size=(2, *pi.shape))
            assert np.abs(op(q) - op(other)).max() <= rate * np.abs(q - other).max() + 1e-12


def test_fixed_point_and_bias():
    mdp, pi, mu = random_problem(6)
    q = mdps.action_values(mdp, pi)
    for method in METHODS:
        op = operators.operator(mdp, pi, mu, method)
        fixed = operators.fixed_point(op, mdp)
        np.testing.assert_allclose(op(fixed), fixed, atol=1e-10)
        bias = np.sqrt(sum((fixed[x, a] - q[x, a]) ** 2 for x in range(4) for a in range(3)))
        assert operators.fixed_point_bias(op, mdp, pi) == pytest.approx(bias, abs=1e-12)
        unbiased = method.alpha == 1 and (method.rule != "uncorrected" or method.n == 1)
        assert (bias < 1e-10) == unbiased, method


@pytest.mark.parametrize("problem", [random_problem(7), chain_problem(8, 6)])
def test_the_short_cuts_over_states_agree_with_the_operators(problem):
    mdp, pi, mu = problem
    alphas = np.array([0.0, 0.3, 1.0])
    rates = operators.alpha_retrace_rates(mdp, pi, mu, alphas)
    for alpha, rate in zip(alphas, rates):
        op = operators.operator(mdp, pi, mu, Method("retrace", alpha=alpha))
        np.testing.assert_allclose(rate.ravel(), np.abs(op.matrix).sum(1), atol=1e-12)
    for n, fixed in enumerate(operators.uncorrected_fixed_points(mdp, pi, mu, 12), 1):
        op = operators.operator(mdp, pi, mu, Method("uncorrected", n=n))
        np.testing.assert_allclose(fixed, operators.fixed_point(op, mdp), atol=1e-9)


@pytest.mark.parametrize("problem", [random_problem(3), chain_problem(3, num_states=6)])
def test_rates_of_uncorrected_returns_know_the_end(problem):
    mdp, pi, mu = problem
    rates = operators.uncorrected_rates(mdp, mu, 12)
    ops = [operators.operator(mdp, pi, mu, Method("uncorrected", n=n)) for n in range(1, 13)]
    np.testing.assert_allclose(rates, [operators.contraction_rate(op) for op in ops])
    powers = mdp.discount ** np.arange(1, 13)
    assert np.allclose(rates, powers) == (not mdp.terminal.any())
    assert np.all(rates <= powers * (1 + 1e-12))


def test_alpha_for_rate_hits_the_rate_or_is_one():
    mdp, pi, mu = random_problem(9)
    retrace = operators.alpha_retrace_rates(mdp, pi, mu, np.ones(1)).max()
    wanted = np.array([0.1, 0.5, retrace, 0.99])
    alphas = operators.alpha_for_rate(mdp, pi, mu, wanted)
    found = operators.alpha_retrace_rates(mdp, pi, mu, alphas).max((1, 2))
    np.testing.assert_allclose(found, [0.1, 0.5, retrace, retrace], atol=1e-10)
    assert alphas[3] == 1.0
    assert 0 < alphas[0] < alphas[1] < 1


def test_a_policy_that_never_acts_so_is_no_division_by_zero():
    mdp, pi, _ = random_problem(10)
    mu = np.tile([0.0, 0.5, 0.5], (4, 1))
    with np.errstate(all="raise"):
        for rule in operators.TRACES:
            assert not operators.trace_coefficients(pi, mu, Method(rule))[:, 0].any()


def test_a_wrong_method_is_refused():
    problem = random_problem(0)
    with pytest.raises(ValueError, match="Unknown rule 'vtrace': choose one of uncorrected, importance, retrace"):
        operators.operator(*problem, Method("vtrace"))
    with pytest.raises(ValueError, match="uncorrected: n must be 1 or more, got 0"):
        operators.operator(*problem, Method("uncorrected"))
