"""Writes the report: `python -m repro.report --out=report [--results_dir=results] [--markdown=docs/results.md]`."""

import pathlib
import re
import sys

from absl import flags

from repro import cli
from repro.evidence.published import PublishedError
from repro.evidence.records import COMMITTED, RecordError, read_all
from repro.evidence.rows import row_key
from repro.report import cards, curves, figures, page, tables
from repro.report.contents import Contents, collect
from repro.report.markdown import results_page
from repro.report.not_run import not_run_page

PICTURE = re.compile(r"([^/=]+)/([^=]+?\.py|[^/=]+)/([^=]+)=(.+)")
"""PAPER/EXPERIMENT/TASK=FILE; an experiment may be named by its file, and a task may contain slashes."""


def main(argv: list[str]) -> None:
    del argv
    cli.quiet()
    values = flags.FLAGS
    results_dir, out = pathlib.Path(values.results_dir), pathlib.Path(values.out)
    if values["results_dir"].present and not results_dir.is_dir():
        cli.fail(f"--results_dir={values.results_dir}: there is no such folder.")
    pictures = [PICTURE.fullmatch(picture) for picture in values.picture]
    if None in pictures:
        cli.fail("--picture needs PAPER/EXPERIMENT/TASK=FILE, such as impala/atari_shallow/breakout=docs/breakout.png.")
    try:
        files = [values.markdown] if values.markdown else []
        files += [picture[4] for picture in filter(None, pictures)]
        for folder in (out, *(pathlib.Path(file).parent for file in files)):
            folder.mkdir(parents=True, exist_ok=True)  # fails before many seconds of work, not after
        contents = collect(results_dir, committed=() if results_dir == COMMITTED else read_all(COMMITTED)[0])
        for picture in filter(None, pictures):
            _check_names(contents, *picture.groups()[:3])
        path = page.write_report(out, results_dir, contents=contents)
    except OSError as error:
        cli.fail(f"{cli.describe_file_error(error, out)}.", code=1)
    except (PublishedError, RecordError) as error:
        cli.fail(error, code=1)
    try:
        for picture in filter(None, pictures):
            if not save_picture(contents, *picture.groups()):
                *names, file = picture.groups()
                print(f"No run of {'/'.join(names)} in {results_dir} has a learning curve; {file} was not changed.")
        if values.markdown:
            path_md = pathlib.Path(values.markdown)
            path_md.write_text(results_page(contents.rows, contents.external, contents.stored), encoding="utf-8")
            path_md.with_stem(f"{path_md.stem}_not_run").write_text(not_run_page(contents.rows), encoding="utf-8")
    except OSError as error:
        cli.fail(f"{cli.describe_file_error(error, out)}.", code=1)
    for fault in contents.errors:
        print(f"fault, left out of the page's rows: {fault.message}", file=sys.stderr)
    print(f"Page: {path}")


def _check_names(contents: Contents, paper: str, experiment: str, task: str) -> None:
    """Fails if there is no row of this task; the message names the most similar one that has runs."""
    if not any((row.paper, row.experiment, row.task) == (paper, experiment, task) for row in contents.rows):
        known = sorted({f"{row.paper}/{row.experiment}/{row.task}" for row in contents.rows if row.seeds})
        asked = f"{paper}/{experiment}/{task}"
        cli.fail(f"--picture={asked}: there are no runs of it{cli.nearest(asked, known)}")


def save_picture(contents: Contents, paper: str, experiment: str, task: str, path_png: str) -> bool:
    """Plots the learning curves of a task, as on the page, and saves them as a PNG.

    Returns:
        Whether any run has a curve; if not, no file is written.

    Raises:
        OSError: the file cannot be written.
    """
    rows = [row for row in contents.rows if (row.paper, row.experiment, row.task) == (paper, experiment, task)]
    by_agent = {row.agent: row for row in reversed(rows) if row.seeds and cards.is_evaluation(row, contents.groups)}
    runs_of = [(row, contents.groups[row_key(row)].records) for row in reversed(by_agent.values())]
    plotted = [(row, runs) for row, runs in runs_of if any(record["curve"] for record in runs)]
    if plotted:
        indices = cards.agent_indices(row for row in contents.rows if row.paper == paper)
        made = [curves.make_curve(runs, row, index=indices[experiment, str(row.agent)]) for row, runs in plotted]
        plot = curves.make_plot(made, plotted[0][1][0])
        title = f"{tables.PAPERS.get(paper, paper)}: {task}, {made[0].scale} scale"
        figures.save_png(curves.plot_curves(plot, title), path_png)
    return bool(plotted)


def _define_flags() -> None:
    flags.DEFINE_string("out", "report", "Folder for index.html and the files that it needs.")
    flags.DEFINE_string("results_dir", str(COMMITTED), "Folder with the records.")
    flags.DEFINE_multi_string("picture", [], "Also plot the learning curves of a task: PAPER/EXPERIMENT/TASK=FILE.png")
    flags.DEFINE_string(
        "markdown", None, "Also write the rows that have a result to this Markdown file, and the others beside it."
    )


if __name__ == "__main__":
    _define_flags()
    cli.run(main)
