"""Rows: what is averaged, what the interval is over, what is left out and said."""

import copy
import dataclasses
import json
import pathlib

import numpy as np
import pytest

from repro.evidence import intervals, published, records, rows, staleness
from repro.evidence.groups import group_records, stale_records
from repro.evidence.sentences import sentences
from tests.evidence.synthetic_records import make_record, random_records


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
    # None: a cell printed as not available
    assert {row.verdict for row in made} - {"cannot run here"} == {"not run", None}
    assert {row.shortfalls for row in made} == {row.settings for row in made} == {()}
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
    groups = group_records(_stored(*made))
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
    assert row.share == pytest.approx(made[0]["num_env_frames"] / 200e6)
    assert row.finding == "undecided"  # two runs, and the interval is below with little training
    assert row.shortfalls[0] == "4 % of the budget"


def test_aggregate_with_one_run_a_task_has_its_interval_over_games(all_games):
    row = _table_4([*all_games[0][::2], *all_games[1][:1]], "median")
    assert (row.interval_over, row.seeds) == ("episodes", (1,))
    assert row.interval[0] < row.value < row.interval[1]


def test_aggregate_is_not_run_before_its_last_task(all_games):
    row = _table_4(all_games[0], "median")
    assert (row.value, row.verdict) == (None, "cannot run here")
    assert row.note.startswith("56 of the 57 tasks have a record; needs 57 games at 200 million frames")


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
    (row,) = rows.make_rows(group_records(_stored(record)), published_dir=tmp_path)
    assert row.value == pytest.approx(expected)
    assert (row.interval, row.verdict) == (None, "undecided")  # one run has no interval


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
    assert row.interval == intervals.mean_interval(means)
    assert row.command == "make reproduce-impala EXPERIMENT=atari_shallow TASK=pong SCALE=desk SEEDS=3"


def test_one_seed_has_an_interval_over_its_games():
    record = make_record(1)
    row = _row(record)
    assert row.interval_over == "episodes"
    games = record["evaluation"]["returns"]
    assert row.interval == intervals.mean_interval(games)


def test_one_seed_and_one_game_have_no_interval():
    row = _row(make_record(1, episodes=1))
    assert (row.interval, row.verdict) == (None, "undecided")


def test_the_interval_of_a_record_goes_before_that_of_its_returns():
    record = make_record(1)
    stated = [record["evaluation"]["mean"] - 3.0, record["evaluation"]["mean"] + 9.0]
    record["evaluation"]["interval"] = stated
    row = _row(record)
    assert row.interval_over == "episodes"
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
    row = _row(make_record(1, budget=40_000_000), make_record(2, budget=30_000_000))
    assert (row.budget, row.published_budget, row.share) == (30_000_000, 200_000_000, 0.15)
    assert row.shortfalls[0] == "15 % of the budget"


def test_full_budget_is_judged():
    assert _row(*_seeds(5, final=21.0)).verdict == "reproduced"
    assert _row(*_seeds(5, final=15.0)).verdict == "contradicts"
    few = _row(*_seeds(5, final=21.0, episodes=50))
    assert (few.verdict, few.shortfalls) == ("agrees", ("50 of 200 episodes",))


def test_stale_record_is_said_and_not_counted():
    stale = _with_config(make_record(1, scale="paper"), learning_rate=1.0)
    row = _row(stale)
    assert (row.verdict, row.value, row.seeds) == ("not run", None, ())
    assert row.note.startswith("seed 1 is stale: learner.learning_rate was 1.0 and is ")
    assert _row(stale, make_record(2, scale="paper")).seeds == (2,)


def test_stale_records_are_listed_by_path_with_their_reasons():
    made = {seed: _with_config(make_record(seed), learning_rate=1.0) for seed in (2, 1)} | {3: make_record(3)}
    stored = [records.StoredRecord(pathlib.Path(f"seed_{seed}.json"), record) for seed, record in made.items()]
    found = stale_records(group_records(stored))
    assert [path.name for path in found] == ["seed_1.json", "seed_2.json"]
    assert all(reason.startswith("learner.learning_rate was 1.0") for reason in found.values())


def test_only_the_largest_scale_is_averaged():
    row = _row(make_record(1, scale="desk", final=-10.0), make_record(2, scale="paper", final=21.0))
    assert (row.scale, row.seeds, row.value > 20) == ("paper", (2,), True)
    assert row.note == "runs of scale desk, seeds 1, are not averaged with these"


def test_runs_that_answer_no_number_have_a_row_for_each_scale():
    made = [make_record(1, scale="desk", final=-10.0), make_record(2, scale="paper", final=21.0)]
    stored = [records.StoredRecord(pathlib.Path("r"), record | {"agent": "another"}) for record in made]
    found = [row for row in rows.make_rows(group_records(stored)) if row.agent == "another"]
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
    groups = group_records(_stored(make_record(1, "pong"), make_record(1, "breakout")))
    made = rows.make_rows(groups)
    wanted = ("median", "impala_shallow", "4")
    (median,) = (r for r in made if (r.statistic, r.agent, r.table) == wanted)
    assert median.verdict == "cannot run here"
    assert median.note.startswith("2 of the 57 tasks have a record; needs 57 games")


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
    changed = {"config": config, "experiment": "figure_4_vracer"}
    (random,) = random_records(**changed)
    random |= {"paper": "refer", "task": "HalfCheetah"}
    found = {(row.task, row.column or row.agent): row.value for row in rows.rows_for(_stored(*made, random))}
    assert found.pop(("mujoco_gym", "V-RACER, ReF-ER over ER")) == 1.0
    assert set(found) == {("HalfCheetah", "vracer_refer"), ("HalfCheetah", "vracer_er"), ("HalfCheetah", "random")}


def test_rows_for_reads_the_random_players_of_other_records_and_shows_only_its_own():
    config = staleness.current_config("refer", "figure_4_vracer", "desk")
    changed = {"config": config, "experiment": "figure_4_vracer"}
    own = [
        make_record(seed, agent=agent, final=final + seed, **changed) | {"paper": "refer", "task": "HalfCheetah"}
        for agent, final in (("vracer_refer", 15.0), ("vracer_er", 5.0))
        for seed in (1, 2)
    ]
    (random,) = random_records(**changed)
    random |= {"paper": "refer", "task": "HalfCheetah"}
    elsewhere = make_record(1, agent="ppo", **changed) | {"paper": "refer", "task": "Hopper"}
    others = _stored(random, *random_records(), elsewhere, *own)
    agents = [("HalfCheetah", "vracer_er"), ("HalfCheetah", "vracer_refer")]
    alone = rows.rows_for(_stored(*own))
    assert sorted((row.task, str(row.agent)) for row in alone) == agents
    found = rows.rows_for(_stored(*own), others=others)
    assert sorted((row.task, str(row.agent)) for row in found if row.claim is None) == agents
    assert [row.value for row in found if row.column == "V-RACER, ReF-ER over ER"] == [1.0]


def test_experiment_filter():
    made = rows.make_rows({}, experiment="atari_deep")
    assert {row.experiment for row in made} == {"atari_deep"}
    assert {row.table for row in made} >= {"C.1", "4"}
    assert len([row for row in made if row.table == "C.1"]) == 57


PRINTED = {
    "table": "1",
    "task": "pong",
    "column": "c",
    "value": 15.0,
    "n_seeds": None,
    "experiment": "atari_shallow",
    "agent": "impala_shallow",
}


def _table(tmp_path, made, *changed, settings=(), references=None):
    """The rows of printed numbers, each with some fields changed, that these records give."""
    table = {"title": "t", "source": "s", "confidence": "c", "unit": "game score", "protocol": {}}
    data = {"paper": "impala", "title": "T", "citation": "C", "tables": {"1": table}}
    data["rows"] = [PRINTED | {"column": f"c{i}"} | change for i, change in enumerate(changed)]
    data["setting_tables"] = {"S": {"title": "t", "source": "s", "confidence": "c"}}
    data["settings"] = [{"table": "S", "experiments": ["atari_shallow"]} | setting for setting in settings]
    if references is not None:
        (tmp_path / "normalisers").mkdir(exist_ok=True)
        (tmp_path / "normalisers" / "n.json").write_text(json.dumps({"tasks": references}))
        published.normaliser.cache_clear()
    (tmp_path / "impala.json").write_text(json.dumps(data))
    published.load.cache_clear()
    return rows.make_rows(group_records(_stored(*made)), published_dir=tmp_path)[: len(changed)]


def _one(tmp_path, made, settings=(), references=None, **change):
    return _table(tmp_path, made, change, settings=settings, references=references)[0]


def _seeds(count, final=15.0, **changes):
    return [make_record(seed, final=final + 0.1 * seed, scale="paper", **changes) for seed in range(1, count + 1)]


@pytest.mark.parametrize(
    ("runs", "n_seeds", "finding", "shortfalls"),
    [
        (5, None, "agrees", ()),
        (4, None, "undecided", ("4 of 5 runs",)),
        (1, None, "undecided", ("1 of 5 runs",)),
        (1, 1, "agrees", ()),  # over games
        (2, 3, "undecided", ("2 of 3 runs",)),
        (3, 3, "agrees", ()),
        (4, 10, "undecided", ("4 of 10 runs",)),
        (5, 10, "agrees", ("5 of 10 runs",)),
    ],
)
def test_no_finding_below_five_runs_or_the_paper_s(tmp_path, runs, n_seeds, finding, shortfalls):
    row = _one(tmp_path, _seeds(runs), value=10.0, n_seeds=n_seeds)
    assert (row.finding, row.shortfalls) == (finding, shortfalls)
    assert row.verdict == ("reproduced" if finding == "agrees" and not shortfalls else finding)


@pytest.mark.parametrize(
    ("better", "value", "share", "finding"),
    [
        ("more", 10.0, 1.0, "agrees"),
        ("more", 20.0, 1.0, "contradicts"),
        ("more", 20.0, 0.5, "undecided"),  # more training may reach it
        ("more", 20.0, 0.9995, "contradicts"),  # a whole batch
        ("more", 10.0, 0.5, "agrees"),
        ("less", 20.0, 0.5, "agrees"),
        ("less", 10.0, 0.5, "undecided"),
    ],
)
def test_a_score_that_is_not_reached_with_less_training_is_undecided(tmp_path, better, value, share, finding):
    made = _seeds(5)
    protocol = {"budget": round(made[0]["num_env_frames"] / share)}
    row = _one(tmp_path, made, value=value, better=better, protocol=protocol)
    assert (row.finding, row.share) == (finding, pytest.approx(share))
    assert row.shortfalls == (("50 % of the budget",) if share == 0.5 else ())


def test_the_scale_stands_for_a_budget_that_is_not_printed(tmp_path):
    made = [make_record(seed, final=15.0 + 0.1 * seed) for seed in range(1, 6)]
    assert _one(tmp_path, made, value=10.0).shortfalls == ("scale desk", "3 settings differ")
    assert _one(tmp_path, made, value=10.0, protocol={"budget": 8_000_000}).shortfalls == ("3 settings differ",)


def test_games_of_the_evaluation_are_counted(tmp_path):
    assert _one(tmp_path, _seeds(5, episodes=30), protocol={"episodes": 31}).shortfalls == ("30 of 31 episodes",)
    assert _one(tmp_path, _seeds(5, episodes=30), protocol={"episodes": 30}).shortfalls == ()


def test_settings_that_differ_are_counted_and_listed(tmp_path):
    changed = [{"name": "Batch", "value": 64, "field": "learner.batch_size"}]
    row = _one(tmp_path, _seeds(5), settings=changed, value=10.0)
    assert (row.verdict, row.shortfalls) == ("agrees", ("1 setting differs",))
    assert row.settings == ("learner.batch_size 32 for 64",)
    changed += [{"name": "Grey", "value": False, "field": "env.grey"}]
    changed += [
        {"name": "Frames", "value": 7, "field": "num_env_frames"},
        {"name": "In words", "value": 7, "field": None},
    ]
    changed += [{"name": "Discount", "value": 0.99, "field": "loss.discount"}]  # as here
    changed += [{"name": "Another", "value": 7, "field": "env.stack", "experiments": ["atari_deep"]}]
    row = _one(tmp_path, _seeds(5), settings=changed, value=10.0)
    assert row.shortfalls == ("2 settings differ",)
    assert row.settings == ("learner.batch_size 32 for 64", "env.grey True for False")
    none = _one(tmp_path, [], settings=changed, value=10.0)
    assert (none.settings, none.shortfalls) == ((), ())


def test_settings_of_a_smaller_scale_differ_from_those_of_the_paper_s():
    desk, paper = (staleness.current_config("impala", "atari_shallow", scale) for scale in ("desk", "paper"))
    row = _row(make_record(1))
    pair = f"learner.batch_size {desk['learner']['batch_size']} for {paper['learner']['batch_size']}"
    assert pair in row.settings
    assert not [text for text in row.settings if text.startswith(("frames ", "evaluation.episodes ", "scale "))]
    assert _row(make_record(1, scale="paper")).settings == ()


def test_margins_are_around_the_printed_number(tmp_path):
    made = _seeds(5)  # 15.1 to 15.5 and a random player's -20.7
    margin = {"margin_note": "m", "better": "equal"}
    assert _one(tmp_path, made, value=16.0, better="equal").finding == "undecided"
    assert _one(tmp_path, made, value=16.0, margin=["absolute", 3], **margin).verdict == "reproduced"
    assert _one(tmp_path, made, value=16.0, margin=["absolute", 0.1], **margin).finding == "contradicts"
    assert _one(tmp_path, made, value=17.5, margin=["share", 0.1], **margin).finding == "contradicts"
    of_pong = {"normaliser": "n"} | margin
    random = {"pong": {"random": -20.7, "human": 14.6}}
    found = _one(tmp_path, made, references=random, value=17.5, margin=["share", 0.1], **of_pong)
    assert (found.random, found.verdict) == (-20.7, "reproduced")


def test_what_cannot_be_run_here_says_what_it_needs(tmp_path):
    needs = {"cannot_run": "DeepMind Lab"}
    row = _one(tmp_path, [], **needs, note="Printed twice.")
    assert (row.finding, row.verdict, row.note) == (
        "cannot run here",
        "cannot run here",
        "needs DeepMind Lab; Printed twice.",
    )
    ran = _one(tmp_path, _seeds(5), value=10.0, **needs)
    assert (ran.verdict, ran.note) == ("reproduced", "")
    assert _one(tmp_path, [], value=None, **needs).finding is None


@pytest.mark.parametrize(("value", "finding"), [(0.0, "agrees"), (1e-12, "agrees"), (0.01, "contradicts")])
def test_an_exact_number_needs_no_interval(tmp_path, value, finding):
    record = make_record(1, scale="paper", episodes=1, schedule="study")
    evaluation = {"mean": value, "std": 0.0, "returns": [value], "exact": True}
    record["evaluation"] |= evaluation
    met = {"value": 0.0, "better": "equal", "margin": ["absolute", 0], "margin_note": "m"}
    row = _one(tmp_path, [record], **met)
    assert (row.exact, row.interval, row.finding, row.shortfalls) == (True, None, finding, ())
    del record["evaluation"]["exact"]
    row = _one(tmp_path, [record], **met)
    assert (row.exact, row.finding) == (False, "undecided")


def test_all_runs_behind_an_exact_row_are_exact(tmp_path):
    made = [make_record(seed, scale="paper", episodes=1, schedule="study") for seed in (1, 2)]
    made[0]["evaluation"]["exact"] = True
    assert not _one(tmp_path, made).exact
    made[1]["evaluation"]["exact"] = True
    assert _one(tmp_path, made).exact


def test_a_study_needs_no_five_runs(tmp_path):
    record = make_record(1, scale="paper", schedule="study")
    assert _one(tmp_path, [record], value=10.0).verdict == "reproduced"


def test_the_interval_of_one_seed_is_over_its_games_and_that_of_more_over_the_seeds(tmp_path):
    one, five = _seeds(1), _seeds(5)
    row = _one(tmp_path, one)
    assert (row.interval_over, row.interval) == ("episodes", intervals.mean_interval(one[0]["evaluation"]["returns"]))
    row = _one(tmp_path, five)
    means = [record["evaluation"]["mean"] for record in five]
    assert (row.interval_over, row.interval) == ("seeds", intervals.mean_interval(means))


def test_runs_that_agree_in_all_digits_have_no_interval(tmp_path):
    made = _seeds(5)
    for record in made:
        record["evaluation"] |= {"mean": 21.0, "std": 0.0, "returns": [21.0]}
    row = _one(tmp_path, made, value=20.0)
    assert (row.value, row.interval, row.finding) == (21.0, None, "undecided")


def test_sentences_count_once_with_their_weakest_part(tmp_path):
    one = {"sentence": "one"}
    made = _table(
        tmp_path,
        _seeds(5, episodes=30),
        {"value": 10.0} | one,
        {"value": 10.0, "protocol": {"episodes": 50}} | one,
        {"value": 20.0, "sentence": "two"},
        {"value": 10.0} | one,
        {"value": 20.0, "protocol": {"episodes": 60}} | one,
        {"value": 10.0, "sentence": "two"},
        {"value": 10.0},
        {"value": 10.0},
        {"value": None},
        {"value": 10.0, "task": "alien"} | one,
    )
    first = ["agrees", "agrees", "contradicts", "agrees", "contradicts"]
    assert [row.finding for row in made] == [*first, "agrees", "agrees", "agrees", None, "not run"]
    found = sentences(made)
    assert [(row.column, finding, shortfalls) for row, finding, shortfalls in found] == [
        ("c0", "contradicts", ("30 of 50 episodes", "30 of 60 episodes")),
        ("c2", "contradicts", ()),
        ("c6", "agrees", ()),
        ("c7", "agrees", ()),
    ]
    answered = [row for row in made if row.finding == "agrees"]
    assert [(finding, shortfalls) for _, finding, shortfalls in sentences(answered)] == [
        ("agrees", ("30 of 50 episodes",)),
        ("agrees", ()),
        ("agrees", ()),
        ("agrees", ()),
    ]


def test_a_sentence_is_of_one_paper(tmp_path):
    (row,) = _table(tmp_path, _seeds(5), {"value": 10.0, "sentence": "one"})
    other = dataclasses.replace(row, paper="acer", finding="contradicts")
    assert [finding for _, finding, _ in sentences([row, other, row])] == ["agrees", "contradicts"]
