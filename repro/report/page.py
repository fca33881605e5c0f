"""The report: one static HTML page and a Markdown summary, made from the records alone."""

import functools
import pathlib
from collections.abc import Sequence

import jinja2

from repro.evidence import published, staleness
from repro.evidence.rows import Row
from repro.evidence.verdicts import MEANINGS, VERDICTS
from repro.report import tables
from repro.report.contents import Contents, anchor, by_paper, collect, counts, make_sections, results_first


def write_report(
    out_dir: pathlib.Path,
    results_dir: pathlib.Path,
    published_dir: pathlib.Path = published.PUBLISHED_DIR,
    configs_dir: pathlib.Path = staleness.CONFIGS_DIR,
    contents: Contents | None = None,
) -> pathlib.Path:
    """Writes `index.html` and `summary.md`, and returns the page's path.

    The page needs no network and no other file. Files that are no valid records are listed on it, not
    counted.

    Args:
        out_dir: made if need be.
        results_dir: root of the record layout; may be absent.
        published_dir: published numbers.
        configs_dir: current configs.
        contents: what `collect` gave for these directories, where that is at hand.

    Raises:
        OSError: the files cannot be written.
        PublishedError: the published numbers cannot be read.
    """
    contents = contents or collect(results_dir, published_dir, configs_dir)
    sections = make_sections(contents, results_dir, published_dir, configs_dir)
    used = [record for section in sections for card in section.cards for record in card.records]
    html = _template().render(
        sections=sections,
        faults=contents.faults,
        stale=contents.stale,
        finished=max((record["finished"] for record in used), default=None),
        verdicts=VERDICTS,
        meanings=MEANINGS,
    )
    out_dir.mkdir(parents=True, exist_ok=True)
    page = out_dir / "index.html"
    page.write_text(html, encoding="utf-8")
    (out_dir / "summary.md").write_text(summary(contents.rows), encoding="utf-8")
    return page


def summary(rows: Sequence[Row]) -> str:
    """Returns the rows as Markdown: a line of counts and a table for each paper, rows with results first."""
    parts = []
    for paper, of in by_paper(rows).items():
        numbers = ", ".join(f"{count} {name}" for name, count in counts(of).items())
        parts.append(f"## {tables.PAPERS.get(paper, paper)}\n\n{numbers}\n\n{tables.markdown_table(results_first(of))}")
    return "\n".join(parts)


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
        "target": tables.target,
        "named": tables.named,
        "paper": lambda name: tables.PAPERS.get(name, name),
        "place": lambda row: tables.named(row.table),
        "anchor": anchor,
        "duration": duration,
    }
    return environment.get_template("page.html")
