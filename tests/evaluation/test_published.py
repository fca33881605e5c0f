"""The published numbers: complete, and consistent with each other where the paper's own aggregates say so."""

import collections
import json

import numpy as np
import pytest

from repro.evaluation import published
from repro.evaluation.statistics import human_normalised

COLUMNS = {
    "IMPALA, shallow, experts": ("atari_shallow", "impala_shallow"),
    "IMPALA, deep, experts": ("atari_deep", "impala_deep"),
    "IMPALA, deep, multi-task": ("atari_multitask", "impala_multitask"),
}


@pytest.fixture(scope="module")
def impala():
    return published.load("impala")


def test_table_c1_has_all_57_games_in_each_column(impala):
    counts = collections.Counter(row.column for row in impala.rows if row.table == "C.1")
    assert counts == dict.fromkeys(COLUMNS, 57)
    for column, (experiment, agent) in COLUMNS.items():
        rows = [row for row in impala.rows if row.table == "C.1" and row.column == column]
        assert {row.task for row in rows} == set(published.normaliser("atari57"))
        assert {(row.experiment, row.agent) for row in rows} == {(experiment, agent)}


def test_table_4_has_every_printed_cell(impala):
    cells = {(row.column, row.statistic): row.value for row in impala.rows if row.table == "4"}
    assert cells == {
        ("A3C, shallow, experts", "median"): 54.9,
        ("A3C, shallow, experts", "mean"): 285.9,
        ("A3C, deep, experts", "median"): 117.9,
        ("A3C, deep, experts", "mean"): 503.6,
        ("Reactor, experts", "median"): 187.0,
        ("Reactor, experts", "mean"): None,
        ("IMPALA, shallow, experts", "median"): 93.2,
        ("IMPALA, shallow, experts", "mean"): 466.4,
        ("IMPALA, deep, experts", "median"): 191.8,
        ("IMPALA, deep, experts", "mean"): 957.6,
        ("IMPALA, deep, multi-task", "median"): 59.7,
        ("IMPALA, deep, multi-task", "mean"): 176.9,
    }


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("statistic", ["median", "mean"])
def test_table_4_follows_from_table_c1_with_the_row_s_own_normaliser(impala, column, statistic):
    (aggregate,) = (row for row in impala.rows if (row.column, row.statistic) == (column, statistic))
    references = published.normaliser(aggregate.normaliser)
    scores = [
        human_normalised(row.value, references[row.task]["random"], references[row.task]["human"])
        for row in impala.rows
        if row.table == "C.1" and row.column == column
    ]
    assert round(100 * float(getattr(np, statistic)(scores)), 1) == aggregate.value


def test_the_printed_means_need_their_own_normaliser(impala):
    (aggregate,) = (r for r in impala.rows if (r.column, r.statistic) == ("IMPALA, deep, experts", "mean"))
    assert aggregate.normaliser == "atari57_table4_means"
    plain, changed = published.normaliser("atari57"), published.normaliser("atari57_table4_means")
    assert {game for game in plain if plain[game] != changed[game]} == {"video_pinball", "pong"}


def test_every_row_says_what_it_is(impala):
    for row in impala.rows:
        assert row.unit in ("game score", "percent")
        assert row.source
        assert row.confidence
        assert row.protocol["budget"] == 200_000_000
        assert row.protocol["budget_field"] in ("frames", "agent_steps", "gradient_steps")
        assert (row.experiment is None) == (row.agent is None)


def test_published_row_finds_the_number_a_record_answers():
    row = published.published_row("impala", "atari_shallow", "pong", "impala_shallow")
    assert (row.value, row.table, row.n_seeds) == (20.4, "C.1", 1)
    assert published.published_row("impala", "atari_shallow", "pong", "impala_leaky") is None
    assert published.published_row("impala", "atari_shallow", "atari57", "impala_shallow") is None
    assert published.published_row("nobody", "atari_shallow", "pong", "impala_shallow") is None


def test_a_row_overrides_its_table(tmp_path):
    table = {"title": "t", "source": "s", "confidence": "printed", "unit": "points", "protocol": {"budget": 1}}
    row = {"table": "1", "task": "a", "column": "c", "value": 1.0, "n_seeds": 2, "experiment": "e", "agent": "x"}
    rows = [row, row | {"unit": "seconds", "confidence": "recalled", "statistic": "mean"}]
    data = {"paper": "new", "title": "T", "citation": "C", "tables": {"1": table}, "rows": rows}
    (tmp_path / "new.json").write_text(json.dumps(data))
    first, second = published.load("new", tmp_path).rows
    assert (first.unit, first.confidence, first.statistic, first.normaliser) == ("points", "printed", None, None)
    assert (second.unit, second.confidence, second.statistic) == ("seconds", "recalled", "mean")
    assert published.papers(tmp_path) == ["new"]


@pytest.mark.parametrize("text", ["{", '{"tables": {}, "rows": [{"table": "9"}]}', None])
def test_malformed_or_absent_file_is_named(tmp_path, text):
    if text is not None:
        (tmp_path / "odd.json").write_text(text)
    with pytest.raises(published.PublishedError, match="odd.json"):
        published.load("odd", tmp_path)
