"""Bands hold what seeds of a correct code give, and let a shifted measure fall out."""

import math

import numpy as np
import pytest

from repro.regression.bands import FLOOR, TRIES, WIDTH, Band, confirmed, false_alarm_rate, judge, make_band

VALUES = [1.0, 2.0, 3.0]


def test_ends_by_hand():
    half = WIDTH * 1.0 * math.sqrt(4 / 3)  # the standard deviation is 1
    assert make_band(VALUES) == pytest.approx((2.0 - half, 2.0 + half))


def test_a_wide_range_of_positive_values_has_a_band_of_logarithms():
    low, high = make_band([1.0, math.e**2])
    half = WIDTH * math.sqrt(2) * math.sqrt(1.5)
    assert (low, high) == pytest.approx((math.exp(1 - half), math.exp(1 + half)))


def test_a_measure_that_does_not_vary_has_the_least_width():
    assert make_band([-4.0, -4.0, -4.0]) == pytest.approx((-4.0 - 4 * FLOOR, -4.0 + 4 * FLOOR))
    low, high = make_band([0.0, 0.0])
    assert low < 0.0 < high < 1e-6


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_values_that_are_not_finite_make_no_band(broken):
    assert make_band([1.0, broken]) is None


def test_judge_names_the_end():
    band = Band(0.0, 1.0)
    bands = dict.fromkeys(("inside", "below", "above", "broken", "missing"), band)
    found = judge({"inside": 1.0, "below": -0.1, "above": 1.1, "broken": math.nan, "other": 9.0}, bands)
    assert {outlier.measure: outlier.side for outlier in found} == {
        "below": "low",
        "above": "high",
        "broken": "nan",
        "missing": "nan",
    }


def test_a_regression_is_the_same_measure_at_the_same_end_with_every_seed():
    bands = dict.fromkeys(("a", "b", "c"), Band(0.0, 1.0))
    tries = [
        judge({"a": 2.0, "b": 2.0, "c": 2.0}, bands),
        judge({"a": 2.0, "b": -2.0, "c": 2.0}, bands),
        judge({"a": 2.0, "b": 2.0, "c": 0.5}, bands),
    ]
    assert [outlier.measure for outlier in confirmed(tries)] == ["a"]
    assert confirmed([*tries, []]) == []
    assert confirmed(tries[:1]) == tries[0]


RATES = {
    # distribution of a measure: seeds 12, 600 measures, all of them like this
    "normal": (lambda rng, shape: rng.normal(size=shape), 0.001),
    "student, 5 degrees": (lambda rng, shape: rng.standard_t(5, size=shape), 0.003),
    "lognormal, 0.5": (lambda rng, shape: np.exp(0.5 * rng.normal(size=shape)), 0.015),
    "3 % of seeds fail": (lambda rng, shape: rng.normal(size=shape) - 10 * (rng.random(shape) < 0.03), 0.02),
}


@pytest.mark.parametrize("name", RATES)
def test_false_alarms_are_rare_over_the_whole_suite(name):
    sample, most = RATES[name]
    rng = np.random.default_rng(0)
    assert false_alarm_rate(sample, seeds=12, measures=600, trials=200_000, rng=rng) <= most


def test_one_look_would_raise_false_alarms(monkeypatch):
    sample = RATES["normal"][0]
    monkeypatch.setattr("repro.regression.bands.TRIES", 1)
    rate = false_alarm_rate(sample, seeds=12, measures=600, trials=200_000, rng=np.random.default_rng(0))
    assert rate > 0.05
    assert TRIES == 3
