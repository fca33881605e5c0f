"""`docs/results_not_run.md`: every row without a run once, its command or the reason beside it, and up to date."""

import dataclasses

import pytest

from repro.evidence.records import ROOT
from repro.report.contents import collect
from repro.report.not_run import not_run_page
from tests.report.example_row import ROW

NOT_RUN = dataclasses.replace(
    ROW,
    seeds=(),
    value=None,
    interval=None,
    finding="not run",
    shortfalls=(),
    command="make reproduce-impala EXPERIMENT=atari_shallow TASK=pong SCALE=desk SEEDS=3",
)
CLAIM = dataclasses.replace(
    NOT_RUN, table="Section 6", task="atari57", statement="Deep beats shallow.", better="above", unit="probability"
)


@pytest.fixture(scope="module")
def committed():
    return collect(ROOT / "results").rows


def test_the_committed_page_is_that_of_the_committed_records(committed):
    page = (ROOT / "docs/results_not_run.md").read_text()
    assert page == not_run_page(committed), "run `make report` and commit the page"


def test_every_row_without_a_run_has_a_line_and_a_command_or_a_reason(committed):
    page = not_run_page(committed)
    lines = page.splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith(("| Task |", "| --- |"))]
    missing = [row for row in committed if row.finding in ("not run", "cannot run here")]
    assert len(rows) == len(missing) > 500
    assert [row for row in missing if not (row.command or "needs " in row.note)] == []
    for row in missing:
        if row.finding == "not run":
            shared = str(row.command).replace(f" TASK={row.task} ", " TASK=<task> ")
            assert f"    {shared}\n" in page if not row.statement else f"| `{row.command}` |" in page


def test_rows_that_differ_in_their_task_alone_share_a_command():
    other = dataclasses.replace(NOT_RUN, task="qbert", command=NOT_RUN.command.replace("pong", "qbert"))
    page = not_run_page([NOT_RUN, other])
    assert page.count("    make reproduce-impala EXPERIMENT=atari_shallow TASK=<task> SCALE=desk SEEDS=3\n") == 1
    assert "| pong | IMPALA, shallow, experts | 20.4 | not run |\n| qbert |" in page


def test_a_statement_stands_with_its_own_command_and_unit():
    page = not_run_page([CLAIM])
    assert "| atari57 | Deep beats shallow. | IMPALA, shallow, experts | > 20.4 (probability) | not run |" in page
    assert f"| `{CLAIM.command}` |" in page


def test_a_row_that_cannot_be_run_has_its_reason():
    page = not_run_page([dataclasses.replace(NOT_RUN, finding="cannot run here", command=None, note="needs a GPU")])
    assert "| cannot run here | needs a GPU |" in page
    assert "    make" not in page


def test_rows_with_a_run_or_without_a_printed_number_are_not_there():
    own = dataclasses.replace(NOT_RUN, table=None, column=None, published=None, finding=None)
    assert "| pong |" not in not_run_page([ROW, own])
