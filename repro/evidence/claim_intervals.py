"""Intervals of claims: the numbers that other runs of the same agents on the same tasks might have given.

A number that has an interval in closed form on each task gets the average of these intervals over tasks, or a bootstrap
if its runs are the best of many. Any other number gets a bootstrap of whole runs. The largest number over tasks has a
method of its own.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from repro.evidence import comparisons, intervals, statistics, task_aggregates, task_measures
from repro.evidence.claim_kinds import Claim
from repro.evidence.comparisons import Records

COUNT_REACH = 0.25
"""Reach of a known count's interval to either side: under half a step, so that a margin of half a task holds it."""


def find_interval(
    claim: Claim,
    tasks: Sequence[Sequence[Records]],
    counted: Sequence[Sequence[Records]],
    numbers: Sequence[np.ndarray],
    best: int | None,
    rng: np.random.Generator,
    confidence: float = intervals.LEVEL,
    missing: int = 0,
) -> statistics.Interval | None:
    """Returns the interval of a claim's number, by the method of the claim's kind; None if it has none.

    Args:
        claim: claim of the row.
        tasks: for each task all runs of each agent, ours first.
        counted: for each task those runs that count.
        numbers: for each task the number that `claim.of_task` gives for the counted runs with
            `task_measures.equal_weights`.
        best: how many runs of each agent count; None for all.
        rng: random numbers of the resamples.
        confidence: confidence level in (0, 1).
        missing: number of other tasks, which may have any result; 0 for a claim that is not about each task.
    """
    together, matched = _are_dependent(tasks), are_matched(claim, tasks)
    if claim.over_tasks is task_aggregates.largest:
        found = largest_interval(claim, tasks, confidence)
        return (found[0], math.inf) if found and missing else found
    if claim.task_interval is None:
        return bootstrap_interval(claim, tasks, rng, confidence, best, together, missing) if matched else None
    interval = None
    if best is not None and any(len(runs) > best for by_agent in tasks for runs in by_agent):
        interval = reselected_interval(claim, tasks, best, rng, together, matched, confidence)
    if interval is None:
        of_task = functools.partial(claim.task_interval, confidence=confidence)
        reach = claim.least_reach and functools.partial(claim.least_reach, confidence=confidence)
        interval = averaged_interval(of_task, counted, [float(number[0]) for number in numbers], any(together), reach)
    return interval


def are_matched(claim: Claim, tasks: Sequence[Sequence[Records]]) -> bool:
    """Returns whether each agent whose scores on several tasks are dependent has the same runs on all tasks.

    Counts and the largest of the tasks do not need this, because their intervals are made task by task: always True.

    Args:
        claim: claim of the row.
        tasks: for each task the runs of each agent.
    """
    if claim.count is not None or claim.over_tasks is task_aggregates.largest:
        return True
    dependent = [of_tasks for of_tasks, shared in zip(zip(*tasks), _are_dependent(tasks)) if shared]
    return all(map(comparisons.are_same_runs, dependent))


def bootstrap_interval(
    claim: Claim,
    tasks: Sequence[Sequence[Records]],
    rng: np.random.Generator,
    confidence: float = intervals.LEVEL,
    best: int | None = None,
    together: Sequence[bool] | None = None,
    missing: int = 0,
) -> statistics.Interval | None:
    """Returns the percentile bootstrap interval of a claim, at the level that `statistics.expanded_level` gives.

    Whole runs are resampled within each agent and task, so that a curve stays one curve, and so that a run that learned
    all tasks is in or out of a resample on all of them. If the best of many runs count, each resample chooses its own.

    A count has an interval on each task, at Bonferroni's level for all tasks, and the ends are added up. If they meet,
    the count is known to the nearest whole number, and its interval reaches `COUNT_REACH` of a step to either side.
    A condition that must hold in all of several comparisons holds if each of them confirms it at the task's level, and
    fails if one of them refutes it at Bonferroni's level for all comparisons. For a condition that must hold in any of
    several comparisons, the two levels are swapped. A place counts from the number of agents that are surely ahead to
    the number that are not surely behind, at the level for all comparisons.

    Args:
        claim: claim of the row.
        tasks: for each task the runs of each agent, ours first.
        rng: random numbers of the resamples.
        confidence: confidence level in (0, 1).
        best: how many runs of each agent count; None for all.
        together: for each agent, whether its i-th record of each task is of the same run or has the same settings, so
            that they are resampled together; None if no agent's are. Ignored for a count.
        missing: for a count: number of other tasks, which are open.

    Returns:
        Interval, or None with fewer than `statistics.MIN_BOOTSTRAP_RUNS` runs of an agent on a task, or if all
        resamples give the same number and it is not a count.
    """
    sizes = [len(group) for by_agent in tasks for group in by_agent]
    if min(sizes) < statistics.MIN_BOOTSTRAP_RUNS:
        return None

    def resample(group: Records) -> np.ndarray:
        return rng.multinomial(len(group), np.full(len(group), 1 / len(group)), size=claim.resamples)

    if together is None or claim.count is not None:
        together = [False] * len(tasks[0])
    parts = claim.parts(len(tasks[0])) if claim.parts is not None else [tuple(range(len(tasks[0])))]
    numbers = []
    for by_agent, counts in zip(tasks, _resample_tasks(tasks, together, resample)):
        weights = [_weights(*pair, best) for pair in zip(by_agent, counts)]
        numbers.append([claim.of_task([by_agent[i] for i in part])([weights[i] for i in part]) for part in parts])
    if claim.count is not None:
        return _count_interval(claim, tasks, parts, numbers, confidence, missing)
    tail = _tail(tasks, confidence, together)
    resampled = claim.over_tasks(np.stack([of_all for (of_all,) in numbers]))
    low, high = map(statistics.rounded, _ends(claim, resampled, tail))
    return (low, high) if low < high else None


def reselected_interval(
    claim: Claim,
    tasks: Sequence[Sequence[Records]],
    best: int,
    rng: np.random.Generator,
    together: Sequence[bool],
    matched: bool,
    confidence: float = intervals.LEVEL,
) -> statistics.Interval | None:
    """Returns a bootstrap interval of a number that is computed from the chosen runs alone, not from weights.

    Args:
        claim: claim whose number is a mean over tasks.
        tasks, best, rng, together: as for `bootstrap_interval`.
        matched: whether agents in `together` do have the same runs on all tasks. If not, the ends of the tasks' own
            intervals are averaged, as if the tasks were fully dependent.
        confidence: confidence level in (0, 1).

    Returns:
        Interval, or None with fewer than `statistics.MIN_BOOTSTRAP_RUNS` runs of an agent on a task, or if all
        resamples give the same number.
    """
    if min(len(runs) for by_agent in tasks for runs in by_agent) < statistics.MIN_BOOTSTRAP_RUNS:
        return None

    def resample(runs: Records) -> np.ndarray:
        return rng.integers(len(runs), size=(statistics.CURVE_RESAMPLES, len(runs)))

    numbers = []
    shared = [is_shared and matched for is_shared in together]
    for by_agent, picks in zip(tasks, _resample_tasks(tasks, shared, resample)):
        resampled = []
        for of_agents in zip(*picks):
            samples = [[runs[i] for i in of_agent] for runs, of_agent in zip(by_agent, of_agents)]
            chosen = [comparisons.best_of(sample, best) for sample in samples]
            resampled.append(claim.of_task(chosen)(task_measures.equal_weights(chosen))[0])
        numbers.append(resampled)
    if matched:
        tail = _tail(tasks, confidence, together)
        ends = _ends(claim, claim.over_tasks(np.array(numbers)), tail)
    else:
        tails = [_tail([by_agent], confidence) for by_agent in tasks]
        of_tasks = [_ends(claim, np.array(resampled), tail) for resampled, tail in zip(numbers, tails)]
        ends = claim.over_tasks(np.array(of_tasks))
    low, high = map(statistics.rounded, ends)
    return (low, high) if low < high else None


def _ends(claim: Claim, resampled: np.ndarray, tail: float) -> np.ndarray:
    """Returns the two quantiles [2] of resamples [R] that leave out a share `tail` at each end.

    `task_measures.RATIO_CAP`, which stands for no number, is not averaged with one: such quantiles are resamples.
    """
    if claim.never:
        ends = np.quantile(resampled, tail, method="lower"), np.quantile(resampled, 1 - tail, method="higher")
        return np.array(ends)
    return np.quantile(resampled, [tail, 1 - tail])


def largest_interval(
    claim: Claim, tasks: Sequence[Sequence[Records]], confidence: float = intervals.LEVEL
) -> statistics.Interval | None:
    """Returns the interval of the largest of the tasks' means: between the largest ends of their Student's intervals.

    Each task's interval is at Bonferroni's level for all tasks. A bootstrap of the largest would lie too high, because
    chance makes one of similar tasks the largest.

    Returns:
        Interval, or None if a task has fewer runs than `claim.interval_runs` or the ends are equal.
    """
    of_each = level_of_each(len(tasks), confidence)
    of_runs = [claim.of_task(by_agent)([np.eye(len(runs)) for runs in by_agent]) for by_agent in tasks]
    if min(map(len, of_runs)) < claim.interval_runs:
        return None
    found = [intervals.mean_interval(values, of_each) or (values[0], values[0]) for values in of_runs]
    low, high = (statistics.rounded(max(ends)) for ends in zip(*found))
    return (low, high) if low < high else None


def averaged_interval(
    of_task: Callable[..., statistics.Interval | None],
    counted: Sequence[Sequence[Records]],
    numbers: Sequence[float],
    dependent: bool,
    least_reach: Callable[..., float] | None = None,
) -> statistics.Interval | None:
    """Returns the interval of a mean over tasks from the intervals of the tasks; None if a task has none.

    Args:
        of_task: function of a task's number and of how many runs of each agent count there, as `Claim.task_interval`.
        counted: for each task the runs of each agent that count.
        numbers: number of each task.
        dependent: whether some agent learned the tasks together or with the same sampled settings.
        least_reach: for a probability, function as `Claim.least_reach`; None for other numbers.
    """
    found = [of_task(number, *map(len, by_agent)) for number, by_agent in zip(numbers, counted)]
    known = [interval for interval in found if interval is not None]
    if len(known) < len(found):
        return None
    if least_reach is not None and len(known) > 1 and not dependent:
        reaches = [least_reach(*map(len, by_agent)) for by_agent in counted]
        low, high = intervals.average_probabilities(numbers, known, reaches)
    else:
        low, high = intervals.average(numbers, known, dependent)
    return statistics.rounded(low), statistics.rounded(high)


def can_be_ordered(by_agent: Sequence[Records], tasks: int, confidence: float = intervals.LEVEL) -> bool:
    """Returns whether there are enough runs for one agent's to be ahead of another's by more than chance.

    If n and m runs come from the same distribution, one of their binom(n + m, n) orders has all n above all m.

    Args:
        by_agent: the runs of each agent on a task, ours first.
        tasks: number of decisions that share the level.
        confidence: confidence level of all of these decisions together.
    """
    ours, *others = map(len, by_agent)
    return all(_can_order(ours, n, tasks, confidence) for n in others)


def runs_to_order(tasks: int) -> int:
    """Returns the fewest runs of each of two agents with which `can_be_ordered` is true at `intervals.LEVEL`."""
    return next(n for n in itertools.count(1) if _can_order(n, n, tasks, intervals.LEVEL))


def _can_order(ours: int, others: int, tasks: int, confidence: float) -> bool:
    return 1 / math.comb(ours + others, others) <= (1 - level_of_each(tasks, confidence)) / 2


def _are_dependent(tasks: Sequence[Sequence[Records]]) -> list[bool]:
    """Returns for each agent whether chance may move its scores on several tasks at once."""
    return [comparisons.are_dependent(of_tasks) for of_tasks in zip(*tasks)]


def _resample_tasks(
    tasks: Sequence[Sequence[Records]], shared: Sequence[bool], resample: Callable[[Records], np.ndarray]
) -> Iterator[list[np.ndarray]]:
    """Yields for each task the resamples of each agent's runs; agents in `shared` have the same ones on all tasks."""
    of_all_tasks = [resample(runs) if is_shared else None for runs, is_shared in zip(tasks[0], shared)]
    for by_agent in tasks:
        yield [resample(runs) if of_all is None else of_all for runs, of_all in zip(by_agent, of_all_tasks)]


def _count_interval(
    claim: Claim,
    tasks: Sequence[Sequence[Records]],
    parts: Sequence[tuple[int, ...]],
    numbers: Sequence[Sequence[np.ndarray]],
    confidence: float,
    missing: int,
) -> statistics.Interval:
    """Returns the interval of a count; a task with too few runs for any order counts as open.

    Args:
        claim: claim with a `count`.
        tasks: as for `bootstrap_interval`.
        parts: indices of the agents of each comparison.
        numbers: for each task and each comparison the numbers of the resamples, [R].
        confidence: confidence level of all tasks together.
        missing: number of other tasks, which are open.
    """
    assert claim.count is not None
    of_each = level_of_each(len(tasks), confidence)
    of_part = level_of_each(len(parts), of_each)
    ends = []
    for by_agent, of_parts in zip(tasks, numbers):
        compared = [([by_agent[i] for i in part], resampled) for part, resampled in zip(parts, of_parts)]
        lows, highs = zip(*(_count_ends(claim, *pair, of_part) for pair in compared))
        alone = [_count_ends(claim, *pair, of_each) for pair in compared]
        ends.append(
            {
                "all": (min(low for low, _ in alone), min(highs)),
                "any": (max(lows), max(high for _, high in alone)),
                "place": (1 + sum(lows) - len(lows), 1 + sum(highs) - len(highs)),
            }[claim.joined_by]
        )
    ends += [claim.count(len(tasks[0]))] * missing
    low, high = (float(claim.over_tasks(np.array(end)[:, None])[0]) for end in zip(*ends))
    if low == high:
        reach = COUNT_REACH if claim.takes_all_tasks else COUNT_REACH / len(tasks)
        low, high = low - reach, high + reach
    return statistics.rounded(low), statistics.rounded(high)


def _count_ends(
    claim: Claim, by_agent: Sequence[Records], resampled: np.ndarray, confidence: float
) -> statistics.Interval:
    """Returns the interval of a count on one task from the numbers of its resamples, [R]; a tie leaves it open."""
    assert claim.count is not None
    if not can_be_ordered(by_agent, 1, confidence):
        return claim.count(len(by_agent))
    tail = _tail([by_agent], confidence)
    low, high = np.quantile(resampled, tail, method="lower"), np.quantile(resampled, 1 - tail, method="higher")
    return float(math.floor(low)), float(math.ceil(high))  # the numbers between are ties


def _tail(tasks: Sequence[Sequence[Records]], confidence: float, together: Sequence[bool] = ()) -> float:
    """Returns the share of resamples on either side of an interval.

    The runs of an agent in `together` are the same on all tasks and may cause all of the spread. The degrees of freedom
    are then those of the agent with the fewest.
    """
    sizes = [len(group) for by_agent in tasks for group in by_agent]
    freedom = sum(sizes) - len(sizes)
    if any(together):
        of_agents = [[len(group) - 1 for group in of_tasks] for of_tasks in zip(*tasks)]
        freedom = min(spare[0] if shared else sum(spare) for spare, shared in zip(of_agents, together))
    return (1 - statistics.expanded_level(confidence, min(sizes), freedom)) / 2


def level_of_each(number: int, confidence: float = intervals.LEVEL) -> float:
    """Returns Bonferroni's confidence level of each of `number` intervals for a given level of all of them."""
    return 1 - (1 - confidence) / number


def _weights(runs: Records, counts: np.ndarray, best: int | None) -> np.ndarray:
    """Returns weights of runs, [R, runs], from how often each is in a resample, [R, runs]; the best count, or all."""
    if best is None:
        return counts / len(runs)
    return statistics.best_weights([record["evaluation"]["mean"] for record in runs], counts, best)
