"""Contraction and variance of leaky V-trace by alpha and c_bar: the study's answers, and those of other settings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from paper_configs.stac import tradeoffs as tradeoffs_config
from repro.papers.stac import tradeoffs
from repro.tabular import mdps
from repro.tabular.vtrace import Weights
from tests.support.theorems import BROKEN, check_records

CLIP = Weights(1.0, 1.0)


def make_problem():
    return mdps.random_problem(3, 2, (0.9, 0.9), np.random.default_rng(0))


READINGS = (
    "rate_without_condition",
    "variance_by_c_bar_at_limit",
    "variance_falls_with_c_bar_at_limit",
    "eta_by_alpha_c",
    "eta_falls_with_alpha_c",
    "rate_by_alpha_rho_with_c",
    "rate_falls_with_alpha_rho_with_c",
)


def one_state():
    """A problem with an E_mu of 0.6 for weights that are truncated at 1, and of 1 for others."""
    mdp = mdps.dirichlet_uniform(1, 2, 0.9, np.random.default_rng(0))
    return mdps.Problem(mdp, np.array([[0.9, 0.1]]), np.array([[0.5, 0.5]]))


def by_hand(rho, c):
    """The rate with one state, |1 - (1 - gamma) rho / (1 - gamma c)|, for the expectations of the two weights."""
    return abs(1 - (1 - 0.9) * rho / (1 - 0.9 * c))


def variance_by_hand(problem, clip_rho, clip_c, alpha_c):
    """Var[v_0] over two steps in the only state, with V of pi, in loops."""
    (rewards,), gamma = problem.mdp.rewards, problem.mdp.discount
    (pi,), (mu,) = problem.pi, problem.mu
    value = pi @ rewards / (1 - gamma)
    first = second = 0.0
    for a, b in itertools.product(range(2), repeat=2):
        ratios = [pi[a] / mu[a], pi[b] / mu[b]]
        deltas = [min(clip_rho, ratios[i]) * (rewards[x] + gamma * value - value) for i, x in enumerate((a, b))]
        c = alpha_c * min(clip_c, ratios[0]) + (1 - alpha_c) * ratios[0]
        target = value + deltas[0] + gamma * c * deltas[1]
        first, second = first + mu[a] * mu[b] * target, second + mu[a] * mu[b] * target**2
    return second - first**2


def test_its_records_have_the_papers_statements(tmp_path):
    config = tradeoffs_config.get_config("smoke")
    sampled = set(tradeoffs.UNITS) - set(tradeoffs.EXTREMES)
    found = check_records(tradeoffs, config, tmp_path, not_printed=READINGS, sampled=sampled)
    assert -1.0 < found.pop("rate_at_alpha_0") <= 0.0
    assert 0.5 < found.pop("rate_without_condition") < 1.0
    assert found.pop("rate_by_alpha_c") < 0.0 < found.pop("eta_by_alpha_c")
    assert found.pop("rate_falls_with_alpha_c") == 0.0
    assert min(found.values()) > BROKEN


def test_alpha_c_alone_changes_c_alone():
    problem = one_state()
    found = tradeoffs.find_by_alpha_c(problem, [CLIP], (1.0, 0.5, 0.0), 2)
    assert found["rate_by_alpha_c"] == pytest.approx(by_hand(0.6, 0.6) - by_hand(0.6, 1.0))
    etas = [1 / 0.9 - (1 / 0.9 - 1) * (1 + 0.9 * 0.6 / (1 - 0.9 * c)) for c in (0.6, 1.0)]
    assert found["eta_by_alpha_c"] == pytest.approx(etas[0] - etas[1])
    variances = [variance_by_hand(problem, 1.0, 1.0, alpha) for alpha in (1.0, 0.0)]
    assert found["variance_by_alpha_c"] == pytest.approx(np.log10(variances[1] / variances[0]), rel=1e-3)
    assert [found[name] for name in ("rate_falls_with_alpha_c", "eta_falls_with_alpha_c")] == [1.0, 1.0]
    back = tradeoffs.find_by_alpha_c(problem, [CLIP], (0.0, 0.5, 1.0), 2)
    assert [back[name] for name in ("rate_falls_with_alpha_c", "eta_falls_with_alpha_c")] == [0.0, 0.0]
    assert back["variance_grows_with_alpha_c"] == 1.0 - found["variance_grows_with_alpha_c"]


def test_alpha_rho_alone_changes_rho_alone():
    found = tradeoffs.find_by_alpha_rho(one_state(), [CLIP], (1.0, 0.5, 0.0))
    assert found["rate_by_alpha_rho"] == pytest.approx(by_hand(0.6, 1.0) - by_hand(1.0, 1.0))
    assert found["rate_by_alpha_rho_with_c"] == pytest.approx(by_hand(0.6, 0.6) - by_hand(1.0, 0.6))
    assert [found[f"rate_falls_with_alpha_rho{suffix}"] for suffix in ("", "_with_c")] == [1.0, 1.0]
    back = tradeoffs.find_by_alpha_rho(one_state(), [CLIP], (0.0, 1.0))
    assert [back[f"rate_falls_with_alpha_rho{suffix}"] for suffix in ("", "_with_c")] == [0.0, 0.0]


def test_c_bar_truncates_c_alone():
    problem = one_state()
    found = tradeoffs.find_by_c_bar(problem, (1.0, 0.2), 2)
    assert found["rate_by_c_bar"] == pytest.approx(by_hand(0.6, 0.2) - by_hand(0.6, 0.6))
    variances = [variance_by_hand(problem, 1.0, c_bar, 1.0) for c_bar in (1.0, 0.2)]
    assert found["variance_by_c_bar"] == pytest.approx(np.log10(variances[0] / variances[1]), rel=1e-3)
    assert found["rate_grows_as_c_bar_falls"] == 1.0
    back = tradeoffs.find_by_c_bar(problem, (0.2, 1.0), 2)
    assert back["rate_grows_as_c_bar_falls"] == 0.0
    assert back["variance_falls_with_c_bar"] == 1.0 - found["variance_falls_with_c_bar"]


def test_pairs_without_the_condition_are_those_with_less_of_alpha_rho():
    config = tradeoffs_config.get_config("smoke")
    config.update({"clips": ((1.0, 1.0),), "alphas": (1.0, 0.0)})
    found = tradeoffs.find_on_problem(config, one_state(), np.random.default_rng(0))
    assert found["rate_without_condition"] == pytest.approx(by_hand(1.0, 0.6))
    assert by_hand(1.0, 0.6) != pytest.approx(by_hand(0.6, 1.0))


def test_a_rise_is_that_of_the_least_favourable_levels_and_of_every_step():
    found = tradeoffs.rise("ends", "steps", np.array([[0.0, 1.0, 3.0], [0.0, 1.5, 2.0]]))
    assert found == {"ends": 2.0, "steps": 1.0}
    assert tradeoffs.rise("ends", "steps", np.array([[0.0, 1.0], [0.5, 0.4]])) == {
        "ends": pytest.approx(-0.1),
        "steps": 0.0,
    }
    assert tradeoffs.rise("ends", "steps", np.array([[0.0, 4.0, 3.0]])) == {"ends": 3.0, "steps": 0.0}


def test_importance_sampling_contracts_at_once_and_v_trace_at_most_at_its_bound():
    problem = make_problem()
    assert tradeoffs.rate(problem, Weights(1.0, 1.0, 0.0, 0.0)) == pytest.approx(0.0, abs=1e-12)
    assert tradeoffs.rate(problem, Weights(1.0, 1e-9, 0.0, 1.0)) == pytest.approx(0.9)  # one step
    assert 0.5 < tradeoffs.rate(problem, CLIP) < 1.0


def test_the_least_fall_is_that_of_the_alphas_in_their_order():
    problem = make_problem()
    assert tradeoffs.min_fall(problem, CLIP, (1.0, 0.5, 0.5)) == 0.0
    assert tradeoffs.min_fall(problem, CLIP, (0.0, 1.0)) == pytest.approx(-tradeoffs.rate(problem, CLIP))


def test_alphas_of_0_and_1_are_the_same_where_nothing_is_truncated():
    problem = make_problem()
    assert tradeoffs.variance_of_importance_sampling(problem, Weights(None, None), 3) == 0.0
    assert tradeoffs.variance_of_importance_sampling(problem, CLIP, 3) > BROKEN


def test_clips_and_alphas_are_read():
    config = tradeoffs_config.get_config("smoke")
    config.update({"clips": ((1000.0, 1e-9),), "alphas": (1.0, 1.0 - 1e-9), "c_bars": (0.5, 0.5)})
    found = tradeoffs.find_on_problem(config, make_problem(), np.random.default_rng(0))
    assert found["rate_by_alpha"] == pytest.approx(0.0, abs=1e-6)
    assert [found[name] for name in ("rate_by_c_bar", "variance_by_c_bar")] == [0.0, 0.0]
    assert found["rate_at_alpha_0"] == pytest.approx(0.0, abs=1e-6)  # one step
    assert found["variance_by_alpha"] > BROKEN
