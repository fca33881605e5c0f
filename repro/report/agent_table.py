"""Comparison of the agents of an experiment: means, interquartile means and probabilities of improvement."""

import dataclasses
from collections.abc import Collection, Mapping

import numpy as np

from repro.evidence import intervals, statistics
from repro.evidence.results import BOOTSTRAP_SEED

MIN_RUNS = 2
"""Fewest runs of an agent on a task for a comparison."""


@dataclasses.dataclass(frozen=True)
class AgentLine:
    """One agent over the tasks that it shares with the reference.

    Attributes:
        agent: name of the agent.
        tasks: number of these tasks.
        runs: number of the agent's runs on all of them.
        mean, interquartile_mean: means of the scores on a single task; None for several tasks, whose units differ.
        interval: 95 % interval of the interquartile mean; None with too few runs, or if all have the same score.
        improvement: probability that a run of the agent ends above one of the reference, averaged over tasks (Agarwal
            et al. 2021); None for the reference itself.
        improvement_interval: 95 % interval of `improvement`; None for the reference itself.
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
    """Returns a line for the first agent, the reference, and for each other agent that can be compared with it.

    Args:
        scores: agent to task to the scores of its runs, the reference first.
        dependent: agents whose scores on several tasks depend on each other, such as those that learned the tasks
            together. A comparison is dependent if one of its two agents is.

    Returns:
        Lines of the reference and of the others in the given order; empty if no other agent has enough runs on a task
        with enough runs of the reference.
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
