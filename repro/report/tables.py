"""Rows as text: tables for the terminal and in Markdown."""

import collections
import math
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import rich.box
import rich.console
import rich.table
import rich.text

from repro.amounts import short
from repro.evidence import findings, published, random_player
from repro.evidence.external import ExternalRow
from repro.evidence.records import StoredRecord
from repro.evidence.rows import Row
from repro.evidence.sentences import count_expected, count_verdicts
from repro.evidence.verdicts import ROUNDING, VERDICTS

_Row = TypeVar("_Row")
_Key = TypeVar("_Key")

MAIN_CLAIMS_NOTE = (
    "The three claims of each paper that it is best known for. Each has the finding of its own row only; other rows of "
    "the same sentence are in the paper's section."
)
DECIDED = ("reproduced", "agrees", "disagrees", "contradicts")
"""Verdicts that say something about a paper."""
STYLES = {
    "reproduced": "bold green",
    "agrees": "green",
    "disagrees": "red",
    "contradicts": "bold red",
    "undecided": "yellow",
    "not run": "dim",
    "cannot run here": "dim",
}
HEADERS = ("Table", "Task", "Agent", "Published", "Ours [95 %]", "Budget", "Runs", "Verdict")
NUMERIC = {"Asked", "Published", "Ours [95 %]", "Theirs"}
WIDE = 110
NARROW = {"Table", "Budget", "Runs"}
"""Columns that are left out in a terminal of fewer than `WIDE` characters, or too narrow for the longest words."""
GAP = 3
"""Characters between two columns."""


PAPERS = {"impala": "IMPALA", "acer": "ACER", "refer": "ReF-ER", "ctrace": "C-trace", "stac": "STAC"}
"""Short name of each paper to its usual name, in the order of their tables."""


def by_paper(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Returns the rows of each paper, papers in the order of `PAPERS` and others after them."""
    found = collections.defaultdict(list)
    for row in rows:
        found[row.paper].append(row)
    order = list(PAPERS)
    return dict(sorted(found.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)))


def main_claims(rows: Iterable[Row]) -> list[Row]:
    """Returns the rows of the papers' main claims, papers in the order of `PAPERS`."""
    return [row for paper_rows in by_paper(rows).values() for row in paper_rows if row.main]


def claim_anchor(row: Row) -> str:
    """Returns the id of the place on the page of a main claim's row."""
    return re.sub(r"\W+", "-", f"{row.paper}-{row.table}-{row.column}-{row.task}")


def grouped(rows: Iterable[_Row], key: Callable[[_Row], _Key]) -> Mapping[_Key, list[_Row]]:
    """Returns rows grouped by a key, in the order in which the keys first occur."""
    groups: dict[_Key, list[_Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def titles(paper: str, published_dir: pathlib.Path = published.PUBLISHED_DIR) -> dict[str, str]:
    """Returns the title of each printed table of a paper by its name; empty without published numbers.

    Raises:
        PublishedError: the published numbers cannot be read.
    """
    if paper not in published.papers(published_dir):
        return {}
    return {name: table["title"] for name, table in published.load(paper, published_dir).tables.items()}


def number(value: float | None, decimals: int | None = None) -> str:
    """Formats a score with some decimals, by default three or fewer for three or four digits; a dash for None."""
    if value is None:
        return "-"
    if decimals is None:
        decimals = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2 if abs(value) >= 1 else 3
    return f"{round(value, decimals) + 0.0:.{decimals}f}"


def exact(value: float | None) -> str:
    """Formats a published number as it is printed, with all its digits; a dash for None."""
    return "-" if value is None else f"{value:.12g}"


def amount(count: int | None) -> str:
    """Formats a budget, such as 200M or 1.5B; a dash for None."""
    return "-" if count is None else short(count, "kMB", padded=False)


def percent(share: float | None) -> str:
    """Formats a share as a percentage; a dash for None.

    Below 10 % it has two digits. From 99.95 % on it is 100 %, because runs end at a whole batch.
    """
    if share is None:
        return "-"
    value = 100 * share
    if value < 10:
        return f"{value:.2g} %"
    return f"{value:.1f} %" if 99 <= value < 99.95 else f"{value:.0f} %"


def ours(row: Row | ExternalRow) -> str:
    """Formats our value as `12.30 [11.90, 12.70]` with its interval, `12.30 (exact)` or `12.30 (equal scores)`.

    An interval so narrow that its ends would look the same has more decimals, up to six.
    """
    if isinstance(row, Row) and row.exact and row.value is not None:
        return f"{row.value:.6g} (exact)"
    if isinstance(row, Row) and row.no_interval:
        return f"{number(row.value)} ({row.no_interval})"
    if row.interval is None:
        return number(row.value)
    low, high = row.interval
    decimals = None
    if number(low) == number(high) and low < high:
        decimals = min(1 - math.floor(math.log10(high - low)), 6)
    return f"{number(row.value, decimals)} [{number(low, decimals)}, {number(high, decimals)}]"


def spread(row: ExternalRow) -> str:
    """Formats the printed uncertainty of another publication's number and its meaning; empty if there is none."""
    if row.spread is None:
        return ""
    ends = (
        f"{exact(row.spread[0])} to {exact(row.spread[1])}" if isinstance(row.spread, Sequence) else exact(row.spread)
    )
    return f"{ends} ({row.spread_of})"


def budget(row: Row) -> str:
    """Formats our budget with its share of the paper's, as `40M frames (20 %)`; a dash if nothing is simulated."""
    if not row.budget:
        return "-"
    return f"{amount(row.budget)} {row.counts}" + ("" if row.share is None else f" ({percent(row.share)})")


def task(row: Row) -> str:
    """Returns the task, followed by the statistic of an aggregate."""
    return row.task if row.statistic is None else f"{row.task} {row.statistic}"


def judgement(row: Row) -> str:
    """Returns the verdict, or words for a row without a printed number. All tables and the page use it."""
    return row.verdict or "no published number"


def shortfalls(row: Row) -> str:
    """Returns what our result lacks of the paper's protocol; empty if it lacks nothing or was not run."""
    return ", ".join(row.shortfalls) if row.published is not None else ""


def lacking(row: Row) -> str:
    """Returns the part of `shortfalls` that is less than the paper's protocol or differs from it."""
    return ", ".join(_parts(row, are_assumed=False))


def assumed(row: Row) -> str:
    """Returns the part of `shortfalls` that says what is assumed."""
    return ", ".join(_parts(row, are_assumed=True))


def _parts(row: Row, are_assumed: bool) -> list[str]:
    found = row.shortfalls if row.published is not None else ()
    return [text for text in found if text.startswith(findings.ASSUMED) == are_assumed]


def sentence(text: str) -> str:
    """Returns a text with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def css_class(words: str) -> str:
    """Returns the CSS class of a verdict."""
    return words.replace(" ", "-")


def target(row: Row) -> str:
    """Formats the printed number with its margin, and with a sign unless it is one to be reached (`more`)."""
    if row.published is None:
        return "-"
    sign = {"more": "", "less": "\u2264 ", "equal": "= ", "above": "> ", "under": "< "}[row.better]
    return sign + exact(row.published) + _margin(row)


def _margin(row: Row) -> str:
    """Formats the margin behind a number; empty if there is none beyond rounding."""
    kind, size = row.margin or ("absolute", 0.0)
    if size <= ROUNDING:
        return ""
    if kind == "factor":
        return f" \u00d7\u00f7 {size:g}"
    return f" \u00b1 {100 * size:g} %" if kind == "share" else f" \u00b1 {size:g}"


def heading(row: Row, titles: Mapping[str, str]) -> str:
    """Returns the heading of a row: its printed table with the title from `titles`, or the kind of run."""
    if row.table:
        return f"{named(row.table)}: {titles.get(row.table, '')}".removesuffix(": ")
    return "Random play" if is_random_play(row) else "Runs without a printed number"


def is_random_play(row: Row) -> bool:
    """Returns whether a row is of a random player without a printed number, whose tables come last."""
    return not row.table and row.agent == random_player.AGENT


def named(table: str) -> str:
    """Returns a table's name as in running text, such as `Table C.1`; sections, figures and the abstract unchanged."""
    return table if " " in table or table == "Abstract" else f"Table {table}"


def cells(row: Row) -> tuple[str, ...]:
    """Returns the texts of a row under `HEADERS`."""
    where = " ".join(filter(None, (PAPERS.get(row.paper, row.paper), row.table)))
    agent = row.column or row.agent or "-"
    judged = ": ".join(filter(None, (judgement(row), shortfalls(row))))
    return where, task(row), agent, target(row), ours(row), budget(row), runs(row), judged


def runs(row: Row) -> str:
    """Returns the number of seeds, and for a single one what its interval is over, such as `1 seed, 100 episodes`."""
    if not row.seeds:
        return "-"
    if len(row.seeds) > 1:
        return f"{len(row.seeds)} seeds"
    if row.interval_over == "seeds":  # a measure with one value per seed
        return "1 seed"
    counted = row.interval_over or "episodes"
    return f"1 seed, {row.episodes} {counted.removesuffix('s') if row.episodes == 1 else counted}"


def terminal_table(rows: Sequence[Row], width: int = WIDE) -> rich.console.Group:
    """Returns the rows as a table for `rich.console.Console.print`, without broken words if they fit.

    Args:
        rows: rows to show; those of one paper do not name it.
        width: width of the terminal in characters. If it is too small for all columns, those in `NARROW` are left out,
            and numbers in the verdicts stand for what results lack, which is below the table; if this is not enough,
            the agent is below the task in one column.
    """
    every = {header: list(texts) for header, *texts in zip(HEADERS, *map(cells, rows))}
    if len({row.paper for row in rows}) == 1:
        every["Table"] = [row.table or "-" for row in rows]
    notes: dict[str, int] = {}
    if width < WIDE:
        for lacking in filter(None, map(shortfalls, rows)):
            notes.setdefault(lacking, len(notes) + 1)
        every["Verdict"] = [
            judgement(row) + (f" [{notes[lacking]}]" if (lacking := shortfalls(row)) else "") for row in rows
        ]
    fewer = {header: texts for header, texts in every.items() if header not in NARROW}
    stacked = {"Task, agent": list(map("\n".join, zip(every["Task"], every["Agent"])))}
    stacked |= {header: texts for header, texts in fewer.items() if header not in ("Task", "Agent")}
    layouts = [every, fewer, stacked] if width >= WIDE else [fewer, stacked]
    columns = next((columns for columns in layouts if sum(_min_widths(columns)) <= _room(columns, width)), stacked)
    table = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
    for header, column_width in zip(columns, _widths(columns, width)):
        justify: rich.console.JustifyMethod = "right" if header in NUMERIC else "left"
        table.add_column(header, justify=justify, width=column_width, overflow="fold")
    for row, *texts, verdict in zip(rows, *columns.values()):
        table.add_row(*texts, rich.text.Text(verdict, STYLES.get(judgement(row), "")))
    if not notes:
        return rich.console.Group(table)
    below = rich.table.Table.grid(padding=(0, 1))
    for lacking, index in notes.items():
        below.add_row(f"[{index}]", rich.text.Text(lacking, overflow="fold"))
    return rich.console.Group(table, below, "")


def _room(columns: Mapping[str, Sequence[str]], width: int) -> int:
    """Returns the number of characters in a line that a terminal has for the texts of columns."""
    return width - 2 - GAP * (len(columns) - 1)


def _min_widths(columns: Mapping[str, Sequence[str]]) -> list[int]:
    """Returns the width of each column with which no word, and no number with its interval or note, is broken."""
    return [
        max(
            len(word)
            for text in (header, *texts)
            for word in (text.splitlines() if header in NUMERIC else re.split(r"\s+(?!\[)", text))
        )
        for header, texts in columns.items()
    ]


def _widths(columns: Mapping[str, Sequence[str]], width: int) -> list[int]:
    """Returns the width of each column: at least that of its words if they fit, and more where rows become shorter."""
    widths, room = np.array(_min_widths(columns)), _room(columns, width)
    while widths.sum() > room and widths.max() > 1:
        widths[widths.argmax()] -= 1
    lengths = np.array(  # [columns, rows], of the longest line of each text
        [
            [max(map(len, text.splitlines()), default=0) for text in (header, *texts)]
            for header, texts in columns.items()
        ]
    )
    whole = lengths.max(axis=1)
    wider = np.eye(len(widths), dtype=int)
    while widths.sum() < min(room, whole.sum()):
        lines = lengths / (widths + wider)[:, :, np.newaxis]  # [wider column, columns, rows]
        widths[np.where(widths < whole, lines.max(axis=1).sum(axis=1), np.inf).argmin()] += 1
    return widths.tolist()


def markdown_table(rows: Sequence[Row]) -> str:
    """Returns the rows as a Markdown table with their notes and commands; only the page has their statements."""
    columns = dict(zip(HEADERS, zip(*map(cells, rows)))) if rows else dict.fromkeys(HEADERS, ())
    notes = [sentence(row.note) or "-" for row in rows]
    commands = [f"`{row.command}`" if row.command else "-" for row in rows]
    return markdown_columns({**columns, "Note": notes, "Command": commands})


def markdown_columns(columns: Mapping[str, Sequence[str]]) -> str:
    """Returns a Markdown table with numeric columns aligned to the right.

    Args:
        columns: header to the texts below it.

    Raises:
        ValueError: columns have different numbers of texts.
    """
    rules = ["---:" if header in NUMERIC else "---" for header in columns]
    lines = ["| " + " | ".join(columns) + " |", "| " + " | ".join(rules) + " |"]
    for texts in zip(*columns.values(), strict=True):
        lines.append("| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |")
    return "\n".join(lines) + "\n"


def count_trained(rows: Sequence[Row]) -> dict[str, int]:
    """Returns how many of each verdict come from trained agents; a sentence counts with all of its rows."""
    sentences = {(row.paper, row.sentence) for row in rows if row.trained and row.sentence is not None}
    return count_verdicts(row for row in rows if row.trained or (row.paper, row.sentence) in sentences)


def trained_note(rows: Sequence[Row]) -> str:
    """Returns sentences about how many of the verdicts come from trained agents; empty without a decided verdict."""
    every, trained = count_verdicts(rows), count_trained(rows)
    if not any(every[name] for name in DECIDED):
        return ""
    counts = ", ".join(f"{name} {trained[name]} of {every[name]}" for name in DECIDED)
    expected = count_expected(rows)
    of_reproduced = "all" if 0 < expected == every["reproduced"] else str(expected)
    return (
        f"Verdicts from trained agents: {counts}. The others are from studies, which train no network: theorems and "
        "formulas on finite problems, tabular learning, and costs that are counted. Of the reproduced, "
        f"{of_reproduced} can hardly come out otherwise: they are proven, and test the code."
    )


def markdown_counts(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Returns how many printed numbers and sentences of each paper have each verdict, as a Markdown table."""
    lines = [
        "| Paper | " + " | ".join(VERDICTS) + " | printed numbers and sentences |",
        "| --- |" + " ---: |" * (len(VERDICTS) + 1),
    ]
    for paper, by_verdict in counts.items():
        numbers = [str(by_verdict[name]) for name in VERDICTS]
        lines.append(f"| {PAPERS.get(paper, paper)} | " + " | ".join(numbers) + f" | {sum(by_verdict.values())} |")
    return "\n".join(lines) + "\n"


def effort(stored: Iterable[StoredRecord]) -> str:
    """Returns sentences about the records behind the rows, their core-hours and machines; empty without records."""
    counts: collections.Counter[str] = collections.Counter()
    processors: collections.Counter[str] = collections.Counter()
    with_gpu, dates = 0, set()
    hours: dict[str, dict[tuple[object, ...], float]] = collections.defaultdict(dict)
    for item in stored:
        record = item.record
        run = tuple(record[name] for name in ("experiment", "seed", "started", "wall_seconds"))  # may make many records
        counts[record["paper"]] += 1
        processors[re.sub(r"\(R\)|\s+(Processor|CPU|@).*", "", record["hardware"]["cpu"])] += 1
        with_gpu += record["hardware"]["gpu"] is not None
        dates.add(record["finished"][:10])
        hours[record["paper"]][run] = record["wall_seconds"] * record["hardware"]["cores"] / 3600
    if not hours:
        return ""
    by_paper = {paper: sum(hours[paper].values()) for paper in sorted(hours, key=lambda x: [*PAPERS, x].index(x))}
    parts = [f"{PAPERS.get(paper, paper)} {counts[paper]} in {spent:.1f}" for paper, spent in by_paper.items()]
    total = f"{counts.total()} records, made in {sum(by_paper.values()):.1f} core-hours"
    return (
        f"Behind the rows are {total}: {', '.join(parts)}. Core-hours are the time of each run times the cores that it "
        "could use. Runs that failed and those whose records were made again are not included. The runs ended from "
        f"{min(dates)} to {max(dates)} on {', '.join(f'{name} ({n})' for name, n in processors.most_common())}; "
        f"{with_gpu or 'none'} had a GPU."
    )
