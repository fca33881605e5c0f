"""Groups: which records are averaged, what is left out, and the notes about it."""

import pathlib

from repro.evidence import records, rows
from repro.evidence.groups import group_records, stale_records
from tests.evidence.printed_rows import make_row, with_config
from tests.evidence.synthetic_records import make_record


def test_stale_record_is_said_and_not_counted():
    stale = with_config(make_record(1, scale="paper"), learning_rate=1.0)
    row = make_row(stale)
    assert (row.verdict, row.value, row.seeds) == ("not run", None, ())
    assert row.note.startswith("seed 1 is stale: learner.learning_rate was 1.0 and is ")
    assert make_row(stale, make_record(2, scale="paper")).seeds == (2,)


def test_stale_records_are_listed_by_path_with_their_reasons():
    made = {seed: with_config(make_record(seed), learning_rate=1.0) for seed in (2, 1)} | {3: make_record(3)}
    stored = [records.StoredRecord(pathlib.Path(f"seed_{seed}.json"), record) for seed, record in made.items()]
    found = stale_records(group_records(stored))
    assert [path.name for path in found] == ["seed_1.json", "seed_2.json"]
    assert all(reason.startswith("learner.learning_rate was 1.0") for reason in found.values())


def test_only_the_largest_scale_is_averaged():
    row = make_row(make_record(1, scale="desk", final=-10.0), make_record(2, scale="paper", final=21.0))
    assert (row.scale, row.seeds, row.value > 20) == ("paper", (2,), True)
    assert row.note == "runs of scale desk, seeds 1, are not averaged with these"


def test_runs_that_answer_no_number_have_a_row_for_each_scale():
    made = [make_record(1, scale="desk", final=-10.0), make_record(2, scale="paper", final=21.0)]
    stored = [records.StoredRecord(pathlib.Path("r"), record | {"agent": "another"}) for record in made]
    found = [row for row in rows.make_rows(group_records(stored)) if row.agent == "another"]
    assert [(row.scale, row.seeds) for row in found] == [("paper", (2,)), ("desk", (1,))]
    assert ["SCALE=paper" in found[0].command, "SCALE=desk" in found[1].command] == [True, True]
