"""Files that the page links to: figures, copies of the records, all rows as CSV; and removal of outdated ones."""

import csv
import pathlib
import shutil
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from repro.evidence.records import StoredRecord
from repro.evidence.rows import Row
from repro.files import write_whole
from repro.report import figures, tables

FIGURES, RECORDS = "figures", "records"
"""Folders beside the page."""
WRITTEN = ".written"
"""File beside the page that lists the files in its folders, one path per line."""
COLUMNS: Mapping[str, Callable[[Row], Any]] = {
    "paper": lambda row: row.paper,
    "table": lambda row: row.table,
    "task": lambda row: row.task,
    "statistic": lambda row: row.statistic,
    "column": lambda row: row.column,
    "statement": lambda row: row.statement,
    "sentence": lambda row: row.sentence,
    "experiment": lambda row: row.experiment,
    "agent": lambda row: row.agent,
    "unit": lambda row: row.unit,
    "published": lambda row: row.published,
    "better": lambda row: row.better,
    "published_seeds": lambda row: row.published_seeds,
    "published_budget": lambda row: row.published_budget,
    "ours": lambda row: row.value,
    "low": lambda row: row.interval and row.interval[0],
    "high": lambda row: row.interval and row.interval[1],
    "interval_over": lambda row: row.interval_over,
    "budget": lambda row: row.budget,
    "budget_field": lambda row: row.budget_field,
    "seeds": lambda row: " ".join(map(str, row.seeds)),
    "episodes": lambda row: row.episodes,
    "scale": lambda row: row.scale,
    "verdict": tables.judgement,
    "note": lambda row: row.note,
    "command": lambda row: row.command,
}
"""Header of a column to the function that gives a row's cell; None is an empty cell."""


def replace_written(out_dir: pathlib.Path, paths: Iterable[pathlib.PurePosixPath]) -> None:
    """Removes files that an earlier report wrote and this one does not, and writes the list of this report's files.

    Call it before the files are written.

    Args:
        out_dir: folder of the page; files that are not in its list are kept.
        paths: files that this report writes into folders, relative to the page.

    Raises:
        OSError: a file cannot be removed, or the list cannot be read or written.
    """
    listed, names = out_dir / WRITTEN, set(map(str, paths))
    earlier = set(listed.read_text(encoding="utf-8").splitlines()) if listed.exists() else set()
    for path in map(pathlib.PurePosixPath, earlier - names):
        if not path.is_absolute() and ".." not in path.parts and (out_dir / path).is_file():
            (out_dir / path).unlink()
    write_whole(listed, "".join(f"{name}\n" for name in sorted(names)))


def write_rows(path_csv: pathlib.Path, rows: Iterable[Row]) -> None:
    """Writes rows as CSV with the headers of `COLUMNS`.

    Raises:
        OSError: the file cannot be written.
    """
    with path_csv.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows([get(row) for get in COLUMNS.values()] for row in rows)


def write_figures(out_dir: pathlib.Path, images: Iterable[figures.Image]) -> None:
    """Writes figures to `figures/` below the folder of the page.

    Raises:
        OSError: a file cannot be written.
    """
    (out_dir / FIGURES).mkdir(parents=True, exist_ok=True)
    for image in images:
        (out_dir / figure_path(image)).write_text(image.svg, encoding="utf-8")


def copy_records(out_dir: pathlib.Path, stored: Iterable[StoredRecord], results_dir: pathlib.Path) -> None:
    """Copies records to `records/` below the folder of the page, in the layout of the results.

    Raises:
        OSError: a file cannot be written.
    """
    for item in stored:
        path = out_dir / record_path(item, results_dir)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(item.path, path)


def figure_path(image: figures.Image) -> pathlib.PurePosixPath:
    """Returns the path of a figure relative to the page."""
    return pathlib.PurePosixPath(FIGURES, f"{image.name}.svg")


def record_path(item: StoredRecord, results_dir: pathlib.Path) -> pathlib.PurePosixPath:
    """Returns the path of a record's copy relative to the page."""
    return pathlib.PurePosixPath(RECORDS, *item.path.relative_to(results_dir).parts)
