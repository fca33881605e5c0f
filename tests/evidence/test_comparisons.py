"""Claims of improvement: which runs answer them, what decides them, and that every claim's tasks are known."""

import json

import pytest

from repro.evidence import comparisons, published, records, rows
from tests.evidence.synthetic_records import make_record

TABLE = {"title": "t", "source": "s", "confidence": "printed in text", "unit": comparisons.UNIT, "protocol": {}}
CLAIM = {
    "table": "Figure 1",
    "task": "atari5",
    "column": "ours over theirs",
    "value": 0.5,
    "better": "above",
    "n_seeds": None,
    "experiment": "atari_shallow",
    "agent": "impala_shallow",
    "statement": "Ours is better.",
    "protocol": {"against": ["other"], "budget": 8_000_000},
}
GAMES = ("pong", "alien", "amidar", "assault", "asterix")


def _row(tmp_path, made, **changes):
    data = {"paper": "impala", "title": "T", "citation": "C", "tables": {"Figure 1": TABLE}, "rows": [CLAIM | changes]}
    (tmp_path / "impala.json").write_text(json.dumps(data))
    published.load.cache_clear()
    path = records.record_path("r", "p", "e", "t", "a", 0)
    groups = rows.group_records([records.StoredRecord(path, record) for record in made])
    return next(r for r in rows.make_rows(groups, published_dir=tmp_path) if r.table == "Figure 1")


def _runs(agent, finals, games=GAMES, experiment="atari_shallow", **changes):
    return [
        make_record(seed, game, experiment, agent, final=final, **changes)
        for game in games
        for seed, final in enumerate(finals, start=1)
    ]


def test_every_run_better_is_a_probability_of_one(tmp_path):
    row = _row(tmp_path, _runs("impala_shallow", (500.0, 510.0)) + _runs("other", (1.0, 2.0, 3.0)))
    assert (row.value, row.interval, row.verdict) == (1.0, (1.0, 1.0), "reproduced")
    assert (row.seeds, row.share, row.note) == ((1, 2), 1.0, "")


def test_undecided_claims_are_partial_and_lost_ones_below(tmp_path):
    mixed = _runs("impala_shallow", (1.0, 500.0)) + _runs("other", (100.0, 200.0))
    assert _row(tmp_path, mixed).verdict == "partial"
    lost = _runs("impala_shallow", (1.0, 2.0)) + _runs("other", (100.0, 200.0))
    assert _row(tmp_path, lost).verdict == "below"
    assert _row(tmp_path, lost, better="under").verdict == "reproduced"


def test_fewer_tasks_of_the_set_are_partial_and_counted(tmp_path):
    made = _runs("impala_shallow", (500.0, 510.0), GAMES[:2]) + _runs("other", (1.0, 2.0), GAMES[1:3])
    row = _row(tmp_path, made)
    assert (row.value, row.interval, row.verdict) == (1.0, (1.0, 1.0), "partial")
    assert row.note == "over the 1 of 5 tasks with records of both"


def test_a_claim_on_one_task_reads_that_task_only(tmp_path):
    made = _runs("impala_shallow", (500.0, 510.0)) + _runs("other", (1.0, 2.0), ("pong",))
    made += _runs("other", (900.0, 901.0), ("alien",))
    assert _row(tmp_path, made, task="pong").value == 1.0
    assert _row(tmp_path, made, task="alien").value == 0.0


def test_the_weakest_of_several_comparisons_counts(tmp_path):
    made = _runs("impala_shallow", (500.0, 510.0)) + _runs("other", (1.0, 2.0)) + _runs("third", (900.0, 901.0))
    protocol = CLAIM["protocol"] | {"against": ["other", "third"]}
    assert _row(tmp_path, made, protocol=protocol).value == 0.0
    assert _row(tmp_path, made, protocol=protocol, better="under").value == 1.0


def test_agents_without_runs_are_left_out_and_named(tmp_path):
    made = _runs("impala_shallow", (500.0, 510.0)) + _runs("other", (1.0, 2.0))
    row = _row(tmp_path, made, protocol=CLAIM["protocol"] | {"against": ["other", "fourth"]})
    assert (row.value, row.interval, row.verdict) == (1.0, (1.0, 1.0), "partial")
    assert row.note == "without fourth, which cannot be compared for lack of runs"
    row = _row(tmp_path, made, protocol=CLAIM["protocol"] | {"against": ["third", "fourth"]})
    assert (row.value, row.verdict) == (None, "not run")
    assert row.note == "needs 2 runs of third, fourth on one task"
    assert _row(tmp_path, []).note == ""


def test_an_agent_of_another_experiment_is_named_with_it(tmp_path):
    made = _runs("impala_shallow", (500.0, 510.0)) + _runs("impala_deep", (1.0, 2.0), experiment="atari_deep")
    protocol = CLAIM["protocol"] | {"against": ["atari_deep/impala_deep"]}
    assert _row(tmp_path, made, protocol=protocol).value == 1.0


@pytest.mark.parametrize("scale", ["desk", "paper"])
def test_runs_of_different_scale_are_not_compared(tmp_path, scale):
    made = _runs("impala_shallow", (500.0, 510.0)) + _runs("other", (1.0, 2.0), scale=scale)
    assert (_row(tmp_path, made).value is None) == (scale == "paper")


def test_a_claim_about_something_else_is_not_answered_by_final_returns(tmp_path):
    made = _runs("impala_shallow", (500.0, 510.0)) + _runs("other", (1.0, 2.0))
    protocol = CLAIM["protocol"] | {"compared_by": "return kept as the lag grows"}
    assert _row(tmp_path, made, protocol=protocol).verdict == "not run"


def test_only_the_best_runs_count_where_the_paper_searched(tmp_path):
    made = _runs("impala_shallow", (500.0, 1.0, 510.0)) + _runs("other", (2.0, 400.0, 410.0))
    whole = _row(tmp_path, made)
    best = _row(tmp_path, made, protocol=CLAIM["protocol"] | {"best": 2})
    assert 0.5 < whole.value < 1.0
    assert (best.value, best.seeds) == (1.0, (1, 2, 3))
    assert (best.verdict, best.note) == ("reproduced", "the best 2 of 3 runs of each agent count")
    five = _row(tmp_path, made, protocol=CLAIM["protocol"] | {"best": 5})
    assert (five.value, five.note) == (whole.value, "")


def test_runs_to_choose_the_best_from_are_equally_many_and_judged_by_the_fewest(tmp_path):
    protocol = CLAIM["protocol"] | {"best": 2}
    made = _runs("impala_shallow", (500.0, 1.0, 510.0)) + _runs("other", (2.0, 400.0))
    row = _row(tmp_path, made, protocol=protocol)
    assert (row.value, row.interval, row.seeds, row.verdict) == (1.0, (1.0, 1.0), (1, 2), "partial")
    assert row.note == "the best 2 of 2 to 3 runs of each agent count, though not all agents have equally many"
    made += _runs("other", (2.0, 400.0, 401.0), GAMES[:1])[2:]
    assert _row(tmp_path, made, protocol=protocol).verdict == "partial"
    assert _row(tmp_path, made, task=GAMES[0], protocol=protocol).verdict == "reproduced"
    made += _runs("third", (3.0, 4.0), GAMES[:1])  # not the weakest, but one that the claim is about
    both = protocol | {"against": ["other", "third"]}
    row = _row(tmp_path, made, task=GAMES[0], protocol=both)
    assert (row.value, row.seeds, row.verdict) == (1.0, (1, 2), "partial")


def test_one_run_is_not_compared(tmp_path):
    made = _runs("impala_shallow", (500.0,)) + _runs("other", (1.0, 2.0))
    assert _row(tmp_path, made).verdict == "not run"


def test_returns_keep_a_row_of_their_own_beside_the_claim(tmp_path):
    made = _runs("impala_shallow", (500.0, 510.0), ("pong",)) + _runs("other", (1.0, 2.0), ("pong",))
    _row(tmp_path, made, task="pong")
    path = records.record_path("r", "p", "e", "t", "a", 0)
    groups = rows.group_records([records.StoredRecord(path, record) for record in made])
    found = [(r.table, r.agent) for r in rows.make_rows(groups, published_dir=tmp_path)]
    assert found == [("Figure 1", "impala_shallow"), (None, "impala_shallow"), (None, "other")]


def test_the_tasks_of_every_printed_claim_are_known():
    single = {*published.normaliser("atari57"), *published.normaliser("dmlab30")}
    single |= {"Ant", "HalfCheetah", "Hopper", "Humanoid", "HumanoidStandup", "InvertedDoublePendulum", "Reacher"}
    single |= {"InvertedPendulum", "Swimmer", "Walker2d", "flow", "humanoid", "cheetah", "walker", "fish"}
    claims = [
        row for paper in published.papers() for row in published.load(paper).rows if comparisons.is_comparison(row)
    ]
    odd = {row.task for row in claims} - {*comparisons.TASK_SETS, *single}
    assert len(claims) > 40
    assert odd == set()
