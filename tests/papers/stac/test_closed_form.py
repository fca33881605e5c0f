"""Answers without training, against formulas by hand, and those of wrong operators and settings."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from paper_configs.stac import atari, dm_control_features
from paper_configs.stac import closed_form as closed_form_config
from repro.config import resolve
from repro.distributions import squashed_gaussian
from repro.evidence import published, records
from repro.launch.study_job import StudyJob
from repro.ops import v_targets
from repro.papers import find_experiment
from repro.papers.stac import closed_form
from repro.papers.stac.action_distribution import SquashedGaussian
from repro.papers.stac.loss import Hyperparameters
from repro.papers.stac.metagradient import Metaparameters
from tests.support.theorems import BROKEN

READINGS = {"kink_of_slope", "saturated_levels"}
OUTER = Hyperparameters(0.995, 1.0, 1.0, 1.0, 1.0, 0.25, 1.0, 0.01)
TUNED = ("gamma", "lambda", "alpha", "g_v", "g_p", "g_e")


def metaparameters(eta=4.6, tuned=TUNED):
    return Metaparameters(tuned, OUTER, 1, dict.fromkeys(tuned, eta))


def test_its_records_have_the_papers_statements(tmp_path):
    config = closed_form_config.get_config("smoke")
    StudyJob(config, config.env.task, 1, tmp_path).run([0], quiet=True)
    stored, faults = records.read_all(tmp_path)
    assert faults == []
    found = {item.record["agent"]: item.record["evaluation"] for item in stored}
    rows = {row.agent: row for row in published.load("stac").rows if row.experiment == "closed_form"}
    assert set(found) == {*rows, *READINGS} == set(config.answers) == set(closed_form.UNITS)
    assert all(found[name]["unit"] == row.unit for name, row in rows.items())
    assert {name for name, evaluation in found.items() if not evaluation.get("exact", False)} == {"initial_gradient"}
    means = {name: evaluation["mean"] for name, evaluation in found.items()}
    assert min(means[name] for name in ("jump_of_derivative", "kink_of_slope", "slope_above_level")) > BROKEN
    zeros = ("saturated_levels", "metaparameter_bounds", "density_integral")
    assert {name: means[name] for name in zeros} == dict.fromkeys(zeros, 0.0)
    assert means["largest_action"] == 1.0


def test_settings_are_the_published_ones():
    config = closed_form_config.get_config("paper")
    on_atari = atari.get_config("paper")
    on_atari.agent = "stac"
    assert config.atari == resolve(on_atari)
    assert config.control == resolve(dm_control_features.get_config("paper"))
    assert find_experiment(config.atari).outer == OUTER


def test_derivatives_of_the_weight_on_either_side_of_the_level():
    """Below: rho = IS. Above: alpha rho_bar + (1 - alpha) IS."""
    ratios, levels, alphas = np.array([0.5, 3.0]), np.array([2.0, 2.0]), np.array([0.25, 0.25])
    found = closed_form.weight_derivatives(ratios, levels, alphas)
    np.testing.assert_allclose(found.slope, [1.0, 0.75], atol=1e-3)
    np.testing.assert_allclose(found.level, [0.0, 0.25], atol=1e-6)
    np.testing.assert_allclose(found.alpha, [0.0, 2.0 - 3.0], atol=1e-6)


def test_the_level_is_passed_with_a_jump_and_a_drop():
    jump, kink, slope = closed_form.at_levels(np.array([2.0]), np.array([0.25]))
    assert jump[0] == pytest.approx(1 - 2.0 * closed_form.STEP, abs=1e-5)
    assert kink[0] == pytest.approx(1 - 0.25, abs=2e-3)
    assert slope[0] == pytest.approx(0.75, abs=2e-3)


def test_v_trace_in_place_of_the_leaky_weight_is_seen(monkeypatch):
    right = v_targets.vtrace
    monkeypatch.setattr(v_targets, "vtrace", lambda *data, **own: right(*data, **(own | {"alpha_rho": 1.0})))
    with pytest.raises(AttributeError):  # no gradient to alpha
        closed_form.at_levels(np.array([2.0]), np.array([0.25]))
    monkeypatch.undo()
    _, kink, slope = closed_form.at_levels(np.array([2.0]), np.array([1.0]))
    assert max(abs(kink[0]), abs(slope[0])) < BROKEN


def test_both_gradients_are_zero_below_the_level_alone():
    ratios, alphas = np.array([0.5, 0.9, 1.5, 2.0]), np.full(4, 0.5)
    assert closed_form.more_saturated(ratios, alphas) == 0.0
    np.testing.assert_array_equal(
        closed_form.weight_derivatives(ratios, np.ones(4), alphas).alpha == 0.0, [True, True, False, False]
    )


def initial(metaparameters, outer=OUTER, seed=0):
    return closed_form.initial_gradient_distances(metaparameters, outer, (6, 5), np.random.default_rng(seed))


def test_losses_with_the_same_settings_have_the_same_gradient():
    assert initial(metaparameters(tuned=())).max() == 0.0
    assert (initial(metaparameters(eta=20.0), OUTER._replace(gamma=1.0)) < 1e-5).all()
    assert (initial(metaparameters()) > 1e-4).all()
    assert initial(metaparameters(eta=0.0)).min() > 0.1


def test_the_gradients_of_a_loss_that_is_scaled_differ_by_its_factor():
    """With all loss coefficients at sigma(eta) of the outer ones and nothing else tuned."""
    found = initial(metaparameters(eta=4.6, tuned=("g_v", "g_p", "g_e")))
    np.testing.assert_allclose(found, 1 - 1 / (1 + math.exp(-4.6)), rtol=1e-3)


def test_bounds_are_1_or_the_outer_value(monkeypatch):
    assert closed_form.distance_outside(metaparameters(), OUTER) == 0.0
    assert closed_form.distance_outside(metaparameters(), OUTER._replace(g_v=0.2)) == pytest.approx(0.05)
    monkeypatch.setattr(tf, "sigmoid", lambda eta: eta)
    assert closed_form.distance_outside(metaparameters(), OUTER) == pytest.approx(closed_form.LARGEST_ETA)


@pytest.mark.parametrize("outputs", [(0.0, 0.0), (3.0, -3.0), (-1.0, 5.0)])
def test_a_density_without_its_jacobian_has_another_integral(monkeypatch, outputs):
    policy = SquashedGaussian(1, -4.0, 0.0)
    assert closed_form.density_integral(policy, np.array(outputs)) == pytest.approx(1.0, abs=1e-4)
    right = squashed_gaussian.log_prob
    wrong = lambda mean, std, a: right(mean, std, a) + tf.reduce_sum(tf.math.log(1 - a**2 + 1e-12), -1)  # noqa: E731
    monkeypatch.setattr(squashed_gaussian, "log_prob", wrong)
    assert abs(closed_form.density_integral(policy, np.array(outputs)) - 1) > BROKEN


def test_an_agent_of_another_paper_is_refused():
    config = closed_form_config.get_config("smoke")
    with pytest.raises(TypeError, match="object does not make an agent of STAC"):
        closed_form.run(config, 1, [0], lambda done, total: None, lambda config: object())
