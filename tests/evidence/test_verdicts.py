"""Findings and verdicts, at the boundaries where they change."""

import itertools

import pytest

from repro.evidence.published import PublishedRow
from repro.evidence.verdicts import MEANINGS, VERDICTS, find, verdict_of, weakest

MISS = 1e-6
"""More than rounding: it decides."""
ROUNDING = 1e-12


@pytest.mark.parametrize(
    ("better", "ends", "expected"),
    [
        ("above", (20.4 + MISS, 30.0), "agrees"),
        ("above", (20.4, 30.0), "undecided"),  # holds no difference at its end
        ("above", (10.0, 30.0), "undecided"),
        ("above", (10.0, 20.4 + MISS), "undecided"),
        ("above", (10.0, 20.4), "contradicts"),
        ("above", (10.0, 20.0), "contradicts"),
        ("under", (10.0, 20.4 - MISS), "agrees"),
        ("under", (10.0, 20.4), "undecided"),
        ("under", (10.0, 30.0), "undecided"),
        ("under", (20.4 - MISS, 30.0), "undecided"),
        ("under", (20.4, 30.0), "contradicts"),
        ("under", (21.0, 30.0), "contradicts"),
        ("more", (20.5, 30.0), "agrees"),
        ("more", (20.4, 30.0), "agrees"),
        ("more", (20.4 - ROUNDING, 30.0), "agrees"),
        ("more", (20.4 - MISS, 30.0), "undecided"),
        ("more", (10.0, 20.4), "undecided"),
        ("more", (10.0, 20.4 - MISS), "contradicts"),
        ("less", (10.0, 20.3), "agrees"),
        ("less", (10.0, 20.4), "agrees"),
        ("less", (10.0, 20.4 + ROUNDING), "agrees"),
        ("less", (10.0, 20.4 + MISS), "undecided"),
        ("less", (20.4, 30.0), "undecided"),
        ("less", (20.4 + MISS, 30.0), "contradicts"),
    ],
)
def test_the_place_of_the_interval_decides(better, ends, expected):
    assert find(20.4, better, ends, None) == expected


@pytest.mark.parametrize(
    ("better", "ends", "expected"),
    [
        ("more", (18.0, 19.0), "agrees"),  # the near end of the tolerance is 18
        ("more", (18.0 - ROUNDING, 30.0), "agrees"),
        ("more", (17.9, 30.0), "undecided"),
        ("more", (10.0, 18.0), "undecided"),
        ("more", (10.0, 17.9), "contradicts"),
        ("less", (23.0, 24.0), "agrees"),  # the far end is 24
        ("less", (10.0, 24.1), "undecided"),
        ("less", (24.0, 30.0), "undecided"),
        ("less", (24.1, 30.0), "contradicts"),
        ("equal", (18.0, 24.0), "agrees"),
        ("equal", (19.0, 20.0), "agrees"),
        ("equal", (17.9, 24.0), "undecided"),
        ("equal", (18.0, 24.1), "undecided"),
        ("equal", (10.0, 30.0), "undecided"),
        ("equal", (10.0, 18.0), "undecided"),
        ("equal", (24.0, 30.0), "undecided"),
        ("equal", (10.0, 17.9), "contradicts"),
        ("equal", (24.1, 30.0), "contradicts"),
        ("above", (20.5, 24.0), "agrees"),  # no difference is a point, whatever the tolerance
        ("above", (19.0, 24.0), "undecided"),
        ("under", (18.0, 20.3), "agrees"),
    ],
)
def test_a_tolerance_moves_the_end_that_counts(better, ends, expected):
    assert find(20.4, better, ends, (18.0, 24.0)) == expected


@pytest.mark.parametrize("ends", [(20.4, 20.4), (20.3, 20.5), (1.0, 2.0), (30.0, 40.0)])
def test_a_number_to_be_met_is_undecided_without_a_margin(ends):
    assert find(20.4, "equal", ends, None) == "undecided"


@pytest.mark.parametrize("better", ["more", "less", "equal", "above", "under"])
def test_nothing_is_found_without_an_interval(better):
    assert find(20.4, better, None, (18.0, 24.0)) == "undecided"


@pytest.mark.parametrize(
    ("better", "value", "expected"),
    [
        ("more", 0.3, "agrees"),
        ("more", 0.3 - ROUNDING, "agrees"),
        ("more", 0.29, "contradicts"),
        ("less", 0.3 + ROUNDING, "agrees"),
        ("less", 0.31, "contradicts"),
        ("equal", 0.1 + 0.2, "agrees"),  # not 0.3 in binary
        ("equal", 0.31, "contradicts"),
        ("above", 0.31, "agrees"),
        ("above", 0.3, "contradicts"),
        ("under", 0.29, "agrees"),
        ("under", 0.3, "contradicts"),
    ],
)
def test_an_exact_number_is_never_undecided(better, value, expected):
    assert find(0.3, better, (value, value), (0.3, 0.3)) == expected


@pytest.mark.parametrize("published", [153.0, -1.0, 0.0, 5e8])
def test_rounding_is_relative(published):
    slack = 1e-9 * max(1.0, abs(published))
    assert find(published, "more", (published - 0.5 * slack,) * 2, None) == "agrees"
    assert find(published, "more", (published - 2.0 * slack,) * 2, None) == "contradicts"


@pytest.mark.parametrize(("better", "opposite"), [("above", "under"), ("more", "less")])
def test_a_wide_interval_around_no_difference_says_nothing(better, opposite):
    assert find(0.0, better, (-50.0, 60.0), None) == "undecided"
    assert find(0.0, opposite, (-50.0, 60.0), None) == "undecided"


@pytest.mark.parametrize("better", ["more", "less", "equal", "above", "under"])
def test_no_interval_both_agrees_and_contradicts(better):
    """And a narrower interval within one that decides decides the same."""
    points = [18.0, 18.5, 20.4, 20.5, 24.0, 25.0]
    tolerance = (18.5, 24.0)
    for low, high in itertools.combinations_with_replacement(points, 2):
        whole = find(20.4, better, (low, high), tolerance)
        parts = {find(20.4, better, (x, x), tolerance) for x in points if low <= x <= high}
        if whole != "undecided":
            assert parts == {whole}
        else:
            assert low < high


def _printed(value, margin):
    return PublishedRow(
        paper="p", table="1", task="t", column="c", value=value, unit="u", n_seeds=None, confidence="c", source="s",
        protocol={}, statistic=None, normaliser=None, experiment=None, agent=None, margin=margin,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "margin", "random", "ends"),
    [
        (20.0, None, 0.0, None),
        (None, ("absolute", 1.0), 0.0, None),
        (20.0, ("absolute", 3.0), 5.0, (17.0, 23.0)),
        (-20.0, ("absolute", 3.0), 5.0, (-23.0, -17.0)),
        (20.0, ("factor", 2.0), 5.0, (10.0, 40.0)),
        (-20.0, ("factor", 2.0), 5.0, (-40.0, -10.0)),
        (20.0, ("share", 0.1), 5.0, (18.5, 21.5)),
        (20.0, ("share", 0.1), 0.0, (18.0, 22.0)),
        (-18.0, ("share", 0.1), -21.0, (-18.3, -17.7)),
        (-21.0, ("share", 0.1), -18.0, (-21.3, -20.7)),  # below a random player's: still low to high
    ],
)
def test_the_tolerance_is_the_margin_around_the_number(value, margin, random, ends):
    found = _printed(value, margin).tolerance(random)
    assert found == (ends if ends is None else pytest.approx(ends))


def test_reproduced_and_contradicts_mean_that_nothing_of_the_protocol_is_missing():
    assert verdict_of("agrees", ()) == "reproduced"
    assert verdict_of("agrees", ("4 % of the budget",)) == "agrees"
    assert verdict_of("contradicts", ()) == "contradicts"
    assert verdict_of("contradicts", ("4 % of the budget",)) == "disagrees"
    for finding in ("undecided", "not run", "cannot run here"):
        assert verdict_of(finding, ()) == verdict_of(finding, ("4 % of the budget",)) == finding


def test_a_sentence_is_as_good_as_its_weakest_part():
    order = ("contradicts", "cannot run here", "not run", "undecided", "agrees")
    for findings in itertools.product(order, repeat=2):
        assert weakest(findings) == order[min(map(order.index, findings))]
    assert weakest(("agrees", "agrees", "agrees")) == "agrees"
    assert weakest(("agrees", "not run", "contradicts")) == "contradicts"


def test_every_verdict_has_a_meaning():
    assert VERDICTS == ("reproduced", "agrees", "disagrees", "contradicts", "undecided", "not run", "cannot run here")
    assert all(text.endswith(".") for text in MEANINGS.values())
