"""The agents of an experiment beside each other: means, interquartile means and probabilities of improvement."""

import dataclasses
from collections.abc import Collection, Mapping

import numpy as np

from repro.evidence import intervals, statistics
from repro.evidence.results import BOOTSTRAP_SEED

MIN_RUNS = 2
"""Fewest runs of an agent on a task that are compared."""


@dataclasses.dataclass(frozen=True)
class AgentLine:
    """One agent over the tasks that it shares with the reference.

    Attributes:
        agent: name.
        tasks: how many they are.
        runs: of the agent on all of them.
        mean, interquartile_mean: of the scores of one task; None over several, whose units differ.
        interval: 95 %, of the interquartile mean; None with too few runs for one, or where all have one score.
        improvement: probability that a run of the agent ends above one of the reference, averaged over tasks (Agarwal
            et al. 2021); None for the reference itself.
        improvement_interval: 95 %.
    """

    agent: str
    tasks: int
    runs: int
    mean: float | None
    interquartile_mean: float | None
    interval: statistics.Interval | None
    improvement: float | None
    improvement_interval: statistics.Interval | None


def compare_agents(scores: Mapping[str, statistics.Scores], dependent: Collection[str] = ()) -> list[AgentLine]:
    """Returns a line for each agent with enough runs on a task of the first agent, which the others are compared with.

    Args:
        scores: agent to task to the scores of its runs, the reference first.
        dependent: agents of which chance may raise or lower what a run scores on all tasks at once, as where it learned
            them together; a comparison is as dependent as one of the two.

    Returns:
        The reference and the others in the given order; nothing where there is none to compare it with.
    """
    usable = {
        agent: {task: np.asarray(runs, float) for task, runs in by_task.items() if len(runs) >= MIN_RUNS}
        for agent, by_task in scores.items()
    }
    reference, *others = usable
    shared = {agent: [task for task in usable[agent] if task in usable[reference]] for agent in others}
    compared = [agent for agent in others if shared[agent]]
    if not compared:
        return []
    tasks = [task for task in usable[reference] if any(task in shared[agent] for agent in compared)]
    lines = [_line(reference, {task: usable[reference][task] for task in tasks}, None)]
    for agent in compared:
        ours = {task: usable[agent][task] for task in shared[agent]}
        lines.append(_line(agent, ours, usable[reference], not {agent, reference}.isdisjoint(dependent)))
    return lines


def _line(
    agent: str, ours: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray] | None, dependent: bool = False
) -> AgentLine:
    runs = sum(map(len, ours.values()))
    mean = middle = interval = improvement = improvement_interval = None
    if len(ours) == 1:
        mean, middle = (statistics.aggregate(ours, x) for x in (statistics.mean, statistics.interquartile_mean))
        rng = np.random.default_rng(BOOTSTRAP_SEED)
        interval = statistics.stratified_interval(ours, statistics.interquartile_mean, rng)
    if reference is not None:
        values, ends = [], []
        for task, scores in ours.items():
            theirs = reference[task]
            values.append(float(statistics.wins(scores, theirs).mean()))
            ends.append(intervals.improvement_interval(values[-1], len(scores), len(theirs)))
        improvement, improvement_interval = float(np.mean(values)), intervals.average(values, ends, dependent)
    return AgentLine(agent, len(ours), runs, mean, middle, interval, improvement, improvement_interval)
