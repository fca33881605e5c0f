"""Claims that one agent does better than others, answered from the records of all of them."""

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from repro.evidence import run_measures, statistics
from repro.evidence.published import PublishedRow
from repro.evidence.records import SCALES

UNIT = "probability of improvement"
"""Unit of the published rows that this module answers; they name the other agents in `protocol["against"]`.

A claim with `protocol["compared_by"]` is about something else than the final evaluation, and not answered here.
"""

TASK_SETS = {
    "atari57": 57,
    "atari5": 5,
    "dmlab30": 30,
    "dmlab5": 5,
    "mujoco_gym": 10,
    "acer_control": 6,
    "sweep4": 4,
    "games_retrace_above": 57,
    "games_retrace_below": 57,
}
"""Names of sets of tasks, and how many tasks there are in each; any other name is that of a single task.

A part of a set that the runs themselves choose, by `protocol["split_by"]`, has the size of the whole set."""

Records = Sequence[Mapping[str, Any]]
Key = tuple[str, str, str, str]
"""Paper, experiment, task, agent."""
Runs = Mapping[Key, Records]
"""Current records, of every scale."""


def is_comparison(printed: PublishedRow) -> bool:
    """Whether a published row is a claim of this kind."""
    return printed.unit == UNIT and "against" in printed.protocol and "compared_by" not in printed.protocol


@dataclasses.dataclass(frozen=True)
class Answer:
    """Our side of a claim.

    Attributes:
        value: the number, in the unit of the published row.
        interval: 95 % bootstrap interval over the seeds of the tasks at hand; None with a single run of an agent on a
            task.
        sides: the records behind it, those of one agent on one task together.
        compared: these, and those of comparisons that came out stronger.
        complete: whether all tasks of the row's set, and all agents that the row names, are in it, and the best runs
            are chosen from equally many of each agent.
        note: what a reader must know; empty otherwise.
        candidates: where the best runs of each agent count, those that each of `compared` was chosen from; None where
            all runs count.
    """

    value: float
    interval: statistics.Interval | None
    sides: Sequence[Records]
    compared: Sequence[Records]
    complete: bool
    note: str
    candidates: Sequence[Records] | None = None


def improvement(printed: PublishedRow, runs: Runs, generator: np.random.Generator) -> Answer | str:
    """Returns our side of a claim, or in words which runs it waits for, as `shortage` says it.

    A claim against several agents is as strong as its weakest comparison, which is the one shown. Those without
    runs are left out.

    Args:
        printed: a row for which `is_comparison` holds.
        runs: of all agents.
        generator: draws the resamples.
    """
    found, left_out = [], []
    for other in printed.protocol["against"]:
        pairs = sides_by_task(printed, runs, [other])
        if not pairs:
            left_out.append(other)
            continue
        ours = {task: _returns(mine) for task, (mine, _) in pairs.items()}
        theirs = {task: _returns(other_runs) for task, (_, other_runs) in pairs.items()}
        found.append((*statistics.probability_of_improvement(ours, theirs, generator), pairs))
    if not found:
        return shortage(printed, runs, printed.protocol["against"])
    sign = -1 if printed.better in ("less", "under") else 1
    value, interval, pairs = min(found, key=lambda item: sign * item[0])
    total = TASK_SETS.get(printed.task, 1)
    notes = [without(left_out)] if left_out else []
    if len(pairs) < total:
        notes.append(f"over the {len(pairs)} of {total} tasks with records of both")
    answer = Answer(
        value,
        interval,
        sides=[side for pair in pairs.values() for side in pair],
        compared=[side for *_, every in found for pair in every.values() for side in pair],
        complete=not notes,
        note="; ".join(notes),
    )
    return with_candidates(answer, printed, runs)


def with_candidates(answer: Answer, printed: PublishedRow, runs: Runs, needs: Sequence[str] = ()) -> Answer:
    """Returns an answer with the runs that the best were chosen from; the same answer where all runs count.

    The best of many runs are better than the best of few, so an answer whose agents have unequal numbers of runs on a
    task is not complete.

    Args:
        answer: to the row.
        printed: says by `protocol["best"]` how many runs of each agent count.
        runs: of all agents, of which `answer` has some.
        needs: what a run must hold to count, as for `run_measures.holds`.
    """
    best = printed.protocol.get("best")
    if best is None:
        return answer
    candidates = [_candidates(runs, key_of(side[0]), needs, (side[0]["scale"],)) for side in answer.compared]
    by_task: dict[str, set[int]] = collections.defaultdict(set)
    for side in candidates:
        by_task[side[0]["task"]].add(len(side))
    chosen = [sizes for sizes in by_task.values() if max(sizes) > best]
    note = ""
    if chosen:
        fewest, most = min(map(min, chosen)), max(map(max, chosen))
        note = f"the best {best} of {fewest if fewest == most else f'{fewest} to {most}'} runs of each agent count"
    equal = all(len(sizes) == 1 for sizes in chosen)
    if not equal:
        note += ", though not all agents have equally many"
    return dataclasses.replace(
        answer,
        candidates=candidates,
        complete=answer.complete and equal,
        note="; ".join(filter(None, (answer.note, note))),
    )


def sides_by_task(
    printed: PublishedRow, runs: Runs, others: Sequence[str], least: int = 2, needs: Sequence[str] = ()
) -> dict[str, list[Records]]:
    """Returns task to the records of each agent, ours first, for each task of the row with enough of one scale.

    Of several such scales it is the largest, whose budget is nearest to the paper's.

    Args:
        printed: names our agent and the tasks.
        runs: of all agents.
        others: the agents to compare with, as `protocol["against"]` names them.
        least: runs of each agent.
        needs: what a run must hold to count, as for `run_measures.holds`.
    """
    found = {}
    for task in _tasks(printed, runs):
        for scale in SCALES:
            sides = list(_usable(printed, runs, task, others, needs, (scale,)).values())
            if min(map(len, sides)) >= least:
                found[task] = sides
    return found


def shortage(
    printed: PublishedRow, runs: Runs, others: Sequence[str], least: int = 2, needs: Sequence[str] = ()
) -> str:
    """Says which runs a row without an answer waits for; empty where none of its agents has any.

    Arguments as for `sides_by_task`.
    """
    tasks = _tasks(printed, runs)
    if not any(side for task in tasks for side in _usable(printed, runs, task, others, ()).values()):
        return ""
    found = [_usable(printed, runs, task, others, needs) for task in tasks]
    short = [name for name in found[0] if max(len(sides[name]) for sides in found) < least]
    runs_of = f"{least} run{'s' if least > 1 else ''} of {', '.join(short) or 'each agent, at one scale,'}"
    where = "one task" if printed.task in TASK_SETS else printed.task
    holding = f", with {' and '.join(need.rpartition('.')[2] for need in needs)}" if needs else ""
    return f"needs {runs_of} on {where}{holding}"


def experiment_and_agent(printed: PublishedRow, name: str) -> tuple[str, str]:
    """Whom a name in `protocol["against"]` means: `<experiment>/<agent>`, or an agent of the same experiment."""
    experiment, _, agent = name.rpartition("/")
    return experiment or str(printed.experiment), agent


def without(agents: Sequence[str]) -> str:
    """Says that agents of a claim are left out."""
    return f"without {', '.join(agents)}, which cannot be compared for lack of runs"


def _tasks(printed: PublishedRow, runs: Runs) -> list[str]:
    """The tasks of a row on which its paper has runs, in alphabetic order."""
    tasks = sorted({task for paper, _, task, _ in runs if paper == printed.paper})
    return tasks if printed.task in TASK_SETS else [task for task in tasks if task == printed.task]


def _usable(
    printed: PublishedRow,
    runs: Runs,
    task: str,
    others: Sequence[str],
    needs: Sequence[str],
    scales: Sequence[str] = SCALES,
) -> dict[str, Records]:
    """The runs of one task and of some scales that count, of each agent, ours first."""
    found: dict[str, Records] = {}
    for name in (str(printed.agent), *others):
        experiment, agent = experiment_and_agent(printed, name)
        found[name] = best_runs(printed, _candidates(runs, (printed.paper, experiment, task, agent), needs, scales))
    return found


def _candidates(runs: Runs, key: Key, needs: Sequence[str], scales: Sequence[str]) -> Records:
    """The runs of one agent on one task that are of some scales and hold what they must."""
    return [
        record
        for record in runs.get(key, ())
        if record["scale"] in scales and all(run_measures.holds(record, need) for need in needs)
    ]


def key_of(record: Mapping[str, Any]) -> Key:
    """Returns what a record is a run of."""
    return (record["paper"], record["experiment"], record["task"], record["agent"])


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
