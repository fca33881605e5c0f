"""Contraction and variance of leaky V-trace by alpha as a study: its answers, and those of other alphas and levels."""

from __future__ import annotations

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


def test_its_records_have_the_papers_statements(tmp_path):
    sampled = ("rate_by_alpha", "variance_by_alpha")
    found = check_records(tradeoffs, tradeoffs_config.get_config("smoke"), tmp_path, sampled=sampled)
    assert -1.0 < found.pop("rate_at_alpha_0") <= 0.0
    assert min(found.values()) > BROKEN


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
    config.update({"clips": ((1000.0, 1e-9),), "alphas": (1.0, 1.0)})
    found = tradeoffs.find_on_problem(config, make_problem(), np.random.default_rng(0))
    assert found["rate_by_alpha"] == 0.0
    assert found["rate_at_alpha_0"] == pytest.approx(0.0, abs=1e-6)  # one step
    assert found["variance_by_alpha"] > BROKEN
