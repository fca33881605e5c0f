"""Bands: their width, their false alarms, what falls out, and what they no longer judge."""

import copy
import json

import numpy as np
import pytest

from repro.evidence import bands, records
from tests.evidence.synthetic_records import make_record, write

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


def test_four_runs_are_too_few(runs):
    with pytest.raises(bands.BandError, match="needs 5 runs or more, there are 4"):
        bands.make_band(runs[:4])


def test_band_comes_back_as_written(tmp_path, runs):
    band = bands.make_band(runs)
    bands.write_band(tmp_path / "band_desk.json", band)
    assert bands.read_band(tmp_path / "band_desk.json") == band
    assert [path.name for path in tmp_path.iterdir()] == ["band_desk.json"]
    assert bands.read_band(tmp_path / "band_paper.json") is None


@pytest.mark.parametrize("text", ["{", "{}", '{"scale": "desk"}'])
def test_broken_band_is_named(tmp_path, text):
    (tmp_path / "band_desk.json").write_text(text)
    with pytest.raises(bands.BandError, match="band_desk.json could not be read"):
        bands.read_band(tmp_path / "band_desk.json")


def test_band_that_cannot_be_written_is_one_sentence(tmp_path, runs):
    with pytest.raises(bands.BandError, match="could not be written"):
        bands.write_band(tmp_path / "none" / "band_desk.json", bands.make_band(runs))


def _judge(record, band):
    return bands.find_regression(records.StoredRecord(records.record_path("r", "p", "e", "t", "a", 1), record), band)


def test_only_the_worse_side_is_a_regression(runs):
    band = bands.make_band(runs)
    assert _judge(_with_score(runs[0], band.low), band) is None
    assert _judge(_with_score(runs[0], 1000.0), band) is None
    found = _judge(_with_score(runs[0], band.low - 0.5), band)
    assert "0.5 below the end" in found.message
    assert "mean 12 over 5 runs" in found.message
    assert found.message.endswith(found.command)
    assert "--paper=impala --experiment=atari_shallow --task=pong --scale=desk --seeds=1 " in found.command
    assert "--results_dir=runs/again" in found.command


def test_throughput_is_judged_where_the_band_says_so(runs):
    band = bands.make_band(runs, measure="frames_per_second")
    slow = runs[0] | {"frames_per_second": band.low / 2}
    assert "frames per second" in _judge(slow, band).message
    assert _judge(_with_score(runs[0], -1000.0), band) is None


def test_band_of_another_scale_or_config_judges_nothing(runs):
    band = bands.make_band(runs)
    bad = _with_score(runs[0], -1000.0)
    assert _judge(bad, band) is not None
    assert _judge(bad | {"scale": "paper"}, band) is None
    changed = copy.deepcopy(bad)
    changed["config"]["learner"]["learning_rate"] *= 2
    assert _judge(changed, band) is None


def test_band_lies_beside_its_records_and_is_no_record(tmp_path, runs):
    paths = [write(tmp_path, run) for run in runs]
    path = bands.band_path(paths[0], "desk")
    bands.write_band(path, bands.make_band(runs))
    assert path.parent == paths[0].parent
    assert len(records.read_all(tmp_path)[0]) == 5
    assert json.loads(path.read_text())["method"].startswith("prediction interval")
