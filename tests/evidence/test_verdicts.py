"""Verdicts, each at the edge where it turns."""

import pytest

from repro.evidence.verdicts import verdict

PAPER = {"published_seeds": 1, "published_episodes": 200}


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        ((19.0, 21.0), "reproduced"),  # inside
        ((18.0, 20.4), "reproduced"),  # at its edge
        ((20.8, 20.9), "reproduced"),  # better
        ((18.0, 20.3), "below"),
    ],
)
def test_with_the_paper_s_means_the_interval_decides(interval, expected):
    assert verdict(20.4, interval, 1.0, seeds=1, episodes=200, **PAPER) == expected


@pytest.mark.parametrize(
    ("better", "interval", "expected"),
    [
        ("less", (44.1, 50.0), "below"),
        ("less", (44.0, 50.0), "reproduced"),
        ("less", (10.0, 20.0), "reproduced"),
        ("equal", (43.0, 43.9), "below"),
        ("equal", (43.0, 44.0), "reproduced"),
        ("equal", (44.0, 45.0), "reproduced"),
        ("equal", (44.1, 45.0), "below"),
    ],
)
def test_less_is_better_for_times_and_some_numbers_must_be_met(better, interval, expected):
    assert verdict(44.0, interval, 1.0, seeds=1, better=better) == expected


@pytest.mark.parametrize(
    ("better", "interval", "expected"),
    [
        ("above", (0.51, 0.9), "reproduced"),
        ("above", (0.5, 0.9), "partial"),
        ("above", (0.4, 0.9), "partial"),
        ("above", (0.1, 0.49), "below"),
        ("under", (0.1, 0.49), "reproduced"),
        ("under", (0.4, 0.9), "partial"),
        ("under", (0.51, 0.9), "below"),
    ],
)
def test_a_number_to_be_surpassed_is_not_decided_by_an_interval_that_holds_it(better, interval, expected):
    assert verdict(0.5, interval, 1.0, seeds=5, better=better) == expected


@pytest.mark.parametrize(
    "less",
    [
        {"fraction_of_budget": 0.99},
        {"seeds": 4, "published_seeds": 5},
        {"episodes": 199},
        {"interval": None},
        {"complete": False},
    ],
)
def test_less_than_the_paper_is_partial_however_good(less):
    settings = {"interval": (20.8, 20.9), "fraction_of_budget": 1.0, "seeds": 1, "episodes": 200, **PAPER}
    assert verdict(20.4, **settings) == "reproduced"
    assert verdict(20.4, **(settings | less)) == "partial"


def test_whole_batches_may_miss_the_round_budget_by_a_little():
    assert verdict(20.4, (18.0, 19.0), 0.9995, seeds=1) == "below"


def test_without_seeds_it_is_not_run():
    assert verdict(20.4, None, 0.0, seeds=0) == "not run"


def test_unknown_number_of_seeds_counts_as_one():
    assert verdict(20.4, (20.0, 21.0), 1.0, seeds=1, published_seeds=None) == "reproduced"
