"""What the trust region does in closed form and what it costs, computed with the code that trains."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from paper_configs.acer import closed_form as closed_form_config
from repro.evidence import published, records, rows
from repro.launch.study_job import StudyJob
from repro.papers import find_experiment
from repro.papers.acer import closed_form, trust_region
from repro.papers.acer.closed_form import Case
from tests.support.theorems import BROKEN

ACTIONS, ROWS = 6, 21
"""Actions of Pong, and observations of an unroll of 20 steps."""
LAYERS = ((20 * 20, 8 * 8 * 4, 32), (9 * 9, 4 * 4 * 32, 64), (7 * 7, 3 * 3 * 64, 64), (1, 7 * 7 * 64, 512))
"""Outputs of a channel, products of each, and channels of the network of Section 4, without its heads."""


def smoke(answers=("solution", "unchanged", "orthogonal", "scaled_down")):
    config = closed_form_config.get_config("smoke")
    config.answers = answers
    config.games = ()
    return config


def found(config):
    return {name: answers for name, answers, _ in closed_form._answers(config, 1, find_experiment)}


def test_cases_of_both_kinds_are_as_many_as_asked_for():
    config = smoke()
    violated, satisfied = closed_form.sample_cases(config, 200, np.random.default_rng(0))
    assert all(case.k @ case.g > case.delta for case in violated)
    assert all(case.k @ case.g <= case.delta for case in satisfied)
    assert len(violated) == len(satisfied) == 200
    assert {len(case.g) for case in violated} == set(range(2, config.max_statistics + 1))
    assert max(case.delta for case in satisfied) < config.max_delta


def test_the_minimum_of_a_hand_case_is_that_of_the_closed_form():
    """k.g = 5 and |k|^2 = 5, so that z* = g - (5 - 1) / 5 k = (2.2, -0.6)."""
    case = Case(np.array([3.0, 1.0]), np.array([1.0, 2.0]), 1.0)
    np.testing.assert_allclose(case.project(), [2.2, -0.6], rtol=1e-6)
    assert closed_form.distance_from_minimum(case) < 1e-5
    assert closed_form.orthogonal_change(case) < 1e-6


@pytest.mark.parametrize(
    ("wrong", "seen"),
    [
        (lambda g, k, delta: g, {"solution", "scaled_down"}),
        (lambda g, k, delta: g - k * (k @ g - delta) / (k @ k), {"solution", "unchanged"}),
        (lambda g, k, delta: g * min(1.0, delta / max(k @ g, 1e-9)), {"solution", "orthogonal"}),
        (lambda g, k, delta: g + k * max(0.0, k @ g - delta) / (k @ k), {"solution", "scaled_down"}),
    ],
    ids=["none", "always", "whole gradient", "outwards"],
)
def test_wrong_projections_are_seen(monkeypatch, wrong, seen):
    right = found(smoke())
    assert {name: set(answers) for name, answers in right.items() if name != "added_operations"} == {
        "solution": {0.0},
        "unchanged": {0.0},
        "orthogonal": {0.0},
        "scaled_down": {1.0},
    }
    monkeypatch.setattr(trust_region, "project", lambda *case: tf.constant(wrong(*case)))
    answers = found(smoke())
    changed = {name for name in right if len(right[name]) and abs(answers[name] - right[name]).max() > BROKEN}
    assert changed == seen


def by_hand(rows, actions=ACTIONS):
    """Operations of a forward pass of the network of Section 4, two heads included, and of its first layer."""
    layers = [2 * rows * outputs * products * channels for outputs, products, channels in LAYERS]
    return sum(layers) + 2 * rows * 512 * 2 * actions, layers[0]


@pytest.mark.slow
def test_the_trust_region_adds_a_forward_pass_of_the_average_network():
    """To an update that is three forward passes, less the gradient of the frames, with the gradients of biases.

    The average network's Q head is not needed.
    """
    config = closed_form_config.get_config("smoke")
    forward, first = by_hand(ROWS)
    added = by_hand(ROWS - 1)[0] - 2 * (ROWS - 1) * 512 * ACTIONS
    costs = [
        closed_form.update_operations(find_experiment(closed_form._of_game(config[name], "pong")), 0)
        for name in ("trust_region", "no_trust_region")
    ]
    assert costs[0].forward == costs[1].forward == forward
    assert costs[0].update - costs[1].update == added
    assert costs[1].update == pytest.approx(3 * forward - first, rel=0.05)
    ratio = closed_form.added_operations(config, "pong", 0, find_experiment)
    assert ratio == pytest.approx(added / (2 * forward - first), rel=0.1)


def test_an_additional_backward_pass_would_be_seen(monkeypatch):
    """The average network's forward pass with a backward pass of its own adds more than one backward pass."""
    costs = {"trust_region": closed_form.Operations(300 + 100 + 200, 100), "plain": closed_form.Operations(300, 100)}
    kinds = iter(costs.values())
    monkeypatch.setattr(closed_form, "update_operations", lambda *_: next(kinds))
    config = closed_form_config.get_config("smoke")
    assert closed_form.added_operations(config, "pong", 0, lambda _: None) == 300 / 200


def test_an_experiment_of_another_kind_is_refused():
    with pytest.raises(TypeError, match="object does not make an agent of ACER for discrete actions"):
        closed_form.update_operations(object(), 0)


def test_agents_differ_in_the_trust_region_alone():
    config = closed_form_config.get_config("paper")
    with_region, without = config.trust_region.to_dict(), config.no_trust_region.to_dict()
    assert with_region["loss"].pop("trust_region") is True
    assert without["loss"].pop("trust_region") is False
    assert with_region["network"]["torso"] == "nature"
    assert (with_region.pop("agent"), without.pop("agent")) == ("acer_ratio_4", "acer_ratio_4_no_trust_region")
    assert with_region == without


@pytest.mark.slow
def test_its_records_have_the_papers_statements(tmp_path):
    config = closed_form_config.get_config("smoke")
    StudyJob(config, config.env.task, 1, tmp_path).run([0], quiet=True)
    stored, faults = records.read_all(tmp_path)
    assert faults == []
    assert all(item.record["evaluation"]["exact"] for item in stored)
    printed = {row.agent: row for row in published.load("acer").rows if row.experiment == "closed_form"}
    assert {row.agent: row.unit for row in printed.values()} == closed_form.UNITS
    judged = {row.agent: row for row in rows.rows_for(stored)}
    assert set(judged) == set(printed) == set(config.answers)
    assert {row.verdict for row in judged.values()} == {"agrees"}
