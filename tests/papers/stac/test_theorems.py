"""STAC's theorem as a study: its answers, and those of operators that are wrong."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from paper_configs.stac import theorems as theorems_config
from repro.ops import q_targets, v_targets
from repro.papers.impala.theorems import is_between, total_variation
from repro.papers.stac import theorems
from repro.tabular import mdps, vtrace
from repro.tabular.vtrace import Weights
from tests.support.theorems import BROKEN, check_records, shorten, values

ZEROS = ("eta_proved", "fixed_point", "truncated_fixed_point", "alpha_1", "alpha_0")


def smoke(**changes):
    return shorten(theorems_config.get_config("smoke"), **changes)


@pytest.mark.slow
def test_its_records_have_the_statements_but_those_of_the_printed_condition(tmp_path):
    not_printed = ("contraction_proved", "eta_proved", "between_states", "kappa_proved")
    sampled = ("between", "between_states")
    config = theorems_config.get_config("smoke")
    found = check_records(theorems, config, tmp_path, not_printed=not_printed, sampled=sampled)
    assert found["between_states"] <= found["between"] < 1.0
    assert {name: found[name] for name in ZEROS} == dict.fromkeys(ZEROS, 0.0)
    assert 0.9 < found["contraction_proved"] <= 1.0
    assert found["truncated_contraction"] == 1.0
    assert found["contraction"] > 1.5
    assert found["eta"] > BROKEN
    assert found["weights"] < -1.0
    assert found["kappa"] < -BROKEN < 0.0 < found["kappa_proved"]
    assert found["eta_bound"] < -BROKEN
    assert found["mixture"] == found["on_policy"] == 0.0


@pytest.mark.parametrize(
    ("argument", "value", "names"),
    [
        ("clip_rho", None, ("fixed_point", "truncated_fixed_point", "alpha_1")),
        ("clip_c", None, ("eta_proved", "alpha_1")),
        ("alpha_rho", 1.0, ("eta_proved", "fixed_point", "truncated_fixed_point", "alpha_0")),
        ("alpha_c", 1.0, ("eta_proved", "alpha_0")),
    ],
)
def test_a_setting_that_is_not_read_is_seen(monkeypatch, argument, value, names):
    right = v_targets.vtrace
    monkeypatch.setattr(v_targets, "vtrace", lambda **own: right(**(own | {argument: value})))
    found = values(theorems, smoke())
    assert min(abs(found[name]) for name in names) > BROKEN
    assert all(found[name] == 0.0 for name in ZEROS if name not in names)


def test_an_operator_without_discount_breaks_every_statement(monkeypatch):
    right = v_targets.vtrace
    monkeypatch.setattr(v_targets, "vtrace", lambda **own: right(**(own | {"discount_t": np.sign(own["discount_t"])})))
    config = smoke(alphas_proved=((0.9, 0.9), (0.5, 0.5)))
    found = values(theorems, config)
    assert min(found["contraction_proved"], found["truncated_contraction"]) > 1 + BROKEN
    assert min(found[name] for name in ZEROS) > BROKEN


def test_other_importance_sampling_is_seen(monkeypatch):
    right = q_targets.n_step_importance_weighted
    wrong = lambda r, d, log_rho, *rest, **more: right(r, d, 0 * log_rho, *rest, **more)  # noqa: E731
    monkeypatch.setattr(q_targets, "n_step_importance_weighted", wrong)
    assert values(theorems, smoke())["alpha_0"] > BROKEN


def test_the_difference_of_the_weights_is_theirs():
    """rho = min(1, 9) = 1 and c = 9 for the action that pi takes nine times as often."""
    mdp = mdps.dirichlet_uniform(1, 2, 0.9, np.random.default_rng(0))
    problem = mdps.Problem(mdp, np.array([[0.1, 0.9]]), np.array([[0.9, 0.1]]))
    assert theorems.smallest_difference(problem, Weights(1.0, 1.0, 1.0, 0.0)) == pytest.approx(-8.0, rel=1e-5)
    assert theorems.smallest_difference(problem, Weights(1.0, 1.0, 0.5, 0.5)) == pytest.approx(0.0, abs=1e-5)
    reached = theorems.smallest_difference(problem, Weights(0.5, 0.05, 1.0, 1.0))
    assert reached == pytest.approx(1 / 9 - 0.05, rel=1e-5)


def test_a_value_may_lie_outside_though_its_policy_lies_between():
    """pi and mu have the value 0.4 / (1 - gamma), and the uniform policy, which min(mu, pi) gives, has 0."""
    mdp = mdps.dirichlet_uniform(1, 3, 0.9, np.random.default_rng(0))
    mdp = dataclasses.replace(mdp, rewards=np.array([[1.0, 1.0, -2.0]]))
    problem = mdps.Problem(mdp, np.array([[0.6, 0.2, 0.2]]), np.array([[0.2, 0.6, 0.2]]))
    weights = Weights(1.0, 1.0)
    assert vtrace.evaluated_policy(problem, weights) == pytest.approx(np.full((1, 3), 1 / 3))
    assert is_between(problem, weights, total_variation)
    for norm in (theorems.sup_norm, np.abs):
        assert not theorems.is_between(problem, weights, norm)
        assert theorems.is_between(problem, weights._replace(alpha_rho=0.0), norm)  # V of pi


def test_the_alphas_are_those_of_the_configuration():
    swapped = theorems_config.get_config("smoke")
    swapped.update({"alphas_printed": ((0.5, 0.5),), "alphas_proved": ((1.0, 0.0),)})
    found = values(theorems, swapped)
    assert found["contraction"] < 1
    assert min(found["contraction_proved"], found["truncated_contraction"]) > 1.5
    assert found["weights"] == 0.0


def test_steps_pairs_and_clips_are_read(monkeypatch):
    seen, right_targets, right_rate = [], theorems.vtrace.expected_targets, theorems.paths.sampled_rate

    def targets(problem, weights, num_steps):
        seen.append((weights.clip_rho, weights.clip_c, num_steps))
        return right_targets(problem, weights, num_steps)

    monkeypatch.setattr(theorems.vtrace, "expected_targets", targets)
    monkeypatch.setattr(theorems.paths, "sampled_rate", lambda e, o, n, r: seen.append(n) or right_rate(e, o, n, r))
    values(theorems, smoke(num_steps=1, pairs=5, clips=((3.0, 2.0),)))
    assert set(seen) == {(3.0, 2.0, 1), 5}


def test_kappa_is_the_least_favourable_state_s_in_loops():
    problem = mdps.random_problem(3, 2, (0.9, 0.9), np.random.default_rng(0))
    mdp, pi, mu = problem

    def weight(x, a, clip, alpha):
        return alpha * min(clip, pi[x, a] / mu[x, a]) + (1 - alpha) * pi[x, a] / mu[x, a]

    expected = []
    for x in range(3):
        total = 0.0
        for a in range(2):
            total += mu[x, a] * weight(x, a, 1.0, 0.9)
            for y in range(3):
                for b in range(2):
                    reached = mu[x, a] * mdp.transitions[x, a, y] * mu[y, b]
                    total -= reached * weight(x, a, 0.8, 0.3) * weight(y, b, 1.0, 0.9)
        expected.append(total)
    assert theorems.smallest_kappa(problem, Weights(1.0, 0.8, 0.9, 0.3)) == pytest.approx(min(expected))


def test_eta_with_one_state_is_below_its_bound_by_the_terms_that_it_leaves_out():
    """With E rho = 0.6 and E c = 1, eta is 1 - 0.6 and the bound 1 - 0.1 * 0.6."""
    mdp = mdps.dirichlet_uniform(1, 2, 0.9, np.random.default_rng(0))
    problem = mdps.Problem(mdp, np.array([[0.9, 0.1]]), np.array([[0.5, 0.5]]))
    config = smoke(clips=((1.0, 1.0),), alphas_printed=((1.0, 0.0),))
    found = theorems.find_on_problem(config, problem, np.random.default_rng(0))
    assert found["eta_bound"] == pytest.approx(-0.9 * 0.6)
    assert found["kappa"] == pytest.approx(0.6 - 0.6)


def test_weights_that_are_no_mixture_are_seen(monkeypatch):
    right = v_targets.vtrace
    for name in ("alpha_rho", "alpha_c"):
        monkeypatch.setattr(v_targets, "vtrace", lambda name=name, **own: right(**(own | {name: own[name] ** 2})))
        problem = mdps.random_problem(3, 2, (0.9, 0.9), np.random.default_rng(0))
        assert theorems.distance_from_mixture(problem, Weights(1.0, 1.0, 0.5, 0.5)) > BROKEN
        assert theorems.distance_from_mixture(problem, Weights(1.0, 1.0, 1.0, 0.0)) < 1e-5


@pytest.mark.parametrize(("name", "wrong"), [("lambda_", 0.9), ("v_t", 0.0), ("clip_rho", 0.9), ("clip_c", 0.9)])
def test_a_return_that_is_not_the_n_step_return_is_seen(monkeypatch, name, wrong):
    problem = mdps.random_problem(3, 2, (0.9, 0.9), np.random.default_rng(0))
    arguments = problem, Weights(0.6, 0.6, 0.7, 0.3), 3

    def difference():
        return theorems.on_policy_difference(*arguments, np.random.default_rng(0))

    assert difference() < 1e-5
    right = v_targets.vtrace
    wrong = np.zeros((3, 3 * 6**3)) if name == "v_t" else wrong
    monkeypatch.setattr(v_targets, "vtrace", lambda **own: right(**(own | {name: wrong})))
    assert difference() > BROKEN
