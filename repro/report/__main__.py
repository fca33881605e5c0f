"""Writes the report: `python -m repro.report --out=report [--results_dir=results] [--markdown=docs/results.md]`."""

import pathlib

from absl import flags

from repro import cli
from repro.evidence.published import PublishedError, published_row
from repro.report import page
from repro.report.contents import Contents, collect
from repro.report.curves import save_curve
from repro.report.markdown import results_page


def main(argv: list[str]) -> None:
    del argv
    cli.quiet()
    values = flags.FLAGS
    results_dir, out = pathlib.Path(values.results_dir), pathlib.Path(values.out)
    if values["results_dir"].present and not results_dir.is_dir():
        cli.fail(f"there is no directory {values.results_dir!r} with records.")
    try:
        contents = collect(results_dir)
        path = page.write_report(out, results_dir, contents=contents)
    except OSError as error:
        cli.fail(f"the report could not be written to {values.out!r} ({error.strerror or error}).")
    except PublishedError as error:
        cli.fail(error, code=1)
    try:
        if values.picture:
            front_page_picture(contents, pathlib.Path(values.picture))
        if values.markdown:
            pathlib.Path(values.markdown).write_text(results_page(contents.rows), encoding="utf-8")
    except OSError as error:
        cli.fail(f"{error.filename!r} could not be written ({error.strerror or error}).")
    print(f"Page: {path}")


def front_page_picture(contents: Contents, path: pathlib.Path) -> None:
    """Draws what the main page shows, the runs of IMPALA on Breakout; nothing where there are none."""
    where = "impala", "atari_shallow", "breakout", "impala_shallow"
    if where in contents.groups:
        save_curve(contents.groups[where].records, published_row(*where), path)


def _define_flags() -> None:
    flags.DEFINE_string("out", "report", "Folder to write index.html and summary.md to.")
    flags.DEFINE_string("results_dir", "results", "Folder with the records.")
    flags.DEFINE_string("picture", None, "Also draw the learning curve of IMPALA on Breakout as this PNG.")
    flags.DEFINE_string("markdown", None, "Also write the rows that have a result to this Markdown file.")


if __name__ == "__main__":
    _define_flags()
    cli.run(main)
