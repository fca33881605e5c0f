"""Malformed files of published numbers are refused in one sentence that names the file and the entry."""

import copy
import json

import pytest

from repro.evidence import published

TABLE = {"title": "t", "source": "s", "confidence": "printed", "unit": "points", "protocol": {"budget": 1}}
ROW = {"table": "1", "task": "a", "column": "c", "value": 1.0, "n_seeds": 2, "experiment": "e", "agent": "x"}
SETTING = {"table": "S", "name": "n", "value": [1, 2], "experiments": ["e"], "field": "a.b", "equals": 2.0}
PAPER = {
    "paper": "new",
    "title": "T",
    "citation": "C",
    "tables": {"1": TABLE},
    "rows": [ROW],
    "setting_tables": {"S": {"title": "t", "source": "s", "confidence": "printed"}},
    "settings": [SETTING],
}
CONTEXT = {
    "name": "other",
    "title": "T",
    "source": "s",
    "confidence": "c",
    "protocol": {"budget": "1M steps"},
    "unit": "game score",
    "papers": ["acer"],
    "environment": "atari",
    "columns": ["A", "B"],
    "rows": [["pong", 1, None], ["alien", 2.5, -3]],
    "notes": "",
}


def changed(data, path, value):
    """A copy of `data` with the entry at `path` set; the key `+` appends."""
    data = copy.deepcopy(data)
    *parents, last = path
    place = data
    for step in parents:
        place = place[step]
    if last == "+":
        place.append(value)
    else:
        place[last] = value
    return data


def load_paper(directory, data):
    (directory / "new.json").write_text(json.dumps(data))
    return published.load("new", directory)


def load_context(directory, data):
    (directory / "other.json").write_text(json.dumps(data))
    return published.context(directory)


def test_the_samples_are_well_formed(tmp_path):
    loaded = load_paper(tmp_path, PAPER)
    assert loaded.rows[0].value == 1.0
    assert loaded.settings[0].equals == 2.0
    (tmp_path / "context").mkdir()
    (table,) = load_context(tmp_path / "context", CONTEXT)
    assert table.rows == {"pong": (1, None), "alien": (2.5, -3)}


@pytest.mark.parametrize(
    ("path", "value", "entry"),
    [
        (("extra",), 1, "extra"),
        (("tables", "1", "colour"), "red", "tables.1"),
        (("rows", 0, "colour"), "red", r"rows\[0\]"),
        (("rows", 0, "unit"), 5, r"rows\[0\].unit"),
        (("rows", 0, "unit"), "", r"rows\[0\].unit"),
        (("rows", 0, "value"), "1.0", r"rows\[0\].value"),
        (("rows", 0, "n_seeds"), 0, r"rows\[0\].n_seeds"),
        (("rows", 0, "agent"), "With Blanks", r"rows\[0\].agent"),
        (("rows", 0, "statistic"), "mode", r"rows\[0\].statistic"),
        (("rows", 0, "measure"), "joules", r"rows\[0\].measure"),
        (("rows", 0, "better"), "higher", r"rows\[0\].better"),
        (("rows", 0, "margin"), ["absolute", 1], r"rows\[0\]: 'margin_note' is a dependency"),
        (("rows", 0, "claim"), "improvement", r"rows\[0\]: 'statement' is a dependency"),
        (("rows", 0, "sentence"), "Two Words", r"rows\[0\].sentence"),
        (("rows", 0, "cannot_run"), "", r"rows\[0\].cannot_run"),
        (("tables", "1", "margin"), ["share", 0.1], r"tables.1: 'margin_note' is a dependency"),
        (("tables", "1", "sentence"), "one", r"tables.1"),
        (("rows", 0, "protocol"), {"against": []}, r"rows\[0\].protocol.against"),
        (("rows", 0, "protocol"), {"nested": {}}, r"rows\[0\].protocol.nested"),
        (("rows", 0, "table"), "9", r"'9', named by rows\[0\]"),
        (("rows", 0, "agent"), None, r"rows\[0\]"),
        (("rows", "+"), ROW | {"value": 2.0}, "rows twice"),
        (("rows", "+"), ROW | {"unit": "points"}, "rows twice"),
        (("settings", 0, "colour"), "red", r"settings\[0\]"),
        (("settings", 0, "field"), "a..b", r"settings\[0\].field"),
        (("settings", 0, "experiments"), "e", r"settings\[0\].experiments"),
        (("settings", 0, "table"), "9", r"'9', named by settings\[0\]"),
        (("settings", "+"), SETTING, "settings twice"),
    ],
)
def test_a_malformed_paper_is_refused(tmp_path, path, value, entry):
    with pytest.raises(published.PublishedError, match=rf"new\.json.*{entry}") as error:
        load_paper(tmp_path, changed(PAPER, path, value))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "margin", [["percent", 1], ["absolute", -1], ["factor", 1], ["factor", 0.5], ["share"], ["share", 0.1, 2], 0.1]
)
def test_a_malformed_margin_is_refused(tmp_path, margin):
    row = ROW | {"margin": margin, "margin_note": "why"}
    with pytest.raises(published.PublishedError, match=r"new\.json.*rows\[0\].margin"):
        load_paper(tmp_path, changed(PAPER, ("rows", 0), row))


def test_a_row_takes_its_margin_and_what_it_needs_from_its_table(tmp_path):
    table = TABLE | {"margin": ["share", 0.1], "margin_note": "of the table", "cannot_run": "a laboratory"}
    own = ROW | {"column": "d", "margin": ["factor", 2], "margin_note": "own", "sentence": "one", "cannot_run": "more"}
    data = changed(changed(PAPER, ("tables", "1"), table), ("rows", "+"), own)
    first, second = load_paper(tmp_path, data).rows
    assert (first.margin, first.margin_note, first.sentence, first.cannot_run) == (
        ("share", 0.1), "of the table", None, "a laboratory",
    )  # fmt: skip
    assert (second.margin, second.margin_note, second.sentence, second.cannot_run) == (
        ("factor", 2.0), "own", "one", "more",
    )  # fmt: skip
    assert first.tolerance(random=-9.0) == (0.0, 2.0)  # a tenth of the ten from -9 to 1
    assert second.tolerance(random=-9.0) == (0.5, 2.0)


@pytest.mark.parametrize("difference", [{"task": "b"}, {"column": "d"}, {"statistic": "mean"}, {"unit": "percent"}])
def test_rows_that_differ_in_one_key_are_not_duplicates(tmp_path, difference):
    assert len(load_paper(tmp_path, changed(PAPER, ("rows", "+"), ROW | difference)).rows) == 2


@pytest.mark.parametrize(
    ("path", "value", "entry"),
    [
        (("colour",), "red", "colour"),
        (("unit",), 5, "unit"),
        (("environment",), "chess", "environment"),
        (("papers",), ["muzero"], "papers"),
        (("protocol", "budget"), 5, "protocol.budget"),
        (("name",), "another", "another"),
        (("columns",), ["A", "A"], "columns twice"),
        (("rows", 0), ["pong", 1], r"rows\[0\]"),
        (("rows", 1), ["alien", 1, "2"], r"rows\[1\]"),
        (("rows", 1), ["alien", 1, True], r"rows\[1\]"),
        (("rows", 1), ["alien", 1, [1, 2]], r"rows\[1\]"),
        (("rows", 1), [5, 1, 2], r"rows\[1\]"),
        (("rows", "+"), ["pong", 3, 4], "rows twice"),
        (("spread",), {"of": "std", "rows": [["pong", 1, [1, 2, 3]]]}, r"spread\[0\]"),
    ],
)
def test_a_malformed_context_is_refused(tmp_path, path, value, entry):
    with pytest.raises(published.PublishedError, match=rf"other\.json.*{entry}") as error:
        load_context(tmp_path, changed(CONTEXT, path, value))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["{", "[]", '{"tables": {}, "rows": [{"table": "9"}]}', None])
def test_malformed_or_absent_file_is_named(tmp_path, text):
    if text is not None:
        (tmp_path / "odd.json").write_text(text)
    with pytest.raises(published.PublishedError, match="odd.json"):
        published.load("odd", tmp_path)


def test_all_files_are_read_and_checked_once():
    assert all(published.load(paper) is published.load(paper) for paper in published.papers())
    assert published.context() is published.context()
