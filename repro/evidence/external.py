"""External check: our learning curves beside results of other publications at the same number of frames or steps.

In `paper_configs/published/context/` the field `compared` of a table says which of its columns an agent of ours can be
compared with, and at which budget. These rows are context: they are not numbers of the papers and have no verdict.
"""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from repro.evidence import intervals, published, statistics
from repro.evidence.comparisons import Key
from repro.evidence.groups import Group
from repro.evidence.published import Comparable, ContextTable
from repro.evidence.records import counted
from repro.evidence.verdicts import BUDGET_TOLERANCE

Standing = Literal["higher", "lower", "not told apart", "too few runs", "no spread"]


@dataclasses.dataclass(frozen=True)
class ExternalRow:
    """One number of another publication beside our learning curve at the same budget.

    Attributes:
        paper, experiment, task, agent: names of our runs.
        at: budget of the comparison, in `unit_of_budget`, including steps that fill a replay before training.
        unit_of_budget: `frames` or `steps`.
        unit: unit of `value` and `number`.
        value: return of training episodes in our learning curve at that budget, mean over seeds.
        interval: 95 % interval of `value` over seeds; None with a single seed, or if all seeds have the same value.
        seeds: number of seeds.
        trained: smallest whole budget of our runs, which their schedules follow.
        title, column, protocol: title, column and protocol of the other publication's table.
        number: number of the other publication.
        spread: printed uncertainty of `number`, a number or (low, high), or None.
        spread_of: meaning of `spread`, or None.
        same_agent: whether it is the same algorithm; if not, it is only a yardstick.
    """

    paper: str
    experiment: str
    task: str
    agent: str
    at: int
    unit_of_budget: str
    unit: str
    value: float
    interval: statistics.Interval | None
    seeds: int
    trained: int
    title: str
    column: str
    protocol: Mapping[str, str]
    number: float
    spread: Any
    spread_of: str | None
    same_agent: bool

    @property
    def standing(self) -> Standing:
        """Position of our interval relative to their number, which is taken without its spread."""
        if self.interval is None:
            return "too few runs" if self.seeds < 2 else "no spread"
        low, high = self.interval
        return "higher" if low > self.number else "lower" if high < self.number else "not told apart"


def make_external_rows(
    groups: Mapping[Key, Group], directory: pathlib.Path = published.CONTEXT_DIR
) -> list[ExternalRow]:
    """Returns a row for each number of another publication whose budget our runs have reached, by our agent and task.

    Args:
        groups: current records, from `group_records`.
        directory: folder of the context tables.

    Raises:
        PublishedError: as for `published.context`.
    """
    rows = [
        row
        for table in published.context(directory)
        for item in table.compared
        for key, group in groups.items()
        if key[0] in table.papers and f"{key[1]}/{key[3]}" == item.agent
        if (row := _make_row(table, item, key, group)) is not None
    ]
    return sorted(rows, key=lambda row: (row.paper, row.experiment, row.agent, row.task))


def _make_row(table: ContextTable, item: Comparable, key: Key, group: Group) -> ExternalRow | None:
    """Returns the row of one cell; None if it has no number or no runs of ours reach its budget."""
    paper, experiment, task, agent = key
    index = table.columns.index(item.column)
    number = table.rows[task][index] if task in table.rows else None
    runs = [
        of_scale.records
        for of_scale in group.by_scale()
        if of_scale.records and all("diverged" in r or _reaches(r, table, item) for r in of_scale.records)
    ]
    if number is None or not runs:
        return None
    records = runs[-1]  # runs of the smallest scale, whose schedules end nearest to that budget
    scores = [_score_at(record, item) for record in records]
    return ExternalRow(
        paper=paper,
        experiment=experiment,
        task=task,
        agent=agent,
        at=item.at,
        unit_of_budget=counted(item.budget_field),
        unit=table.unit,
        value=float(np.mean(scores)),
        interval=intervals.mean_interval(scores),
        seeds=len(records),
        trained=min(record[item.budget_field] for record in records),
        title=table.title,
        column=item.column,
        protocol=table.protocol,
        number=number,
        spread=table.spread[task][index] if task in table.spread else None,
        spread_of=table.spread_of,
        same_agent=item.same_agent,
    )


def _reaches(record: Mapping[str, Any], table: ContextTable, item: Comparable) -> bool:
    """Returns whether a record has the table's environment and unit and its learning curve reaches the budget."""
    if record["config"].get("env", {}).get("name") != table.environment or item.budget_field not in record:
        return False
    if record["evaluation"]["unit"] != table.unit or not record["curve"]:
        return False
    return record["curve"][-1][0] + _played_before(record) >= (1 - BUDGET_TOLERANCE) * item.at


def _score_at(record: Mapping[str, Any], item: Comparable) -> float:
    """Returns the learning curve's score at the budget, linear between its points."""
    used, scores = np.array(record["curve"], np.float64).T
    return float(np.interp(item.at, used + _played_before(record), scores))


def _played_before(record: Mapping[str, Any]) -> int:
    """Returns the steps that fill a replay before the budget begins to count, as with ReF-ER."""
    return record["config"].get("memory", {}).get("start_steps", 0)
