"""C-trace's Proposition 3.4 and Theorem 3.5 as a study: what is learned online, and what wrong updates learn."""

from __future__ import annotations

import numpy as np
import pytest

from paper_configs.ctrace import online_theorem as online_config
from repro.papers.ctrace import alpha_update, online_theorem, targets
from repro.tabular import mdps, online_ctrace
from repro.tabular.mdps import FiniteMDP, Problem
from repro.tabular.online_ctrace import StepSizes
from repro.tabular.simulation import simulate
from tests.support.theorems import answers, check_records, values

MARGIN = 0.05
"""Of the published rows."""


def smoke(**changes):
    config = online_config.get_config("smoke")
    config.update(changes)
    return config


def left(**changes):
    return values(online_theorem, smoke(**changes))


@pytest.mark.slow
def test_its_records_have_the_papers_statements(tmp_path):
    found = check_records(online_theorem, smoke(), tmp_path, sampled={"online_phi", "online_values"})
    assert all(0.0 < number < MARGIN for number in found.values())


def test_each_value_is_the_largest_over_the_starts_of_a_problem(monkeypatch):
    numbers = iter([(0.1, 0.5), (0.2, 0.4), (0.0, 0.0), (0.0, 0.0), *[(0.3, 0.0)] * 4, *[(0.0, 1.0)] * 8])
    monkeypatch.setattr(online_theorem, "shares_left", lambda *_: next(numbers))
    found = answers(online_theorem, smoke())
    np.testing.assert_array_equal(found["online_phi"].values, [0.2, 0.3, 0.0, 0.0])
    np.testing.assert_array_equal(found["online_values"].values, [0.5, 0.0, 1.0, 1.0])
    assert "4 random problems, the largest over 4 pairs" in found["online_phi"].protocol


def test_less_is_left_after_more_trajectories():
    found = [left(num_trajectories=count) for count in (20, 200, 20_000)]
    for name in ("online_phi", "online_values"):
        shares = [answer[name] for answer in found]
        assert shares == sorted(shares, reverse=True)
        assert shares[1] > MARGIN


def test_an_alpha_that_stays_where_it_starts_has_another_rate_and_another_q(monkeypatch):
    right = online_ctrace.learn

    def stays(problem, phi, rate, *rest):
        return right(problem, phi, online_theorem.average_rate(problem, online_theorem.sigmoid(phi)), *rest)

    monkeypatch.setattr(online_ctrace, "learn", stays)
    found = left()
    assert found["online_phi"] > 0.9
    assert found["online_values"] > 3 * MARGIN


@pytest.mark.parametrize("policy", ["pi", "mu"])
def test_the_limit_of_q_is_neither_the_target_s_nor_the_behaviour_s(monkeypatch, policy):
    monkeypatch.setattr(mdps, "mix", lambda pi, mu, alpha: {"pi": pi, "mu": mu}[policy])
    found = left()
    assert found["online_phi"] < MARGIN
    assert found["online_values"] > 3 * MARGIN


def test_step_sizes_that_are_not_robbins_and_monro_s_leave_more():
    assert left(step_sizes=(0.2, 300.0, 0.0))["online_values"] > 2 * MARGIN  # the sum of their squares is infinite
    assert min(left(step_sizes=(0.2, 10.0, 2.0)).values()) > 2 * MARGIN  # their own sum is finite


def test_c_hat_of_short_trajectories_has_another_root():
    assert left(num_steps=3)["online_phi"] > 5 * MARGIN


def test_the_root_has_the_rate_and_rates_are_c_hat_s_mean():
    problem = mdps.random_problem(3, 3, (0.8, 0.8), np.random.default_rng(0))
    target = 0.4 * online_theorem.average_rate(problem, 1.0)
    alpha = online_theorem.sigmoid(online_theorem.find_root(problem, target))
    c = 1 - alpha + alpha * np.minimum(1.0, problem.pi / problem.mu)
    trajectories = simulate(problem.mdp, problem.mu, 20_000, 40, np.random.default_rng(1))
    found = [online_ctrace.contraction_estimate(c, 0.8, *rows) for rows in zip(*(x.T for x in trajectories))]
    assert abs(np.mean(found) - target) < 4 * np.std(found) / 20_000**0.5


def test_both_updates_are_those_of_the_training_code():
    problem = mdps.random_problem(4, 3, (0.9, 0.9), np.random.default_rng(0))
    mdp, pi, mu = problem
    (x,), (a,) = (rows.T for rows in simulate(mdp, mu, 1, 12, np.random.default_rng(1)))
    q, alpha = np.random.default_rng(2).normal(size=(4, 3)), 0.3
    following = np.append(a[1:], 0)  # the last one is not read
    log_rho, discount = np.log(pi / mu)[x[1:], following][:, None], np.full((12, 1), mdp.discount)
    sequences = targets.Sequences(
        r_t=mdp.rewards[x[:-1], a][:, None].astype(np.float32),
        discount_t=discount.astype(np.float32),
        q_t=q[x[1:], None].astype(np.float32),
        q_t_a=q[x[1:], following][:, None].astype(np.float32),
        pi_t=pi[x[1:], None].astype(np.float32),
        mu_t=mu[x[1:], None].astype(np.float32),
        log_rho_t=log_rho.astype(np.float32),
        is_boundary=np.zeros((12, 1), bool),
    )
    c = 1 - alpha + alpha * np.minimum(1.0, pi / mu)
    found = online_ctrace.corrections(q, mdps.mix(pi, mu, alpha), c, mdp.rewards, 0.9, x, a)
    trained = targets.alpha_retrace(sequences, 0.9, alpha).target.numpy()[:, 0]
    np.testing.assert_allclose(found, trained - q[x[:-1], a], atol=1e-5)
    estimate = alpha_update.contraction_estimate(log_rho, discount, alpha, gamma=0.9).numpy()[0, 0]
    np.testing.assert_allclose(online_ctrace.contraction_estimate(c, 0.9, x, a), estimate, atol=1e-6)


def test_a_trajectory_moves_what_it_visits_by_what_it_found():
    """Two states in turn, one action: the first is visited twice and moves by both corrections."""
    turns, policy = np.array([[[0.0, 1.0]], [[1.0, 0.0]]]), np.ones((2, 1))
    mdp = FiniteMDP(turns, np.array([[1.0], [0.0]]), 0.5, np.zeros(2, bool), np.array([1.0, 0.0]))
    problem, step_sizes = Problem(mdp, policy, policy), StepSizes(0.4, 1.0, 1.0)

    def learned(count):
        return online_ctrace.learn(problem, 1.0, 0.5, count, 3, step_sizes, np.random.default_rng(0))

    phi, q = learned(1)
    first = 0.4 * np.array([1.25 + 1.0, 0.5])
    np.testing.assert_allclose(q[:, 0], first)
    assert phi == pytest.approx(1.0 - 0.4 * (0.5**3 - 0.5))
    phi, q = learned(2)
    visited = np.array([0, 1, 0, 1]), np.zeros(3, int)
    found = online_ctrace.corrections(first[:, None], policy, policy, mdp.rewards, 0.5, *visited)
    np.testing.assert_allclose(q[:, 0], first + 0.2 * np.array([found[0] + found[2], found[1]]))
    assert phi == pytest.approx(1.0 - (0.4 + 0.2) * (0.5**3 - 0.5))
