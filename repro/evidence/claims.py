"""Claims about more than who does better in the end: speed, divergence, places, sensitivity; from curves and logs.

A claim is chosen by the unit of its published row, with `protocol["compared_by"]` for a probability of improvement and
`protocol["measured"]` where a unit leaves open what is meant. Each kind is a number of one task, then an aggregate over
the tasks of the row's set, or over those of them that `protocol["split_by"]` chooses by the runs of an agent.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from repro.evidence import comparisons, published, statistics, task_measures
from repro.evidence.comparisons import Answer, Runs
from repro.evidence.published import PublishedRow
from repro.evidence.task_measures import OfTask, Records

SPEED = ("frames to the same score", "frames to the same return")
"""Values of `compared_by` for a probability that a run of ours needs fewer frames to a level than one of theirs."""
CORRELATION = "rank correlation with the final return"
"""Unit of rows that name a hyper-parameter drawn by seeds in `protocol["correlated_with"]`."""
DIGITS = 12
"""Significant digits of an answer: thirds of a run sum to one only nearly, and 0.5 must not be surpassed by that."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """How claims of one kind are answered.

    Attributes:
        of_task: what is measured on a task.
        over_tasks: from [tasks, R], or what `of_task` returns for each task, to [R].
        needs: what a record must hold, as for `run_measures.holds`.
        least: fewest runs of an agent on a task; two where agents are compared.
        every: all agents must have runs; otherwise those without are left out.
        pairwise: agents are compared with one other at a time, and the weakest comparison is the answer.
        resamples: of the interval.
        never: what `task_measures.NEVER` stands for, in words, where a task may give it.
        belongs: whether a task counts, by the runs of each agent, ours first.
    """

    of_task: OfTask
    over_tasks: Callable[[np.ndarray], np.ndarray]
    needs: tuple[str, ...] = ()
    least: int = 1
    every: bool = False
    pairwise: bool = False
    resamples: int = statistics.RESAMPLES
    never: str = ""
    belongs: Callable[[Sequence[Records]], bool] = lambda _: True


def is_claim(printed: PublishedRow) -> bool:
    """Whether a published row is a claim that this module answers."""
    return _kind(printed) is not None


def answer(printed: PublishedRow, runs: Runs, generator: np.random.Generator) -> Answer | str:
    """Returns our side of a claim, or in words which runs it waits for, as `comparisons.shortage` says it.

    A claim that compares agents needs two runs of each on a task, all of one scale.

    Args:
        printed: a row for which `is_claim` holds.
        runs: of all agents.
        generator: draws the resamples.

    Raises:
        ValueError: a row for which it does not hold.
    """
    kind = _kind(printed)
    if kind is None:
        raise ValueError(f"answer: {printed.column!r} is no claim in {printed.unit!r} that is answered here")
    against = printed.protocol.get("against", ())
    least = max(kind.least, 2 if against else 1)

    def sides(others: Sequence[str]) -> dict[str, list[Records]]:
        return comparisons.sides_by_task(printed, runs, others, least, kind.needs)

    compared = [other for other in against if kind.every or sides([other])]
    together = [[other] for other in compared] if kind.pairwise else [compared]
    tasks = [sides(others) for others in together] if compared or not against else []
    if not any(tasks):
        return comparisons.shortage(printed, runs, against, least, kind.needs)
    found = [_measure(printed, kind, of, generator) for of in tasks if any(map(kind.belongs, of.values()))]
    if not found:
        return "none of the tasks with records of all agents compared belongs to this row"
    sign = -1 if printed.better in ("less", "under") else 1
    weakest = min(found, key=lambda item: sign * item.value)
    weakest = dataclasses.replace(weakest, compared=[side for item in found for side in item.sides])
    left_out = [other for other in against if other not in compared]
    if left_out:
        note = "; ".join(filter(None, (comparisons.without(left_out), weakest.note)))
        weakest = dataclasses.replace(weakest, complete=False, note=note)
    return comparisons.with_candidates(weakest, printed, runs, kind.needs)


def interval(
    kind: Kind, tasks: Sequence[Sequence[Records]], generator: np.random.Generator, confidence: float = 0.95
) -> statistics.Interval:
    """Percentile bootstrap interval of a claim, at the level that `statistics.expanded_level` gives.

    Runs are drawn anew within each agent and task; whole runs, so that a curve stays one.

    Args:
        kind: of the claim.
        tasks: for each task the runs of each agent, ours first, two runs or more.
        generator: draws the resamples.
        confidence: probability content in (0, 1).
    """
    sizes = [len(side) for sides in tasks for side in sides]
    drawn = []
    for sides in tasks:
        counts = [generator.multinomial(n, np.full(n, 1 / n), size=kind.resamples) for n in map(len, sides)]
        drawn.append(kind.of_task(sides)([count / len(side) for count, side in zip(counts, sides)]))
    tail = (1 - statistics.expanded_level(confidence, min(sizes), sum(sizes) - len(sizes))) / 2
    low, high = np.quantile(kind.over_tasks(np.stack(drawn)), [tail, 1 - tail])
    return _rounded(low), _rounded(high)


def _rounded(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")


def _mean(numbers: np.ndarray) -> np.ndarray:
    return numbers.mean(axis=0)


def _median(numbers: np.ndarray) -> np.ndarray:
    return np.median(numbers, axis=0)


def _sum(numbers: np.ndarray) -> np.ndarray:
    return numbers.sum(axis=0)


def _geometric_mean(orders: np.ndarray) -> np.ndarray:
    return 10 ** orders.mean(axis=0)


def _mean_gap(scores: np.ndarray) -> np.ndarray:
    """What is missing to a human's score, 1, mean over tasks."""
    return np.maximum(1.0 - scores, 0.0).mean(axis=0)


def _percentage_points(of_scores: Callable[[np.ndarray], np.ndarray], scores: np.ndarray) -> np.ndarray:
    """Ours minus theirs, of an aggregate over tasks, from [tasks, 2, R] to [R]."""
    ours, theirs = of_scores(scores)
    return 100.0 * (ours - theirs)


def _to_level(of_task: OfTask, *needs: str) -> Kind:
    resamples = statistics.CURVE_RESAMPLES
    return Kind(of_task, _median, needs, pairwise=True, resamples=resamples, never="a level that is not reached")


def _sensitivity(drawn: str) -> Kind:
    measure = functools.partial(task_measures.rank_correlation, name=drawn)
    return Kind(measure, _mean, (f"drawn.{drawn}",), least=3)


def _human_normalised(of_scores: Callable[[np.ndarray], np.ndarray], normaliser: str) -> Kind:
    measure = functools.partial(task_measures.human_normalised, references=published.normaliser(normaliser))
    return Kind(measure, functools.partial(_percentage_points, of_scores), pairwise=True)


POINTS = "difference in percentage points"
"""Unit of a difference of human-normalised scores, which `protocol["measured"]` says how to aggregate over tasks."""
_AGGREGATES = {
    "mean human-normalised score": _mean,
    "median human-normalised score": _median,
    "mean human gap": _mean_gap,
}
_SPEED = Kind(task_measures.frames_to_level, _mean, ("curve",), pairwise=True)
_RATE_AND_TARGET = ("series.contraction", "series.contraction_target")
_MEASURED = {
    ("nats", "divergence at the end of training"): Kind(task_measures.divergence, _mean, ("series.kl",)),
    ("contraction rate", "mean at the end of training"): Kind(
        task_measures.contraction_at_the_end, _mean, _RATE_AND_TARGET
    ),
    ("contraction rate", "mean throughout training"): Kind(
        task_measures.contraction_throughout, _mean, _RATE_AND_TARGET
    ),
}
"""By unit and `protocol["measured"]`; a bound on a divergence has its unit, too."""
_ALONE = {
    "ratio of divergences": Kind(task_measures.growth, _geometric_mean, ("series.kl",)),
}
_COMPARED = {
    "ratio of divergences": Kind(task_measures.distance, _geometric_mean, ("series.kl",), pairwise=True),
    "orders of magnitude": Kind(task_measures.distance, _mean, ("series.kl",), pairwise=True),
    "difference of contraction rates": Kind(
        task_measures.contraction_difference, _mean, ("series.contraction",), pairwise=True
    ),
    "ratio of frames to the same median": _to_level(task_measures.ratio_of_frames, "curve"),
    "ratio of wall-clock time to the same median": _to_level(task_measures.ratio_of_seconds, "curve", "series.seconds"),
    "ratio of the gain from ratio 4 to 8 to the gain from 0 to 1": Kind(
        task_measures.ratio_of_gains, _median, every=True, never="a first gain that is none"
    ),
    "tasks won of 6": Kind(task_measures.won, _sum),
    "share of the tasks": Kind(task_measures.won, _mean),
    "place among 4 agents": Kind(task_measures.place, _mean, every=True),
}


def _kind(printed: PublishedRow) -> Kind | None:
    kind = _kind_of_all(printed)
    if kind is None or "split_by" not in printed.protocol:
        return kind
    needs = tuple(dict.fromkeys((*kind.needs, *_RATE_AND_TARGET)))
    return dataclasses.replace(kind, needs=needs, belongs=_split(printed))


def _split(printed: PublishedRow) -> Callable[[Sequence[Records]], bool]:
    """Whether a task lies on the row's side of `split_at`, by the rate minus the target of the agent `split_by`."""
    names = (printed.agent, *printed.protocol["against"])
    place, margin = names.index(printed.protocol["split_by"]), printed.protocol["split_at"]
    above = printed.protocol["split_side"] == "above"
    return lambda sides: task_measures.contracts_above(sides[place], margin) == above


def _kind_of_all(printed: PublishedRow) -> Kind | None:
    """The kind of a claim about all tasks of its set."""
    by, measured = printed.protocol.get("compared_by"), printed.protocol.get("measured", "")
    if printed.statement is None or printed.agent is None:
        return None
    if (printed.unit, measured) in _MEASURED:
        return _MEASURED[printed.unit, measured]
    if "against" not in printed.protocol:
        if printed.unit == CORRELATION and "correlated_with" in printed.protocol:
            return _sensitivity(printed.protocol["correlated_with"])
        return _ALONE.get(printed.unit)
    if printed.unit == POINTS and measured in _AGGREGATES and printed.normaliser is not None:
        return _human_normalised(_AGGREGATES[measured], printed.normaliser)
    if by is not None:
        return _SPEED if printed.unit == comparisons.UNIT and by in SPEED else None
    return _COMPARED.get(printed.unit)


def _measure(
    printed: PublishedRow, kind: Kind, tasks: Mapping[str, Sequence[Records]], generator: np.random.Generator
) -> Answer:
    """Our side, from the tasks with enough runs, of which at least one counts."""
    counted = [sides for sides in tasks.values() if kind.belongs(sides)]
    equal = [[np.full((1, len(side)), 1 / len(side)) for side in sides] for sides in counted]
    numbers = [kind.of_task(sides)(shares) for sides, shares in zip(counted, equal)]
    value = _rounded(kind.over_tasks(np.stack(numbers))[0])
    every = [side for sides in counted for side in sides]
    total = comparisons.TASK_SETS.get(printed.task, 1)
    ends = interval(kind, counted, generator) if min(map(len, every)) > 1 else None
    notes = []
    if len(tasks) < total:
        agents = "of all agents compared" if "against" in printed.protocol else "that answer it"
        notes.append(f"over the {len(tasks)} of {total} tasks with records {agents}")
    if "split_by" in printed.protocol:
        notes.append(f"{len(counted)} of the {len(tasks)} tasks belong to this row")
    if kind.never and max((value, *(ends or ()))) >= task_measures.NEVER:
        notes.append(f"{task_measures.NEVER:g} stands for {kind.never}")
    return Answer(value, ends, every, every, len(tasks) == total, "; ".join(notes))
