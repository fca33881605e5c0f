"""Findings: what a result says about a printed number, and what is missing of the protocol."""

import dataclasses
import json

import pytest

from repro.evidence import findings, published, staleness
from repro.evidence.results import Result
from tests.evidence.printed_rows import full_runs, make_one, make_row
from tests.evidence.synthetic_records import make_record

LEVEL = "rooms_watermaze"


def test_full_budget_is_judged():
    assert make_row(*full_runs(5, final=21.0)).verdict == "reproduced"
    assert make_row(*full_runs(5, final=15.0)).verdict == "contradicts"
    few = make_row(*full_runs(5, final=21.0, episodes=50))
    assert (few.verdict, few.shortfalls) == ("agrees", ("50 of 200 episodes",))


@pytest.mark.parametrize(("runs", "finding"), [(1, "undecided"), (2, "contradicts")])
def test_a_score_is_missed_only_by_enough_runs_to_show_their_spread(tmp_path, runs, finding):
    """Even where the paper has a single run; one that reaches the score agrees."""
    low, high = full_runs(runs, final=-5.0), full_runs(runs, final=19.0)
    missed = make_one(tmp_path, low, n_seeds=1)
    doubt = "other runs may reach it, since the interval is over games"
    assert (missed.finding, missed.note) == (finding, doubt if finding == "undecided" else "")
    assert make_one(tmp_path, high, n_seeds=1).finding == "agrees"


@pytest.mark.parametrize(("runs", "finding"), [(5, "undecided"), (24, "contradicts")])
def test_the_best_of_few_runs_do_not_miss_what_the_best_of_many_reach(tmp_path, runs, finding):
    made = full_runs(runs, final=10.0)
    for record in made:
        record["sampled_hparams"] = {"learner.learning_rate": 1e-3}
    missed = make_one(tmp_path, made, value=20.0, protocol={"best": 3}, n_seeds=24)
    assert missed.finding == finding
    doubt = "other settings may reach it, since the paper has the best of more"
    assert missed.note.endswith(doubt) == (finding == "undecided")
    assert make_one(tmp_path, made, value=5.0, protocol={"best": 3}, n_seeds=24).finding == "agrees"


def test_runs_that_diverged_count_and_are_named():
    made = full_runs(5, final=21.0)
    made[1]["diverged"] = made[4]["diverged"] = "update 7 gave loss=nan"
    row = make_row(*made)
    assert (row.verdict, row.shortfalls, len(row.seeds)) == ("agrees", ("2 of 5 runs diverged",), 5)


def test_the_budget_of_a_run_that_diverged_is_not_that_of_the_row():
    """Low scores contradict as they did without it: more training had changed nothing."""
    made = full_runs(5, final=2.0)
    made[1] |= {"diverged": "update 7 gave loss=nan", "num_env_frames": 20_000_000}
    row = make_row(*made)
    assert (row.share, row.verdict, row.shortfalls) == (1.0, "disagrees", ("1 of 5 runs diverged",))
    for record in made:
        record |= {"diverged": "update 7 gave loss=nan", "num_env_frames": 20_000_000}
    assert make_row(*made).share == 0.1


@pytest.mark.parametrize(
    ("diverged", "sampled", "runs", "shortfalls", "note"),
    [
        ((4,), True, 5, (), "the best 3 of 5 runs count; 1 of 5 runs diverged"),
        ((4,), False, 5, ("1 of 5 runs diverged", "no search of settings"), ""),
        ((0,), True, 5, ("1 of 5 runs diverged",), "the best 3 of 5 runs count"),  # the best of all
        ((2,), True, 3, ("3 of 5 runs", "1 of 3 runs diverged"), ""),
    ],
)
def test_settings_of_a_search_may_diverge(tmp_path, diverged, sampled, runs, shortfalls, note):
    made = full_runs(runs, final=21.0)
    made.sort(key=lambda record: -record["evaluation"]["mean"])
    for record in made:
        record["sampled_hparams"] = {"learner.learning_rate": 1e-3} if sampled else {}
    for place in diverged:
        made[place]["diverged"] = "update 7 gave loss=nan"
    row = make_one(tmp_path, made, value=10.0, protocol={"best": 3}, n_seeds=None)
    assert (row.shortfalls, row.note) == (shortfalls, note)


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
    row = make_one(tmp_path, full_runs(runs), value=10.0, n_seeds=n_seeds)
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
        ("under", 20.0, 1.0, "agrees"),
        ("under", 20.0, 0.5, "undecided"),  # more training may surpass it
        ("under", 10.0, 0.5, "contradicts"),
    ],
)
def test_a_score_that_is_not_reached_with_less_training_is_undecided(tmp_path, better, value, share, finding):
    made = full_runs(5)
    protocol = {"budget": round(made[0]["num_env_frames"] / share)}
    row = make_one(tmp_path, made, value=value, better=better, protocol=protocol)
    assert (row.finding, row.share) == (finding, pytest.approx(share))
    assert row.shortfalls == (("50 % of the budget",) if share == 0.5 else ())


def test_the_scale_stands_for_a_budget_that_is_not_printed(tmp_path):
    made = [make_record(seed, final=15.0 + 0.1 * seed) for seed in range(1, 6)]
    assert make_one(tmp_path, made, value=10.0).shortfalls == ("scale desk", "3 settings differ")
    assert make_one(tmp_path, made, value=10.0, protocol={"budget": 8_000_000}).shortfalls == ("3 settings differ",)


def test_games_of_the_evaluation_are_counted(tmp_path):
    assert make_one(tmp_path, full_runs(5, episodes=30), protocol={"episodes": 31}).shortfalls == ("30 of 31 episodes",)
    assert make_one(tmp_path, full_runs(5, episodes=30), protocol={"episodes": 30}).shortfalls == ()


@pytest.mark.parametrize(
    ("builds", "missing"),
    [
        ((None,), ()),
        (("commit b1db91a",), ()),
        (("commit b1db91a, stand-ins for 9 of 82 textures", "commit b1db91a"), ("stand-ins for 9 of 82 textures",)),
    ],
)
def test_a_build_of_deepmind_lab_that_lacks_files_is_not_the_paper_s(tmp_path, builds, missing):
    made = full_runs(len(builds))
    for record, build in zip(made, builds, strict=True):
        record["versions"]["deepmind_lab"] = build
    row = make_one(tmp_path, made, value=10.0, n_seeds=1)
    assert row.shortfalls == missing


def test_settings_that_differ_are_counted_and_listed(tmp_path):
    changed = [{"name": "Batch", "value": 64, "field": "learner.batch_size"}]
    row = make_one(tmp_path, full_runs(5), settings=changed, value=10.0)
    assert (row.verdict, row.shortfalls) == ("agrees", ("1 setting differs",))
    assert row.settings == ("learner.batch_size 32 for 64",)
    changed += [{"name": "Grey", "value": False, "field": "env.grey"}]
    changed += [
        {"name": "Frames", "value": 7, "field": "num_env_frames"},
        {"name": "In words", "value": 7, "field": None},
    ]
    changed += [{"name": "Discount", "value": 0.99, "field": "loss.discount"}]  # as here
    changed += [{"name": "Another", "value": 7, "field": "env.stack", "experiments": ["atari_deep"]}]
    row = make_one(tmp_path, full_runs(5), settings=changed, value=10.0)
    assert row.shortfalls == ("2 settings differ",)
    assert row.settings == ("learner.batch_size 32 for 64", "env.grey True for False")
    none = make_one(tmp_path, [], settings=changed, value=10.0)
    assert (none.settings, none.shortfalls) == ((), ())


def test_settings_of_a_smaller_scale_differ_from_those_of_the_paper_s():
    desk, paper = (staleness.current_config("impala", "atari_shallow", scale) for scale in ("desk", "paper"))
    row = make_row(make_record(1))
    pair = f"learner.batch_size {desk['learner']['batch_size']} for {paper['learner']['batch_size']}"
    assert pair in row.settings
    assert not [text for text in row.settings if text.startswith(("num_env_frames ", "evaluation.episodes ", "scale "))]
    assert make_row(make_record(1, scale="paper")).settings == ()


def test_margins_are_around_the_printed_number(tmp_path):
    made = full_runs(5)  # 15.1 to 15.5 and a random player's -20.7
    margin = {"margin_note": "m", "better": "equal"}
    assert make_one(tmp_path, made, value=16.0, better="equal").finding == "undecided"
    assert make_one(tmp_path, made, value=16.0, margin=["absolute", 3], **margin).verdict == "reproduced"
    assert make_one(tmp_path, made, value=16.0, margin=["absolute", 0.1], **margin).finding == "contradicts"
    alone = make_one(tmp_path, made, random=False, value=15.0, margin=["share", 0.1], **margin)
    assert (alone.finding, alone.note) == ("undecided", "no random player's record to compare with")
    assert make_one(tmp_path, made, value=17.5, margin=["share", 0.1], **margin).verdict == "reproduced"
    assert make_one(tmp_path, made, value=20.0, margin=["share", 0.1], **margin).finding == "contradicts"
    of_pong = {"normaliser": "n"} | margin
    random = {"pong": {"random": -20.7, "human": 14.6}}
    found = make_one(tmp_path, made, references=random, value=17.5, margin=["share", 0.1], **of_pong)
    assert (found.random, found.verdict) == (-20.7, "reproduced")


def test_what_cannot_be_run_here_says_what_it_needs(tmp_path):
    needs = {"cannot_run": "DeepMind Lab"}
    row = make_one(tmp_path, [], **needs, note="Printed twice.")
    assert (row.finding, row.verdict, row.note) == (
        "cannot run here",
        "cannot run here",
        "needs DeepMind Lab. Printed twice.",
    )
    ran = make_one(tmp_path, full_runs(5), value=10.0, **needs)
    assert (ran.verdict, ran.note) == ("reproduced", "")
    assert make_one(tmp_path, [], value=None, **needs).finding is None


@pytest.mark.parametrize(("value", "finding"), [(0.0, "agrees"), (1e-12, "agrees"), (0.01, "contradicts")])
def test_an_exact_number_needs_no_interval(tmp_path, value, finding):
    record = make_record(1, scale="paper", episodes=1, schedule="study")
    evaluation = {"mean": value, "std": 0.0, "returns": [value], "exact": True}
    record["evaluation"] |= evaluation
    met = {"value": 0.0, "better": "equal", "margin": ["absolute", 0], "margin_note": "m"}
    row = make_one(tmp_path, [record], **met)
    assert (row.exact, row.interval, row.finding, row.shortfalls) == (True, None, finding, ())
    del record["evaluation"]["exact"]
    row = make_one(tmp_path, [record], **met)
    assert (row.exact, row.finding) == (False, "undecided")


def test_a_study_needs_no_five_runs(tmp_path):
    record = make_record(1, scale="paper", schedule="study")
    assert make_one(tmp_path, [record], value=10.0).verdict == "reproduced"


def test_no_training_raises_the_number_of_a_study(tmp_path):
    assert make_one(tmp_path, [make_record(1, schedule="study")], value=40.0).finding == "contradicts"
    assert make_one(tmp_path, [make_record(1)], value=40.0, n_seeds=1).finding == "undecided"


def test_runs_that_agree_in_all_digits_have_no_interval(tmp_path):
    made = full_runs(5)
    for record in made:
        record["evaluation"] |= {"mean": 21.0, "std": 0.0, "returns": [21.0]}
    row = make_one(tmp_path, made, value=20.0)
    assert (row.value, row.interval, row.finding) == (21.0, None, "undecided")


@pytest.mark.parametrize(
    ("sizes", "missing"), [((24,), False), ((24, 24), False), ((8,), True), ((24, 8), True), ((None,), True)]
)
def test_an_agent_of_a_population_needs_one_of_its_size(sizes, missing):
    (printed,) = (
        row for row in published.load("impala").rows if (row.table, row.column, row.task) == ("B.1", "IMPALA", LEVEL)
    )
    configs = [{} if size is None else {"population": {"size": size}} for size in sizes]
    used = [{"schedule": "async", "config": config, "versions": {}} for config in configs]
    ours = Result({"scale": "paper", "seeds": (1,), "episodes": 500}, "", used)
    expected = ("no population of 24",) if missing else ()
    assert findings.list_shortfalls(printed, ours, None, 0) == (*expected, "assumed: the budget")
    other = dataclasses.replace(printed, protocol={})
    assert findings.list_shortfalls(other, ours, None, 0) == ("assumed: the budget",)


@pytest.mark.parametrize(("random", "finding"), [(-5.0, "agrees"), (12.0, "undecided"), (None, "undecided")])
def test_an_agent_that_has_not_learned_stays_under_any_score(random, finding):
    """Its interval, [10, 14], must be above random play."""
    (printed,) = (row for row in published.load("stac").rows if row.column == "IMPALA, below that of Xu et al. 2018")
    fields = {"value": 12.0, "interval": (10.0, 14.0), "interval_over": "seeds", "seeds": range(5), "scale": "paper"}
    ours = Result(fields, "", [{"schedule": "async"}])
    assert findings.judge(printed, ours, 1.0, random) == finding


@pytest.mark.parametrize(("value", "random", "finding"), [(10.0, 9.0, "agrees"), (10.0, 10.0, "undecided")])
def test_a_printed_score_that_random_play_reaches_is_met_by_no_learning(tmp_path, value, random, finding):
    assert make_one(tmp_path, full_runs(5, final=21.0), random=False, value=value).finding == "undecided"
    (tmp_path / "normalisers").mkdir()
    (tmp_path / "normalisers/n.json").write_text(json.dumps({"tasks": {"pong": {"random": random, "human": 30.0}}}))
    published.normaliser.cache_clear()
    row = make_one(
        tmp_path, full_runs(5, final=21.0), value=value, normaliser="n", margin=["share", 0.1], margin_note="m"
    )
    assert row.finding == finding
