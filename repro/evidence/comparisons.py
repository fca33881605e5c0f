"""Records that a claim compares, for each agent that it names and each task, and what is missing."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from repro.config import SCALES
from repro.config import tasks as tasks_of
from repro.evidence import published, run_measures, statistics
from repro.evidence.published import PublishedRow

MEMBERS: Mapping[str, tuple[str, ...]] = {
    "sweep4": ("alien", "amidar", "assault", "asterix"),
    "dmlab5": (
        "rooms_watermaze",
        "rooms_keys_doors_puzzle",
        "lasertag_three_opponents_small",
        "explore_goal_locations_small",
        "seekavoid_arena_01",
    ),
    "acer_control": ("cartpole", "reacher3", "cheetah", "fish", "walker", "humanoid"),
    "dm_control_humanoid": ("humanoid_stand", "humanoid_walk", "humanoid_run"),
}
"""Sets whose tasks are listed here because their experiments also have other tasks."""
TASK_SETS = {
    "atari57": 57,
    "atari5": 5,
    "dmlab30": 30,
    "mujoco_gym": 10,
    "dm_control_features": 28,
    "dm_control_pixels": 28,
    "rwrl": 12,
    "games_retrace_above": 57,
    "games_retrace_below": 57,
    **{name: len(tasks) for name, tasks in MEMBERS.items()},
}
"""Names of sets of tasks to their sizes; any other name is that of a single task.

A part of a set that is selected by the runs themselves, by `protocol["split_by"]`, has the size of the whole set."""
OF_ATARI57 = ("atari57", "games_retrace_above", "games_retrace_below")
"""Sets whose members are the games with printed random and human scores."""

Records = Sequence[Mapping[str, Any]]
Key = tuple[str, str, str, str]
"""Paper, experiment, task, agent."""
Runs = Mapping[Key, Records]
"""Current records, of every scale."""


@dataclasses.dataclass(frozen=True)
class ClaimResult:
    """Our result for a claim.

    Attributes:
        value: number in the unit of the published row.
        interval: 95 % interval over the seeds of the available tasks; None if there are too few runs for one.
        runs: records behind the number, grouped by agent and task.
        compared: `runs` and those of the comparisons that came out stronger.
        shortfalls: what is missing of what the row is about: tasks or agents.
        note: further facts that a reader must know, or an empty string.
        candidates: if the best runs of each agent count, the records that each group of `compared` was chosen from;
            None if all runs count.
        alternatives: intervals that must give the same answer, by a name in words. If only a part of the row's tasks is
            available: the intervals without each of them, or the one with any result on the others. If this is one of
            several comparisons and contradicts: its interval at a level for all comparisons. A value is None if no task
            is left or there are too few runs.
    """

    value: float
    interval: statistics.Interval | None
    runs: Sequence[Records]
    compared: Sequence[Records]
    shortfalls: tuple[str, ...] = ()
    note: str = ""
    candidates: Sequence[Records] | None = None
    alternatives: Mapping[str, statistics.Interval | None] = dataclasses.field(default_factory=dict)


def number_of_tasks(name: str) -> int:
    """Returns how many tasks a row's `task` stands for: the size of a set, or 1."""
    return TASK_SETS.get(name, 1)


def with_candidates(result: ClaimResult, printed: PublishedRow) -> ClaimResult:
    """Returns a result with a note on the runs that the best were chosen from; without candidates if all runs count.

    Args:
        result: result for the row, with the candidates of all its comparisons.
        printed: row; its `protocol["best"]` is how many runs of a search count for each agent.
    """
    best = number_of_best(printed, [record for group in result.compared for record in group])
    if best is None or result.candidates is None:
        return dataclasses.replace(result, candidates=None)
    sizes = [len(group) for group in result.candidates]
    if max(sizes) <= best:
        return result
    count = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    note = f"the best {best} of {count} runs of each agent count"
    return dataclasses.replace(result, note="; ".join(filter(None, (result.note, note))))


def runs_by_task(
    printed: PublishedRow,
    runs: Runs,
    others: Sequence[str],
    min_runs: int = 2,
    needs: Sequence[str] = (),
    interval_runs: int = 1,
) -> tuple[dict[str, list[Records]], dict[str, int]]:
    """Returns the records that can be compared on each task.

    A task has records of one scale. If several scales have enough runs, it is the largest, whose budget is nearest to
    the paper's, unless that one has too few runs for an interval and a smaller one has enough. `protocol["scale"]` may
    restrict the row to one scale. All records are returned, even if only the best of them count (`best_runs`); then
    agents are compared by the same settings, since the best of many runs are better than the best of few.

    Args:
        printed: row that names our agent and the tasks.
        runs: runs of all agents.
        others: agents to compare with, named as in `protocol["against"]`.
        min_runs: fewest runs of each agent.
        needs: parts that a run must have to count, as for `run_measures.holds`.
        interval_runs: fewest runs of each agent for an interval.

    Returns:
        Task to the records of each agent, ours first, for each task of the row with enough runs at one scale; and for
        every task the number of runs of the agent with the fewest, at the scale where this number is largest.
    """
    found: dict[str, list[Records]] = {}
    most: dict[str, int] = {}
    for task in _tasks(printed, runs):
        for scale in _scales(printed):
            by_agent = _of_same_settings(printed, list(_usable(printed, runs, task, others, needs, (scale,)).values()))
            fewest, before = (min(map(len, groups), default=0) for groups in (by_agent, found.get(task, ())))
            most[task] = max(fewest, most.get(task, 0))
            if fewest >= max(min_runs, min(before, interval_runs)):
                found[task] = by_agent
    return found, most


def _of_same_settings(printed: PublishedRow, by_agent: list[Records]) -> list[Records]:
    """Returns the runs of those seeds that every agent has, if the best of each agent's sampled settings count."""
    if number_of_best(printed, [record for runs in by_agent for record in runs]) is None:
        return by_agent
    shared = set.intersection(*({record["seed"] for record in runs} for runs in by_agent))
    return [[record for record in runs if record["seed"] in shared] for runs in by_agent]


def too_few_runs(fewest: Mapping[str, int], needed: int) -> list[str]:
    """Returns a phrase for each task that has runs, but fewer than `needed` of some agent.

    Args:
        fewest: task to the number of runs of the agent with the fewest.
        needed: number of runs that each agent needs.
    """
    return [f"without {task}, which has {runs} of {needed} runs" for task, runs in fewest.items() if 0 < runs < needed]


def shortage(
    printed: PublishedRow, runs: Runs, others: Sequence[str], min_runs: int = 2, needs: Sequence[str] = ()
) -> str:
    """Says which runs a row without a result needs; empty if none of its agents has any run.

    Arguments as for `runs_by_task`.
    """
    tasks = _tasks(printed, runs)
    if not any(group for task in tasks for group in _usable(printed, runs, task, others, ()).values()):
        return ""
    found = [_usable(printed, runs, task, others, needs) for task in tasks]
    short = [name for name in found[0] if max(len(by_agent[name]) for by_agent in found) < min_runs]
    every = (
        "each agent, at one scale and with the same settings,"
        if "best" in printed.protocol
        else "each agent, at one scale,"
    )
    runs_of = f"{min_runs} run{'s' if min_runs > 1 else ''} of {', '.join(short) or every}"
    where = "one task" if printed.task in TASK_SETS else printed.task
    where += f" at scale {printed.protocol['scale']}" if "scale" in printed.protocol else ""
    holding = f", with {' and '.join(need.rpartition('.')[2] for need in needs)}" if needs else ""
    return f"needs {runs_of} on {where}{holding}"


def experiment_and_agent(printed: PublishedRow, name: str) -> tuple[str, str]:
    """Returns experiment and agent of a name `<experiment>/<agent>`, or `<agent>` for one of the row's experiment."""
    experiment, _, agent = name.rpartition("/")
    return experiment or str(printed.experiment), agent


def _scales(printed: PublishedRow) -> Sequence[str]:
    """Returns the scales whose runs may answer a row, the smallest first."""
    return (printed.protocol["scale"],) if "scale" in printed.protocol else SCALES


def _tasks(printed: PublishedRow, runs: Runs) -> list[str]:
    """Returns the tasks of a row on which its paper has runs, in alphabetic order."""
    tasks = sorted({task for paper, _, task, _ in runs if paper == printed.paper})
    if printed.task not in TASK_SETS:
        return [task for task in tasks if task == printed.task]
    known = frozenset(published.normaliser("atari57")) if printed.task in OF_ATARI57 else MEMBERS.get(printed.task)
    members = tasks if known is None else known
    return [task for task in tasks if task in members]


def tasks_of_aggregate(
    printed: PublishedRow, runs: Runs, published_dir: pathlib.Path = published.PUBLISHED_DIR
) -> tuple[str, ...]:
    """Returns the tasks of an aggregate: those of its normaliser, or else those of our runs if they are the whole set.

    Args:
        printed: row with a statistic.
        runs: runs of all agents.
        published_dir: folder of published numbers.

    Returns:
        Names of tasks. Empty without a normaliser if our runs are not on as many tasks as the set has, or if the row is
        not an aggregate of plain evaluations.
    """
    if printed.normaliser is not None:
        return tuple(published.normaliser(printed.normaliser, published_dir))
    names = (printed.paper, printed.experiment, printed.agent)
    ours = sorted(
        task
        for (paper, experiment, task, agent), found in runs.items()
        if (paper, experiment, agent) == names and found
    )
    is_whole = printed.task in TASK_SETS and len(ours) == number_of_tasks(printed.task)
    return tuple(ours) if is_whole and printed.measure == "evaluation" and printed.statistic != "mean_capped" else ()


def _usable(
    printed: PublishedRow,
    runs: Runs,
    task: str,
    others: Sequence[str],
    needs: Sequence[str],
    scales: Sequence[str] = SCALES,
) -> dict[str, Records]:
    """Returns each agent's runs on one task that have the needed parts and one of the scales, ours first."""
    found: dict[str, Records] = {}
    for name in (str(printed.agent), *others):
        experiment, agent = experiment_and_agent(printed, name)
        found[name] = _candidates(runs, (printed.paper, experiment, task, agent), needs, scales)
    return found


def _candidates(runs: Runs, key: Key, needs: Sequence[str], scales: Sequence[str]) -> Records:
    """Returns one agent's runs on one task that have the needed parts and one of the scales."""
    return [
        record
        for record in runs.get(key, ())
        if record["scale"] in scales and all(run_measures.holds(record, need) for need in needs)
    ]


def key_of(record: Mapping[str, Any]) -> Key:
    """Returns the paper, experiment, task and agent of a record."""
    return (record["paper"], record["experiment"], record["task"], record["agent"])


def learned_together(of_tasks: Sequence[Records]) -> bool:
    """Returns whether an agent learned several tasks together, so that chance may raise or lower all scores at once.

    Args:
        of_tasks: runs of the agent on each task.
    """
    return len(of_tasks) > 1 and all(tasks_of(record["config"]) for records in of_tasks for record in records)


def are_dependent(of_tasks: Sequence[Records]) -> bool:
    """Returns whether an agent's scores on several tasks depend on each other.

    They do if the tasks are learned together, and if each seed samples settings, which are the same on all tasks.

    Args:
        of_tasks: runs of the agent on each task.
    """
    searched = all(record.get("sampled_hparams") for records in of_tasks for record in records)
    return learned_together(of_tasks) or (len(of_tasks) > 1 and searched)


def are_same_runs(of_tasks: Sequence[Records]) -> bool:
    """Returns whether all tasks have the same runs, by scale and seed, in the same order."""
    return len({tuple((record["scale"], record["seed"]) for record in records) for records in of_tasks}) == 1


def best_runs(printed: PublishedRow, records: Records) -> Records:
    """Returns the runs that count: the `number_of_best` runs that end best, or all if it is None."""
    count = number_of_best(printed, records)
    return records if count is None else best_of(records, count)


def number_of_best(printed: PublishedRow, records: Records) -> int | None:
    """Returns how many of some runs count; None for all.

    A paper that searches for hyper-parameters reports the best of many settings, and each of our runs has one setting.
    Among runs of a single setting, the best would be chosen by chance alone, so all runs count if any of them has no
    sampled settings.
    """
    return printed.protocol.get("best") if all(record.get("sampled_hparams") for record in records) else None


def best_of(records: Records, count: int) -> Records:
    """Returns the `count` runs that end best, or all if there are fewer."""
    return sorted(records, key=lambda record: -record["evaluation"]["mean"])[:count]
