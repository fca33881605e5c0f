"""Intervals of claims: closed forms, bootstraps, and claims without an interval."""

import dataclasses

import numpy as np
import pytest

from repro.evidence import claim_intervals, claim_kinds, intervals, statistics, task_measures
from tests.evidence.claim_rows import (
    CORRELATION,
    FRAMES,
    GAMES,
    PLACE,
    SPEED,
    TO_OTHER,
    WON,
    make_pairs,
    make_row,
    make_runs,
    make_table,
)
from tests.evidence.synthetic_records import random_records


def test_a_ratio_whose_resamples_are_all_one_number_has_no_interval(tmp_path):
    """No spread among the runs is nothing to decide by."""
    made = make_runs("impala_shallow", *[{"by": 40}] * 5) + make_runs("other", *[{"by": 80}] * 5)
    row = make_row(tmp_path, made, protocol=TO_OTHER, **FRAMES)
    assert (row.value, row.interval, row.verdict) == (0.5, None, "undecided")
    assert row.note == "no interval, since all runs give the same number"


def test_a_level_that_is_never_reached_is_not_averaged_with_a_number():
    resampled = np.array([0.5, 1.0, task_measures.RATIO_CAP])
    ends = [claim_intervals._ends(claim_kinds.CLAIMS[name], resampled, 0.25) for name in ("frames_ratio", "trend")]
    np.testing.assert_array_equal(ends[0], [0.5, task_measures.RATIO_CAP])
    np.testing.assert_array_equal(ends[1], [0.75, (1.0 + task_measures.RATIO_CAP) / 2])


@pytest.mark.parametrize("runs", [2, 3, 4])
def test_a_bootstrap_takes_four_runs_of_each_agent(tmp_path, runs):
    made = make_runs("impala_shallow", *make_pairs(5, by=40)) + make_runs("other", *make_pairs(runs, by=80))
    row = make_row(tmp_path, made, n_seeds=2, protocol=TO_OTHER, **FRAMES)
    assert (row.interval is None, row.verdict) == (runs < 4, "undecided" if runs < 4 else "reproduced")


def test_places_may_be_shared_between_resamples(tmp_path):
    made = make_runs("impala_shallow", *[{"final": 5.0 + i} for i in range(5)])
    made += make_runs("other", *[{"final": 80.0 + i} for i in range(5)])
    made += make_runs("third", *[{"final": 70.0 + i} for i in range(5)])
    made += make_runs("fourth", *[{"final": final} for final in (-500.0, -400.0, 50.0, 500.0, 600.0)])
    others = {"against": ["other", "third", "fourth"]}
    row = make_row(tmp_path, made, protocol=others, **PLACE)
    assert (row.value, row.interval, row.verdict) == (4.0, (3.0, 4.0), "undecided")
    near = PLACE | {"margin": ["absolute", 1]}
    assert make_row(tmp_path, made, protocol=others, **near).verdict == "reproduced"
    row = make_row(tmp_path, made, protocol={"against": ["other", "fourth"]}, **PLACE)
    assert (row.value, row.interval) == (3.0, (2.0, 3.0))
    assert row.verdict == "contradicts"
    row = make_row(tmp_path, made, protocol=others | {"against": [*others["against"], "fifth"]}, **PLACE)
    assert (row.value, row.note) == (None, "needs 2 runs of fifth on pong")  # no place among fewer


def test_the_interval_of_a_rank_correlation_is_in_closed_form(tmp_path):
    falling = [{"delta": 0.1 * i, "final": 20.0 - 3.0 * i} for i in range(8)]
    row = make_row(
        tmp_path, make_runs("impala_shallow", *falling), protocol={"correlated_with": "delta"}, **CORRELATION
    )
    assert (row.value, row.verdict) == (-1.0, "reproduced")
    assert row.interval == pytest.approx(intervals.rank_correlation_interval(-1.0, 8))
    assert row.interval[0] == -1.0
    few = make_row(
        tmp_path, make_runs("impala_shallow", *falling[:3]), protocol={"correlated_with": "delta"}, **CORRELATION
    )
    assert (few.value, few.interval, few.verdict) == (-1.0, None, "undecided")
    assert make_row(tmp_path, make_runs("impala_shallow", *falling[:2]), protocol={"correlated_with": "delta"},
                **CORRELATION).verdict == "not run"  # fmt: skip


def test_the_interval_is_that_of_a_mean_where_a_claim_is_one():
    """Interval of one agent's mean, against the interval of the statistics module, which samples otherwise."""
    scores = [3.0, 5.0, 4.0, 9.0, 1.0, 2.0]
    claim = claim_kinds.Claim(
        lambda by_agent: lambda weights: weights[0] @ np.array(by_agent[0]), lambda numbers: numbers.mean(axis=0)
    )
    found = claim_intervals.bootstrap_interval(claim, [[scores]], np.random.default_rng(1))
    alone = statistics.stratified_interval({"task": scores}, statistics.mean, np.random.default_rng(2))
    assert found == pytest.approx(alone, abs=0.15)
    two = claim_intervals.bootstrap_interval(claim, [[scores], [scores]], np.random.default_rng(1))
    assert two[1] - two[0] < 0.8 * (found[1] - found[0])  # a mean over two tasks varies less
    assert claim_intervals.bootstrap_interval(claim, [[scores], [scores[:3]]], np.random.default_rng(1)) is None
    assert claim_intervals.bootstrap_interval(claim, [[scores[:1] * 6]], np.random.default_rng(1)) is None


def test_tasks_on_which_the_same_runs_score_the_same_tell_no_more_than_one():
    claim = claim_kinds.Claim(
        lambda by_agent: lambda weights: weights[0] @ np.array(by_agent[0]), lambda numbers: numbers.mean(axis=0)
    )
    scores = [[3.0, 5.0, 4.0, 9.0, 1.0, 2.0]]
    alone = claim_intervals.bootstrap_interval(claim, [scores], np.random.default_rng(1))
    both = claim_intervals.bootstrap_interval(claim, [scores, scores], np.random.default_rng(1), together=[True])
    assert both == alone


def test_the_best_are_those_of_each_resample():
    """Runs of 4, 1, 3, 2: of a resample with two of 3 and two of 1 the best two are both of 3."""
    runs = [{"evaluation": {"mean": mean}} for mean in (4.0, 1.0, 3.0, 2.0)]
    counts = np.array([[1, 1, 1, 1], [0, 2, 2, 0], [0, 3, 1, 0], [4, 0, 0, 0]])
    found = claim_intervals._weights(runs, counts, 2)
    np.testing.assert_allclose(found, [[0.5, 0, 0.5, 0], [0, 0, 1, 0], [0, 0.5, 0.5, 0], [1, 0, 0, 0]])
    np.testing.assert_allclose(claim_intervals._weights(runs, counts, None), counts / 4)
    np.testing.assert_allclose(claim_intervals._weights(runs, counts, 9), counts / 4)  # of fewer all count


def test_the_best_three_of_many_runs_have_an_interval(tmp_path):
    made = make_runs("impala_shallow", *[{"final": 40.0 + 2 * i, "delta": 1.0} for i in range(12)], games=GAMES)
    made += make_runs("other", *[{"final": 20.0 + 2 * i, "delta": 1.0} for i in range(12)], games=GAMES)
    claimed = {"claim": "score_difference", "unit": "u", "value": 10, "better": "above", "n_seeds": 12}
    row = make_row(tmp_path, made, task="atari5", protocol=TO_OTHER | {"best": 3}, **claimed)
    best = [np.mean(sorted(r["evaluation"]["mean"] for r in made if r["agent"] == name and r["task"] == "pong")[-3:])
            for name in ("impala_shallow", "other")]  # fmt: skip
    assert row.value == pytest.approx(best[0] - best[1], abs=0.5)
    assert row.interval[0] < row.value < row.interval[1]
    assert (row.verdict, row.note) == ("reproduced", "the best 3 of 12 runs of each agent count")
    few = [record for record in made if record["seed"] <= 3]
    row = make_row(tmp_path, few, task="atari5", protocol=TO_OTHER | {"best": 3}, **claimed)
    assert (row.interval, row.note) == (None, "an interval needs 4 runs of each agent")


@pytest.mark.parametrize(
    ("runs", "tasks", "interval"),
    [
        (4, 1, (0.75, 1.25)),  # one of 70 orders is so
        (4, 5, (0.0, 5.0)),  # on one of five tasks that is chance enough
        (5, 5, (4.75, 5.25)),  # one of 252
        (3, 1, None),
    ],
)
def test_a_count_of_runs_that_lie_apart_is_known_to_the_nearest_whole_number(tmp_path, runs, tasks, interval):
    games, task = (GAMES[:tasks], "atari5" if tasks > 1 else "pong")
    made = make_runs("impala_shallow", *[{"final": 80.0 + i} for i in range(runs)], games=games)
    made += make_runs("other", *[{"final": 20.0 + i} for i in range(runs)], games=games)
    whole = {"margin": ["absolute", 0.5], "margin_note": "m", "value": tasks, "n_seeds": runs}
    row = make_row(tmp_path, made, task=task, protocol=TO_OTHER, **(WON | whole))
    decided = interval in ((0.75, 1.25), (4.75, 5.25))
    assert (row.value, row.interval) == (tasks, interval)
    assert row.verdict == ("reproduced" if decided else "undecided")
    place = PLACE | {"value": 1.0, "n_seeds": runs, "margin": ["absolute", 0.5]}
    row = make_row(tmp_path, made, task=task, protocol=TO_OTHER, **place)
    assert row.interval == ((1 - 0.25 / tasks, 1 + 0.25 / tasks) if decided else interval and (1.0, 2.0))
    none = {"value": 0, "better": "less", "agent": "other", "protocol": {"against": ["impala_shallow"]}}
    row = make_row(tmp_path, made, task=task, **(WON | whole | none))
    assert row.verdict == ("reproduced" if decided else "undecided")  # the best of none


@pytest.mark.parametrize(("lost", "verdict"), [(0, "reproduced"), (1, "contradicts"), (2, "contradicts")])
def test_a_count_that_is_known_contradicts_the_next_whole_number(tmp_path, lost, verdict):
    made = []
    for i, game in enumerate(GAMES):
        for agent, final in (("impala_shallow", 80.0), ("other", 20.0 if i >= lost else 500.0)):
            made += make_runs(agent, *[{"final": final + j} for j in range(5)], games=(game,))
    whole = {"margin": ["absolute", 0.5], "margin_note": "m", "value": 5, "n_seeds": 5}
    for better in ("more", "equal"):
        row = make_row(tmp_path, made, task="atari5", protocol=TO_OTHER, **(WON | whole | {"better": better}))
        assert (row.value, row.verdict) == (5 - lost, verdict)


@pytest.mark.parametrize("ours", [(4.6, 10.0, 11.0, 12.0, 13.0), (6.0, 10.0, 11.0, 12.0, 13.0)])
def test_a_task_is_open_where_resamples_differ_and_the_others_are_not(tmp_path, ours):
    made = make_runs("impala_shallow", *[{"final": 80.0 + i} for i in range(5)], games=GAMES[:4])
    made += make_runs("impala_shallow", *[{"final": 10 * final} for final in ours], games=GAMES[4:])
    made += make_runs("other", *[{"final": 10.0 * i} for i in range(4, 9)], games=GAMES)
    made += make_runs("other", *[{"final": 150.0}], games=GAMES[4:])[-1:]
    del made[-2]
    row = make_row(tmp_path, made, task="atari5", protocol=TO_OTHER, **WON)
    assert (row.value, row.interval) == (5.0, (4.0, 5.0))


def test_counts_cover_the_true_one_where_agents_differ_little():
    """Ours is ahead on all five tasks, by half of the runs' spread: five and the open ones hold it."""
    rng, covered, trials = np.random.default_rng(5), 0, 60
    claim = dataclasses.replace(claim_kinds.CLAIMS["tasks_won"], resamples=499)
    for _ in range(trials):
        tasks = [
            [[{"evaluation": {"mean": x}} for x in rng.standard_normal(8) + shift] for shift in (0.5, 0.0, 0.0)]
            for _ in range(5)
        ]
        low, high = claim_intervals.bootstrap_interval(claim, tasks, rng)
        covered += low <= 5 <= high
    assert covered > 0.9 * trials


@pytest.mark.slow
@pytest.mark.parametrize(("others", "runs"), [(1, 5), (2, 5), (2, 6), (4, 7)])
def test_a_task_of_agents_that_are_alike_is_seldom_won_or_lost_by_chance(others, runs):
    """Ours is best by next to nothing on all five tasks, beside several that each could be ahead."""
    claim = dataclasses.replace(claim_kinds.CLAIMS["tasks_won"], resamples=1_999)
    rng, lost, won, trials = np.random.default_rng(12), 0, 0, 150
    for _ in range(trials):
        scores = rng.standard_normal((5, others + 1, runs))
        tasks = [[[{"evaluation": {"mean": x}} for x in runs] for runs in by_agent] for by_agent in scores]
        low, high = claim_intervals.bootstrap_interval(claim, tasks, rng)
        lost, won = lost + (high < 5.0), won + (low > 0.0)
    assert lost <= 0.1 * trials
    assert won <= 0.1 * trials


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "runs", "place"), [(1, 5, 1), (1, 5, 4), (5, 6, 1), (5, 6, 4)])
def test_the_place_among_agents_that_are_alike_is_seldom_excluded_by_chance(tasks, runs, place):
    """Ours is first or last by next to nothing of four, where a resample of all at once excludes it in 15 to 30 %."""
    claim, rng, wrong, trials = claim_kinds.CLAIMS["place"], np.random.default_rng(14), 0, 100
    for _ in range(trials):
        scores = rng.standard_normal((tasks, 4, runs))
        made = [[[{"evaluation": {"mean": x}} for x in runs] for runs in by_agent] for by_agent in scores]
        low, high = claim_intervals.bootstrap_interval(claim, made, rng)
        wrong += not low <= place <= high
    assert wrong <= 0.1 * trials


@pytest.mark.parametrize(("runs", "interval"), [(5, (1.0, 4.0)), (6, (2.95, 3.05))])
def test_a_place_on_five_tasks_takes_six_runs_of_four_agents(runs, interval):
    """Three comparisons on each of five tasks: of 252 orders one is too many, of 924 not."""
    scores = np.arange(runs) + np.array([30.0, 40.0, 20.0, 50.0])[:, None]
    made = [[[{"evaluation": {"mean": x}} for x in runs] for runs in scores]] * 5
    found = claim_intervals.bootstrap_interval(claim_kinds.CLAIMS["place"], made, np.random.default_rng(15))
    assert found == interval


@pytest.mark.parametrize(
    ("runs", "first", "interval"), [(6, 50.0, (4.75, 5.25)), (5, 50.0, (0.0, 5.0)), (5, 20.0, (-0.25, 0.25))]
)
def test_that_the_last_agent_is_surpassed_takes_six_runs_on_five_tasks(runs, first, interval):
    """By one of two others, at the level of both; that it is not, five: each of them is surely behind."""
    scores = np.arange(runs) + np.array([first, 30.0, 40.0])[:, None]
    made = [[[{"evaluation": {"mean": x}} for x in runs] for runs in scores]] * 5
    claim = claim_kinds.CLAIMS["last_surpassed"]
    assert claim_intervals.bootstrap_interval(claim, made, np.random.default_rng(16)) == interval


def test_one_of_agents_that_are_alike_is_seldom_surpassed_by_chance():
    claim, rng, wrong, trials = claim_kinds.CLAIMS["last_surpassed"], np.random.default_rng(17), 0, 100
    for _ in range(trials):
        scores = rng.standard_normal((2, 4, 6))  # the last one is ahead by next to nothing
        tasks = [[[{"evaluation": {"mean": x}} for x in runs] for runs in by_agent] for by_agent in scores]
        wrong += claim_intervals.bootstrap_interval(claim, tasks, rng)[0] > 0.0
    assert wrong <= 0.1 * trials


def test_a_task_is_lost_to_one_of_several_that_is_surely_ahead():
    """With enough runs of each to say so at the level of three comparisons on two tasks."""
    claim, rng = claim_kinds.CLAIMS["tasks_won"], np.random.default_rng(13)
    scores = rng.standard_normal((2, 4, 7)) + np.array([0.0, -50.0, 50.0, -50.0])[:, None]
    tasks = [[[{"evaluation": {"mean": x}} for x in runs] for runs in by_agent] for by_agent in scores]
    assert claim_intervals.bootstrap_interval(claim, tasks, rng) == (-0.25, 0.25)
    tasks[0][2] = tasks[0][1]
    assert claim_intervals.bootstrap_interval(claim, tasks, rng) == (0.75, 1.25)


@pytest.mark.slow
@pytest.mark.parametrize(("claim", "best"), [("improvement", 3), ("score_difference", 3)])
def test_the_best_of_equal_agents_seldom_differ_surely(claim, best):
    """They are those of each resample: the chosen runs are no sample of their own."""
    rng, wrong, trials = np.random.default_rng(7), 0, 60
    of, even = claim_kinds.CLAIMS[claim], 0.5 if claim == "improvement" else 0.0
    for _ in range(trials):
        agents = [[{"evaluation": {"mean": x}} for x in rng.standard_normal(12)] for _ in range(2)]
        if of.task_interval is None:
            found = claim_intervals.bootstrap_interval(of, [agents], rng, best=best)
        else:
            found = claim_intervals.reselected_interval(of, [agents], best, rng, [False] * 2, matched=True)
        wrong += found is None or not found[0] <= even <= found[1]
    assert wrong <= 0.15 * trials


@pytest.mark.parametrize(
    ("shift", "within", "beyond"), [(0.0, 0.97, 0.0), (0.4, 0.15, 0.02), (1.0, 0.0, 0.65), (4.0, 0.0, 1.0)]
)
def test_a_trend_over_five_agents_is_decided_by_four_runs_of_each_on_two_tasks(shift, within, beyond):
    """How often it surely lies within a quarter of even odds, and how often surely not; no shift, and full order."""
    rng, trials, found = np.random.default_rng(11), 200, np.zeros(2)
    claim = claim_kinds.CLAIMS["trend"]
    for _ in range(trials):
        scores = rng.standard_normal((2, 5, 4)) + shift * np.arange(5)[:, None]
        tasks = [[[{"evaluation": {"mean": x}} for x in runs] for runs in by_agent] for by_agent in scores]
        numbers = [float(claim.of_task(by_agent)(task_measures.equal_weights(by_agent))[0]) for by_agent in tasks]
        low, high = claim_intervals.averaged_interval(claim.task_interval, tasks, numbers, dependent=False)
        found += low >= 0.25 and high <= 0.75, low > 0.75
    np.testing.assert_allclose(found / trials, [within, beyond], atol=0.1)


def test_even_odds_are_not_surpassed_by_rounding(tmp_path):
    same = [{"by": by} for by in (20, 40, 60)]
    made = [r for game in GAMES for name in ("impala_shallow", "other") for r in make_runs(name, *same, games=(game,))]
    row = make_row(tmp_path, made, task="atari5", protocol=TO_OTHER, **SPEED)
    assert row.value == 0.5
    won = make_runs("impala_shallow", *[{"by": 20}] * 3, games=GAMES) + make_runs("other", *[{}] * 3, games=GAMES)
    assert make_row(tmp_path, won, task="atari5", protocol=TO_OTHER, **SPEED).interval[1] == 1.0


TOGETHER = 30
"""Tasks that each run of an agent learns."""


def multitask_scores(rng, runs=5, tasks=TOGETHER, shared=0.5):
    """Scores [tasks, agents, runs] of two agents that do not differ; all tasks share this part of the variance."""
    of_all, own = rng.standard_normal((2, runs)), rng.standard_normal((tasks, 2, runs))
    return np.sqrt(shared) * of_all + np.sqrt(1 - shared) * own


@pytest.mark.slow
@pytest.mark.parametrize(("together", "at_least", "at_most"), [(True, 0.9, 0.99), (False, 0.0, 0.45)])
def test_runs_that_learned_all_tasks_are_resampled_on_all_of_them_at_once(together, at_least, at_most):
    """The difference of two agents is 0; tasks resampled apart would exclude it more often than not."""
    rng, trials = np.random.default_rng(7), 200
    claim = claim_kinds.Claim(
        lambda by_agent: lambda weights: weights[0] @ by_agent[0] - weights[1] @ by_agent[1],
        lambda numbers: numbers.mean(axis=0),
        resamples=999,
    )
    held = 0
    for _ in range(trials):
        low, high = claim_intervals.bootstrap_interval(claim, multitask_scores(rng), rng, together=[together] * 2)
        held += low <= 0.0 <= high
    assert at_least <= held / trials <= at_most


@pytest.mark.parametrize(("together", "at_least", "at_most"), [(True, 0.97, 1.0), (False, 0.0, 0.5)])
def test_improvement_over_tasks_learned_together_takes_them_as_dependent(together, at_least, at_most):
    rng, trials = np.random.default_rng(8), 200
    held = 0
    for _ in range(trials):
        scores = multitask_scores(rng)
        values = [float(statistics.wins(ours, theirs).mean()) for ours, theirs in scores]
        low, high = claim_intervals.averaged_interval(intervals.improvement_interval, scores, values, together)
        held += low <= 0.5 <= high
    assert at_least <= held / trials <= at_most


@pytest.mark.parametrize(
    ("together", "matched", "at_least", "at_most"),
    [
        ([True] * 2, True, 0.85, 0.99),
        pytest.param([True] * 2, False, 0.88, 1.0, marks=pytest.mark.slow),
        ([False] * 2, True, 0.0, 0.8),
    ],
)
def test_the_best_of_settings_that_are_the_same_on_all_tasks(monkeypatch, together, matched, at_least, at_most):
    """Two agents of twelve settings do not differ; tasks resampled apart would say so more often than one in twenty."""
    monkeypatch.setattr(statistics, "CURVE_RESAMPLES", 99)
    rng, trials, held = np.random.default_rng(9), 80, 0
    claim = claim_kinds.CLAIMS["improvement"]
    for _ in range(trials):
        scores = multitask_scores(rng, runs=12, tasks=6, shared=0.8)
        tasks = [[[{"evaluation": {"mean": x}} for x in runs] for runs in by_agent] for by_agent in scores]
        low, high = claim_intervals.reselected_interval(claim, tasks, 3, rng, together, matched)
        held += low <= 0.5 <= high
    assert at_least <= held / trials <= at_most


def multitask_runs(agent, shifts, experiment="atari_57", **changes):
    """Runs whose score on each game is 20 and a shift of their own, the same on all games."""
    runs = [changes | {"final": 20.0 + shift} for shift in shifts]
    return make_runs(agent, *runs, games=GAMES, experiment=experiment)


@pytest.mark.parametrize(
    ("experiment", "changes", "wide"),
    [("atari_57", {}, True), ("atari_shallow", {"delta": 1.0}, True), ("atari_shallow", {}, False)],
)
def test_the_interval_of_a_claim_is_over_runs_where_they_depend_on_each_other(tmp_path, experiment, changes, wide):
    """Shifts of -6 to 6 on all five games: they tell no more than one game where the games were learned together.

    Nor where the runs are of a search, whose settings are the same on all games; of separate runs, as much as five.
    """
    shifts = [-6.0, -3.0, 0.0, 3.0, 6.0]
    made = multitask_runs("impala_multitask", shifts, experiment=experiment, **changes)
    made += multitask_runs("other", [shift - 2 for shift in shifts], experiment=experiment, **changes)
    to_other = {"experiment": experiment, "agent": "impala_multitask", "protocol": TO_OTHER}
    players = random_records(GAMES, experiment=experiment)
    row = make_table(tmp_path, made, task="atari5", claim="score_difference", unit="u", value=0, better="above",
                     random=players, **to_other)[0]  # fmt: skip
    assert row.value == pytest.approx(2.0, abs=0.3)
    assert (row.interval[1] - row.interval[0] > 8.0) == wide
    row = make_table(tmp_path, made, task="atari5", claim="improvement", unit="u", value=0.5, better="above",
                     random=players, **to_other)[0]  # fmt: skip
    ends, reach = intervals.improvement_interval(row.value, 5, 5), intervals.reach_at_even_odds(5, 5)
    if not wide:
        ends = min(ends[0], row.value - reach), max(ends[1], row.value + reach)
    assert row.interval == pytest.approx(intervals.average([row.value] * 5, [ends] * 5, dependent=wide), abs=1e-3)


def test_runs_of_some_tasks_only_give_no_interval_over_those_learned_together(tmp_path):
    made = multitask_runs("impala_multitask", [-2.0, -1.0, 0.0, 1.0, 2.0, 3.0])
    made += multitask_runs("other", [-9.0, -8.0, -7.0, -6.0, -5.0, -4.0])
    names = {"experiment": "atari_57", "agent": "impala_multitask", "protocol": TO_OTHER}
    claimed = {"task": "atari5", "claim": "score_difference", "unit": "u", "value": 0, "better": "above"} | names
    row = make_table(tmp_path, made[1:], random=random_records(GAMES, experiment="atari_57"), **claimed)[0]
    assert (row.interval, row.verdict) == (None, "undecided")
    assert row.note == "an interval needs the same seeds on all tasks that an agent learns together or in a sweep"


def test_a_number_of_tasks_has_an_interval_where_a_run_of_a_search_is_missing(tmp_path):
    """Each task is decided on its own, so that the settings need not be the same."""
    made = multitask_runs("impala_shallow", range(20, 26), experiment="atari_shallow", delta=1.0)
    made += multitask_runs("other", range(-6, 0), experiment="atari_shallow", delta=1.0)
    row = make_row(tmp_path, made[1:], task="atari5", protocol=TO_OTHER, **(WON | {"value": 5}))
    assert (row.value, row.interval, row.note) == (5.0, (4.75, 5.25), "")


def test_the_largest_of_tasks_has_an_interval_where_a_run_of_one_is_missing(tmp_path):
    made = multitask_runs("impala_multitask", [-2.0, -1.0, 0.0, 1.0, 2.0])
    names = {"experiment": "atari_57", "agent": "impala_multitask", "protocol": {}}
    claimed = {"task": "atari5", "claim": "best_score", "unit": "game score", "value": 50, "better": "under"} | names
    row = make_table(tmp_path, made[1:], random=random_records(GAMES, experiment="atari_57"), **claimed)[0]
    assert row.interval is not None
    assert row.note == ""


def _games(true, noise, runs, rng):
    """One agent's runs on each game, with a contraction rate above its target by these means."""
    columns = ["contraction", "contraction_target"]
    return {
        f"game_{i}": [
            [{"series": {"columns": columns, "rows": [[mean + noise * rng.standard_normal(), 0.0]]}}
             for _ in range(runs)]
        ]
        for i, mean in enumerate(true)
    }  # fmt: skip


def test_the_largest_of_games_has_an_interval_of_its_own(monkeypatch):
    """With four runs on 57 games at the margin itself it is seldom surely above, where a bootstrap nearly always is.

    Nor is it surely below where a single game is above.
    """
    claim, rng = claim_kinds.CLAIMS["contraction_throughout"], np.random.default_rng(0)
    many = [list(_games([0.003] * 57, 0.001, 4, rng).values()) for _ in range(100)]
    ends = [claim_intervals.largest_interval(claim, tasks) for tasks in many]
    assert np.mean([low > 0.003 for low, _ in ends]) <= 0.05
    one = [list(_games([0.0] * 56 + [0.003], 0.001, 4, rng).values()) for _ in range(100)]
    ends = [claim_intervals.largest_interval(claim, tasks) for tasks in one]
    assert np.mean([high < 0.003 for _, high in ends]) <= 0.05
    resampled = claim_intervals.bootstrap_interval(claim, list(_games([0.003] * 57, 0.001, 4, rng).values()), rng)
    assert resampled[0] > 0.003
    far = _games([0.0, 0.0, 0.0, 0.03], 0.0005, 4, rng)
    low, high = claim_intervals.largest_interval(claim, list(far.values()))
    assert 0.003 < low < 0.03 < high
    equal = _games([0.0, 0.0], 0.0, 4, rng)
    assert claim_intervals.largest_interval(claim, list(equal.values())) is None
    without_spread = claim_intervals.largest_interval(claim, [*far.values(), *_games([0.0], 0.0, 4, rng).values()])
    assert 0.003 < without_spread[0] < 0.03 < without_spread[1]
    assert claim_intervals.largest_interval(claim, list(_games([0.0, 0.03], 0.0005, 3, rng).values())) is None


@pytest.mark.parametrize(("tasks", "expected"), [(1, 4), (5, 5), (10, 6), (57, 7)])
def test_runs_that_can_be_ordered_are_as_few_as_that(tasks, expected):
    """Of 4 and 4 runs one order in 70 is by chance, below 2.5 %; of 3 and 3 one in 20."""
    count = claim_intervals.runs_to_order(tasks)
    assert count == expected
    enough, fewer = ([[{}] * number] * 2 for number in (count, count - 1))
    assert claim_intervals.can_be_ordered(enough, tasks)
    assert not claim_intervals.can_be_ordered(fewer, tasks)
