"""Bias and variance of off-policy estimates as a study: its answers, and those of wrong estimates."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf

from paper_configs.acer import tradeoffs as tradeoffs_config
from repro.papers.acer import continuous_loss, loss, tradeoffs
from repro.tabular import mdps
from tests.support.theorems import BROKEN, check_records, shorten, values

STEPS = 2


def make_problem(num_states=2, discount=0.9, seed=0):
    return mdps.random_problem(num_states, 2, (discount, discount), np.random.default_rng(seed))


def smoke(**changes):
    return shorten(tradeoffs_config.get_config("smoke"), **changes)


def slow_paths(problem, policy, num_steps=STEPS):
    """Every path of a policy as states, actions and probability, one by one."""
    mdp = problem.mdp
    states, actions = range(mdp.num_states), range(mdp.num_actions)
    for x in itertools.product(states, repeat=num_steps + 1):
        for a in itertools.product(actions, repeat=num_steps):
            probability = mdp.initial[x[0]]
            for t in range(num_steps):
                probability *= policy[x[t], a[t]] * mdp.transitions[x[t], a[t], x[t + 1]]
            yield x, a, probability


def slow_moments(problem, policy, estimate, num_steps=STEPS):
    """Mean, [S, A], and variance of `estimate(x, a)`, summed over every path."""
    mean, square = 0.0, 0.0
    for x, a, probability in slow_paths(problem, policy, num_steps):
        found = estimate(x, a)
        mean, square = mean + probability * found, square + probability * (found**2).sum()
    return mean, square - np.square(mean).sum()


def score(pi, x, a):
    """d log pi(a|x) / d logits, [S, A]."""
    found = np.zeros_like(pi)
    for b in range(pi.shape[1]):
        found[x, b] = float(a == b) - pi[x, b]
    return found


def slow_q(problem, x, a, steps_left):
    """Q^pi over some steps, by recursion."""
    mdp, pi, _ = problem
    q = mdp.rewards[x, a]
    if steps_left > 1:
        for y, b in itertools.product(range(mdp.num_states), range(mdp.num_actions)):
            q += mdp.discount * mdp.transitions[x, a, y] * pi[y, b] * slow_q(problem, y, b, steps_left - 1)
    return q


def trajectory_estimate(problem, weight):
    """Eq. (3) as a double sum, with `weight(product of rho)` in front."""
    mdp, pi, mu = problem

    def estimate(x, a):
        product, total = 1.0, 0.0
        for t in range(len(a)):
            product *= pi[x[t], a[t]] / mu[x[t], a[t]]
            later = sum(mdp.discount ** (i - t) * mdp.rewards[x[i], a[i]] for i in range(t, len(a)))
            total = total + later * score(pi, x[t], a[t])
        return weight(product) * total

    return estimate


def find(problem, truncation=1.5):
    sample = tradeoffs.all_paths(problem.mdp, problem.mu, STEPS)
    return tradeoffs.find_importance_sampling(problem, sample, truncation)


def test_its_records_have_the_papers_statements(tmp_path):
    found = check_records(tradeoffs, tradeoffs_config.get_config("smoke"), tmp_path, sampled=tradeoffs.MEANS)
    assert found.pop("importance_bias") == found.pop("correction_below_c") == 0.0
    assert found.pop("truncated_weight") == 1.0
    assert 0.5 < found.pop("correction_weight") < 1.0
    del found["baseline_variance"]  # of either sign on a few problems
    assert min(found.values()) > BROKEN


def test_the_exact_policy_gradient_is_the_expectation_under_pi_of_returns_times_scores():
    problem = make_problem()
    mdp, pi, _ = problem
    expected, _ = slow_moments(problem, pi, trajectory_estimate(problem, lambda product: 1.0))
    np.testing.assert_allclose(tradeoffs.policy_gradient(mdp, pi, STEPS), expected.ravel(), atol=1e-12)
    q = tradeoffs.horizon_values(mdp, pi, 3)
    for t, x, a in itertools.product(range(3), range(2), range(2)):
        assert q[t, x, a] == pytest.approx(slow_q(problem, x, a, 3 - t))


def test_bias_and_variance_of_products_are_those_over_all_paths():
    """Of Eq. (3), with and without a bound on its product, and without weights under pi."""
    problem, truncation = make_problem(), 1.5
    _, pi, mu = problem
    exact, own = slow_moments(problem, pi, trajectory_estimate(problem, lambda product: 1.0))
    mean, free = slow_moments(problem, mu, trajectory_estimate(problem, lambda product: product))
    biased, bounded = slow_moments(problem, mu, trajectory_estimate(problem, lambda product: min(product, truncation)))
    np.testing.assert_allclose(mean, exact, atol=1e-12)
    found = find(problem, truncation)
    assert found["importance_bias"] == pytest.approx(0.0, abs=1e-12)
    assert found["importance_variance"] == pytest.approx(np.log10(free / own))
    assert found["truncated_variance"] == pytest.approx(np.log10(free / bounded), abs=1e-5)
    size = np.linalg.norm(biased - exact) / np.linalg.norm(exact)
    assert found["truncated_bias"] == pytest.approx(size, abs=1e-5)
    assert size > BROKEN


def test_the_variance_of_single_weights_is_compared_with_the_smaller_of_two():
    problem = make_problem()
    _, pi, mu = problem

    def with_q(weights):
        def estimate(x, a):
            rho = [pi[x[t], a[t]] / mu[x[t], a[t]] for t in range(STEPS)]
            terms = (slow_q(problem, x[t], a[t], STEPS - t) * score(pi, x[t], a[t]) for t in range(STEPS))
            return sum(weight * term for weight, term in zip(weights(rho), terms, strict=True))

        return slow_moments(problem, mu, estimate)[1]

    _, returns = slow_moments(problem, mu, trajectory_estimate(problem, lambda product: product))
    products, single = with_q(lambda rho: [np.prod(rho)] * STEPS), with_q(lambda rho: rho)
    assert abs(np.log10(returns / products)) > BROKEN
    assert find(problem)["marginal_variance"] == pytest.approx(np.log10(min(returns, products) / single))


def test_on_policy_no_weight_matters():
    mdp, pi, _ = make_problem()
    found = find(mdps.Problem(mdp, pi, pi))
    assert found == pytest.approx(
        dict.fromkeys(found, 0.0) | {"marginal_variance": found["marginal_variance"]}, abs=1e-6
    )
    sample = tradeoffs.all_paths(mdp, pi, 1)
    one_step = tradeoffs.find_importance_sampling(mdps.Problem(mdp, pi, pi), sample, 1.0)
    assert one_step["marginal_variance"] == pytest.approx(0.0, abs=1e-9)  # a return of one step is its Q


def test_returns_without_later_rewards_are_biased(monkeypatch):
    assert find(make_problem())["importance_bias"] < 1e-9
    monkeypatch.setattr(tradeoffs, "returns", lambda mdp, x, a: mdp.rewards[x[:-1], a])
    assert find(make_problem())["importance_bias"] > BROKEN


def test_a_product_that_is_not_truncated_has_no_bias_and_the_variance_of_eq_3(monkeypatch):
    monkeypatch.setattr(loss, "truncated_weight", lambda log_rho, c: tf.exp(log_rho))
    found = find(make_problem())
    assert (found["truncated_bias"], found["truncated_variance"]) == pytest.approx((0.0, 0.0), abs=1e-6)


def q_ret(problem, q, x, a):
    """Q_ret(x_0, a_0) as the sum of Retrace's corrections along a path, which ends with V."""
    mdp, pi, mu = problem
    value, total, trace = (pi * q).sum(axis=1), q[x[0], a[0]], 1.0
    for t in range(len(a)):
        trace *= min(1.0, pi[x[t], a[t]] / mu[x[t], a[t]]) if t else 1.0
        error = mdp.rewards[x[t], a[t]] + mdp.discount * value[x[t + 1]] - q[x[t], a[t]]
        total += mdp.discount**t * trace * error
    return total


def test_the_bias_with_q_ret_and_with_one_step_is_that_over_all_paths():
    problem = make_problem()
    mdp, pi, mu = problem
    sample = tradeoffs.all_paths(mdp, mu, STEPS)
    found = tradeoffs.retrace_bias(problem, sample, 2, np.random.default_rng(3))
    exact, rng, ratios = mdps.action_values(mdp, pi), np.random.default_rng(3), []
    for _ in range(2):
        q = exact + rng.normal(size=pi.shape)

        def bias(target):
            def estimate(x, a):
                return pi[x[0], a[0]] / mu[x[0], a[0]] * (target(x, a) - exact[x[0], a[0]]) * score(pi, x[0], a[0])

            return np.linalg.norm(slow_moments(problem, mu, estimate)[0])

        one = bias(lambda x, a: mdp.rewards[x[0], a[0]] + mdp.discount * (pi * q).sum(axis=1)[x[1]])
        ratios.append(np.log10(one / bias(lambda x, a: q_ret(problem, q, x, a))))
    assert found == pytest.approx(np.mean(ratios), abs=1e-4)
    assert abs(found) > BROKEN


def test_paths_of_one_step_and_traces_of_0_reduce_no_bias(monkeypatch):
    problem = make_problem()
    sample = tradeoffs.all_paths(problem.mdp, problem.mu, STEPS)
    assert tradeoffs.retrace_bias(problem, sample, 2, np.random.default_rng(0)) > BROKEN
    single = tradeoffs.all_paths(problem.mdp, problem.mu, 1)
    assert tradeoffs.retrace_bias(problem, single, 2, np.random.default_rng(0)) == 0.0
    monkeypatch.setattr(loss.traces, "retrace", tf.zeros_like)
    cut = tradeoffs.retrace_bias(problem, sample, 2, np.random.default_rng(0))
    assert cut == pytest.approx(0.0, abs=1e-4)


def test_weights_are_the_largest_of_all_pairs_and_c():
    """Ratios of 4 and 1/3, and 1 twice: with a c of 2 the weights are 2 and 1 - 2 / 4."""
    mdp = make_problem().mdp
    problem = mdps.Problem(mdp, np.array([[0.4, 0.6], [0.5, 0.5]]), np.array([[0.1, 0.9], [0.5, 0.5]]))
    found = tradeoffs.find_weights(problem, (2.0,))
    assert found == pytest.approx({"correction_below_c": 0.0, "truncated_weight": 1.0, "correction_weight": 0.5})
    assert tradeoffs.find_weights(problem, (8.0,))["truncated_weight"] == pytest.approx(0.5)
    both = tradeoffs.find_weights(problem, (2.0, 8.0))
    assert both == pytest.approx(found)


def test_weights_that_are_not_bounded_are_seen(monkeypatch):
    monkeypatch.setattr(loss, "truncated_weight", lambda log_rho, c: tf.exp(log_rho))
    monkeypatch.setattr(loss, "correction_weight", lambda log_rho, c: tf.maximum(tf.exp(log_rho) - 0.5 * c, 0.0))
    found = tradeoffs.find_weights(make_problem(seed=1), (1.0, 2.0))
    assert found["correction_below_c"] > BROKEN
    assert min(found["truncated_weight"], found["correction_weight"]) > 1.0 + BROKEN


@pytest.mark.parametrize("c", [0.5, 1.5, np.inf])
def test_the_variance_with_and_without_v_is_that_over_all_paths(c):
    """Of Eq. (9), with derivatives of log pi in the logits and a sum over all actions in its second line."""
    problem = make_problem()
    mdp, pi, mu = problem
    q = mdps.action_values(mdp, pi)
    value, rho = (pi * q).sum(axis=1), pi / mu

    def variance(baseline):
        def estimate(x, a):
            total = 0.0
            for t in range(STEPS):
                s = x[t]
                target = q_ret(problem, q, x[t:], a[t:])
                total = total + min(c, rho[s, a[t]]) * score(pi, s, a[t]) * (target - baseline[s])
                for b in range(pi.shape[1]):
                    weight = max(0.0, 1 - c / rho[s, b]) * pi[s, b]
                    total = total + weight * score(pi, s, b) * (q[s, b] - baseline[s])
            return total

        return slow_moments(problem, mu, estimate)[1]

    sample = tradeoffs.all_paths(mdp, mu, STEPS)
    expected = np.log10(variance(0 * value) / variance(value))
    assert tradeoffs.variance_without_baseline(problem, sample, c) == pytest.approx(expected, abs=1e-4)
    assert abs(expected) > BROKEN


def test_a_loss_without_v_has_no_less_variance_without_it(monkeypatch):
    """Where V is 0 to the loss; what is taken away again is then added once too often."""
    problem = make_problem()
    sample = tradeoffs.all_paths(problem.mdp, problem.mu, STEPS)
    right = tradeoffs.variance_without_baseline(problem, sample, 2.0)
    monkeypatch.setattr(loss.traces, "expected_value", lambda q, pi: tf.zeros_like(q[..., 0]))
    assert abs(tradeoffs.variance_without_baseline(problem, sample, 2.0) - right) > BROKEN


def test_the_least_favourable_c_counts():
    each = [values(tradeoffs, smoke(truncations=(c,)))["baseline_variance"] for c in (0.5, 10.0)]
    assert abs(each[0] - each[1]) > BROKEN
    assert values(tradeoffs, smoke(truncations=(0.5, 10.0)))["baseline_variance"] <= min(each) + 1e-4


def test_variances_of_v_are_those_over_all_paths_from_each_state():
    problem = make_problem()
    mdp, pi, mu = problem
    q = mdps.action_values(mdp, pi)
    value = (pi * q).sum(axis=1)

    def weighted(x, a):
        return pi[x[0], a[0]] / mu[x[0], a[0]] * q[x[0], a[0]]

    def target(x, a):
        rho = pi[x[0], a[0]] / mu[x[0], a[0]]
        return min(1.0, rho) * (q_ret(problem, q, x, a) - q[x[0], a[0]]) + value[x[0]]

    variances = []
    for estimate in (weighted, target):
        mean = [0.0, 0.0]
        for x, a, probability in slow_paths(problem, mu):
            mean[x[0]] += probability / mdp.initial[x[0]] * estimate(x, a)
        variances.append(sum(p * (estimate(x, a) - mean[x[0]]) ** 2 for x, a, p in slow_paths(problem, mu)))
    sample = tradeoffs.all_paths(mdp, mu, STEPS)
    found = tradeoffs.variance_of_value_by_importance_sampling(problem, sample)
    assert found == pytest.approx(np.log10(variances[0] / variances[1]), abs=1e-4)


def test_a_target_of_v_without_truncation_is_seen(monkeypatch):
    problem = make_problem()
    sample = tradeoffs.all_paths(problem.mdp, problem.mu, STEPS)
    right = tradeoffs.variance_of_value_by_importance_sampling(problem, sample)
    monkeypatch.setattr(
        continuous_loss, "value_target", lambda log_rho, target, q, v: tf.exp(log_rho) * (target - q) + v
    )
    assert tradeoffs.variance_of_value_by_importance_sampling(problem, sample) < right - BROKEN


def test_settings_are_those_of_the_configuration():
    found = values(tradeoffs, smoke())
    assert values(tradeoffs, smoke(product_truncation=1e9))["truncated_bias"] < 1e-3 < found["truncated_bias"]
    assert values(tradeoffs, smoke(num_steps=1))["retrace_bias"] == 0.0 < found["retrace_bias"]
    assert 0.0 < values(tradeoffs, smoke(num_estimates=1))["retrace_bias"] != found["retrace_bias"]
    assert tradeoffs_config.get_config("paper").product_truncation == 5.0


def test_the_first_state_is_that_of_the_mdp():
    problem = make_problem()
    first = np.array([1.0, 0.0])
    mdp = dataclasses.replace(problem.mdp, initial=first)
    sample = tradeoffs.all_paths(mdp, problem.mu, STEPS)
    assert sample.probability.sum() == pytest.approx(1.0)
    assert sample.probability[sample.x[0] == 1].sum() == 0.0
    assert find(problem._replace(mdp=mdp))["importance_bias"] < 1e-9
