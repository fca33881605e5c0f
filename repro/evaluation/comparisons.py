"""Claims that one agent does better than others, answered from the records of all of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from repro.evaluation import statistics
from repro.evaluation.published import PublishedRow
from repro.evaluation.records import SCALES, counted

UNIT = "probability of improvement"
"""Unit of the published rows that this module answers; they name the other agents in `protocol["against"]`.

A claim with `protocol["compared_by"]` is about something else than the final evaluation, and not answered here.
"""

TASK_SETS = {"atari57": 57, "atari5": 5, "dmlab30": 30, "dmlab5": 5, "mujoco_gym": 10, "acer_control": 6, "sweep4": 4}
"""Names of sets of tasks, and how many tasks there are in each; any other name is that of a single task."""

Records = Sequence[Mapping[str, Any]]


def is_comparison(printed: PublishedRow) -> bool:
    """Whether a published row is a claim of this kind."""
    return printed.unit == UNIT and "against" in printed.protocol and "compared_by" not in printed.protocol


def improvement(
    printed: PublishedRow, runs: Mapping[tuple[str, str, str, str], Records], budget_field: str, seed: int
) -> tuple[dict[str, Any], str]:
    """Returns our side of a claim as fields of a `Row`, and what a reader must know.

    A claim against several agents is as strong as its weakest comparison, which is the one shown.

    Args:
        printed: a row for which `is_comparison` holds.
        runs: (paper, experiment, task, agent) to current records of one scale.
        budget_field: the records' field that the budget is counted in.
        seed: of the resampling.
    """
    found = []
    for other in printed.protocol["against"]:
        pairs = dict(_pairs(printed, runs, other))
        if not pairs:
            return {}, ""
        ours = {task: _returns(mine) for task, (mine, _) in pairs.items()}
        theirs = {task: _returns(other_runs) for task, (_, other_runs) in pairs.items()}
        value, interval = statistics.probability_of_improvement(ours, theirs, np.random.default_rng(seed))
        found.append((value, interval, pairs))
    sign = -1 if printed.better in ("less", "under") else 1
    value, interval, pairs = min(found, key=lambda item: sign * item[0])
    every = [record for pair in pairs.values() for side in pair for record in side]
    total = TASK_SETS.get(printed.task, 1)
    fields = {
        "value": value,
        "interval": interval if len(pairs) == total else None,
        "interval_over": "seeds",
        "budget": min(record[budget_field] for record in every),
        "counts": counted(every[0], budget_field),
        "seeds": tuple(r["seed"] for r in min((side for pair in pairs.values() for side in pair), key=len)),
        "episodes": min(record["evaluation"]["episodes"] for record in every),
        "scale": min((record["scale"] for record in every), key=SCALES.index),
    }
    note = "" if len(pairs) == total else f"over the {len(pairs)} of {total} tasks with records of both"
    return fields, note


def _pairs(
    printed: PublishedRow, runs: Mapping[tuple[str, str, str, str], Records], other: str
) -> Iterator[tuple[str, tuple[Records, Records]]]:
    """Yields (task, (our records, theirs)) for each task of the row with two runs or more on both sides."""
    experiment, _, agent = other.rpartition("/")
    experiment = experiment or str(printed.experiment)
    for (paper, of, task, name), mine in sorted(runs.items()):
        if (paper, of, name) != (printed.paper, printed.experiment, printed.agent):
            continue
        if printed.task not in TASK_SETS and task != printed.task:
            continue
        mine = best_runs(printed, mine)
        theirs = best_runs(printed, runs.get((paper, experiment, task, agent), ()))
        if len(mine) > 1 and len(theirs) > 1 and mine[0]["scale"] == theirs[0]["scale"]:
            yield task, (mine, theirs)


def best_runs(printed: PublishedRow, records: Records) -> Records:
    """Returns the runs that count: where `protocol["best"]` is a number, so many of those that end best.

    A paper that searches for hyper-parameters reports the best settings of many; each of ours is a run.
    """
    count = printed.protocol.get("best")
    if count is None:
        return records
    return sorted(records, key=lambda record: -record["evaluation"]["mean"])[:count]


def _returns(records: Records) -> list[float]:
    return [record["evaluation"]["mean"] for record in records]
