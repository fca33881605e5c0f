"""ACER's Proposition 1 as a study: its answers, and those of operators that are wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from paper_configs.acer import theorems as theorems_config
from repro.ops import q_targets
from repro.papers.acer import loss, theorems
from repro.tabular import mdps, operators, paths
from repro.tabular.operators import Method
from tests.support.theorems import BROKEN, check_records, shorten, values


def smoke(**changes):
    return shorten(theorems_config.get_config("smoke"), **changes)


def test_its_records_have_the_papers_statements(tmp_path):
    found = check_records(theorems, theorems_config.get_config("smoke"), tmp_path)
    assert 0.5 < found.pop("contraction") <= 1.0
    assert 0.1 < found.pop("opc_close") < 1.0 < found.pop("opc_far")
    exact = ("fixed_point", "retrace", "bellman", "importance_sampling", "unbiased", "consistent")
    assert found == dict.fromkeys(exact, 0.0)


@pytest.mark.parametrize("c", [0.0, 0.5, 1.0, 3.0, math.inf])
def test_the_weights_are_those_of_equation_7(c):
    rho = np.array([0.01, 0.4, 1.0, 2.5, 40.0])
    log_rho = np.log(rho).astype(np.float32)
    np.testing.assert_allclose(loss.truncated_weight(log_rho, c), np.minimum(c, rho), rtol=1e-5)
    correction = 0 * rho if c == math.inf else np.maximum((rho - c) / rho, 0.0)
    np.testing.assert_allclose(loss.correction_weight(log_rho, c), correction, rtol=1e-5, atol=1e-7)


def test_the_operator_from_the_loss_is_the_exact_retrace():
    problem = mdps.random_problem(3, 2, (0.9, 0.9), np.random.default_rng(0))
    exact = operators.operator(*problem, Method("retrace"))
    batch = theorems.Batch(problem, 2)
    for expected in (batch.corrected(1.0), batch.retrace(1.0), batch.trained_retrace):
        assert paths.distance(paths.endless(expected, 6), exact) < 1e-5
    assert paths.distance(paths.endless(batch.corrected(2.0), 6), exact) > BROKEN


def test_q_lambda_contracts_where_the_policies_are_close_enough():
    problem = mdps.random_problem(3, 2, (0.9, 0.9), np.random.default_rng(0))
    mdp, pi, _ = problem
    assert theorems.opc_rate(mdps.Problem(mdp, pi, pi)) == pytest.approx(0.0, abs=1e-12)
    close = theorems.close_behaviour(problem, 0.5)
    assert np.abs(pi - close).sum(axis=1).max() == pytest.approx(0.5 * 0.1 / 0.9)
    assert theorems.opc_rate(mdps.Problem(mdp, pi, close)) < 0.5
    assert theorems.opc_rate(problem) > 1.0  # no contraction, which Retrace is everywhere
    np.testing.assert_array_equal(theorems.close_behaviour(problem, 1e3), problem.mu)


def test_without_bias_correction_only_importance_sampling_remains(monkeypatch):
    monkeypatch.setattr(loss, "correction_weight", lambda log_rho, c: tf.zeros_like(log_rho))
    found = values(theorems, smoke())
    assert found["importance_sampling"] == 0.0
    assert min(found[name] for name in ("fixed_point", "retrace", "bellman", "unbiased")) > BROKEN


def test_a_gradient_without_importance_weights_is_biased(monkeypatch):
    right = loss.policy_gradient
    monkeypatch.setattr(loss, "policy_gradient", lambda pi, q, mu, *rest: right(pi, q, pi, *rest))
    found = values(theorems, smoke())
    assert found["unbiased"] > BROKEN
    assert found["retrace"] == 0.0


@pytest.mark.parametrize("samples", [1, 2, 5])
def test_a_dueling_network_whose_samples_are_not_of_pi_is_inconsistent(monkeypatch, samples):
    right = theorems.stochastic_dueling.stochastic_q
    assert values(theorems, smoke(dueling_samples=samples))["consistent"] == 0.0
    monkeypatch.setattr(
        theorems.stochastic_dueling, "stochastic_q", lambda w, x, v, a, u: right(w, x, v, a, tf.ones_like(u))
    )
    assert values(theorems, smoke(dueling_samples=samples))["consistent"] > BROKEN


def test_without_truncation_the_correction_counts_twice(monkeypatch):
    monkeypatch.setattr(loss, "truncated_weight", lambda log_rho, c: tf.exp(log_rho))
    found = values(theorems, smoke())
    assert min(found[name] for name in ("fixed_point", "bellman")) > BROKEN


def test_a_recursion_without_discount_breaks_the_statements(monkeypatch):
    right = q_targets.multistep_q
    monkeypatch.setattr(q_targets, "multistep_q", lambda r, d, *rest, **more: right(r, np.sign(d), *rest, **more))
    found = values(theorems, smoke())
    assert found["contraction"] > 1 + BROKEN
    assert min(found[name] for name in ("fixed_point", "bellman", "importance_sampling")) > BROKEN


def test_another_trained_retrace_is_seen(monkeypatch):
    monkeypatch.setattr(loss.traces, "retrace", loss.traces.importance_sampling)
    found = values(theorems, smoke())
    assert found.pop("retrace") > BROKEN
    assert max(found[name] for name in ("fixed_point", "bellman", "importance_sampling")) == 0.0


def test_each_truncation_counts(monkeypatch):
    """The smaller c, the nearer to the Bellman operator, whose rate is gamma itself."""
    rates = [values(theorems, smoke(truncations=(c,)))["contraction"] for c in (1e-6, 0.5, 2.0)]
    assert rates[0] == 1.0
    assert rates[0] > rates[1] + BROKEN > rates[2] + 2 * BROKEN
    assert values(theorems, smoke(truncations=(0.5, 2.0)))["contraction"] == rates[1]


def test_steps_and_pairs_are_read(monkeypatch):
    seen = []
    right_batch, right_rate = theorems.Batch, theorems.paths.sampled_rate
    monkeypatch.setattr(theorems, "Batch", lambda problem, n: seen.append(n) or right_batch(problem, n))
    monkeypatch.setattr(theorems.paths, "sampled_rate", lambda e, o, n, r: seen.append(n) or right_rate(e, o, n, r))
    values(theorems, smoke(num_steps=3, pairs=5))
    assert set(seen) == {3, 5}
