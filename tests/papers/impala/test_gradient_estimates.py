"""Moments of IMPALA's policy gradient against a double sum over paths, written from Section 4.2."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from repro.papers.impala.gradient_estimates import estimate_moments, true_gradient
from repro.tabular import mdps

STEPS = 2


@pytest.fixture
def problem():
    return mdps.random_problem(2, 3, (0.9, 0.9), np.random.default_rng(3))


def clipped(ratio, clip):
    return ratio if clip is None else min(clip, ratio)


def slow_estimate(problem, correction, clip, x, a, subtracts_baseline):
    """rho_0 (r_0 + gamma v_1 - V(x_0)) d log pi(a_0|x_0) of one path."""
    mdp, pi, mu = problem
    values, rho = mdps.state_values(mdp, pi), [pi[x[t], a[t]] / mu[x[t], a[t]] for t in range(STEPS)]
    rewards = [mdp.rewards[x[t], a[t]] for t in range(STEPS)]
    if correction == "vtrace":  # Eq. (1) from x_1 on
        error = rewards[1] + mdp.discount * values[x[2]] - values[x[1]]
        v_1 = values[x[1]] + clipped(rho[1], clip) * error
    else:
        v_1 = rewards[1] + mdp.discount * values[x[2]]
    q_0 = rewards[0] + mdp.discount * v_1
    weight = 1.0 if correction == "none" else clipped(rho[0], clip)
    score = np.eye(mdp.num_actions)[a[0]] - pi[x[0]]
    return weight * (q_0 - subtracts_baseline * values[x[0]]) * score


def slow_moments(problem, correction, clip, subtracts_baseline):
    mdp, _, mu = problem
    means, variances = [], []
    for first in range(mdp.num_states):
        mean, square = np.zeros(mdp.num_actions), np.zeros(mdp.num_actions)
        for later in itertools.product(range(mdp.num_states), repeat=STEPS):
            for a in itertools.product(range(mdp.num_actions), repeat=STEPS):
                x = (first, *later)
                steps = [mu[x[t], a[t]] * mdp.transitions[x[t], a[t], x[t + 1]] for t in range(STEPS)]
                estimate = slow_estimate(problem, correction, clip, x, a, subtracts_baseline)
                mean += np.prod(steps) * estimate
                square += np.prod(steps) * estimate**2
        means.append(mean)
        variances.append((square - mean**2).sum())
    return np.array(means), np.mean(variances)


@pytest.mark.parametrize("subtracts_baseline", [True, False])
@pytest.mark.parametrize("clip", [None, 1.0, 0.5])
@pytest.mark.parametrize("correction", ["vtrace", "one_step", "none"])
def test_the_moments_are_those_over_all_paths(problem, correction, clip, subtracts_baseline):
    found = estimate_moments(problem, correction, clip, STEPS, subtracts_baseline)
    mean, variance = slow_moments(problem, correction, clip, subtracts_baseline)
    np.testing.assert_allclose(found.mean, mean, atol=1e-6)
    assert found.variance == pytest.approx(variance, rel=1e-4)


@pytest.mark.parametrize("subtracts_baseline", [True, False])
def test_without_clipping_the_mean_is_the_policy_gradient(problem, subtracts_baseline):
    mean = estimate_moments(problem, "vtrace", None, STEPS, subtracts_baseline).mean
    np.testing.assert_allclose(mean, true_gradient(problem), atol=1e-6)
    for correction in ("one_step", "none"):
        assert np.abs(estimate_moments(problem, correction, None, STEPS).mean - true_gradient(problem)).max() > 0.01


def test_the_policy_gradient_is_the_derivative_of_the_value(problem):
    """With the state's distribution fixed: by differences of sum_a pi(a|x) Q^pi(x, a) in one logit at a time."""
    mdp, pi, _ = problem
    q, h = mdps.action_values(mdp, pi), 1e-6
    for state, action in itertools.product(range(mdp.num_states), range(mdp.num_actions)):
        logits = np.log(pi[state]) + h * np.eye(mdp.num_actions)[action]
        moved = np.exp(logits) / np.exp(logits).sum()
        assert true_gradient(problem)[state, action] == pytest.approx((moved - pi[state]) @ q[state] / h, abs=1e-5)
