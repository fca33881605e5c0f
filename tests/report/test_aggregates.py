"""Results over several tasks: which tasks count, their numbers, and the charts."""

import dataclasses

import numpy as np
import pytest

from repro.evidence import published
from repro.evidence.rows import make_rows
from repro.report import aggregates
from tests.evidence.synthetic_records import make_groups, make_record
from tests.report.example_row import ROW

PONG = published.normaliser("atari57")["pong"]


def _together(made):
    groups = make_groups(made)
    return aggregates.make_aggregates(make_rows(groups), groups)


def _exact(seed, task, share, **names):
    """A record whose evaluation is exactly this share of the way from random to human."""
    scores = published.normaliser("atari57")[task]
    score = scores["random"] + share * (scores["human"] - scores["random"])
    record = make_record(seed, task, **names)
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
    assert [interval for *_, interval in found.lines] == [None] * 4  # two runs
    assert [image.name for image in aggregates.make_agent_images(found)] == [f"{found.anchor}-tasks"]  # no profile


def test_runs_that_learned_the_tasks_together_or_by_the_same_settings_are_resampled_whole():
    """Four runs that differ alike on all three games: the mean over games has the spread of each."""

    def width(experiment, agent, **names):
        names |= {"experiment": experiment, "agent": agent}
        made = [_exact(s, t, 0.2 * s, **names) for t in ("pong", "alien", "breakout") for s in (1, 2, 3, 4)]
        (found,) = _together(made)
        low, high = {name: interval for name, *_, interval in found.lines}["mean"]
        return high - low

    apart = width("atari_shallow", "impala_shallow")
    assert width("atari_57", "impala_multitask") > 1.5 * apart
    assert width("atari_shallow", "impala_shallow", sampled_hparams={"loss.entropy_cost": 0.01}) > 1.5 * apart


@pytest.mark.parametrize(("seeds", "step", "known"), [(4, 0.1, True), (3, 0.1, False), (4, 0.0, False)])
def test_an_interval_takes_four_seeds_on_each_task_that_differ(seeds, step, known):
    made = [_exact(s, "alien", 1.4 + step * s) for s in (1, 2, 3, 4)]
    (found,) = _together([*made, *(_exact(s, "pong", 0.2 + step * s) for s in range(1, seeds + 1))])
    assert [interval is not None for *_, interval in found.lines][:3] == [known] * 3
    few, equal = "an interval needs 4 runs on each task", "no interval, since all runs give the same number"
    assert found.no_interval["mean"] == ("" if known else few if seeds < 4 else equal)


def test_a_statistic_without_an_interval_says_so_of_itself():
    """Runs that are all above a human's lack nothing, whatever their spread."""
    (found,) = _together([_exact(s, t, 1.4 + 0.1 * s) for t in ("pong", "alien") for s in (1, 2, 3, 4)])
    assert found.no_interval == {
        "median": "",
        "interquartile mean": "",
        "mean": "",
        "optimality gap": "no interval, since all runs give the same number",
    }


def test_bars_grow_from_zero_to_both_sides_best_first():
    (found,) = _together([_exact(1, "pong", -0.5), _exact(1, "alien", 1.4)])
    (axes,) = aggregates.plot_bars(found).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["alien", "pong"]
    ours, theirs = axes.containers
    assert [bar.get_width() for bar in ours] == pytest.approx([140.0, -50.0])
    assert {bar.get_x() for bar in (*ours, *theirs)} == {0}
    assert axes.yaxis_inverted()  # the first task on top
    low, high = axes.get_xlim()
    assert low < -50 < 140 < high
    assert [text.get_text() for text in axes.texts][:2] == ["140", "-50.0"]
    assert aggregates.bars_alt(found).startswith("Human-normalized scores: alien 140.0 % (published ")


def test_profile_is_the_share_of_runs_above_each_level():
    games = list(published.normaliser("atari57"))[:5]
    made = [_exact(seed, game, 0.3 if seed == 1 else 1.1) for game in games for seed in (1, 2)]
    (found,) = _together(made)
    (axes,) = aggregates.plot_profile(found).axes
    (ours,) = (line for line in axes.lines if line.get_gid() == "ours")
    levels, heights = ours.get_data()
    assert (levels[0], levels[100]) == (0, 100)
    assert heights[0] == 1
    assert heights[100] == pytest.approx(0.5)  # one run of two is above 100 %
    assert heights[200] == 0
    assert "50 % of our runs" not in aggregates.profile_alt(found).split("and")[1]
    assert "50 % of our runs" in aggregates.profile_alt(found)


def test_shares_are_means_over_tasks():
    scores = {"a": np.array([0.1, 0.3]), "b": np.array([0.9])}
    np.testing.assert_allclose(aggregates.shares_above(scores, np.array([0.0, 20.0, 50.0, 100.0])), [1, 0.75, 0.5, 0])


def test_intervals_stand_beside_the_published_aggregates():
    (found,) = _together([_exact(s, t, x + s / 10) for t, x in (("pong", 0.2), ("alien", 1.4)) for s in (1, 2, 3, 4)])
    figure = aggregates.plot_intervals([found])
    assert [axes.get_title() for axes in figure.axes] == list(aggregates.SHOWN)
    for axes, (_, printed, value, interval) in zip(figure.axes, found.lines):
        ours, theirs = (line.get_xdata()[0] for line in axes.lines)
        assert (ours, theirs) == pytest.approx((value, printed))
        (bar,) = axes.patches
        assert (bar.get_x(), bar.get_x() + bar.get_width()) == pytest.approx(interval)
        low, high = axes.get_xlim()
        assert low < min(*interval, printed)
        assert high > max(*interval, printed)


def test_probabilities_of_improvement_are_plotted_for_claims_with_a_result():
    claim = dataclasses.replace(ROW, claim="improvement", value=0.8, interval=(0.6, 0.9), published=0.5)
    assert aggregates.make_images("impala", [], [ROW, dataclasses.replace(claim, value=None)]) == []
    (image,) = aggregates.make_images("impala", [], [ROW, claim])
    assert image.alt.endswith("IMPALA, shallow, experts 0.800 [0.600, 0.900], pong, 20 % of the budget")
    lacking = ("10 % of the budget", "3 of 5 runs", "2 of 57 tasks")
    several = dataclasses.replace(claim, task="atari57", shortfalls=lacking)
    (axes,) = aggregates.plot_improvements([claim, several]).axes
    assert [label.get_text().split("\n")[1] for label in axes.get_yticklabels()] == [
        "pong, 20 % of the budget",
        "10 % of the budget, 2 of 57 tasks",
    ]
    assert "95 % interval; 0.5: no difference" in axes.get_xlabel()
    (axes,) = aggregates.plot_improvements([claim]).axes
    (bar,) = axes.patches
    assert (bar.get_x(), bar.get_width()) == pytest.approx((0.6, 0.3))
    assert [line.get_xdata()[0] for line in axes.lines] == [0.8, 0.5]


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(0, 150, [0, 10, 100]), (-60, 2000, [-10, 0, 10, 100, 1000]), (0, 10, [0, 10])]
)
def test_logarithmic_ticks(low, high, expected):
    assert aggregates.log_ticks(low, high, 10.0) == expected
