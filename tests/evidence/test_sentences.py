"""Sentences: the rows of one statement count once."""

import dataclasses

from repro.evidence.sentences import count_verdicts, sentences
from tests.evidence.printed_rows import full_runs, make_table


def test_sentences_count_once_with_their_weakest_part(tmp_path):
    one = {"sentence": "one"}
    made = make_table(
        tmp_path,
        full_runs(5, episodes=30),
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
        ("c0", "contradicts", ("30 of 60 episodes",)),
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


def test_what_other_parts_lack_takes_nothing_from_a_contradiction(tmp_path):
    (row,) = make_table(tmp_path, full_runs(5), {"value": 10.0, "sentence": "one"})
    lost, less = (dataclasses.replace(row, finding="contradicts", shortfalls=texts) for texts in ((), ("a", "b")))
    short = dataclasses.replace(row, shortfalls=("4 % of the budget",))
    for parts, verdict in (((short, lost), "contradicts"), ((lost, less), "contradicts"), ((short, less), "disagrees")):
        assert {name for name, count in count_verdicts(parts).items() if count} == {verdict}


def test_a_sentence_is_of_one_paper(tmp_path):
    (row,) = make_table(tmp_path, full_runs(5), {"value": 10.0, "sentence": "one"})
    other = dataclasses.replace(row, paper="acer", finding="contradicts")
    assert [finding for _, finding, _ in sentences([row, other, row])] == ["agrees", "contradicts"]
