"""IMPALA's Theorem 1 and STAC's Theorem 2 on random finite MDPs, where the expected operator is exact.

The n-step operator comes from `vtrace` itself, run on every path of n steps and weighted by the path's
probability; the operator of Eq. (5), which sums without end, is the closed form that these agree with for every n.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from repro.ops import v_targets
from repro.tabular import mdps, vtrace
from repro.tabular.mdps import Problem
from repro.tabular.paths import all_paths, endless, sampled_rate
from repro.tabular.vtrace import Weights as Settings

NUM_STATES, NUM_ACTIONS = 3, 2


def random_problem(seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    mdp = mdps.dirichlet_uniform(NUM_STATES, NUM_ACTIONS, 0.9, rng)
    pi, mu = 0.9 * rng.dirichlet(np.ones(NUM_ACTIONS), size=(2, NUM_STATES)) + 0.1 / NUM_ACTIONS
    return Problem(mdp, pi, mu)


VTRACE = [Settings(1.0, 1.0), Settings(1.0, 0.5), Settings(2.0, 1.0), Settings(0.6, 0.6), Settings(None, 1.0)]
LEAKY = [Settings(1.0, 1.0, 0.5, 0.5), Settings(1.0, 0.5, 0.3, 0.8), Settings(0.6, 0.6, 0.9, 0.9)]
LEAKY += [Settings(1.0, 1.0, 0.0, 0.0), Settings(1.0, 1.0, 0.2, 1.0)]
SEEDS = range(4)


def n_step_operator(problem: Problem, settings: Settings, num_steps: int, values: np.ndarray) -> np.ndarray:
    """E_mu[v_0 | x_0] of the n-step targets under V = `values` [S], by `vtrace` on every path, [S]."""
    mdp, pi, mu = problem
    paths = all_paths(mdp, mu, num_steps)
    states, a = paths.trajectories
    x = states[:-1]
    output = v_targets.vtrace(
        log_rho=np.log(pi[x, a] / mu[x, a]),
        discount_t=np.full(x.shape, mdp.discount),
        r_t=mdp.rewards[x, a],
        v_tm1=values[x],
        v_t=values[states[1:]],
        **settings._asdict(),
    )
    return vtrace.expectation_by_state(paths, output.targets[0].numpy()[:, None], problem)[:, 0]


def linear_part(problem: Problem, settings: Settings, num_steps: int) -> np.ndarray:
    """The matrix A of the affine n-step operator V -> A V + b, [S, S]."""
    basis = np.eye(len(problem.mdp.rewards))
    origin = n_step_operator(problem, settings, num_steps, 0 * basis[0])
    columns = [n_step_operator(problem, settings, num_steps, e) - origin for e in basis]
    return np.stack(columns, axis=1)


class Closed(NamedTuple):
    """E_mu of the weights: rho [S]; gamma E[c; x, y] and gamma E[rho; x, y] [S, S]; E[rho r] [S]."""

    rho: np.ndarray
    decay: np.ndarray
    bootstrap: np.ndarray
    reward: np.ndarray


def closed_form(problem: Problem, settings: Settings) -> Closed:
    mdp = problem.mdp
    rho, c = vtrace.expected_weights(problem, settings)
    decay, bootstrap = (mdp.discount * np.einsum("xa,xay->xy", w, mdp.transitions) for w in (c, rho))
    return Closed(rho.sum(axis=1), decay, bootstrap, (rho * mdp.rewards).sum(axis=1))


def eta(problem: Problem, settings: Settings) -> np.ndarray:
    """gamma^-1 - (gamma^-1 - 1) E_mu[sum_{t>=0} gamma^t (prod_{i<=t-2} c_i) rho_{t-1}], by first state, [S].

    Summed as it stands until a term falls below 1e-12; rho_{-1} = 1.
    """
    gamma, closed = problem.mdp.discount, closed_form(problem, settings)
    total, term = np.ones(NUM_STATES), gamma * closed.rho
    while np.max(term) > 1e-12:
        total, term = total + term, closed.decay @ term
    return 1 / gamma - (1 / gamma - 1) * total


@pytest.mark.parametrize("settings", VTRACE + LEAKY)
@pytest.mark.parametrize("num_steps", [1, 2, 4])
def test_the_operator_in_expectation_is_the_sum_of_eq_5(settings, num_steps):
    """R_n V = V + sum_{t<n} (gamma P_c)^t (E[rho r] + gamma P_rho V - E[rho] V)."""
    problem, values = random_problem(0), np.random.default_rng(1).normal(size=NUM_STATES)
    closed = closed_form(problem, settings)
    term, expected = closed.reward + closed.bootstrap @ values - closed.rho * values, values.copy()
    for _ in range(num_steps):
        expected += term
        term = closed.decay @ term
    actual = n_step_operator(problem, settings, num_steps, values)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)
    if num_steps > 1:  # the next term is not lost in the tolerance
        assert not np.allclose(actual, expected + term, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("settings", VTRACE + LEAKY)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_fixed_point_is_the_value_of_the_clipped_policy(settings, seed):
    problem = random_problem(seed)
    value = mdps.state_values(problem.mdp, vtrace.evaluated_policy(problem, settings))
    for num_steps in (1, 3):
        image = n_step_operator(problem, settings, num_steps, value)
        np.testing.assert_allclose(image, value, rtol=1e-4, atol=1e-4)
    # Unique: what the operator leaves in place solves (I - A) V = b.
    origin = n_step_operator(problem, settings, 3, np.zeros(NUM_STATES))
    solution = np.linalg.solve(np.eye(NUM_STATES) - linear_part(problem, settings, 3), origin)
    np.testing.assert_allclose(solution, value, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("settings", VTRACE + LEAKY)
@pytest.mark.parametrize("num_steps", [1, 3])
def test_the_operator_of_endless_trajectories_follows_from_short_ones(settings, num_steps):
    """A last state with the expected target of an endless trajectory gives Eq. (5), however short the path."""
    problem = random_problem(0)
    expected = vtrace.expected_targets(problem, settings, num_steps)
    op, exact = endless(expected, NUM_STATES), vtrace.closed_form(problem, settings)
    np.testing.assert_allclose(op.matrix, exact.matrix, atol=1e-5)
    np.testing.assert_allclose(op.offset, exact.offset, atol=1e-5)
    modulus = np.linalg.norm(exact.matrix, ord=np.inf)
    sampled = sampled_rate(expected, op, 200, np.random.default_rng(0))
    assert 0.7 * modulus - 1e-5 <= sampled <= modulus + 1e-5


@pytest.mark.parametrize("settings", VTRACE + LEAKY)
def test_the_operators_of_truncated_trajectories_are_those_of_n_step_targets(settings):
    problem = random_problem(0)
    ops = vtrace.truncated_operators(problem, settings, 3)
    assert len(ops) == 3
    for steps, op in enumerate(ops, start=1):
        np.testing.assert_allclose(op.matrix, linear_part(problem, settings, steps), atol=1e-5)
        origin = n_step_operator(problem, settings, steps, np.zeros(NUM_STATES))
        np.testing.assert_allclose(op.offset, origin, atol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_other_policies_are_no_fixed_point(seed):
    """The theorem's policy is neither pi nor mu nor the one of another truncation or leak."""
    problem = random_problem(seed)
    settings = Settings(0.8, 0.8, 0.7, 0.7)
    wrong = [Settings(None, 1.0), Settings(1.2, 0.8, 0.7), Settings(0.8, 0.8, 1.0), Settings(0.8, 0.8, 0.3)]
    policies = [problem.mu, *(vtrace.evaluated_policy(problem, other) for other in wrong)]
    for policy in policies:
        value = mdps.state_values(problem.mdp, policy)
        image = n_step_operator(problem, settings, 3, value)
        assert np.max(np.abs(image - value)) > 1e-3


@pytest.mark.parametrize("settings", VTRACE + LEAKY)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_operator_contracts_no_slower_than_stated(settings, seed):
    """The modulus in sup-norm is the stated eta, which is at most the stated bound and below 1."""
    problem = random_problem(seed)
    modulus = np.linalg.norm(vtrace.closed_form(problem, settings).matrix, ord=np.inf)
    assert modulus == pytest.approx(np.max(eta(problem, settings)), abs=1e-9)
    assert modulus <= vtrace.contraction_bound(problem, settings) + 1e-9
    assert vtrace.contraction_bound(problem, settings) < 1

    # The n-step operator, from the code: its modulus falls with n, from below the stated bound towards eta.
    moduli = [np.linalg.norm(linear_part(problem, settings, n), ord=np.inf) for n in (1, 2, 3, 4)]
    assert moduli[0] <= vtrace.contraction_bound(problem, settings) + 1e-5
    assert all(later <= earlier + 1e-5 for earlier, later in zip(moduli, moduli[1:]))
    assert modulus <= moduli[-1] + 1e-5


def test_the_truncation_of_c_moves_the_rate_and_not_the_fixed_point():
    """Remark 3: c_bar sets the speed, rho_bar the fixed point; so do alpha_c and alpha_rho."""
    problem = random_problem(0)
    slow, fast = Settings(1.0, 0.3), Settings(1.0, 1.0)
    value = mdps.state_values(problem.mdp, vtrace.evaluated_policy(problem, slow))
    for settings in (slow, fast, Settings(1.0, 1.0, alpha_c=0.5)):
        np.testing.assert_allclose(n_step_operator(problem, settings, 4, value), value, rtol=1e-4, atol=1e-4)
    norms = [np.linalg.norm(linear_part(problem, s, 4), ord=np.inf) for s in (slow, fast)]
    assert norms[0] > norms[1] + 1e-2


def test_without_the_assumption_of_theorem_1_the_operator_has_negative_weights():
    problem = random_problem(0)
    assert np.min(linear_part(problem, Settings(1.0, 1.0), 4)) >= -1e-6
    assert np.min(linear_part(problem, Settings(0.1, 20.0), 4)) < -1e-3


def test_theorem_2_needs_alpha_rho_at_most_alpha_c():
    """STAC prints alpha_rho >= alpha_c; its proof uses rho_t >= c_t, which takes alpha_rho <= alpha_c.

    In state 0, mu = (0.9, 0.1) and pi = (0.1, 0.9); action 0 stays, action 1 leads to state 1, which is never
    left and where pi = mu. With rho = min(1, IS) and c = IS the exact operator maps (V_0, V_1) to a V_0 of weights
    0.88 and -0.79: no contraction in sup-norm, where the theorem states 0.98.
    """
    transition = np.zeros([2, 2, 2])
    transition[0, 0, 0] = transition[0, 1, 1] = transition[1, :, 1] = 1.0
    mu, pi = np.array([[0.9, 0.1], [0.5, 0.5]]), np.array([[0.1, 0.9], [0.5, 0.5]])
    mdp = mdps.FiniteMDP(transition, np.zeros([2, 2]), 0.9, np.zeros(2, bool), np.full(2, 0.5))
    problem = Problem(mdp, pi, mu)
    printed, reversed_ = Settings(1.0, 1.0, 1.0, 0.0), Settings(1.0, 1.0, 0.0, 1.0)
    np.testing.assert_allclose(vtrace.closed_form(problem, printed).matrix[0], [0.8791, -0.7912], atol=1e-4)
    assert np.linalg.norm(vtrace.closed_form(problem, printed).matrix, ord=np.inf) > 1.6
    assert vtrace.contraction_bound(problem, printed) == pytest.approx(0.98)
    assert np.linalg.norm(vtrace.closed_form(problem, reversed_).matrix, ord=np.inf) <= vtrace.contraction_bound(
        problem, reversed_
    )
    assert np.min(linear_part(problem, printed, 4)) < -0.1  # in the code's operator too
