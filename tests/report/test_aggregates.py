"""Tasks together: which are counted, what their numbers are, and the charts."""

import xml.etree.ElementTree

import pytest

from repro.evidence import published, records
from repro.evidence.rows import group_records, make_rows
from repro.report import aggregates, svg
from tests.evidence.synthetic_records import make_record

PONG = published.normaliser("atari57")["pong"]


def _together(made):
    path = records.record_path("r", "p", "e", "t", "a", 0)
    groups = group_records([records.StoredRecord(path, record) for record in made])
    return aggregates.make_aggregates(make_rows(groups), groups)


def _exact(seed, task, share):
    """A record whose evaluation is exactly this share of the way from random to human."""
    scores = published.normaliser("atari57")[task]
    score = scores["random"] + share * (scores["human"] - scores["random"])
    record = make_record(seed, task)
    return record | {"evaluation": record["evaluation"] | {"mean": score, "returns": [score], "episodes": 1}}


def test_one_task_is_no_aggregate():
    assert _together([make_record(1), make_record(2)]) == []


def test_numbers_of_a_hand_case():
    (found,) = _together([_exact(s, t, x) for t, x in (("pong", 0.2), ("alien", 1.4)) for s in (1, 2)])
    assert (found.agent, found.tasks, found.total) == ("impala_shallow", 2, 57)
    ours = {name: value for name, _, value, _ in found.lines}
    assert ours == pytest.approx({"median": 80, "interquartile mean": 80, "mean": 80, "optimality gap": 40})
    theirs = {name: value for name, value, _, _ in found.lines}
    alien = published.normaliser("atari57")["alien"]
    of_alien = (1536.05 - alien["random"]) / (alien["human"] - alien["random"])
    of_pong = (20.4 - PONG["random"]) / (PONG["human"] - PONG["random"])
    assert theirs["mean"] == pytest.approx(50 * (of_alien + of_pong))
    assert found.lines[0][3] == pytest.approx((80, 80))
    assert found.profile is None


def test_without_two_seeds_everywhere_there_is_no_interval():
    (found,) = _together([_exact(1, "pong", 0.2), _exact(1, "alien", 1.4), _exact(2, "alien", 1.4)])
    assert [interval for *_, interval in found.lines] == [None] * 4


def test_bars_grow_from_zero_to_both_sides_best_first():
    (found,) = _together([_exact(1, "pong", -0.5), _exact(1, "alien", 1.4)])
    root = xml.etree.ElementTree.fromstring(found.bars)
    titles = [rect.find("title").text for rect in root.iter("rect")][2:]
    assert titles[0] == "alien, ours: 140.0 %"
    assert titles[2] == "pong, ours: -50.0 %"
    place = {r.find("title").text: (float(r.get("x")), float(r.get("width"))) for r in list(root.iter("rect"))[2:]}
    zero = next(float(line.get("x1")) for line in root.iter("line") if line.get("class") == "axis")
    assert place["alien, ours: 140.0 %"][0] == pytest.approx(zero, abs=0.11)
    assert sum(place["pong, ours: -50.0 %"]) == pytest.approx(zero, abs=0.11)
    assert place["pong, ours: -50.0 %"][0] == pytest.approx(aggregates.LEFT, abs=0.11)


def test_profile_is_the_share_of_runs_above_each_level():
    games = list(published.normaliser("atari57"))[:5]
    made = [_exact(seed, game, 0.3 if seed == 1 else 1.1) for game in games for seed in (1, 2)]
    (found,) = _together(made)
    root = xml.etree.ElementTree.fromstring(found.profile)
    ours = next(line for line in root.iter("polyline") if line.get("class") == "mean")
    heights = [float(point.split(",")[1]) for point in ours.get("points").split()]
    assert heights[0] < heights[100] < heights[200]
    assert heights[100] == pytest.approx((heights[0] + heights[200]) / 2)  # one run of two is above 100 %
    assert "50 % of our runs" in root.get("aria-label")


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(0, 150, [0, 10, 100]), (-60, 2000, [-10, 0, 10, 100, 1000]), (0, 10, [0, 10])]
)
def test_logarithmic_ticks(low, high, expected):
    assert svg.log_ticks(low, high, 10.0) == expected
