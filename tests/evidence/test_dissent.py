"""Alternatives that an answer must agree with: without each task, other readings, and the paper's own problem."""

import dataclasses
import re

import pytest

from repro.evidence import findings, results
from repro.evidence.published import PublishedRow
from repro.evidence.results import Result
from tests.evidence.claim_rows import GAMES, SPEED, TO_OTHER, make_pairs, make_row, make_runs
from tests.evidence.synthetic_records import make_groups, make_record


def printed(**changes):
    fields = {"value": 0.5, "better": "above", "protocol": {}, "margin": None} | changes
    return PublishedRow(
        paper="p", table="1", task="t", column="c", unit="u", n_seeds=None, confidence="c", source="s", statistic=None,
        normaliser=None, experiment=None, agent=None, **fields,
    )  # fmt: skip


def result(interval, **alternatives):
    fields = {"value": sum(interval) / 2, "interval": interval, "seeds": (1, 2, 3, 4, 5), "scale": "paper"}
    return Result(fields, "", alternatives=alternatives)


@pytest.mark.parametrize(
    ("interval", "alternatives", "finding", "dissent"),
    [
        ((0.6, 0.9), {}, "agrees", ()),
        ((0.6, 0.9), {"a": (0.51, 1.0), "b": (0.7, 0.8)}, "agrees", ()),
        ((0.6, 0.9), {"a": (0.4, 1.0), "b": (0.7, 0.8)}, "undecided", ("a",)),
        ((0.6, 0.9), {"a": (0.1, 0.2), "b": None}, "undecided", ("a", "b")),
        ((0.1, 0.4), {"a": (0.2, 0.3)}, "contradicts", ()),
        ((0.1, 0.4), {"a": (0.2, 0.6)}, "undecided", ("a",)),
        ((0.4, 0.6), {"a": (0.7, 0.8)}, "undecided", ()),  # by itself
    ],
)
def test_an_answer_is_that_of_all_its_alternatives(interval, alternatives, finding, dissent):
    ours = result(interval, **alternatives)
    assert findings.judge(printed(), ours, None, 0.0) == finding
    assert findings.find_dissent(printed(), ours, None, 0.0) == dissent


@pytest.mark.parametrize(
    ("interval", "finding", "of_all"),
    [
        ((0.96, 1.0), "agrees", "agrees"),
        ((0.94, 1.0), "undecided", "undecided"),
        ((0.16, 0.2), "undecided", "contradicts"),  # the paper's problem may be one of these
        ((0.0, 0.06), "undecided", "contradicts"),
        ((0.0, 0.04), "contradicts", "contradicts"),
    ],
)
def test_a_sentence_about_one_problem_is_contradicted_where_hardly_any_is_so(interval, finding, of_all):
    share = {"value": 1.0, "better": "more", "margin": ("absolute", 0.05)}
    assert findings.judge(printed(**share, protocol={"one_problem": True}), result(interval), None, 0.0) == finding
    assert findings.judge(printed(**share), result(interval), None, 0.0) == of_all


def test_a_part_of_the_tasks_decides_only_what_it_decides_without_each(tmp_path):
    ahead = make_runs("impala_shallow", *make_pairs(6, by=20), games=GAMES[:2])
    ahead += make_runs("other", *make_pairs(6, by=80), games=GAMES[:2])
    level = make_runs("impala_shallow", *make_pairs(6, by=20), games=GAMES[2:3])
    level += make_runs("other", *make_pairs(6, by=20), games=GAMES[2:3])

    def row(made, **changes):
        return make_row(tmp_path, made, protocol=TO_OTHER, **SPEED | {"task": "atari5"} | changes)

    assert (row(ahead).finding, row(ahead).note) == ("agrees", "")
    alone = row([record for record in ahead if record["task"] == GAMES[0]])
    assert (alone.finding, alone.note) == ("undecided", f"the answer differs without {GAMES[0]}")
    of_pong = row([record for record in ahead if record["task"] == GAMES[0]], task=GAMES[0])
    assert (of_pong.finding, of_pong.note) == ("agrees", "")  # all that the row is about
    one_each = row([record for record in ahead if record["task"] == GAMES[0]] + level)
    assert one_each.interval[0] > 0.5
    assert (one_each.finding, one_each.note) == ("undecided", f"the answer differs without {GAMES[0]}")


@pytest.mark.parametrize(("others", "finding"), [((20.0,), "agrees"), ((1.0,), "undecided"), ((), "agrees")])
def test_another_reading_with_another_answer_leaves_a_row_undecided(others, finding):
    gives = r", which gives [\d.]+" if others else ""
    groups = make_groups([
        make_record(1, "pong", final=20.0, schedule="study"),
        *(make_record(1, "pong", "atari_57", final=final, schedule="study") for final in others),
    ])  # fmt: skip
    (unit,) = {record["evaluation"]["unit"] for group in groups.values() for record in group.records}
    row = dataclasses.replace(
        printed(value=10.0, protocol={"readings": {"atari_57/impala_shallow": "games are meant together"}}),
        paper="impala", experiment="atari_shallow", task="pong", agent="impala_shallow", unit=unit,
    )  # fmt: skip
    ours = results.answer_task(row, groups, None)
    assert findings.judge(row, ours, None, 0.0) == finding
    dissent = findings.find_dissent(row, ours, None, 0.0)
    assert len(dissent) == (finding != "agrees")
    assert all(re.fullmatch(rf"if games are meant together{gives}", words) for words in dissent)
