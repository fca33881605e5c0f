"""The report: a static HTML page with figures, records and rows, and a Markdown summary, made only from records."""

import functools
import pathlib
import urllib.parse
from collections.abc import Sequence

import jinja2

from repro.evidence import published, staleness
from repro.evidence.rows import Row
from repro.evidence.sentences import count_verdicts
from repro.evidence.verdicts import MEANINGS
from repro.report import downloads, tables, videos
from repro.report.contents import Contents, collect, make_sections, results_first


def write_report(
    out_dir: pathlib.Path,
    results_dir: pathlib.Path,
    published_dir: pathlib.Path = published.PUBLISHED_DIR,
    configs_dir: pathlib.Path = staleness.CONFIGS_DIR,
    contents: Contents | None = None,
) -> pathlib.Path:
    """Writes a folder that any static host can serve, and returns the path of its `index.html`.

    Beside the page are `figures/`, `records/` and `videos/` (copies of those on the page), `rows.csv` and `summary.md`.
    Files of an earlier report in these folders that this one does not have are removed. All links are relative, except
    those to the papers. Files that are not valid records are listed on the page and not counted.

    Args:
        out_dir: folder to write; it is made if it does not exist.
        results_dir: root of the record layout; it may not exist.
        published_dir: folder of published numbers.
        configs_dir: folder of current configs.
        contents: result of `collect` for these folders; None to call it here.

    Raises:
        OSError: the files cannot be written.
        PublishedError: the published numbers cannot be read.
    """
    contents = contents or collect(results_dir, published_dir, configs_dir)
    sections = make_sections(contents, results_dir, published_dir, configs_dir)
    stored = [item for section in sections for card in section.cards for runs in card.runs for item in runs.stored]
    html = _template().render(
        sections=sections,
        trained_note=tables.trained_note(contents.rows),
        main_claims=tables.main_claims(contents.rows),
        main_claims_note=tables.MAIN_CLAIMS_NOTE,
        effort=tables.effort(contents.stored),
        errors=contents.errors,
        stale=contents.stale,
        external=contents.external,
        finished=max((item.record["finished"] for item in stored), default=None),
        verdicts=tables.VERDICTS,
        decided=tables.DECIDED,
        meanings=MEANINGS,
        record_path=lambda item: urllib.parse.quote(str(downloads.record_path(item, results_dir))),
    )
    images = [image for section in sections for image in section.images]
    shown = [video for section in sections for card in section.cards for video in card.videos.values()]
    out_dir.mkdir(parents=True, exist_ok=True)
    written = [
        *map(downloads.figure_path, images),
        *(downloads.record_path(item, results_dir) for item in stored),
        *(path for video in shown for path in (video.place, video.poster)),
    ]
    downloads.replace_written(out_dir, written)
    page = out_dir / "index.html"
    page.write_text(html, encoding="utf-8")
    (out_dir / "summary.md").write_text(summary(contents.rows), encoding="utf-8")
    downloads.write_rows(out_dir / "rows.csv", contents.rows)
    downloads.write_figures(out_dir, images)
    downloads.copy_records(out_dir, stored, results_dir)
    videos.copy_videos(out_dir, shown)
    return page


def summary(rows: Sequence[Row]) -> str:
    """Returns the rows as Markdown: a line of counts and a table for each paper, rows with results first."""
    parts = []
    for paper, paper_rows in tables.by_paper(rows).items():
        numbers = ", ".join(f"{count} {name}" for name, count in count_verdicts(paper_rows).items())
        table = tables.markdown_table(results_first(paper_rows))
        parts.append(f"## {tables.PAPERS.get(paper, paper)}\n\n{numbers}\n\n{table}")
    return "\n".join(parts)


def duration(seconds: float) -> str:
    """Returns a time as `2 h 05 min`, `12 min` or `45 s`."""
    if round(seconds) < 60:
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
        "spread": tables.spread,
        "budget": tables.budget,
        "task": tables.task,
        "judgement": tables.judgement,
        "lacking": tables.lacking,
        "assumed": tables.assumed,
        "sentence": tables.sentence,
        "css_class": tables.css_class,
        "figure_path": lambda image: urllib.parse.quote(str(downloads.figure_path(image))),
        "target": tables.target,
        "named": tables.named,
        "paper": lambda name: tables.PAPERS.get(name, name),
        "duration": duration,
        "claim_anchor": tables.claim_anchor,
    }
    return environment.get_template("page.html")
