"""Claims that one agent does better than others, answered from the records of all of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from repro.evaluation import run_measures, statistics
from repro.evaluation.published import PublishedRow
from repro.evaluation.records import runs_behind

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
        tasks = compared(printed, runs, [other])
        if not tasks:
            return {}, ""
        ours, theirs = ({task: _returns(sides[i]) for task, sides in tasks.items()} for i in (0, 1))
        value, interval = statistics.probability_of_improvement(ours, theirs, np.random.default_rng(seed))
        found.append((value, interval, tasks))
    sign = -1 if printed.better in ("less", "under") else 1
    value, interval, tasks = min(found, key=lambda item: sign * item[0])
    total = TASK_SETS.get(printed.task, 1)
    fields = {
        "value": value,
        "interval": interval if len(tasks) == total else None,
        "interval_over": "seeds",
        **runs_behind([side for sides in tasks.values() for side in sides], budget_field),
    }
    note = "" if len(tasks) == total else f"over the {len(tasks)} of {total} tasks with records of both"
    return fields, note


def compared(
    printed: PublishedRow,
    runs: Mapping[tuple[str, str, str, str], Records],
    others: Sequence[str],
    needs: Sequence[str] = (),
) -> dict[str, list[Records]]:
    """Returns task to the records of each agent of a claim, ours first, for each task of the row with enough of them.

    Enough is two runs of each agent, or one where there is no other, all of one scale.

    Args:
        printed: the claim.
        runs: (paper, experiment, task, agent) to current records of one scale.
        others: `agent`, or `experiment/agent` of another experiment.
        needs: what a record must hold to count, as for `run_measures.holds`.
    """
    agents = [(str(printed.experiment), str(printed.agent))]
    agents += [(of or str(printed.experiment), name) for of, _, name in (other.rpartition("/") for other in others)]
    least = 2 if others else 1
    found = {}
    for task in sorted({task for paper, _, task, _ in runs if paper == printed.paper}):
        if printed.task not in TASK_SETS and task != printed.task:
            continue
        sides: list[Records] = [
            [
                record
                for record in _best_runs(printed, runs.get((printed.paper, of, task, name), ()))
                if run_measures.holds(record, needs)
            ]
            for of, name in agents
        ]
        if min(map(len, sides)) >= least and len({side[0]["scale"] for side in sides}) == 1:
            found[task] = sides
    return found


def _best_runs(printed: PublishedRow, records: Records) -> Records:
    """Returns the runs that count: where `protocol["best"]` is a number, so many of those that end best.

    A paper that searches for hyper-parameters reports the best settings of many; each of ours is a run.
    """
    count = printed.protocol.get("best")
    if count is None:
        return records
    return sorted(records, key=lambda record: -record["evaluation"]["mean"])[:count]


def _returns(records: Records) -> list[float]:
    return [record["evaluation"]["mean"] for record in records]
