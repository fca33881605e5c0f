"""Claims about more than who does better in the end: speed, divergence, places; answered from curves and logs.

A claim is chosen by the unit of its published row, with `protocol["compared_by"]` for a probability of improvement.
Each kind is a number of one task, then an aggregate over the tasks of the row's set.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from repro.evaluation import comparisons, statistics, task_measures
from repro.evaluation.published import PublishedRow
from repro.evaluation.task_measures import OfTask, Records

SPEED = ("frames to the same score", "frames to the same return")
"""Values of `compared_by` for a probability that a run of ours needs fewer frames to a level than one of theirs."""
AT_THE_END = "divergence at the end of training"
"""Value of `protocol["measured"]` for a divergence in nats; a bound on it has the same unit."""
DIGITS = 12
"""Significant digits of an answer: thirds of a run sum to one only nearly, and 0.5 must not be surpassed by that."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """How claims of one kind are answered.

    Attributes:
        of_task: what is measured on a task.
        over_tasks: from [tasks, R] to [R].
        needs: what a record must hold, as for `run_measures.holds`.
        pairwise: agents are compared with one other at a time, and the weakest comparison is the answer.
        resamples: of the interval.
        never: what `task_measures.NEVER` stands for, in words, where a task may give it.
    """

    of_task: OfTask
    over_tasks: Callable[[np.ndarray], np.ndarray]
    needs: tuple[str, ...] = ()
    pairwise: bool = False
    resamples: int = statistics.RESAMPLES
    never: str = ""


@dataclasses.dataclass(frozen=True)
class Answer:
    """Our side of a claim.

    Attributes:
        value: the number, in the unit of the published row.
        interval: 95 % bootstrap interval over seeds; None with a single run of an agent on a task, or with fewer
            tasks than the row's set has.
        sides: the records behind it, those of one agent on one task together.
        note: what a reader must know; empty otherwise.
    """

    value: float
    interval: statistics.Interval | None
    sides: Sequence[Records]
    note: str


def is_claim(printed: PublishedRow) -> bool:
    """Whether a published row is a claim that this module answers."""
    return _kind(printed) is not None


def answer(
    printed: PublishedRow, runs: Mapping[tuple[str, str, str, str], Records], generator: np.random.Generator
) -> Answer | None:
    """Returns our side of a claim, or None where an agent it speaks of has no records.

    A claim that compares agents needs two runs of each on a task, all of one scale.

    Args:
        printed: a row for which `is_claim` holds.
        runs: (paper, experiment, task, agent) to current records of one scale.
        generator: draws the resamples.

    Raises:
        ValueError: a row for which it does not hold.
    """
    kind = _kind(printed)
    if kind is None:
        raise ValueError(f"answer: {printed.column!r} is no claim in {printed.unit!r} that is answered here")
    against = printed.protocol.get("against", ())
    found = []
    for others in [(other,) for other in against] if kind.pairwise else [against]:
        tasks = comparisons.compared(printed, runs, others, kind.needs)
        if not tasks:
            return None
        found.append(_measure(printed, kind, tasks, generator))
    sign = -1 if printed.better in ("less", "under") else 1
    return min(found, key=lambda item: sign * item.value)


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


def _to_level(of_task: OfTask, *needs: str) -> Kind:
    resamples = statistics.CURVE_RESAMPLES
    return Kind(of_task, _median, needs, pairwise=True, resamples=resamples, never="a level that is not reached")


_SPEED = Kind(task_measures.frames_to_level, _mean, ("curve",), pairwise=True)
_ALONE = {
    "nats": Kind(task_measures.divergence, _mean, ("kl",)),
    "ratio of divergences": Kind(task_measures.growth, _geometric_mean, ("kl",)),
}
_COMPARED = {
    "ratio of divergences": Kind(task_measures.distance, _geometric_mean, ("kl",), pairwise=True),
    "orders of magnitude": Kind(task_measures.distance, _mean, ("kl",), pairwise=True),
    "ratio of frames to the same median": _to_level(task_measures.ratio_of_frames, "curve"),
    "ratio of wall-clock time to the same median": _to_level(task_measures.ratio_of_seconds, "curve", "seconds"),
    "ratio of the gain from ratio 4 to 8 to the gain from 0 to 1": Kind(
        task_measures.ratio_of_gains, _median, never="a first gain that is none"
    ),
    "tasks won of 6": Kind(task_measures.won, _sum),
    "share of the tasks": Kind(task_measures.won, _mean),
    "place among 4 agents": Kind(task_measures.place, _mean),
}


def _kind(printed: PublishedRow) -> Kind | None:
    by, measured = printed.protocol.get("compared_by"), printed.protocol.get("measured")
    if printed.statement is None or printed.agent is None:
        return None
    if "against" not in printed.protocol:
        return _ALONE.get(printed.unit) if printed.unit != "nats" or measured == AT_THE_END else None
    if by is not None:
        return _SPEED if printed.unit == comparisons.UNIT and by in SPEED else None
    return _COMPARED.get(printed.unit)


def _measure(
    printed: PublishedRow, kind: Kind, tasks: Mapping[str, Sequence[Records]], generator: np.random.Generator
) -> Answer:
    equal = {task: [np.full((1, len(side)), 1 / len(side)) for side in sides] for task, sides in tasks.items()}
    numbers = [kind.of_task(sides)(equal[task]) for task, sides in tasks.items()]
    value = _rounded(kind.over_tasks(np.stack(numbers))[0])
    every = [side for sides in tasks.values() for side in sides]
    total = comparisons.TASK_SETS.get(printed.task, 1)
    ends = None
    if len(tasks) == total and min(map(len, every)) > 1:
        ends = interval(kind, list(tasks.values()), generator)
    notes = []
    if len(tasks) < total:
        agents = "of all agents compared" if "against" in printed.protocol else "that answer it"
        notes.append(f"over the {len(tasks)} of {total} tasks with records {agents}")
    if kind.never and max((value, *(ends or ()))) >= task_measures.NEVER:
        notes.append(f"{task_measures.NEVER:g} stands for {kind.never}")
    return Answer(value, ends, every, "; ".join(notes))
