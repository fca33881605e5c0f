"""Answers to claims about several runs: who ends higher or learns faster, divergence, places, sensitivity.

`claim_kinds` defines what a claim measures, and `claim_intervals` makes its interval. This module finds the tasks and
opponents whose runs can answer the claim, computes our result from them, and chooses the weakest of several
comparisons.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from repro.evidence import claim_intervals, comparisons, learning, statistics, task_aggregates, task_measures, verdicts
from repro.evidence.claim_kinds import SECONDS, Claim, find_claim
from repro.evidence.comparisons import ClaimResult, Records, Runs
from repro.evidence.published import PublishedRow
from repro.evidence.references import Differences, References


def answer(printed: PublishedRow, runs: Runs, rng: np.random.Generator, references: References) -> ClaimResult | str:
    """Returns our result for a claim, or a sentence that says which records are missing.

    A claim that compares agents needs two runs of each on a task, all of one scale. A claim that counts tasks needs all
    tasks of its set; other claims leave out tasks with too few runs if some task has enough to decide. Scores without
    learning answer no claim, and neither does an opponent whose settings are neither the paper's nor ours.

    Args:
        printed: row with a `claim`.
        runs: runs of all agents.
        rng: random numbers of the resamples.
        references: random players and the paper's settings.

    Raises:
        PublishedError: there is no such claim.
    """
    claim = find_claim(printed)
    if claim.above_random:
        random = functools.partial(_random_level, references)
        claim = dataclasses.replace(claim, of_task=functools.partial(claim.of_task, random=random))
    against = tuple(printed.protocol.get("against", ()))
    min_runs, opponents = find_opponents(printed, claim)
    found: list[tuple[ClaimResult, dict[str, list[Records]]]] = []
    reasons: list[str] = []
    compared: list[str] = []
    foreign = False
    for others in opponents:
        tasks, fewest = comparisons.runs_by_task(printed, runs, others, min_runs, claim.needs, claim.interval_runs)
        usable, unusable = _usable(printed, claim, tasks, references)
        reasons += unusable
        total = comparisons.number_of_tasks(printed.task)
        if claim.takes_all_tasks and 0 < len(usable) < total:
            reasons.append(f"{len(usable)} of {total} tasks can be compared, and their number needs all")
            continue
        if not usable:
            continue
        usable, needed, in_use = _with_enough_runs(printed, claim, usable, min_runs)
        reasons += comparisons.too_few_runs(fewest | in_use, needed)
        compared += others
        if any(claim.belongs(_chosen(printed, by_agent)) for by_agent in usable.values()):
            result = _measure(printed, claim, usable, rng)
            if len(usable) < total:
                if claim.is_of_each_task:
                    alternatives = _with_any_result_elsewhere(printed, claim, usable)
                else:
                    alternatives = _without_each(printed, claim, usable)
                result = dataclasses.replace(result, alternatives=alternatives)
            found.append((result, usable))
        else:
            foreign = True
    if not found:
        if foreign:
            return "none of the tasks with records of all agents compared belongs to this row"
        shortage = comparisons.shortage(printed, runs, against, min_runs, claim.needs)
        return "; ".join(dict.fromkeys(reasons)) or shortage
    results = [_at_level_of_all(printed, claim, *of_one, len(found)) for of_one in found]
    weakest = min(results, key=lambda result: (verdicts.strength(_find(printed, result)), _support(printed, result)))
    left_out = [other for other in against if other not in compared]
    without = (f"without {', '.join(left_out)}",) if left_out else ()
    weakest = dataclasses.replace(
        weakest,
        compared=[group for item in results for group in item.runs],
        candidates=[group for item in results for group in item.candidates or ()],
        shortfalls=(*dict.fromkeys(part for item in (weakest, *results) for part in item.shortfalls), *without),
        note="; ".join(filter(None, (weakest.note, *dict.fromkeys(reasons)))),
    )
    return comparisons.with_candidates(weakest, printed)


def find_opponents(printed: PublishedRow, claim: Claim) -> tuple[int, list[tuple[str, ...]]]:
    """Returns the fewest runs of each agent that a claim's comparisons need, and the other agents of each comparison.

    Args:
        printed: row with a `claim`.
        claim: kind of the claim, from `find_claim`.

    Returns:
        Number of runs, and names of agents as in `protocol["against"]`. A claim about a single agent has one
        comparison, without other agents.
    """
    against = tuple(printed.protocol.get("against", ()))
    min_runs = max(claim.min_runs, 2 if against else 1)
    return min_runs, [against] if claim.together or not against else [(other,) for other in against]


def runs_to_decide(printed: PublishedRow, learned: bool) -> int:
    """Returns the fewest runs of each agent on a task that decide a claim.

    Args:
        printed: row with a `claim`.
        learned: whether the runs come from training.

    Raises:
        PublishedError: there is no such claim.
    """
    claim = find_claim(printed)
    min_runs, _ = find_opponents(printed, claim)
    return max(min_runs, claim.interval_runs, verdicts.runs_to_decide(printed, learned))


def runs_to_order(printed: PublishedRow) -> int:
    """Returns the fewest runs of each agent that can decide every task of a count; 1 for claims that are not counts.

    Args:
        printed: row with a `claim`.

    Raises:
        PublishedError: there is no such claim.
    """
    claim = find_claim(printed)
    if claim.count is None:
        return 1
    tasks, (_, opponents) = comparisons.number_of_tasks(printed.task), find_opponents(printed, claim)
    return max(claim_intervals.runs_to_order(claim.orders(tasks, len(others))) for others in opponents)


def foreign_settings(printed: PublishedRow, claim: Claim, by_agent: Sequence[Records], differences: Differences) -> str:
    """Names settings of the first opponent that has any that are neither the paper's nor ours; empty if none has.

    Fields of `protocol["open_settings"]` do not count: the paper does not print their values, or the row names them
    among what is assumed.

    Args:
        printed: row of the claim.
        claim: kind of the claim.
        by_agent: one run or more of each agent, ours first.
        differences: function from a record to its settings that are not the paper's, as in `References`.
    """
    if claim.in_pairs and len(by_agent) > 2:
        pairs = (foreign_settings(printed, claim, pair, differences) for pair in (by_agent[:2], by_agent[2:]))
        return next(filter(None, pairs), "")
    ours, *others = [differences(group[0]) for group in by_agent]
    allowed = printed.protocol.get("open_settings", ())
    for group, theirs in zip(by_agent[1:], others):
        odd = [
            f"{name} {value[0]} for {value[1]}"
            for name, value in theirs.items()
            if ours.get(name) != value and name not in allowed
        ]
        if odd:
            agent, scale = group[0]["agent"], group[0]["scale"]
            return f"the settings of {agent} at scale {scale} are not the paper's: {', '.join(sorted(odd))}"
    return ""


def _unlike_machines(claim: Claim, by_agent: Sequence[Records]) -> str:
    """Names the machines of runs whose times are compared, if they differ; empty otherwise."""
    if SECONDS not in claim.needs:
        return ""
    used = {tuple(record["hardware"].items()): record["hardware"] for runs in by_agent for record in runs}
    names = sorted(
        f"{of['gpu'] or of['cpu']} with {of['cores']} core{'s' * (of['cores'] != 1)}" for of in used.values()
    )
    return f"times are of different machines: {', '.join(names)}" if len(used) > 1 else ""


def _usable(
    printed: PublishedRow, claim: Claim, tasks: Mapping[str, list[Records]], references: References
) -> tuple[dict[str, list[Records]], list[str]]:
    """Returns the tasks whose runs can answer a claim, and the reasons why the others cannot."""
    usable, reasons = {}, []
    for task, by_agent in tasks.items():
        reason = foreign_settings(printed, claim, by_agent, references.differences)
        reason = reason or _unlike_machines(claim, by_agent)
        reason = reason or _without_learning(printed, claim, task, by_agent, references, len(tasks))
        if reason:
            reasons.append(reason)
        else:
            usable[task] = by_agent
    return usable, reasons


def _with_enough_runs(
    printed: PublishedRow, claim: Claim, tasks: Mapping[str, list[Records]], min_runs: int
) -> tuple[dict[str, list[Records]], int, dict[str, int]]:
    """Returns the tasks with enough runs of each agent to decide a row, the number needed, and that of each task.

    All tasks are returned, with `min_runs` as the number, if no task has enough, and for a claim about the largest of
    the tasks or their number, which depends on each of them.
    """
    needed = runs_to_decide(printed, learned=True)
    fewest = {task: min(map(len, by_agent)) for task, by_agent in tasks.items()}
    hangs_on_each = claim.takes_all_tasks or claim.over_tasks is task_aggregates.largest
    if hangs_on_each or max(fewest.values()) < needed:
        return dict(tasks), min_runs, fewest
    return {task: by_agent for task, by_agent in tasks.items() if fewest[task] >= needed}, needed, fewest


def _without_learning(
    printed: PublishedRow, claim: Claim, task: str, every: Sequence[Records], references: References, tasks: int
) -> str:
    """Says why the scores behind a claim do not show learning, or cannot be judged; empty if they do show it."""
    if claim.learned is None:
        return ""
    by_agent = _chosen(printed, every)
    level = None if claim.level is None else claim.level(by_agent)
    if claim.learned_median:
        by_agent = every = [comparisons.best_of(runs, len(runs) // 2 + 1)[-1:] for runs in by_agent]
    if claim.learned_best is not None:
        by_agent = [comparisons.best_of(runs, claim.learned_best) for runs in by_agent]
    return learning.find_lack(claim.learned, task, by_agent, every, references, level, tasks)


def _random_level(references: References, record: Mapping[str, Any]) -> float:
    level = references.random(record)
    assert level is not None  # or the task is not usable
    return level.mean


def _chosen(printed: PublishedRow, by_agent: Sequence[Records]) -> list[Records]:
    """Returns the runs of each agent that count."""
    return [comparisons.best_runs(printed, runs) for runs in by_agent]


def _measure(
    printed: PublishedRow,
    claim: Claim,
    tasks: Mapping[str, Sequence[Records]],
    rng: np.random.Generator,
    confidence: float = statistics.LEVEL,
    missing: int = 0,
) -> ClaimResult:
    """Returns our result from tasks whose runs can answer the claim; at least one of them counts.

    The interval is that of these tasks and of `missing` other ones, which may have any result.
    """
    every = [by_agent for by_agent in tasks.values() if claim.belongs(_chosen(printed, by_agent))]
    counted = [_chosen(printed, by_agent) for by_agent in every]
    best = comparisons.number_of_best(printed, [record for by_agent in every for runs in by_agent for record in runs])
    numbers = [claim.of_task(by_agent)(task_measures.equal_weights(by_agent)) for by_agent in counted]
    value = statistics.rounded(claim.over_tasks(np.stack(numbers))[0])
    interval = claim_intervals.find_interval(claim, every, counted, numbers, best, rng, confidence, missing)
    total = comparisons.number_of_tasks(printed.task)
    shortfalls = (f"{len(tasks)} of {total} tasks",) if len(tasks) < total else ()
    groups = [group for by_agent in counted for group in by_agent]
    notes = []
    if "split_by" in printed.protocol:
        notes.append(f"{len(counted)} of the {len(tasks)} tasks belong to this row")
    if min(len(group) for by_agent in every for group in by_agent) < claim.interval_runs:
        notes.append(f"an interval needs {claim.interval_runs} runs of each agent")
    elif claim.task_interval is None and not claim_intervals.are_matched(claim, every):
        notes.append("an interval needs the same seeds on all tasks that an agent learns together or in a sweep")
    elif interval is None:
        notes.append("no interval, since all runs give the same number")
    if claim.never and max((value, *(interval or ()))) >= task_measures.RATIO_CAP:
        notes.append(f"{task_measures.RATIO_CAP:g} stands for {claim.never}")
    candidates = [group for by_agent in every for group in by_agent]
    return ClaimResult(value, interval, groups, groups, shortfalls, "; ".join(notes), candidates)


def _with_any_result_elsewhere(
    printed: PublishedRow, claim: Claim, tasks: Mapping[str, Sequence[Records]]
) -> dict[str, statistics.Interval | None]:
    """Returns, by a name in words, the interval if the tasks without runs may have any result.

    So an answer stands only if no result on the other tasks could change it.
    """
    missing = comparisons.number_of_tasks(printed.task) - len(tasks)
    found = _measure(printed, claim, tasks, np.random.default_rng(0), missing=missing)
    return {"with any result on the other tasks": found.interval}


def _without_each(
    printed: PublishedRow, claim: Claim, tasks: Mapping[str, Sequence[Records]]
) -> dict[str, statistics.Interval | None]:
    """Returns for each task the interval without it, by a name in words; None if no task that counts is left."""
    found = {}
    for left_out in tasks:
        others = {task: by_agent for task, by_agent in tasks.items() if task != left_out}
        counts = any(claim.belongs(_chosen(printed, by_agent)) for by_agent in others.values())
        rng = np.random.default_rng(0)  # a separate rng, so that the other intervals do not change
        found[f"without {left_out}"] = _measure(printed, claim, others, rng).interval if counts else None
    return found


def _at_level_of_all(
    printed: PublishedRow, claim: Claim, result: ClaimResult, tasks: Mapping[str, Sequence[Records]], number: int
) -> ClaimResult:
    """Adds the interval at Bonferroni's level to a comparison that contradicts, since one such comparison decides.

    Other results, and a single comparison, are returned unchanged.
    """
    if number == 1 or _find(printed, result) != "contradicts":
        return result
    rng = np.random.default_rng(0)
    strict = _measure(printed, claim, tasks, rng, claim_intervals.level_of_each(number)).interval
    name = f"at a level for all {number} comparisons"
    return dataclasses.replace(result, alternatives={**result.alternatives, name: strict})


def _find(printed: PublishedRow, result: ClaimResult) -> verdicts.Finding:
    """Returns the finding of one comparison by itself; the weakest of several decides."""
    if printed.value is None:
        return "undecided"
    learned = any(record["schedule"] != "study" for group in result.runs for record in group)
    if min(map(len, result.runs)) < runs_to_decide(printed, learned):
        return "undecided"
    tolerance = printed.tolerance()
    found = verdicts.find(printed.value, printed.better, result.interval, tolerance)
    return "undecided" if verdicts.find_dissent(found, printed, result.alternatives, tolerance) else found


def _support(printed: PublishedRow, result: ClaimResult) -> float:
    """Returns how strongly a comparison's number supports a row, to order comparisons with the same finding."""
    if printed.better == "equal" and printed.value is not None:
        if printed.margin is not None and printed.margin[0] == "factor":
            return -abs(math.log(result.value / printed.value)) if result.value > 0 else -math.inf
        return -abs(result.value - printed.value)
    return -result.value if printed.better in ("less", "under") else result.value
