"""Bands contain the values of a correct code's seeds, and a shifted measure falls out."""

import functools
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from repro.regression import reference_values
from repro.regression.bands import FLOOR, FRACTION_FLOOR, TRIES, WIDTH, Band, band_ends, confirmed, judge, make_band

VALUES = [1.0, 2.0, 3.0]


def test_ends_by_hand():
    half = WIDTH * 1.0 * math.sqrt(4 / 3)  # the standard deviation is 1
    assert make_band("loss", VALUES) == pytest.approx((2.0 - half, 2.0 + half))


def test_a_wide_range_of_what_cannot_be_negative_has_a_band_of_logarithms():
    low, high = make_band("kl, last third", [1.0, math.e**2])
    half = WIDTH * math.sqrt(2) * math.sqrt(1.5)
    assert (low, high) == pytest.approx((math.exp(1 - half), math.exp(1 + half)))
    assert make_band("value", [1.0, math.e**2]).low < 0.0
    assert make_band("kl", [-1.0, math.e**2]).low < 0.0
    assert make_band("kl", [1.0, 2.9]).low < 0.0


def test_a_measure_that_does_not_vary_has_the_smallest_width():
    assert make_band("x", [-4.0, -4.0, -4.0]) == pytest.approx((-4.0 - 4 * FLOOR, -4.0 + 4 * FLOOR))
    assert make_band("x", [0.0, 0.0]) == pytest.approx((-FRACTION_FLOOR, FRACTION_FLOOR))
    assert make_band("x", [1.0, 1.0]) == pytest.approx((1 - FLOOR, 1 + FLOOR))


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_values_that_are_not_finite_make_no_band(broken):
    with pytest.raises(ValueError, match="finite"):
        make_band("x", [1.0, broken])


def test_judge_names_the_end():
    band = Band(0.0, 1.0)
    bands = dict.fromkeys(("inside", "below", "above", "broken"), band)
    found = judge({"inside": 1.0, "below": -0.1, "above": 1.1, "broken": math.nan}, bands)
    assert {outlier.measure: outlier.side for outlier in found} == {
        "below": "low",
        "above": "high",
        "broken": "nan",
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
    assert confirmed([[], tries[0], tries[0]]) == []  # the first seed counts, too


SEEDS, TRIALS = 12, 2_000_000
MEASURES = sum(len(run.values) for run in reference_values.read().values())
MAX_FALSE_ALARM_RATE = 0.01
DISTRIBUTIONS = {
    # as in docs/regression.md: samples, whether the measure cannot be negative
    "normal": (lambda rng, shape: rng.normal(size=shape), False),
    "Student's, 5 degrees of freedom": (lambda rng, shape: rng.standard_t(5, size=shape), False),
    "lognormal, sigma 0.5": (lambda rng, shape: np.exp(0.5 * rng.normal(size=shape)), True),
    "normal, but 3 % of seeds fail by ten stds": (
        lambda rng, shape: rng.normal(size=shape) - 10 * (rng.random(shape) < 0.03),
        False,
    ),
    "1000, but 10 % of seeds uniform below": (
        lambda rng, shape: np.where(rng.random(shape) < 0.1, 1000 * rng.random(shape), 1000.0),
        True,
    ),
    "0, but 10 % of seeds uniform up to 0.02": (
        lambda rng, shape: np.where(rng.random(shape) < 0.1, 0.02 * rng.random(shape), 0.0),
        False,
    ),
}


def false_alarm_rate(
    sample: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray],
    *,
    never_negative: bool,
    tries: int = TRIES,
    trials: int,
) -> float:
    """Returns how often at least one of `MEASURES` independent measures of a correct code is called a regression.

    Independence is the worst case: measures of one run that go together raise fewer alarms.

    Args:
        sample: values of the given shape from the distribution of every measure.
        never_negative: as for `band_ends`.
        tries: seeds that must be out at the same end.
        trials: bands simulated, each of `SEEDS` seeds; the rate of a single measure is found from these.
    """
    rng = np.random.default_rng(0)
    low, high = band_ends(sample(rng, (trials, SEEDS)), never_negative)
    new = sample(rng, (trials, tries))
    alarms = (new > high[:, None]).all(axis=1) | (new < low[:, None]).all(axis=1)
    return float(1 - (1 - alarms.mean()) ** MEASURES)


@functools.cache
def rate(name):
    sample, never_negative = DISTRIBUTIONS[name]
    return false_alarm_rate(sample, never_negative=never_negative, trials=TRIALS)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_false_alarms_are_rare_over_the_whole_suite_and_documented(name):
    assert rate(name) <= MAX_FALSE_ALARM_RATE
    page = (Path(__file__).parents[2] / "docs/regression.md").read_text()
    documented = f"{100 * rate(name):.1f} %" if rate(name) >= 0.0005 else "below 0.1 %"
    assert f"| {name} | {documented} |" in page
    assert f"the {MEASURES} measures of all runs" in page


def test_a_single_look_would_raise_false_alarms():
    sample = DISTRIBUTIONS["normal"][0]
    assert false_alarm_rate(sample, never_negative=False, tries=1, trials=100_000) > 0.5
