"""Statements of C-trace and ACER on finite MDPs, where every expectation is exact."""

from __future__ import annotations

import numpy as np
import pytest

from repro.tabular import mdps, operators
from repro.tabular.operators import TRACES, Method
from tests.tabular.problems import Problem, random_problem

SEEDS = range(8)
ALPHAS = np.linspace(0.0, 1.0, 41)


def expected_trace_sum(problem: Problem, alpha: float, num_steps: int) -> np.ndarray:
    """E_mu[sum_t gamma^t prod_{s=1..t} ((1 - alpha) + alpha min(1, rho_s)) | x, a], forward in time, [S, A]."""
    mdp, pi, mu = problem
    c = (1 - alpha) + alpha * np.minimum(1.0, pi / mu)
    total, weight = np.zeros(mu.size), np.eye(mu.size)  # weight: E[prod; pair at t], by first pair
    step = (mdp.transitions[..., None] * (mu * c)).reshape(mu.size, mu.size)
    for t in range(num_steps):
        total += mdp.discount**t * weight.sum(1)
        weight = weight @ step
    return total.reshape(mu.shape)


@pytest.mark.parametrize("seed", SEEDS)
def test_ctrace_proposition_3_2_formula(seed):
    """Eq. (5) is the contraction rate of alpha-Retrace for each (x, a)."""
    problem = random_problem(seed)
    for alpha, rates in zip(ALPHAS[::10], operators.alpha_retrace_rates(*problem, ALPHAS[::10])):
        printed = 1 - (1 - 0.9) * expected_trace_sum(problem, alpha, 400)
        np.testing.assert_allclose(rates, printed, atol=1e-12)
        matrix = operators.operator(*problem, Method("retrace", alpha=alpha)).matrix
        np.testing.assert_allclose(np.abs(matrix).sum(1), printed.ravel(), atol=1e-12)
    matrix = operators.operator(*problem, Method("tree_backup", alpha=0.5)).matrix
    assert np.abs(np.abs(matrix).sum(1) - (1 - 0.1 * expected_trace_sum(problem, 0.5, 400)).ravel()).max() > 0.01


@pytest.mark.parametrize("seed", SEEDS)
def test_ctrace_proposition_3_2_continuous_increasing_from_0_to_at_most_gamma(seed):
    rates = operators.alpha_retrace_rates(*random_problem(seed), ALPHAS)
    steps = np.diff(rates, axis=0)
    assert np.all(steps > 0)  # independent policies of full support are distinguishable
    lipschitz = 0.9 / (1 - 0.9)  # (1 - gamma) sum_t t gamma^t bounds the derivative
    assert np.all(steps <= lipschitz * np.diff(ALPHAS)[0] + 1e-12)
    np.testing.assert_allclose(rates[0], 0.0, atol=1e-12)
    assert np.all(rates[-1] <= 0.9 + 1e-12)


def test_ctrace_proposition_3_2_strict_only_where_distinguishable():
    """Definition 3.1: state 1 is never left, and pi = mu there; from it the rate is constant.

    It is constant from action 1 in state 0, too, where pi and mu differ: only states of t >= 1 can tell them apart.
    """
    transitions = np.zeros([2, 2, 2])
    transitions[0, 0, 0] = transitions[0, 1, 1] = transitions[1, :, 1] = 1.0
    mdp = mdps.FiniteMDP(transitions, np.ones([2, 2]), 0.9, np.zeros(2, bool), np.array([0.5, 0.5]))
    pi, mu = np.array([[0.9, 0.1], [0.5, 0.5]]), np.full([2, 2], 0.5)
    rates = operators.alpha_retrace_rates(mdp, pi, mu, ALPHAS)
    assert np.all(np.diff(rates[:, 0, 0]) > 0)
    np.testing.assert_allclose(rates[:, [0, 1, 1], [1, 0, 1]], 0.0, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rule", ["retrace", "tree_backup", "acer"])
def test_rules_with_traces_up_to_min_1_rho_contract_by_gamma(seed, rule):
    """Munos et al., 2016, Theorem 1: rate at most gamma and fixed point Q^pi, for c in [0, rho]; Q(lambda) may not."""
    mdp, pi, mu = random_problem(seed)
    for lambda_ in (0.0, 0.5, 1.0):
        op = operators.operator(mdp, pi, mu, Method(rule, lambda_=lambda_))
        assert operators.contraction_rate(op) <= 0.9 + 1e-12
        assert np.min(op.matrix) >= -1e-12
        np.testing.assert_allclose(operators.fixed_point(op, mdp), mdps.action_values(mdp, pi), atol=1e-10)


def test_q_lambda_and_a_power_of_the_ratio_leave_that_condition():
    mdp, pi, mu = random_problem(0)
    assert operators.contraction_rate(operators.operator(mdp, pi, mu, Method("q_lambda"))) > 0.9
    assert np.min(operators.operator(mdp, pi, mu, Method("acer", dimension=20)).matrix) < -1e-3


class Acer:
    """ACER's operator B of Eq. (20), for a truncation c: matrix and offset."""

    def __init__(self, problem: Problem, c: float) -> None:
        mdp, pi, mu = problem
        rho = pi / mu
        truncated, correction = np.minimum(c, rho), np.maximum((rho - c) / rho, 0.0) if c < np.inf else 0 * rho
        traces = np.linalg.inv(np.eye(mu.size) - operators.step_matrix(mdp, mu * truncated))
        self.matrix = traces @ operators.step_matrix(mdp, pi * correction)
        self.offset = traces @ mdp.rewards.ravel()


@pytest.mark.parametrize("seed", SEEDS)
def test_acer_proposition_1(seed):
    """B contracts towards Q^pi by gamma for any c, and with c = 1 it is Retrace."""
    problem = random_problem(seed)
    mdp, pi, _ = problem
    for c in (0.0, 0.5, 1.0, 3.0, np.inf):
        op = operators.Operator(**vars(Acer(problem, c)))
        assert operators.contraction_rate(op) <= 0.9 + 1e-12
        np.testing.assert_allclose(operators.fixed_point(op, mdp), mdps.action_values(mdp, pi), atol=1e-10)
    retrace = operators.operator(*problem, Method("retrace"))
    np.testing.assert_allclose(Acer(problem, 1.0).matrix, retrace.matrix, atol=1e-12)
    np.testing.assert_allclose(Acer(problem, 1.0).offset, retrace.offset, atol=1e-12)
    assert np.abs(Acer(problem, 2.0).matrix - retrace.matrix).max() > 1e-3


def test_acer_appendix_c_limits():
    """c = 0 is the Bellman operator T^pi, c infinite is importance sampling."""
    problem = random_problem(0)
    for c, method in ((0.0, Method("uncorrected", n=1)), (np.inf, Method("importance_sampling"))):
        op = operators.operator(*problem, method)
        np.testing.assert_allclose(Acer(problem, c).matrix, op.matrix, atol=1e-12)
        np.testing.assert_allclose(Acer(problem, c).offset, op.offset, atol=1e-12)


@pytest.mark.parametrize("c", [0.3, 1.0, 2.0])
def test_acer_equations_7_and_18(c):
    """Truncation with bias correction changes no expectation over actions; without the correction it does."""
    mdp, pi, mu = random_problem(3)
    rho = pi / mu
    truncated, correction = np.minimum(c, rho), np.maximum((rho - c) / rho, 0.0)
    f = np.random.default_rng(0).normal(size=(5, *pi.shape))  # five components of a gradient times Q
    np.testing.assert_allclose((mu * rho * f).sum(-1), (mu * truncated * f).sum(-1) + (pi * correction * f).sum(-1))
    assert np.abs((mu * rho * f).sum(-1) - (mu * truncated * f).sum(-1)).max() > 0.01
    q = mdps.action_values(mdp, pi)
    following = (mu * truncated * q).sum(1) + (pi * correction * q).sum(1)
    np.testing.assert_allclose(q, mdp.rewards + 0.9 * mdp.transitions @ following)


def test_every_rule_is_covered():
    assert set(TRACES) == {"retrace", "tree_backup", "acer", "q_lambda", "importance_sampling"}
