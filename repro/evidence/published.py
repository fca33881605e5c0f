"""Published numbers: reads `paper_configs/published/<paper>.json` and the folders `normalisers/` and `context/` there.

A paper's file holds its tables (title, source, confidence, unit, protocol, normaliser), one row for each printed
number or checkable statement, and one setting for each printed hyper-parameter. A row names the experiment and
agent of this repository that answer it, if there are any; fields that a row lacks are taken from its table. `context/`
holds numbers of other publications. Both follow `published_schema.json`.
"""

import collections
import dataclasses
import functools
import json
import pathlib
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, Literal

import jsonschema

from repro.evidence.records import ROOT

PUBLISHED_DIR = ROOT / "paper_configs" / "published"
CONTEXT_DIR = PUBLISHED_DIR / "context"
SCHEMA_PATH = pathlib.Path(__file__).with_name("published_schema.json")

Measure = Literal["evaluation", "frames_per_second", "wall_minutes"]
"""Number of a record: `evaluation` is the mean of the final evaluation, the others are the run's speed and duration."""
Better = Literal["more", "less", "equal", "above", "under"]
"""How our number must compare with the printed one.

`more`: reach it; `less`: not exceed it; `equal`: both. `above` and `under`: be strictly beyond it, for a number that
stands for no difference, such as 0.5 for a probability of improvement."""

MarginKind = Literal["absolute", "factor", "share"]


class PublishedError(Exception):
    """A file of published numbers is absent or malformed; the message is one sentence that names it."""


@dataclasses.dataclass(frozen=True)
class PublishedRow:
    """One printed number or statement.

    Attributes:
        paper: short name, such as `impala`.
        table: number of the table, or page or section of a number in running text.
        task: canonical task name, or the name of a set of tasks for an aggregate.
        column: the paper's name of the agent.
        value: printed number; None for a cell printed as not available.
        unit: unit of `value`, the same words as `evaluation.unit` of a record that answers it.
        n_seeds: number of runs behind `value`; None if the paper does not say.
        confidence: how far the number can be trusted, in the words of the source.
        source: where the number was read.
        protocol: environment, evaluation, `episodes`, and the training `budget`, counted in the record's field
            `budget_field` (num_env_frames, num_env_steps, agent_steps or gradient_steps). Entries of the row replace
            those of the table. Further entries for statements: `against` lists the agents that the row's agent is
            compared with, as `agent` or `experiment/agent`; `correlated_with` names a sampled hyper-parameter;
            `columns` lists columns of a log; `metaparameters` lists metaparameters of three heads; `largest` has pairs
            of a task and its largest possible divergence; `publication` is the table and column of `context/` to
            compare with; `population` is the number of members that population-based training chose the agent from.
        statistic: `median`, `mean` or `mean_capped` for an aggregate over tasks; None for a number of one task and for
            a statement.
        normaliser: name of a file in `normalisers/`, or None.
        experiment: file in `paper_configs/<paper>` that answers the row, or None.
        agent: agent of the records that answer the row, or None.
        measure: number of a record that answers the row, a `Measure`.
        better: how our number must compare with `value`, a `Better`.
        statement: sentence behind `value`, in our words, for a claim in text or about a figure; otherwise None.
        claim: kind of claim, for `claim_kinds.find_claim`, if several runs together answer a statement. None if each
            run answers by itself, as for a number of a table, or if nothing here answers.
        margin: how far from `value` a number still counts as equal: (kind, size) with the kind `absolute`, `factor`, or
            `share` of the distance from a random player's score. None for no margin.
        margin_note: reason for the margin, or None.
        sentence: name of the sentence of the paper that this row is a part of; all of its rows count once. None for a
            row that is a sentence or a number of its own.
        main: whether it is one of the paper's main claims, which tables show first.
        assumed: what the paper leaves open and the outcome of a statement may depend on; None if there is nothing.
        cannot_run: what the row needs that this project cannot have, or None.
        note: what a reader must know about this number, or None.
        directory: folder of published numbers that the row is from, with `normalisers/` and `context/`.
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
    claim: str | None = None
    margin: tuple[MarginKind, float] | None = None
    margin_note: str | None = None
    sentence: str | None = None
    main: bool = False
    assumed: str | None = None
    cannot_run: str | None = None
    note: str | None = None
    directory: pathlib.Path = PUBLISHED_DIR

    def tolerance(self, random: float | None = 0.0) -> tuple[float, float] | None:
        """Returns the ends between which a number counts as equal to the printed one, or None without margin or value.

        Args:
            random: score of a random player, for a margin that is a share of the distance from it. With None such a
                margin is unknown, and so the result is None.
        """
        if self.margin is None or self.value is None:
            return None
        kind, size = self.margin
        if kind == "factor":
            ends = self.value / size, self.value * size
            return min(ends), max(ends)
        if kind == "share":
            if random is None:
                return None
            size *= abs(self.value - random)
        return self.value - size, self.value + size


@dataclasses.dataclass(frozen=True)
class PublishedSetting:
    """One printed hyper-parameter.

    Attributes:
        paper: short name, such as `impala`.
        table: number of the table, or the section.
        name: the paper's name of the setting.
        value: printed value, a JSON value.
        experiments: files in `paper_configs/<paper>` that the setting applies to; empty if none is planned.
        field: dotted name of the field in their configs, or None.
        equals: value of that field that means the same as `value`.
        except_agents: agents of these experiments that it does not apply to; with any, it applies to all others, even
            to those that have a value of their own.
        confidence: how far the setting can be trusted, in the words of the source.
        source: where the setting was read.
        note: what a reader must know about the setting, or None.
    """

    paper: str
    table: str
    name: str
    value: Any
    experiments: tuple[str, ...]
    field: str | None
    equals: Any
    confidence: str
    source: str
    except_agents: tuple[str, ...] = ()
    note: str | None = None


@dataclasses.dataclass(frozen=True)
class Published:
    """The published numbers of one paper: title, citation, tables by number, rows and settings in printed order."""

    paper: str
    title: str
    citation: str
    tables: Mapping[str, Mapping[str, Any]]
    rows: tuple[PublishedRow, ...]
    settings: tuple[PublishedSetting, ...] = ()


@dataclasses.dataclass(frozen=True)
class Comparable:
    """Column of another publication that our learning curves can be compared with.

    Attributes:
        column: column of the table.
        agent: `<experiment>/<agent>` of our runs.
        at: budget of the column, in `budget_field`.
        budget_field: `num_env_frames` or `num_env_steps`.
        same_agent: whether it is the same algorithm; if not, it is only a yardstick.
    """

    column: str
    agent: str
    at: int
    budget_field: str
    same_agent: bool


@dataclasses.dataclass(frozen=True)
class ContextTable:
    """Numbers of another publication under one protocol, as context for a paper's own numbers.

    Attributes:
        name: file name without `.json`.
        title, source, confidence: title of the table, where it was read, and how far it can be trusted.
        protocol: environment, budget, seeds and evaluation, in words.
        unit: unit of every number.
        papers: papers that the table is context for.
        environment: `atari`, `mujoco`, `dmlab`, `dm_control` or `classic_control`.
        columns: agents, with version or budget if a source has several.
        rows: task to its numbers, one for each column, None if the source has none.
        spread_of: meaning of `spread`; None without it.
        spread: task to the printed uncertainty for each column: a number, a pair (low, high), or None.
        notes: what a reader must know.
        compared: columns that our learning curves can be compared with.
    """

    name: str
    title: str
    source: str
    confidence: str
    protocol: Mapping[str, str]
    unit: str
    papers: tuple[str, ...]
    environment: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[float | None, ...]]
    spread_of: str | None
    spread: Mapping[str, tuple[Any, ...]]
    notes: str
    compared: tuple[Comparable, ...] = ()

    def task_numbers(self, task: str, environment: str) -> dict[str, float]:
        """Returns column to number for one task; empty if this table has no such task or environment.

        Args:
            task: canonical name: snake_case for Atari, a name such as `HalfCheetah` for MuJoCo, `domain_task` for DM
                Control, `atari57` and `dmlab30` for aggregates.
            environment: one of the values of the attribute `environment`.
        """
        if environment != self.environment or task not in self.rows:
            return {}
        return {column: value for column, value in zip(self.columns, self.rows[task]) if value is not None}


def papers(directory: pathlib.Path = PUBLISHED_DIR) -> list[str]:
    """Returns the short names of the papers with published numbers in `directory`, in alphabetic order."""
    return sorted(path.stem for path in directory.glob("*.json"))


@functools.cache
def load(paper: str, directory: pathlib.Path = PUBLISHED_DIR) -> Published:
    """Returns the published numbers of a paper.

    Args:
        paper: short name, such as `impala`.
        directory: folder that holds `<paper>.json`.

    Raises:
        PublishedError: the file does not exist, is not JSON or breaks the schema; a row or setting is of an unknown
            table; a row has only one of experiment and agent; a number or setting is there twice.
    """
    path = directory / f"{paper}.json"
    data = _read(path)
    _check_schema(path, data, "paper")
    _check_rows(path, data)
    tables, setting_tables = data["tables"], data.get("setting_tables", {})
    rows = tuple(_row(paper, row, tables[row["table"]], directory) for row in data["rows"])
    settings = tuple(_setting(paper, item, setting_tables[item["table"]]) for item in data.get("settings", []))
    return Published(data["paper"], data["title"], data["citation"], tables, rows, settings)


@functools.cache
def context(directory: pathlib.Path = CONTEXT_DIR) -> tuple[ContextTable, ...]:
    """Returns the tables of other publications, in order of file name.

    Args:
        directory: folder with one JSON file for each table.

    Raises:
        PublishedError: a file is not JSON or breaks the schema, its `name` is not its file name, a row does not have a
            number or null for each column, a task or column is there twice, or `compared` names an unknown column.
    """
    return tuple(_context_table(path) for path in sorted(directory.glob("*.json")))


def published_row(
    paper: str, experiment: str, task: str, agent: str, directory: pathlib.Path = PUBLISHED_DIR
) -> PublishedRow | None:
    """Returns the row of one task that the evaluation of an agent answers, or None if there is none.

    Rows about the speed or duration of a run, statements and aggregates are left out.

    Args:
        paper: short name; a paper without a file has no rows.
        experiment: experiment of the record.
        task: canonical task name.
        agent: agent of the record.
        directory: folder that holds `<paper>.json`.

    Raises:
        PublishedError: as for `load`, if the paper has a file.
    """
    if not (directory / f"{paper}.json").is_file():
        return None
    return _evaluation_rows(paper, directory).get((experiment, task, agent))


@functools.cache
def _evaluation_rows(paper: str, directory: pathlib.Path) -> Mapping[tuple[str | None, str, str | None], PublishedRow]:
    """Returns the rows that evaluations of agents answer, by experiment, task and agent; the first of each."""
    found: dict[tuple[str | None, str, str | None], PublishedRow] = {}
    for row in load(paper, directory).rows:
        if row.statement is None and row.statistic is None and row.measure == "evaluation":
            found.setdefault((row.experiment, row.task, row.agent), row)
    return found


def normalisers(directory: pathlib.Path = PUBLISHED_DIR) -> list[str]:
    """Returns the names of the normalisers that `normaliser` can load."""
    return sorted(path.stem for path in (directory / "normalisers").glob("*.json"))


@functools.cache
def normaliser(name: str, directory: pathlib.Path = PUBLISHED_DIR) -> Mapping[str, Mapping[str, float]]:
    """Returns the reference scores of a normaliser: task to `{"random": score, "human": score}`.

    Args:
        name: file name in `<directory>/normalisers`, without `.json`.
        directory: folder that holds `normalisers/`.

    Raises:
        PublishedError: the file does not exist or is not JSON.
    """
    return _read(directory / "normalisers" / f"{name}.json")["tasks"]


def _read(path: pathlib.Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PublishedError(f"The published numbers {path} could not be read ({error}).") from error


@functools.cache
def _validator(kind: str) -> jsonschema.Draft202012Validator:
    schema = json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": schema["$defs"]})


def _check_schema(path: pathlib.Path, data: Any, kind: str) -> None:
    error = next(_validator(kind).iter_errors(data), None)
    if error is not None:
        entry = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path)
        raise PublishedError(
            f"The published numbers {path} are wrong at {entry.lstrip('.') or 'top'}: {error.message}."
        )


def _check_rows(path: pathlib.Path, data: Mapping[str, Any]) -> None:
    """Checks what a schema cannot express about rows and settings; raises PublishedError."""
    for i, row in enumerate(data["rows"]):
        if row["table"] not in data["tables"]:
            raise PublishedError(f"The published numbers {path} have no table {row['table']!r}, named by rows[{i}].")
        if (row["experiment"] is None) != (row["agent"] is None):
            raise PublishedError(f"The published numbers {path} have only one of experiment and agent in rows[{i}].")
    for i, setting in enumerate(data.get("settings", [])):
        if setting["table"] not in data.get("setting_tables", {}):
            raise PublishedError(
                f"The published numbers {path} have no setting table {setting['table']!r}, named by settings[{i}]."
            )
    _check_once(path, "rows", (_row_key(row, data["tables"][row["table"]]) for row in data["rows"]))
    settings = data.get("settings", [])
    _check_once(path, "settings", ((s["table"], s["name"], *s["experiments"]) for s in settings))


def _row_key(row: Mapping[str, Any], table: Mapping[str, Any]) -> tuple[str, ...]:
    return (row["table"], row["task"], row["column"], row.get("statistic") or "", row.get("unit", table["unit"]))


def _check_once(path: pathlib.Path, kind: str, keys: Iterable[Hashable]) -> None:
    twice = next((key for key, count in collections.Counter(keys).items() if count > 1), None)
    if twice is not None:
        raise PublishedError(f"The published numbers {path} hold an entry of {kind} twice: {twice}.")


def _row(paper: str, row: Mapping[str, Any], table: Mapping[str, Any], directory: pathlib.Path) -> PublishedRow:
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
        protocol=table["protocol"] | row.get("protocol", {}),
        statistic=row.get("statistic"),
        normaliser=row.get("normaliser", table.get("normaliser")),
        experiment=row["experiment"],
        agent=row["agent"],
        measure=row.get("measure", table.get("measure", "evaluation")),
        better=row.get("better", table.get("better", "more")),
        statement=row.get("statement"),
        claim=row.get("claim"),
        margin=_margin(row) or _margin(table),
        margin_note=row.get("margin_note", table.get("margin_note")),
        sentence=row.get("sentence"),
        main=row.get("main", False),
        assumed=row.get("assumed"),
        cannot_run=row.get("cannot_run", table.get("cannot_run")),
        note=row.get("note"),
        directory=directory,
    )


def _margin(entry: Mapping[str, Any]) -> tuple[MarginKind, float] | None:
    """Returns the margin of a row or a table, which is `[kind, size]` in the file; None without one."""
    if "margin" not in entry:
        return None
    kind, size = entry["margin"]
    return kind, float(size)


def _setting(paper: str, setting: Mapping[str, Any], table: Mapping[str, Any]) -> PublishedSetting:
    return PublishedSetting(
        paper=paper,
        table=setting["table"],
        name=setting["name"],
        value=setting["value"],
        experiments=tuple(setting["experiments"]),
        field=setting["field"],
        equals=setting.get("equals", setting["value"]),
        confidence=table["confidence"],
        source=table["source"],
        except_agents=tuple(setting.get("except_agents", ())),
        note=setting.get("note"),
    )


def _context_table(path: pathlib.Path) -> ContextTable:
    data = _read(path)
    _check_schema(path, data, "context")
    if data["name"] != path.stem:
        raise PublishedError(f"The published numbers {path} have the name {data['name']!r}, not that of their file.")
    _check_once(path, "columns", data["columns"])
    spread = data.get("spread", {"of": None, "rows": []})
    return ContextTable(
        name=data["name"],
        title=data["title"],
        source=data["source"],
        confidence=data["confidence"],
        protocol=data["protocol"],
        unit=data["unit"],
        papers=tuple(data["papers"]),
        environment=data["environment"],
        columns=tuple(data["columns"]),
        rows=dict(_cells(path, "rows", data["rows"], len(data["columns"]))),
        spread_of=spread["of"],
        spread=dict(_cells(path, "spread", spread["rows"], len(data["columns"]))),
        notes=data["notes"],
        compared=tuple(_comparables(path, data)),
    )


def _comparables(path: pathlib.Path, data: Mapping[str, Any]) -> Iterator[Comparable]:
    for item in data.get("compared", []):
        if item["column"] not in data["columns"]:
            raise PublishedError(f"The published numbers {path} compare with an unknown column, {item['column']!r}.")
        yield Comparable(**item)


def _cells(path: pathlib.Path, kind: str, rows: list[list[Any]], columns: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yields task and numbers, which are checked here because a schema is slow for thousands of cells."""
    for i, row in enumerate(rows):
        task, *cells = row
        if not isinstance(task, str) or len(cells) != columns or not all(_is_cell(cell, kind) for cell in cells):
            raise PublishedError(
                f"The published numbers {path} are wrong at {kind}[{i}]: not a task and {columns} numbers or null."
            )
        yield task, tuple(tuple(cell) if isinstance(cell, list) else cell for cell in cells)
    _check_once(path, kind, (row[0] for row in rows))


def _is_cell(cell: Any, kind: str) -> bool:
    if isinstance(cell, list):
        return kind == "spread" and len(cell) == 2 and all(type(end) in (int, float) for end in cell)
    return cell is None or type(cell) in (int, float)
