"""`docs/results.md`: every row that has a result, one section per paper, made only from records."""

import collections
import pathlib
from collections.abc import Callable, Sequence

from repro.evidence import published
from repro.evidence.external import ExternalRow
from repro.evidence.records import StoredRecord
from repro.evidence.rows import Row
from repro.evidence.sentences import count_verdicts
from repro.evidence.verdicts import MEANINGS
from repro.report import shares, tables

HEADER = """\
# Results

<!-- Written by `make report` from results/ and paper_configs/published/; edits are overwritten. -->

This page has every printed number of the five papers that has a run here, and every run that answers no printed number.
Each row has the published value, ours with a 95 % interval, the budget with its share of the paper's, and a verdict.
The command above a table, or in its last column, prints its rows, and with `OUT=runs/again` makes its runs again.
[Results: not run](results_not_run.md) has the rows without a run. `make report` also builds `report/index.html`, which
has all rows, and learning curves, settings and deviations. [Verdicts](verdicts.md) explains the rules; in short:

"""

READING = """
A published value without a sign must be reached or exceeded. `≤` marks one that must not be exceeded, `=` one that
must be met, `>` and `<` one that must be surpassed. For a sentence, `Asked` is what our number must be for the sentence
to hold; the paper may not print it. `±` and `×÷` give the margin within which a value counts as met: in its unit, as a
factor, or with `%` as a share of the distance to random play. Intervals are 95 % intervals over seeds. With a single
seed they are over the episodes of its evaluation or the repetitions of its study, and say nothing about other seeds.
`(exact)` marks a number that is computed and not sampled, or is the extreme over the random problems of a study. Those
of theorems have four decimals, as their operators work in float32: 0 is less than 0.00005 on every problem. `1
repetition` is one number over all problems, such as the largest. `=` without a margin asks for an exact number.

"""

MAIN_CLAIMS = f"""
## Main claims

{tables.MAIN_CLAIMS_NOTE}

"""

SO_FAR = """
## Now, and before the campaign

The first table counts rows by verdict and by share of the paper's budget. Each row counts by itself, while the table at
the top of the page counts a sentence with several rows once.

"""

EXTERNAL = """
## External check

These rows compare learning curves of this suite with the results of other publications after the same number of frames
or steps. They are context and have no verdict: the numbers are not those of the five papers, and versions of the
environments and protocols differ. Ours is the return of training episodes at that budget, mean over seeds. `At` is that
budget, and the whole budget of our runs, which their schedules follow. Ours is higher or lower if their number is
outside our interval.
"""


def results_page(
    rows: Sequence[Row],
    external: Sequence[ExternalRow] = (),
    stored: Sequence[StoredRecord] = (),
    published_dir: pathlib.Path = published.PUBLISHED_DIR,
) -> str:
    """Returns the whole page as Markdown.

    Args:
        rows: rows of all papers, in the order in which a paper prints them.
        external: rows of the external check.
        stored: records behind the rows.
        published_dir: folder of published numbers, for titles.

    Raises:
        PublishedError: the published numbers cannot be read.
    """
    papers = tables.by_paper(rows)
    meanings = "".join(f"- **{verdict}**: {meaning}\n" for verdict, meaning in MEANINGS.items())
    overview = tables.markdown_counts({paper: count_verdicts(paper_rows) for paper, paper_rows in papers.items()})
    overview += f"\n{tables.trained_note(rows)}\n"
    effort = f"\n{tables.effort(stored)}\n" if stored else ""
    sections = [_paper_section(paper, paper_rows, published_dir) for paper, paper_rows in papers.items()]
    claims = _main_claims(tables.main_claims(rows))
    so_far = f"{SO_FAR}{shares.by_share(rows)}\n{shares.BEFORE}"
    begin = HEADER + meanings + READING + overview + effort + claims + so_far
    return begin + "".join(sections) + _external_section(external)


def _main_claims(rows: Sequence[Row]) -> str:
    """Returns a table of the papers' main claims; empty without rows."""
    if not rows:
        return ""
    columns = {
        "Paper": [tables.PAPERS.get(row.paper, row.paper) for row in rows],
        "Claim": [f"{row.statement} ({tables.named(str(row.table))})" for row in rows],
        "Task": [tables.task(row) for row in rows],
        "Number": [row.unit for row in rows],
        "Asked": [tables.target(row) for row in rows],
        "Ours [95 %]": [tables.ours(row) for row in rows],
        "Finding": [tables.judgement(row) for row in rows],
        "Less than the paper's protocol": [tables.shortfalls(row) for row in rows],
        "Note": [row.note if row.seeds else "" for row in rows],
    }
    return MAIN_CLAIMS + tables.markdown_columns(columns)


def _external_section(rows: Sequence[ExternalRow]) -> str:
    """Returns a table for each of our agents; empty without rows."""
    parts = [EXTERNAL] if rows else []
    for (paper, agent), of_agent in tables.grouped(
        rows, lambda row: (row.paper, f"{row.experiment}/{row.agent}")
    ).items():
        first = of_agent[0]
        columns = {
            "Task": [row.task for row in of_agent],
            "Ours [95 %]": [tables.ours(row) for row in of_agent],
            "Runs": [str(row.seeds) for row in of_agent],
            "At": [f"{tables.amount(row.at)} of {tables.amount(row.trained)}" for row in of_agent],
            "Theirs": [tables.exact(row.number) for row in of_agent],
            "Spread": [tables.spread(row) for row in of_agent],
            "Other publication": [f"{row.title}: {row.column}" for row in of_agent],
            "Ours is": [row.standing + ("" if row.same_agent else " (another algorithm)") for row in of_agent],
        }
        heading = (
            f"\n### {tables.PAPERS.get(paper, paper)}: {agent}\n\nUnit: {first.unit}, at {first.unit_of_budget}.\n\n"
        )
        parts.append(heading + tables.markdown_columns(columns))
    return "".join(parts)


def _paper_section(paper: str, rows: Sequence[Row], published_dir: pathlib.Path) -> str:
    """Returns a paper's heading, the tables that are not run, and a part for each heading, random players last."""
    title, titles = f"\n## {tables.PAPERS.get(paper, paper)}\n", tables.titles(paper, published_dir)
    if paper in published.papers(published_dir):
        numbers = published.load(paper, published_dir)
        title += f"\n*{numbers.title}* ({numbers.citation}).\n"
    for finding in ("not run", "cannot run here"):
        left = collections.Counter(row.table for row in rows if row.finding == finding and row.table)
        if left:
            places = ", ".join(f"{tables.named(table)} ({count})" for table, count in left.items())
            name = tables.PAPERS.get(paper, paper).lower()
            title += f"\n[{finding.capitalize()}](results_not_run.md#{name}): {places}.\n"
    parts = [title]
    run = sorted((row for row in rows if row.seeds), key=tables.is_random_play)
    for heading, of_heading in tables.grouped(run, lambda row: tables.heading(row, titles)).items():
        parts.append(f"\n### {heading}\n\n{_table_section(of_heading)}")
    return "".join(parts)


def _table_section(rows: Sequence[Row]) -> str:
    """Returns the rows of a printed table as a Markdown table per statement, below the command that they share."""
    parts = [_command_block(rows)]
    for statement, stated in tables.grouped(rows, lambda row: row.statement).items():
        units = {row.unit for row in stated}
        lines = [statement] if statement else []
        lines += [f"Unit: {stated[0].unit}."] if len(units) == 1 else []
        parts.append(" ".join(lines) + "\n" if lines else "")
        parts.append("" if parts[0] else _command_block(stated))
        parts.append(_table(stated, with_unit=len(units) > 1, with_command=not (parts[0] or parts[-1])))
    return "\n".join(filter(None, parts))


def _command_block(rows: Sequence[Row]) -> str:
    """Returns the rows' command as a code block, one line per part; empty if a row has another one or none."""
    commands = {row.command for row in rows}
    if len(commands) > 1 or None in commands:
        return ""
    return "".join(f"    {line}\n" for line in str(rows[0].command).replace(" && ", " &&\n").splitlines())


def _table(rows: Sequence[Row], *, with_unit: bool, with_command: bool) -> str:
    """Returns the rows as a Markdown table, without columns that are empty in all of them."""
    columns: dict[str, Callable[[Row], str]] = {
        "Task": tables.task,
        "Number" if rows[0].statement else "Agent": lambda row: row.column or row.agent or "",
        **({"Unit": lambda row: row.unit} if with_unit else {}),
        "Asked" if rows[0].statement else "Published": lambda row: "" if row.published is None else tables.target(row),
        "Ours [95 %]": tables.ours,
        "Budget": lambda row: tables.budget(row) if row.budget else "",
        "Runs": tables.runs,
        "Finding": lambda row: "" if row.published is None else tables.judgement(row),
        "Less than the paper's protocol": tables.shortfalls,
        "Note": lambda row: row.note,
        **({"Command": lambda row: f"`{row.command}`" if row.command else ""} if with_command else {}),
    }
    return tables.markdown_columns({name: texts for name, text in columns.items() if any(texts := [*map(text, rows)])})


def shows(line: str, row: Row) -> bool:
    """Returns whether a line of `results_page` is that of a row and shows our number as the row has it."""
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    ours = {tables.task(row), row.column or row.agent or "", tables.ours(row)}
    return line.startswith("|") and ours <= set(cells)
