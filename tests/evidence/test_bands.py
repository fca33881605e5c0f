"""Bands: their width, their false alarms, and whether their spread is their own or that of the family."""

import numpy as np
import pytest
import scipy.stats

from repro.evidence import bands
from tests.evidence.synthetic_records import make_record

FINALS = (10.0, 11.0, 12.0, 13.0, 14.0)


@pytest.fixture
def runs():
    return [_with_score(make_record(seed), final) for seed, final in enumerate(FINALS, start=1)]


def _with_score(record, score):
    evaluation = record["evaluation"] | {"returns": [score, score], "episodes": 2, "mean": score, "std": 0.0}
    return record | {"evaluation": evaluation}


def test_band_of_a_hand_case(runs):
    band = bands.make_band(runs, false_alarm_rate=0.05)
    # t(0.95, 4 degrees of freedom) = 2.131847; s^2 = 2.5
    assert band.low == pytest.approx(12 - 2.131847 * np.sqrt(2.5 * 1.2), rel=1e-6)
    assert band.high is None
    assert (band.seeds, band.values, band.unit, band.scale) == ([1, 2, 3, 4, 5], list(FINALS), "game score", "desk")


def test_two_sided_band_halves_the_rate(runs):
    band = bands.make_band(runs, better="equal", false_alarm_rate=0.1)
    assert band.low == pytest.approx(bands.make_band(runs, false_alarm_rate=0.05).low)
    assert band.high == pytest.approx(24 - band.low)
    assert bands.make_band(runs, better="less").low is None


@pytest.mark.parametrize("better", ["more", "less", "equal", "above", "under"])
def test_false_alarms_are_as_rare_as_written(better):
    rng = np.random.default_rng(0)
    template = make_record()
    alarms, trials = 0, 4000
    for _ in range(trials):
        *scores, further = rng.normal(100.0, 20.0, bands.MIN_RUNS + 1)
        made = [{**template, "evaluation": {"mean": score, "unit": "game score"}} for score in scores]
        band = bands.make_band(made, better=better, false_alarm_rate=0.05)
        alarms += (band.low is not None and further < band.low) or (band.high is not None and further > band.high)
    assert 0.04 <= alarms / trials <= 0.06


def test_three_runs_alone_are_too_few(runs):
    with pytest.raises(bands.BandError, match="needs 4 runs or more, .* there are 3 and 0"):
        bands.make_band(runs[:3])
    assert bands.make_band(runs[:4]).spread == "own"


def test_pooled_band_of_a_hand_case(runs):
    """Variances 2 and 8 with 1 and 4 degrees of freedom: 34^2 / (1 4 + 4 64) = 4.446 of Satterthwaite's."""
    family = [np.array([0.0, 2.0]), np.sqrt(8.0) * np.array([-1.0, -1.0, 0.0, 1.0, 1.0])]
    spread = bands.spread_of(family)
    assert (spread.std, spread.dof) == (pytest.approx(np.sqrt(8.0)), pytest.approx(34**2 / 260))
    band = bands.make_band(runs[:2], family=family, false_alarm_rate=0.05)
    quantile = scipy.stats.t.isf(0.05, 34**2 / 260)
    assert band.low == pytest.approx(10.5 - quantile * np.sqrt(8.0 * 1.5))
    assert (band.spread, "pooled spread of 2 groups" in band.method) == ("pooled", True)


def test_three_related_runs_beyond_the_first_make_a_family(runs):
    pair = np.array([1.0, 2.0])
    with pytest.raises(bands.BandError, match="there are 1 and 2"):
        bands.make_band(runs[:1], family=[pair, pair])
    assert bands.make_band(runs[:1], family=[pair, pair, pair]).low < 10.0


def test_scores_above_random_play_count_as_logarithms(runs):
    band = bands.make_band(runs, level=4.0, false_alarm_rate=0.05)
    logs = np.log(np.array(FINALS) - 4.0)
    low = logs.mean() - 2.131847 * logs.std(ddof=1) * np.sqrt(1.2)
    assert band.low == pytest.approx(4.0 + np.exp(low), rel=1e-6)
    assert not band.holds(4.0)
    assert band.values == list(FINALS)


def test_runs_that_are_all_equal_hold_only_that(runs):
    band = bands.make_band([_with_score(run, 0.1) for run in runs])
    assert band.holds(0.1)
    assert not band.holds(0.0999)


def test_runs_that_all_reach_the_highest_score_hold_one_that_nearly_does(runs):
    highest = [_with_score(run, 1000.0) for run in runs]
    for rate in (0.05, 1e-5):
        band = bands.make_band(highest, level=0.0, false_alarm_rate=rate)
        assert band.low == pytest.approx(1000 * np.exp(-0.05))
        assert band.holds(988.3)
        assert not band.holds(940.0)


def test_equal_groups_have_a_spread_of_zero():
    spread = bands.spread_of([np.ones(3), np.ones(2)])
    assert (spread.std, spread.dof) == (0.0, 3.0)


def test_groups_may_have_leading_axes():
    rng = np.random.default_rng(0)
    groups = [rng.normal(size=(7, 3)), rng.normal(size=(7, 2))]
    found = bands.spread_of(groups)
    for i in range(7):
        alone = bands.spread_of([group[i] for group in groups])
        assert (found.std[i], found.dof[i]) == (pytest.approx(alone.std), pytest.approx(alone.dof))
