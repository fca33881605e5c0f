"""Rows: what is averaged, what the interval is over, what is left out and said."""

import copy
import json
import pathlib

import numpy as np
import pytest

from repro.evidence import published, records, rows, staleness
from repro.evidence.statistics import bootstrap_interval
from tests.evidence.synthetic_records import make_record


def _stored(*made):
    return [records.StoredRecord(records.record_path("results", "p", "e", "t", "a", 0), record) for record in made]


def _row(*made, task="pong"):
    (row,) = (row for row in rows.rows_for(_stored(*made)) if row.task == task)
    return row


def _with_config(record, **learner):
    config = copy.deepcopy(record["config"])
    config["learner"] |= learner
    return record | {"config": config, "config_sha256": records.config_sha256(config)}


def test_every_published_number_has_a_row_without_any_record():
    made = rows.make_rows({})
    assert [row.paper for row in made] == [paper for paper in published.papers() for _ in published.load(paper).rows]
    assert {row.verdict for row in made} == {"not run", None}  # None: a cell printed as not available
    pong = next(row for row in made if (row.task, row.agent) == ("pong", "impala_shallow"))
    assert (pong.published, pong.random, pong.human, pong.value, pong.seeds) == (20.4, -20.7, 14.6, None, ())
    assert pong.command == "make reproduce-impala EXPERIMENT=atari_shallow TASK=pong SCALE=desk SEEDS=3"


@pytest.fixture(scope="module")
def all_games():
    """Two seeds of every game but one, and the last game's."""
    references = published.normaliser("atari57")
    made = []
    for i, (game, scores) in enumerate(references.items()):
        final = scores["random"] + (i / 20) * (scores["human"] - scores["random"])
        made += [make_record(seed, game, final=final) for seed in (1, 2)]
    return made[:-2], made[-2:]


def _table_4(made, statistic):
    groups = rows.group_records(_stored(*made))
    wanted = (statistic, "impala_shallow", "4")
    (row,) = (r for r in rows.make_rows(groups) if (r.statistic, r.agent, r.table) == wanted)
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
    assert (row.interval_over, row.seeds, row.episodes) == ("seeds", (1, 2), 200)
    assert row.share == pytest.approx(made[0]["frames"] / 200e6)
    assert row.verdict == "partial"


def test_aggregate_with_one_run_a_task_has_its_interval_over_games(all_games):
    row = _table_4([*all_games[0][::2], *all_games[1][:1]], "median")
    assert (row.interval_over, row.seeds) == ("games", (1,))
    assert row.interval[0] < row.value < row.interval[1]


def test_aggregate_is_not_run_before_its_last_task(all_games):
    row = _table_4(all_games[0], "median")
    assert (row.value, row.verdict, row.note) == (None, "not run", "56 of the 57 tasks have a record")


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
    (row,) = rows.make_rows(rows.group_records(_stored(record)), published_dir=tmp_path)
    assert row.value == pytest.approx(expected)
    assert row.verdict == "partial"  # one run has no interval


def test_experiment_without_a_config_has_no_command(tmp_path):
    made = rows.make_rows({}, configs_dir=tmp_path)
    assert {row.command for row in made} == {None}


def test_several_seeds_are_averaged_and_the_interval_is_over_them():
    made = [make_record(seed, final=final) for seed, final in ((3, 1.0), (1, 5.0), (2, 3.0))]
    row = _row(*made)
    means = [record["evaluation"]["mean"] for record in (made[1], made[2], made[0])]
    assert row.value == pytest.approx(np.mean(means))
    assert row.seeds == (1, 2, 3)
    assert row.interval_over == "seeds"
    assert row.interval == bootstrap_interval(means, np.random.default_rng(rows.BOOTSTRAP_SEED))
    assert row.command == "make reproduce-impala EXPERIMENT=atari_shallow TASK=pong SCALE=desk SEEDS=3"


def test_one_seed_has_an_interval_over_its_games():
    record = make_record(1)
    row = _row(record)
    assert row.interval_over == "games"
    games = record["evaluation"]["returns"]
    assert row.interval == bootstrap_interval(games, np.random.default_rng(rows.BOOTSTRAP_SEED))


def test_one_seed_and_one_game_have_no_interval():
    row = _row(make_record(1, episodes=1))
    assert (row.interval, row.verdict) == (None, "partial")


def test_the_interval_of_a_record_goes_before_that_of_its_returns():
    record = make_record(1)
    stated = [record["evaluation"]["mean"] - 3.0, record["evaluation"]["mean"] + 9.0]
    record["evaluation"]["interval"] = stated
    row = _row(record)
    assert row.interval_over == "games"
    assert row.interval == tuple(stated)


@pytest.mark.parametrize(
    ("episodes", "interval", "over"), [(50, False, "repetitions"), (50, True, "resamples"), (1, True, "repetitions")]
)
def test_a_study_that_states_its_interval_has_resamples_or_one_exact_value(episodes, interval, over):
    record = make_record(1, episodes=episodes, schedule="study")
    if interval:
        record["evaluation"]["interval"] = [record["evaluation"]["mean"]] * 2
    assert _row(record).interval_over == over


def test_interval_does_not_depend_on_other_rows():
    pong = make_record(1, "pong")
    assert _row(pong).interval == _row(make_record(1, "breakout", final=20.0), pong).interval


def test_share_is_that_of_the_shortest_run():
    row = _row(make_record(1, frames=40_000_000), make_record(2, frames=30_000_000))
    assert (row.budget, row.published_budget, row.share) == (30_000_000, 200_000_000, 0.15)
    assert row.verdict == "partial"


def test_full_budget_is_judged():
    assert _row(make_record(1, scale="paper", final=21.0)).verdict == "reproduced"
    assert _row(make_record(1, scale="paper", final=15.0)).verdict == "below"
    assert _row(make_record(1, scale="paper", final=21.0, episodes=50)).verdict == "partial"


def test_stale_record_is_said_and_not_counted():
    stale = _with_config(make_record(1, scale="paper"), learning_rate=1.0)
    row = _row(stale)
    assert (row.verdict, row.value, row.seeds) == ("not run", None, ())
    assert row.note.startswith("seed 1 is stale: learner.learning_rate was 1.0 and is ")
    assert _row(stale, make_record(2, scale="paper")).seeds == (2,)


def test_stale_records_are_listed_by_path_with_their_reasons():
    made = {seed: _with_config(make_record(seed), learning_rate=1.0) for seed in (2, 1)} | {3: make_record(3)}
    stored = [records.StoredRecord(pathlib.Path(f"seed_{seed}.json"), record) for seed, record in made.items()]
    found = rows.stale_records(rows.group_records(stored))
    assert [path.name for path in found] == ["seed_1.json", "seed_2.json"]
    assert all(reason.startswith("learner.learning_rate was 1.0") for reason in found.values())


def test_only_the_largest_scale_is_averaged():
    row = _row(make_record(1, scale="desk", final=-10.0), make_record(2, scale="paper", final=21.0))
    assert (row.scale, row.seeds, row.value > 20) == ("paper", (2,), True)
    assert row.note == "runs of scale desk, seeds 1, are not averaged with these"


def test_runs_that_answer_no_number_have_a_row_for_each_scale():
    made = [make_record(1, scale="desk", final=-10.0), make_record(2, scale="paper", final=21.0)]
    stored = [records.StoredRecord(pathlib.Path("r"), record | {"agent": "another"}) for record in made]
    found = [row for row in rows.make_rows(rows.group_records(stored)) if row.agent == "another"]
    assert [(row.scale, row.seeds) for row in found] == [("paper", (2,)), ("desk", (1,))]
    assert ["SCALE=paper" in found[0].command, "SCALE=desk" in found[1].command] == [True, True]


def test_wrong_unit_is_not_compared():
    record = make_record(1, scale="paper")
    row = _row(record | {"evaluation": record["evaluation"] | {"unit": "percent"}})
    assert (row.verdict, row.value) == ("not run", None)
    assert "records are in percent, the paper in game score" in row.note


def test_run_that_answers_no_number_has_a_row_without_verdict():
    row = _row(make_record(1, agent="impala_leaky"))
    assert (row.published, row.verdict, row.agent) == (None, None, "impala_leaky")
    assert row.value == pytest.approx(15.0, abs=1)


def test_aggregate_waits_for_its_tasks():
    groups = rows.group_records(_stored(make_record(1, "pong"), make_record(1, "breakout")))
    made = rows.make_rows(groups)
    wanted = ("median", "impala_shallow", "4")
    (median,) = (r for r in made if (r.statistic, r.agent, r.table) == wanted)
    assert (median.verdict, median.note) == ("not run", "2 of the 57 tasks have a record")


def test_rows_for_gives_only_what_the_records_answer():
    made = rows.rows_for(_stored(make_record(1, "pong"), make_record(1, "breakout")))
    assert [row.task for row in made] == ["breakout", "pong"]


def test_rows_for_gives_the_claims_that_the_records_decide():
    """As after `make reproduce-refer AGENT=vracer_refer,vracer_er SEEDS=2`."""
    config = staleness.current_config("refer", "figure_4_vracer", "desk")
    made = [
        make_record(seed, agent=agent, final=final + seed, config=config, experiment="figure_4_vracer")
        | {"paper": "refer", "task": "HalfCheetah"}
        for agent, final in (("vracer_refer", 15.0), ("vracer_er", 5.0))
        for seed in (1, 2)
    ]
    found = {(row.task, row.column or row.agent): row.value for row in rows.rows_for(_stored(*made))}
    assert found.pop(("mujoco_gym", "V-RACER, ReF-ER over ER")) == 1.0
    assert set(found) == {("HalfCheetah", "vracer_refer"), ("HalfCheetah", "vracer_er")}


def test_experiment_filter():
    made = rows.make_rows({}, experiment="atari_deep")
    assert {row.experiment for row in made} == {"atari_deep"}
    assert {row.table for row in made} >= {"C.1", "4"}
    assert len([row for row in made if row.table == "C.1"]) == 57
