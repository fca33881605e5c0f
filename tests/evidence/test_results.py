"""Results: values, intervals and budgets of one task, and of all tasks of an aggregate."""

import copy
import dataclasses
import json

import numpy as np
import pytest

from repro.evidence import intervals, published, results, rows, statistics
from tests.evidence.claim_rows import AnsweredRows
from tests.evidence.printed_rows import full_runs, make_one, make_row
from tests.evidence.synthetic_records import make_groups, make_record


@pytest.fixture(scope="module")
def all_games():
    """Four seeds of every game but one, and the last game's."""
    references = published.normaliser("atari57")
    made = []
    for i, (game, scores) in enumerate(references.items()):
        final = scores["random"] + (i / 20) * (scores["human"] - scores["random"])
        made += [make_record(seed, game, final=final) for seed in (1, 2, 3, 4)]
    return made[:-4], made[-4:]


def _table_4(made, statistic):
    wanted = (statistic, "impala_shallow", "4")
    printed = [row for row in published.load("impala").rows if (row.statistic, row.agent, row.table) == wanted]
    (row,) = AnsweredRows(printed, made).values()
    return row


@pytest.mark.parametrize("statistic", ["median", "mean"])
def test_aggregate_follows_from_all_tasks_with_the_row_s_normaliser(all_games, statistic):
    made = [*all_games[0], *all_games[1]]
    row = _table_4(made, statistic)
    names = {"median": "atari57", "mean": "atari57_table4_means"}
    references = published.normaliser(names[statistic])
    scores = [
        np.mean([(r["evaluation"]["mean"] - low) / (high - low) for r in made if r["task"] == game])
        for game, (low, high) in ((game, (s["random"], s["human"])) for game, s in references.items())
    ]
    assert row.value == pytest.approx(100 * getattr(np, statistic)(scores))
    assert row.interval[0] < row.value < row.interval[1]
    assert (row.interval_over, row.seeds, row.episodes) == ("seeds", (1, 2, 3, 4), 200)
    assert row.share == pytest.approx(made[0]["num_env_frames"] / 200e6)
    assert row.finding == "undecided"  # four runs, and the interval is below with little training
    assert row.shortfalls[0] == "4 % of the budget"


def test_aggregate_with_one_run_a_task_has_its_interval_over_games(monkeypatch, all_games):
    monkeypatch.setattr(statistics, "RESAMPLES", 999)
    row = _table_4([*all_games[0][::4], *all_games[1][:1]], "median")
    assert (row.interval_over, row.seeds, row.note) == ("episodes", (1,), "")
    assert row.interval[0] < row.value < row.interval[1]


def test_aggregate_with_one_run_of_some_tasks_has_value_and_interval_from_all_of_them(monkeypatch, all_games):
    monkeypatch.setattr(statistics, "RESAMPLES", 999)
    made = [*copy.deepcopy(all_games[0]), *all_games[1][:1]]
    for record in made:
        if record["seed"] > 1:
            evaluation = record["evaluation"]
            higher = [x + 1000.0 for x in evaluation["returns"]]
            evaluation |= {"mean": float(np.mean(higher)), "returns": higher}
    row = _table_4(made, "median")
    assert (row.interval_over, row.seeds, row.note) == ("episodes", (1,), "")
    assert row.interval[0] < row.value < row.interval[1]


def test_no_further_run_takes_the_interval_from_an_aggregate_that_the_paper_has_of_one_run(monkeypatch, all_games):
    monkeypatch.setattr(statistics, "RESAMPLES", 999)
    made, scores = [*all_games[0], *all_games[1]], published.normaliser("atari57")
    (printed,) = (
        dataclasses.replace(row, n_seeds=1)
        for row in published.load("impala").rows
        if (row.statistic, row.agent, row.table) == ("median", "impala_shallow", "4")
    )
    over = []
    for runs in (1, 2, 3, 4):
        groups = make_groups([record for record in made if record["seed"] <= runs])
        fields = results.answer_aggregate(printed, groups, scores, None).fields
        assert fields["interval"][0] < fields["value"] < fields["interval"][1]
        over.append(fields["interval_over"])
    assert over == ["episodes", "episodes", "episodes", "seeds"]


def test_aggregate_with_three_runs_of_one_task_has_no_interval(all_games):
    row = _table_4([*all_games[0], *all_games[1][:3]], "median")
    assert (row.interval, row.verdict, row.note) == (None, "undecided", "an interval needs 4 runs on each task")


@pytest.mark.parametrize(
    ("runs", "sampled", "note"),
    [
        (1, {}, "no interval, since all games give the same number"),
        (4, {}, "no interval, since all runs give the same number"),
        (
            4,
            {"sampled_hparams": {"loss.entropy_cost": 0.01}},
            "an interval needs the same seeds on all tasks that are learned together or in a sweep",
        ),
    ],
)
def test_aggregate_without_interval_says_why(all_games, runs, sampled, note):
    made = [copy.deepcopy(record) | sampled for record in (*all_games[0], *all_games[1]) if record["seed"] <= runs]
    for record in made:
        evaluation = record["evaluation"]
        evaluation |= {"mean": 900.0, "returns": [900.0] * evaluation["episodes"]}
    if sampled:
        made[-1]["seed"] = 5
    row = _table_4(made, "median")
    assert (row.interval, row.note) == (None, note)


def test_a_mean_without_interval_says_why(tmp_path):
    made = full_runs(5)
    assert make_one(tmp_path, made).no_interval == ""
    for record in made:
        record["evaluation"] |= {"mean": 7.0, "returns": [7.0] * record["evaluation"]["episodes"]}
    for runs in (made, made[:1]):
        row = make_one(tmp_path, runs)
        assert (row.interval, row.no_interval) == (None, "equal scores")
    made[0]["evaluation"] |= {"returns": [7.0], "episodes": 1}
    assert make_one(tmp_path, made[:1]).no_interval == "one score"


def test_of_the_best_runs_of_a_sweep_those_that_end_best_count_and_the_row_says_of_how_many(tmp_path):
    made = full_runs(5)  # the later the seed, the higher the score
    seeds = make_one(tmp_path, made, n_seeds=24, protocol={"best": 3})
    assert (seeds.value, seeds.note) == (pytest.approx(np.mean([r["evaluation"]["mean"] for r in made])), "")
    assert "no search of settings" in seeds.shortfalls  # whose best would be chosen by chance
    for record in made:
        record["sampled_hparams"] = {"learner.learning_rate": 1e-3}
    every = make_one(tmp_path, made, n_seeds=24)
    best = make_one(tmp_path, made, n_seeds=24, protocol={"best": 3})
    scores = [record["evaluation"]["mean"] for record in made]
    assert every.value == pytest.approx(np.mean(scores))
    assert best.value == pytest.approx(np.mean(sorted(scores)[2:]))
    assert best.seeds == every.seeds == (1, 2, 3, 4, 5)
    assert "5 of 24 runs" in best.shortfalls
    assert (every.note, best.note) == ("", "the best 3 of 5 runs count")
    ends = intervals.best_interval(scores, 3, np.random.default_rng(results.BOOTSTRAP_SEED))
    assert (best.interval, best.no_interval) == (pytest.approx(ends), "")
    few = make_one(tmp_path, made[:3], n_seeds=24, protocol={"best": 3})
    assert (few.value, few.note) == (pytest.approx(np.mean(scores[:3])), "")
    for record in made:
        record["evaluation"] |= {"mean": 7.0, "returns": [7.0] * record["evaluation"]["episodes"]}
    equal = make_one(tmp_path, made, n_seeds=24, protocol={"best": 3})
    assert (equal.value, equal.interval, equal.no_interval) == (7.0, None, "equal scores")


def test_aggregate_is_not_run_before_its_last_task(all_games):
    row = _table_4(all_games[0], "median")
    assert (row.value, row.verdict) == (None, "not run")
    assert row.note == "56 of the 57 tasks have a record"


@pytest.mark.parametrize(
    ("measure", "expected"), [("frames_per_second", 14000.0), ("wall_minutes", 200e6 / 14000 / 60)]
)
def test_rates_and_times_are_taken_from_the_run(tmp_path, measure, expected):
    record = make_record(1, scale="paper")
    table = {"title": "t", "source": "s", "confidence": "c", "unit": "x", "protocol": {}, "measure": measure}
    printed = {"table": "1", "task": "pong", "column": "c", "value": 1.0, "n_seeds": 1, "better": "less"}
    printed |= {"experiment": "atari_shallow", "agent": "impala_shallow"}
    data = {"paper": "impala", "title": "T", "citation": "C", "tables": {"1": table}, "rows": [printed]}
    (tmp_path / "impala.json").write_text(json.dumps(data))
    (row,) = rows.make_rows(make_groups([record]), published_dir=tmp_path)
    assert row.value == pytest.approx(expected)
    assert (row.interval, row.verdict) == (None, "undecided")  # one run has no interval


def test_several_seeds_are_averaged_and_the_interval_is_over_them():
    made = [make_record(seed, final=final) for seed, final in ((3, 1.0), (1, 5.0), (2, 3.0))]
    row = make_row(*made)
    means = [record["evaluation"]["mean"] for record in (made[1], made[2], made[0])]
    assert row.value == pytest.approx(np.mean(means))
    assert row.seeds == (1, 2, 3)
    assert row.interval_over == "seeds"
    assert row.interval == intervals.mean_interval(means)
    assert row.command == "make reproduce-impala EXPERIMENT=atari_shallow TASK=pong SCALE=desk SEEDS=3"


def test_one_seed_has_an_interval_over_its_games():
    record = make_record(1)
    row = make_row(record)
    assert row.interval_over == "episodes"
    games = record["evaluation"]["returns"]
    assert row.interval == intervals.mean_interval(games)


def test_one_seed_and_one_game_have_no_interval():
    row = make_row(make_record(1, episodes=1))
    assert (row.interval, row.verdict) == (None, "undecided")


def test_the_interval_of_a_record_goes_before_that_of_its_returns():
    record = make_record(1)
    stated = [record["evaluation"]["mean"] - 3.0, record["evaluation"]["mean"] + 9.0]
    record["evaluation"]["interval"] = stated
    row = make_row(record)
    assert row.interval_over == "episodes"
    assert row.interval == tuple(stated)
    made = full_runs(3)
    for several in made:
        several["evaluation"]["interval"] = stated
    row = make_row(*made)
    over_seeds = intervals.mean_interval([several["evaluation"]["mean"] for several in made])
    assert (row.interval_over, row.interval) == ("seeds", over_seeds)


def test_a_second_seed_of_a_study_takes_no_interval_away():
    """Both have the same share, or the same best one of a set: over the two seeds there is no spread."""
    made = full_runs(2)
    for record in made:
        record["schedule"] = "study"
        record["evaluation"] |= {"unit": "1 if it holds", "returns": [1.0] * 9 + [0.0], "mean": 0.9}
    fields = results.summarize_runs(made, None)
    assert (fields["interval_over"], fields["interval"]) == ("repetitions", intervals.share_interval(18, 20))
    for record in made:
        record["evaluation"] |= {"unit": "alpha", "interval": [0.8, 0.95]}
    fields = results.summarize_runs(made, None)
    assert fields["interval_over"] == "resamples"
    assert fields["interval"] == pytest.approx((0.9 - 0.1 / 2**0.5, 0.9 + 0.05 / 2**0.5))


@pytest.mark.parametrize(
    ("episodes", "interval", "over"), [(50, False, "repetitions"), (50, True, "resamples"), (1, True, "repetitions")]
)
def test_a_study_that_states_its_interval_has_resamples_or_one_exact_value(episodes, interval, over):
    record = make_record(1, episodes=episodes, schedule="study")
    if interval:
        record["evaluation"]["interval"] = [record["evaluation"]["mean"]] * 2
    assert make_row(record).interval_over == over


def test_interval_does_not_depend_on_other_rows():
    pong = make_record(1, "pong")
    assert make_row(pong).interval == make_row(make_record(1, "breakout", final=20.0), pong).interval


def test_share_is_that_of_the_shortest_run():
    row = make_row(make_record(1, budget=40_000_000), make_record(2, budget=30_000_000))
    assert (row.budget, row.published_budget, row.share) == (30_000_000, 200_000_000, 0.15)
    assert row.shortfalls[0] == "15 % of the budget"


def test_wrong_unit_is_not_compared():
    record = make_record(1, scale="paper")
    row = make_row(record | {"evaluation": record["evaluation"] | {"unit": "percent"}})
    assert (row.verdict, row.value) == ("not run", None)
    assert "records are in percent, the paper in game score" in row.note


def test_aggregate_waits_for_its_tasks():
    groups = make_groups([make_record(1, "pong"), make_record(1, "breakout")])
    made = rows.make_rows(groups)

    def one(*wanted):
        (found,) = (r for r in made if (r.statistic, r.agent, r.table) == wanted)
        return found.verdict, found.note

    assert one("median", "impala_shallow", "4") == ("not run", "2 of the 57 tasks have a record")
    verdict, note = one("mean", "impala_shallow", "Section 5.3.2")  # of minutes
    assert verdict == "cannot run here"
    assert note.startswith("2 of the 57 tasks have a record; needs a machine that trains at 55,000 frames a second")


def test_all_runs_behind_an_exact_row_are_exact(tmp_path):
    made = [make_record(seed, scale="paper", episodes=1, schedule="study") for seed in (1, 2)]
    made[0]["evaluation"]["exact"] = True
    assert not make_one(tmp_path, made).exact
    made[1]["evaluation"]["exact"] = True
    assert make_one(tmp_path, made).exact


def test_the_interval_of_one_seed_is_over_its_games_and_that_of_more_over_the_seeds(tmp_path):
    one, five = full_runs(1), full_runs(5)
    row = make_one(tmp_path, one)
    assert (row.interval_over, row.interval) == ("episodes", intervals.mean_interval(one[0]["evaluation"]["returns"]))
    row = make_one(tmp_path, five)
    means = [record["evaluation"]["mean"] for record in five]
    assert (row.interval_over, row.interval) == ("seeds", intervals.mean_interval(means))


@pytest.mark.parametrize(
    ("experiment", "agent", "more"),
    [
        ("atari_57", "impala_multitask", {}),  # tasks learned together
        ("atari_shallow", "impala_shallow", {"sampled_hparams": {"loss.entropy_cost": 0.01}}),  # a sweep
    ],
)
def test_the_interval_of_tasks_that_depend_on_each_other_is_over_whole_runs(experiment, agent, more):
    """Where a seed is as good on all games, the interval of the aggregate is as wide as that of one game."""
    references = published.normaliser("atari57")
    made = [
        make_record(seed, game, experiment=experiment, agent=agent, final=r + share * (h - r), **more)
        for game, (r, h) in ((game, (of["random"], of["human"])) for game, of in references.items())
        for seed, share in ((1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4))
    ]
    found = rows.make_rows(make_groups(made), papers=["impala"])
    (median,) = (row for row in found if (row.agent, row.statistic, row.table) == (agent, "median", "4"))
    low, high = statistics.stratified_interval(
        {"one": [10.0, 20.0, 30.0, 40.0]}, statistics.median, np.random.default_rng(results.BOOTSTRAP_SEED)
    )
    assert median.value == pytest.approx(25.0, abs=1.0)  # returns of a record are scattered
    assert median.interval == pytest.approx((low, high), abs=2.0)


def test_an_aggregate_of_tasks_learned_together_says_what_those_at_hand_give():
    """The median of two tasks is the mean of their human-normalised scores."""
    references = published.normaliser("atari57")
    finals = {game: references[game]["human"] for game in ("breakout", "pong")}
    made = [
        make_record(1, game, experiment="atari_57", agent="impala_multitask", final=final)
        for game, final in finals.items()
    ]
    found = rows.make_rows(make_groups(made), papers=["impala"])
    (median,) = (row for row in found if (row.agent, row.statistic, row.table) == ("impala_multitask", "median", "4"))
    assert (median.value, median.verdict) == (None, "not run")
    assert median.note.startswith("2 of the 57 tasks have a record, with a median score of ")
    scores = [
        (record["evaluation"]["mean"] - references[record["task"]]["random"])
        / (references[record["task"]]["human"] - references[record["task"]]["random"])
        for record in made
    ]
    assert float(median.note.split()[-2]) == pytest.approx(50 * sum(scores), abs=0.06)
