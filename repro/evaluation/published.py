"""Published numbers: reads `paper_configs/published/<paper>.json` and `normalisers/` beside it.

A file holds its tables (title, source, confidence, unit, protocol, normaliser) and one row for each printed
number. A row names the experiment and agent of this repository that answers it, or none where nothing here
does; what a row does not say itself it takes from its table.
"""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Mapping
from typing import Any, Literal

from repro.evaluation.records import ROOT

PUBLISHED_DIR = ROOT / "paper_configs" / "published"

Measure = Literal["evaluation", "frames_per_second", "wall_minutes"]
"""`evaluation`: the mean of the final evaluation, in the unit of the row. The others are rates and times of the run."""
Better = Literal["more", "less", "equal"]
"""`more`: our number should reach the printed one, `less`: not exceed it, `equal`: neither."""


class PublishedError(Exception):
    """A file of published numbers is absent or malformed; the message is one sentence that names it."""


@dataclasses.dataclass(frozen=True)
class PublishedRow:
    """One printed number.

    Attributes:
        paper: short name, as `impala`.
        table: number of the table, or the page or section for a number in running text.
        task: canonical task name, or the name of a set of tasks for an aggregate.
        column: what the paper calls the agent.
        value: the number, None for a cell printed as not available.
        unit: unit of the value, the same words as `evaluation.unit` of a record that answers it.
        n_seeds: runs behind the number, None where the paper does not say.
        confidence: how far the number can be trusted, in the words of the source.
        source: where it was read.
        protocol: environment, evaluation, `episodes`, and the training `budget` counted in the record's field
            `budget_field` (frames, agent_steps or gradient_steps).
        statistic: `median` or `mean` for an aggregate over tasks, None for a number of one task.
        normaliser: name of a file in `normalisers/`, or None.
        experiment: file in `paper_configs/<paper>` that answers the row, or None.
        agent: agent of the records that answer it, or None.
        measure: which number of a record answers it, one of `MEASURES`.
        better: how `value` is met, one of `BETTER`.
        statement: the sentence behind `value`, in our words, for a claim in text or about a figure; else None.
    """

    paper: str
    table: str
    task: str
    column: str
    value: float | None
    unit: str
    n_seeds: int | None
    confidence: str
    source: str
    protocol: Mapping[str, Any]
    statistic: str | None
    normaliser: str | None
    experiment: str | None
    agent: str | None
    measure: Measure = "evaluation"
    better: Better = "more"
    statement: str | None = None


@dataclasses.dataclass(frozen=True)
class Published:
    """The published numbers of one paper: title, citation, tables by number, rows in printed order."""

    paper: str
    title: str
    citation: str
    tables: Mapping[str, Mapping[str, Any]]
    rows: tuple[PublishedRow, ...]


def papers(directory: pathlib.Path = PUBLISHED_DIR) -> list[str]:
    """Returns the short names of the papers whose numbers are here, in alphabetic order."""
    return sorted(path.stem for path in directory.glob("*.json"))


@functools.cache
def load(paper: str, directory: pathlib.Path = PUBLISHED_DIR) -> Published:
    """Returns the published numbers of a paper.

    Args:
        paper: short name, as `impala`.
        directory: holds `<paper>.json`.

    Raises:
        PublishedError: no such file, not JSON, or a row without one of its fields.
    """
    path = directory / f"{paper}.json"
    data = _read(path)
    try:
        rows = tuple(_row(paper, row, data["tables"][row["table"]]) for row in data["rows"])
        return Published(data["paper"], data["title"], data["citation"], data["tables"], rows)
    except KeyError as error:
        raise PublishedError(f"The published numbers {path} lack {error} in one of their entries.") from error


def published_row(
    paper: str, experiment: str, task: str, agent: str, directory: pathlib.Path = PUBLISHED_DIR
) -> PublishedRow | None:
    """Returns the row of one task that an agent of an experiment answers, or None where none is printed.

    Args:
        paper: short name; a paper without a file prints nothing.
        experiment: as in the record.
        task: canonical task name.
        agent: as in the record.
        directory: holds `<paper>.json`.
    """
    if paper not in papers(directory):
        return None
    wanted = (experiment, task, agent, None)
    rows = load(paper, directory).rows
    return next((row for row in rows if (row.experiment, row.task, row.agent, row.statistic) == wanted), None)


@functools.cache
def normaliser(name: str, directory: pathlib.Path = PUBLISHED_DIR) -> Mapping[str, Mapping[str, float]]:
    """Returns the reference scores of a normaliser: task to `{"random": score, "human": score}`.

    Args:
        name: file name in `<directory>/normalisers`, without `.json`.
        directory: holds `normalisers/`.

    Raises:
        PublishedError: no such file or not JSON.
    """
    return _read(directory / "normalisers" / f"{name}.json")["tasks"]


def _read(path: pathlib.Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PublishedError(f"The published numbers {path} could not be read ({error}).") from error


def _row(paper: str, row: Mapping[str, Any], table: Mapping[str, Any]) -> PublishedRow:
    return PublishedRow(
        paper=paper,
        table=row["table"],
        task=row["task"],
        column=row["column"],
        value=row["value"],
        unit=row.get("unit", table["unit"]),
        n_seeds=row["n_seeds"],
        confidence=row.get("confidence", table["confidence"]),
        source=row.get("source", table["source"]),
        protocol=row.get("protocol", table["protocol"]),
        statistic=row.get("statistic"),
        normaliser=row.get("normaliser", table.get("normaliser")),
        experiment=row["experiment"],
        agent=row["agent"],
        measure=row.get("measure", table.get("measure", "evaluation")),
        better=row.get("better", table.get("better", "more")),
        statement=row.get("statement"),
    )
