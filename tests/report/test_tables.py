"""Texts of the tables."""

import collections
import dataclasses
import io

import pytest
import rich.console

from repro.evidence.rows import Row
from repro.report import tables
from tests.evidence.synthetic_records import make_record, store
from tests.report.example_row import ROW


@pytest.mark.parametrize(
    ("function", "value", "text"),
    [
        (tables.number, None, "-"),
        (tables.number, -0.0001, "0.000"),
        (tables.number, 0.9864, "0.986"),
        (tables.number, 20.98, "20.98"),
        (tables.number, 640.43, "640.4"),
        (tables.number, 351_200.12, "351200"),
        (tables.exact, 640.43, "640.43"),
        (tables.exact, 849_967.75, "849967.75"),
        (tables.exact, None, "-"),
        (tables.amount, 200_000_000, "200M"),
        (tables.amount, 11_400_000_000, "11.4B"),
        (tables.amount, 12_500, "12.5k"),
        (tables.amount, 999, "999"),
        (tables.amount, 0, "0"),
        (tables.amount, 999_600, "1M"),
        (tables.amount, 999_960_000, "1B"),
        (tables.amount, None, "-"),
        (tables.percent, 0.001, "0.1 %"),
        (tables.percent, 0.2, "20 %"),
        (tables.percent, 0.999, "99.9 %"),
        (tables.percent, 0.9999, "100 %"),
        (tables.percent, 1.02, "102 %"),
    ],
)
def test_numbers_read_well(function, value, text):
    assert function(value) == text


@pytest.mark.parametrize(
    ("value", "interval", "text"),
    [
        (0.00595, (0.00581, 0.00612), "0.00595 [0.00581, 0.00612]"),
        (-0.00595, (-0.00612, -0.00581), "-0.00595 [-0.00612, -0.00581]"),
        (0.0001, (-0.0002, 0.0003), "0.00010 [-0.00020, 0.00030]"),
        (5321.2, (5321.1, 5321.3), "5321.20 [5321.10, 5321.30]"),
        (0.5, (0.4, 0.6), "0.500 [0.400, 0.600]"),
        (0.5, (0.5, 0.5 + 1e-12), "0.500000 [0.500000, 0.500000]"),
    ],
)
def test_an_interval_shows_its_width(value, interval, text):
    assert tables.ours(dataclasses.replace(ROW, value=value, interval=interval)) == text


def test_cells_stand_under_their_headers():
    cells = dict(zip(tables.HEADERS, tables.cells(ROW), strict=True))
    assert cells == {
        "Table": "IMPALA C.1",
        "Task": "pong",
        "Agent": "IMPALA, shallow, experts",
        "Published": "20.4",
        "Ours [95 %]": "-4.03 [-6.07, -1.98]",
        "Budget": "40M frames (20 %)",
        "Runs": "3 seeds",
        "Verdict": "undecided: 20 % of the budget, 3 of 5 runs",
    }


@pytest.mark.parametrize(
    ("changes", "header", "text"),
    [
        ({"better": "less"}, "Published", "\u2264 20.4"),
        ({"interval": None, "no_interval": "equal scores"}, "Ours [95 %]", "-4.03 (equal scores)"),
        ({"better": "equal"}, "Published", "= 20.4"),
        ({"better": "above"}, "Published", "> 20.4"),
        ({"better": "equal", "margin": ("absolute", 0.5)}, "Published", "= 20.4 \u00b1 0.5"),
        ({"better": "equal", "margin": ("absolute", 0.0)}, "Published", "= 20.4"),
        ({"better": "less", "margin": ("factor", 1.5)}, "Published", "\u2264 20.4 \u00d7\u00f7 1.5"),
        ({"margin": ("share", 0.1)}, "Published", "20.4 \u00b1 10 %"),
        ({"published": None, "better": "equal"}, "Published", "-"),
        ({"seeds": (1,), "episodes": 200, "interval_over": "episodes"}, "Runs", "1 seed, 200 episodes"),
        ({"seeds": ()}, "Runs", "-"),
        ({"seeds": (1,), "episodes": 50, "interval_over": "repetitions"}, "Runs", "1 seed, 50 repetitions"),
        ({"seeds": (1,), "episodes": 1, "interval_over": "repetitions"}, "Runs", "1 seed, 1 repetition"),
        ({"seeds": (1,), "episodes": 50, "interval_over": "seeds"}, "Runs", "1 seed"),
    ],
)
def test_cells_of_other_rows(changes, header, text):
    assert dict(zip(tables.HEADERS, tables.cells(dataclasses.replace(ROW, **changes))))[header] == text


def test_effort_is_the_time_of_the_runs_on_their_cores():
    two_cores = {
        "wall_seconds": 5400.0,
        "hardware": {"cpu": "Intel(R) Xeon(R) Processor @ 2GHz", "cores": 2, "gpu": None},
    }
    one_core = {"wall_seconds": 1800.0, "hardware": {"cpu": "AMD EPYC", "cores": 1, "gpu": "H"}, "paper": "stac"}
    one_core["finished"] = "2026-11-30T10:00:00+00:00"
    two_cores["finished"] = "2026-11-22T10:00:00+00:00"
    runs = [make_record(1) | one_core, make_record(1) | two_cores, make_record(2) | two_cores]
    same_run = make_record(2, agent="other") | two_cores  # as studies, and agents on several tasks, have many records
    assert tables.effort(store([*runs, same_run])) == (
        "Behind the rows are 4 records, made in 6.5 core-hours: IMPALA 3 in 6.0, STAC 1 in 0.5. Core-hours are the "
        "time of each run times the cores that it could use. Runs that failed and those whose records were made again "
        "are not included. The runs ended from 2026-11-22 to 2026-11-30 on Intel Xeon (3), AMD EPYC (1); 1 had a GPU."
    )
    assert tables.effort([]) == ""


def test_counts_as_markdown():
    lines = tables.markdown_counts({"impala": dict.fromkeys(tables.VERDICTS, 2)}).splitlines()
    assert lines[0] == (
        "| Paper | reproduced | agrees | disagrees | contradicts | undecided | not run | cannot run here "
        "| printed numbers and sentences |"
    )
    assert lines[2] == "| IMPALA | 2 | 2 | 2 | 2 | 2 | 2 | 2 | 14 |"


@pytest.mark.parametrize(
    ("table", "text"),
    [("C.1", "Table C.1"), ("4", "Table 4"), ("Figure 4", "Figure 4"), ("Abstract", "Abstract")],
)
def test_only_a_table_is_named_one(table, text):
    assert tables.named(table) == text


def test_terminal_table_shows_every_cell():
    file = io.StringIO()
    other = dataclasses.replace(ROW, paper="stac")
    rich.console.Console(file=file, width=200).print(tables.terminal_table([ROW, other], 200))
    assert all(cell in file.getvalue() for row in (ROW, other) for cell in tables.cells(row))


def test_rows_of_one_paper_do_not_name_it():
    file = io.StringIO()
    rich.console.Console(file=file, width=200).print(tables.terminal_table([ROW], 200))
    assert "C.1" in file.getvalue()
    assert "IMPALA C.1" not in file.getvalue()


@pytest.mark.parametrize("width", [40, 120, 200])
def test_a_table_of_no_rows_has_headers(width):
    (table,) = tables.terminal_table([], width).renderables
    assert [column.header for column in table.columns][-1] == "Verdict"


def test_narrow_terminal_keeps_task_result_and_verdict_whole():
    file = io.StringIO()
    rich.console.Console(file=file, width=80).print(tables.terminal_table([ROW], 80))
    for text in ("pong", "20.4", "-4.03 [-6.07, -1.98]", "undecided"):
        assert text in file.getvalue()
    assert "C.1" not in file.getvalue()


LONG = dataclasses.replace(
    ROW, task="InvertedDoublePendulum", column="recurrent_vracer_refer", value=-1234.5, interval=(-1300.0, -1200.0)
)


@pytest.mark.parametrize("width", [80, 81, 99, 100, 104, 110, 120, 160])
@pytest.mark.parametrize("rows", [[LONG], [ROW, LONG], [ROW]])
def test_no_word_is_broken_and_no_line_is_too_long(rows, width):
    file = io.StringIO()
    rich.console.Console(file=file, width=width).print(tables.terminal_table(rows, width))
    words = set(file.getvalue().split())
    kept = {"Task", "Agent", "Published", "Ours [95 %]", "Verdict"}
    for row in rows:
        cells = dict(zip(tables.HEADERS, tables.cells(row), strict=True))
        judged, lacking = tables.judgement(row), tables.shortfalls(row).split()
        assert {word for header in kept - {"Verdict"} for word in cells[header].split()} <= words
        assert {*judged.split()[:-1], *lacking} <= words
        assert {judged.split()[-1], f"{judged.split()[-1]}:"} & words
        assert cells["Ours [95 %]"] in file.getvalue()
    assert max(map(len, file.getvalue().splitlines())) <= width


def test_the_room_is_given_to_the_column_that_makes_most_rows_long():
    """One agent has a longer text than any verdict, but five verdicts are long."""
    named = dataclasses.replace(ROW, column="one two " * 20)
    assumed = dataclasses.replace(ROW, shortfalls=("what is large, " * 10,))
    (table,) = tables.terminal_table([named, *[assumed] * 5], 120).renderables
    widths = {column.header: column.width for column in table.columns}
    assert widths["Verdict"] > 2 * widths["Agent"]


def test_a_narrow_terminal_has_what_results_lack_below_the_table_and_once():
    reasons = ("assumed: that means are meant", "one task of 57")
    rows = [dataclasses.replace(ROW, shortfalls=lacking) for lacking in (reasons[:1], (), reasons[1:], reasons[:1])]
    file = io.StringIO()
    rich.console.Console(file=file, width=80).print(tables.terminal_table(rows, 80))
    table, below = file.getvalue().split(f"[1] {reasons[0]}")
    assert [line.rstrip()[-3:] for line in table.splitlines() if "undecided" in line] == ["[1]", "ded", "[2]", "[1]"]
    assert below.split("\n")[1].rstrip() == f"[2] {reasons[1]}"


def test_a_very_narrow_terminal_has_every_letter():
    file = io.StringIO()
    rich.console.Console(file=file, width=40).print(tables.terminal_table([LONG], 40))
    assert collections.Counter("InvertedDoublePendulum") <= collections.Counter(file.getvalue())
    assert max(map(len, file.getvalue().splitlines())) <= 40


def test_markdown_table_has_as_many_cells_in_each_line():
    lines = tables.markdown_table([ROW, Row(paper="p", experiment=None, task="a|b", agent=None, unit="")]).splitlines()
    assert len(lines) == 4
    assert {line.replace("\\|", "").count("|") for line in lines} == {len(tables.HEADERS) + 3}
    assert "`make reproduce-impala TASK=pong`" in lines[2]
