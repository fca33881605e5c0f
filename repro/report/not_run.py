"""`docs/results_not_run.md`: every row without a result, with the command of its first runs or the reason."""

import pathlib
from collections.abc import Callable, Sequence

from repro.evidence import published
from repro.evidence.rows import Row
from repro.report import tables

HEADER = """\
# Results: not run

<!-- Written by `make report` from results/ and paper_configs/published/; edits are overwritten. -->

This page has every printed number and statement of the five papers that no run answers yet, with the command of its
first runs: as many of each agent on one task as a verdict needs, at desk scale if the row can be answered there.
`SCALE=paper` makes the runs of the paper's protocol. In a command above a table, `<task>` stands for the name in the
row's first column. Rows that cannot be run here have the reason in their note. [Results](results.md) has the rows with
a run and explains the signs of published values.
"""


def not_run_page(rows: Sequence[Row], published_dir: pathlib.Path = published.PUBLISHED_DIR) -> str:
    """Returns the page as Markdown.

    Args:
        rows: rows of all papers, in the order in which a paper prints them; those with a result are left out.
        published_dir: folder of published numbers, for titles.

    Raises:
        PublishedError: the published numbers cannot be read.
    """
    parts = [HEADER]
    for paper, of_paper in tables.by_paper(row for row in rows if row.finding and not row.seeds).items():
        parts.append(f"\n## {tables.PAPERS.get(paper, paper)}\n")
        titles = tables.titles(paper, published_dir)
        for of_table in tables.grouped(of_paper, lambda row: row.table).values():
            parts.append(f"\n### {tables.heading(of_table[0], titles)}\n\n{_table_section(of_table)}")
    return "".join(parts)


def _table_section(rows: Sequence[Row]) -> str:
    """Returns the rows of one printed table: numbers below the command that they share, then a table of statements."""
    parts = []
    numbers = [row for row in rows if not row.statement]
    for (command, unit), alike in tables.grouped(numbers, lambda row: (_command(row), row.unit)).items():
        block = f"    {command}\n\n" if command else ""
        parts.append(f"Unit: {unit}.\n\n{block}{_table(alike, with_command=False)}")
    statements = [row for row in rows if row.statement]
    if statements:
        parts.append(_table(statements, with_command=True))
    return "\n".join(parts)


def _command(row: Row) -> str:
    """Returns the command of a row, with a placeholder for its task; empty if it has none."""
    return (row.command or "").replace(f" TASK={row.task} ", " TASK=<task> ")


def _table(rows: Sequence[Row], *, with_command: bool) -> str:
    """Returns the rows as a Markdown table, without columns that are empty in all of them."""
    columns: dict[str, Callable[[Row], str]] = {
        "Task": tables.task,
        "Statement": lambda row: row.statement or "",
        "Number": lambda row: row.column or row.agent or "",
        "Asked" if rows[0].statement else "Published": lambda row: (
            tables.target(row) + (f" ({row.unit})" if row.statement else "")
        ),
        "Finding": tables.judgement,
        "Note": lambda row: row.note,
        **({"Command": lambda row: f"`{row.command}`" if row.command else ""} if with_command else {}),
    }
    return tables.markdown_columns({name: texts for name, text in columns.items() if any(texts := [*map(text, rows)])})
