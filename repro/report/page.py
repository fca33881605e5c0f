"""The report: one static HTML page and a Markdown summary, made from the records alone."""

import collections
import dataclasses
import functools
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jinja2
from markupsafe import Markup

from repro.evaluation import published, staleness
from repro.evaluation.records import Fault, RecordError, read_all
from repro.evaluation.rows import Group, Key, Row, group_records, make_rows
from repro.evaluation.statistics import human_normalised
from repro.evaluation.verdicts import VERDICTS
from repro.report import curves, tables

# What differs between the scales by their nature, so says nothing about a deviation.
SCALE_FIELDS = (*staleness.RUN_FIELDS, "scale")


@dataclasses.dataclass(frozen=True)
class Card:
    """One experiment on one task: its learning curve and what was measured."""

    anchor: str
    row: Row
    svg: Markup
    records: Sequence[Mapping[str, Any]]
    facts: Sequence[tuple[str, str]]
    differences: Sequence[tuple[str, Any, Any]]


@dataclasses.dataclass(frozen=True)
class PaperSection:
    """One paper's part of the page."""

    name: str
    title: str
    citation: str
    counts: Mapping[str, int]
    rows: Sequence[Row]
    cards: Sequence[Card]
    sources: Sequence[tuple[str, str, str, str]]

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclasses.dataclass(frozen=True)
class Contents:
    """What the report is made from: rows, their records, and the files left out with the reason."""

    rows: Sequence[Row]
    groups: Mapping[Key, Group]
    faults: Sequence[Fault]
    stale: Sequence[tuple[pathlib.Path, str]]


README_MARKS = ("<!-- rows with a result -->", "<!-- end of rows -->")
"""Between them `update_readme` writes."""


def collect(
    results_dir: pathlib.Path,
    published_dir: pathlib.Path = published.PUBLISHED_DIR,
    configs_dir: pathlib.Path = staleness.CONFIGS_DIR,
) -> Contents:
    """Reads the records below a directory.

    Args:
        results_dir: root of the record layout; may be absent.
        published_dir: published numbers.
        configs_dir: current configs.

    Raises:
        PublishedError: the published numbers cannot be read.
    """
    stored, faults = read_all(results_dir)
    groups = group_records(stored, configs_dir)
    rows = make_rows(groups, published_dir=published_dir, configs_dir=configs_dir)
    reasons = [(item.path, staleness.stale_reason(item.record, configs_dir)) for item in stored]
    return Contents(rows, groups, faults, [(path, reason) for path, reason in reasons if reason])


def write_report(
    out_dir: pathlib.Path,
    results_dir: pathlib.Path,
    published_dir: pathlib.Path = published.PUBLISHED_DIR,
    configs_dir: pathlib.Path = staleness.CONFIGS_DIR,
) -> pathlib.Path:
    """Writes `index.html` and `summary.md`, and returns the page's path.

    The page needs no network and no other file. Files that are no valid records are listed on it, not
    counted.

    Args:
        out_dir: made if need be.
        results_dir: root of the record layout; may be absent.
        published_dir: published numbers.
        configs_dir: current configs.

    Raises:
        OSError: the files cannot be written.
        PublishedError: the published numbers cannot be read.
    """
    contents = collect(results_dir, published_dir, configs_dir)
    by_paper = _by_paper(contents.rows)
    sections = [_section(paper, rows, contents.groups, published_dir, configs_dir) for paper, rows in by_paper.items()]
    used = [record for section in sections for card in section.cards for record in card.records]
    html = _template().render(
        sections=sections,
        faults=contents.faults,
        stale=contents.stale,
        finished=max((record["finished"] for record in used), default=None),
        verdicts=VERDICTS,
    )
    out_dir.mkdir(parents=True, exist_ok=True)
    page = out_dir / "index.html"
    page.write_text(html, encoding="utf-8")
    (out_dir / "summary.md").write_text(summary(contents.rows), encoding="utf-8")
    return page


def summary(rows: Sequence[Row]) -> str:
    """Returns the rows as Markdown: a line of counts and a table for each paper, rows with results first."""
    parts = []
    for paper, of in _by_paper(rows).items():
        counts = ", ".join(f"{count} {name}" for name, count in _counts(of).items())
        parts.append(f"## {paper}\n\n{counts}\n\n{tables.markdown_table(_results_first(of))}")
    return "\n".join(parts)


def update_readme(path: pathlib.Path, rows: Sequence[Row]) -> None:
    """Replaces what stands between `README_MARKS` in a Markdown file by the table of the rows that have a result.

    Args:
        path: holds each mark once.
        rows: of all papers.

    Raises:
        OSError: the file cannot be read or written.
        ValueError: a mark is missing.
    """
    begin, end = README_MARKS
    before, found_begin, rest = path.read_text(encoding="utf-8").partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise ValueError(f"{path} needs the marks {begin} and {end}.")
    table = tables.markdown_table([row for row in rows if row.seeds])
    path.write_text(f"{before}{begin}\n{table}{end}{after}", encoding="utf-8")


def _section(
    paper: str,
    rows: Sequence[Row],
    groups: Mapping[Key, Group],
    published_dir: pathlib.Path,
    configs_dir: pathlib.Path,
) -> PaperSection:
    title, citation, sources = paper, "", []
    if paper in published.papers(published_dir):
        numbers = published.load(paper, published_dir)
        title, citation = numbers.title, numbers.citation
        sources = [(name, t["title"], t["source"], t["confidence"]) for name, t in numbers.tables.items()]
    cards = []
    for row in rows:
        group = groups.get((row.paper, str(row.experiment), row.task, str(row.agent)))
        if row.seeds and group is not None:
            cards.append(_card(row, group.records, configs_dir))
    return PaperSection(paper, title, citation, _counts(rows), _results_first(rows), cards, sources)


def _card(row: Row, records: Sequence[Mapping[str, Any]], configs_dir: pathlib.Path) -> Card:
    name = f"Learning curve of {row.agent} on {row.task}, {len(records)} seeds, to {tables.budget(row)}; "
    name += f"final evaluation {tables.ours(row)}, published {tables.exact(row.published)}."
    try:
        paper_config = staleness.current_config(row.paper, str(row.experiment), "paper", configs_dir)
        difference = staleness.config_difference(records[0]["config"], paper_config, SCALE_FIELDS)
    except RecordError:
        difference = {}
    return Card(
        anchor=anchor(row),
        row=row,
        svg=curves.curve_svg(curves.make_plot(records, row), name),
        records=records,
        facts=_facts(row, records),
        differences=[(field, value, reference) for field, (value, reference) in difference.items()],
    )


def _facts(row: Row, records: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    def unique(values: Iterable[str]) -> str:
        return "; ".join(dict.fromkeys(values))

    facts = [("Evaluation", unique(_protocol(record["evaluation"]["protocol"]) for record in records))]
    if row.value is not None and row.random is not None and row.human is not None:
        facts.append(("Human-normalised", f"{100 * human_normalised(row.value, row.random, row.human):.1f} %"))
    facts += [
        ("Hardware", unique(_hardware(record["hardware"]) for record in records)),
        ("Versions", unique(_pairs(record["versions"]) for record in records)),
    ]
    return facts


def _protocol(protocol: str | Mapping[str, Any]) -> str:
    return protocol if isinstance(protocol, str) else _pairs(protocol)


def _hardware(hardware: Mapping[str, Any]) -> str:
    return f"{hardware['cpu']}, {hardware['cores']} cores, {hardware['gpu'] or 'no GPU'}"


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)


def _counts(rows: Iterable[Row]) -> dict[str, int]:
    counts = collections.Counter(row.verdict for row in rows if row.verdict is not None)
    return {name: counts[name] for name in VERDICTS}


def _results_first(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: not row.seeds)


def _by_paper(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found = collections.defaultdict(list)
    for row in rows:
        found[row.paper].append(row)
    return dict(found)


def anchor(row: Row) -> str:
    """Returns the id of a row's card."""
    return "-".join(filter(None, (row.paper, row.experiment, row.task, row.agent)))


def duration(seconds: float) -> str:
    """Returns a time as `2 h 05 min`, `12 min` or `45 s`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"


@functools.cache
def _template() -> jinja2.Template:
    loader = jinja2.FileSystemLoader(pathlib.Path(__file__).parent)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {
        "exact": tables.exact,
        "number": tables.number,
        "amount": tables.amount,
        "percent": tables.percent,
        "ours": tables.ours,
        "budget": tables.budget,
        "task": tables.task,
        "judgement": tables.judgement,
        "anchor": anchor,
        "duration": duration,
    }
    return environment.get_template("page.html")
