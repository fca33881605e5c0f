"""Claims about several runs: who ends higher or learns faster, divergence, places, sensitivity.

The `claim` of a published row names one of `CLAIMS`. Each is a number of one task, then an aggregate over the tasks of
the row's set, or over those of them that `protocol["split_by"]` chooses by the runs of an agent.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from repro.evidence import comparisons, intervals, learning, published, statistics, task_measures
from repro.evidence.comparisons import ClaimResult, Records, Runs
from repro.evidence.published import PublishedError, PublishedRow
from repro.evidence.references import Differences, References
from repro.evidence.task_measures import BootstrapWeights, OfTask

DIGITS = 12
"""Significant digits of a value and its interval: thirds of a run sum to one only nearly, which surpasses nothing."""
SAMPLED = "sampled_hparams"
"""What the runs of a claim about a sweep need, of which each has settings of its own."""
COUNT_REACH = 0.25
"""Of a count that is known, to either side: less than half a step, so that a margin of half a task holds no other."""
MIN_BOOTSTRAP_RUNS = 4
"""Fewest runs of an agent on a task for a bootstrap interval; with fewer it covers less than 80 % of cases, not 95.

However many tasks there are, since a single one may make nearly all of an aggregate's spread."""


@dataclasses.dataclass(frozen=True)
class Claim:
    """How claims of one kind are answered.

    Attributes:
        of_task: what is measured on a task, an `OfTask`; one `above_random` takes the level of random play besides.
        over_tasks: from [tasks, R], or what `of_task` returns for each task, to [R].
        needs: what a record must hold, as for `run_measures.holds`.
        min_runs: of an agent on a task; at least two where agents are compared.
        in_pairs: each two agents are compared with each other before the results are, so that their settings are to be
            alike within a pair alone.
        together: all agents are compared at once and must have runs; otherwise one other agent at a time, those
            without runs are left out, and the weakest comparison is the result.
        task_interval: of one task, from the number on it and how many runs of each agent there are, for an average
            over tasks; None for a bootstrap of whole runs.
        resamples: of a bootstrap interval.
        interval_runs: fewest runs of an agent on a task for an interval.
        learned: which of the agents must have learned on a task; None for a claim about no score.
        learned_median: whether the median of an agent's runs must have, not their mean.
        learned_best: how many of an agent's runs must have, as the best of a search; None for their mean.
        level: the score on learning curves that the claim is about on a task, by the runs of each agent, which must
            show learning, too; None for a claim about final evaluations alone.
        count: from the number of agents to the least and the most that the number of a task can be, where it is a whole
            one: a place, or whether something is so. None for other numbers.
        never: what `task_measures.RATIO_CAP` stands for, in words, where a task may give it.
        belongs: whether a task counts, by the runs of each agent, ours first.
        reached_by_training: whether it is about a value that training comes to, which less of it cannot contradict.
        above_random: whether `of_task` takes `random`, from a record to what a random player scores in its game.
    """

    of_task: Callable[..., Callable[[BootstrapWeights], np.ndarray]]
    over_tasks: Callable[[np.ndarray], np.ndarray]
    needs: tuple[str, ...] = ()
    min_runs: int = 1
    in_pairs: bool = False
    together: bool = False
    task_interval: Callable[..., statistics.Interval | None] | None = None
    resamples: int = statistics.RESAMPLES
    interval_runs: int = MIN_BOOTSTRAP_RUNS
    learned: learning.Enough | None = None
    learned_median: bool = False
    learned_best: int | None = None
    level: Callable[[Sequence[Records]], float] | None = None
    count: Callable[[int], statistics.Interval] | None = None
    never: str = ""
    belongs: Callable[[Sequence[Records]], bool] = lambda _: True
    reached_by_training: bool = False
    above_random: bool = False

    @property
    def takes_all_tasks(self) -> bool:
        """Whether it is about a number of tasks of the row's set, which a part of the set says nothing of."""
        return self.over_tasks is _sum


def answer(printed: PublishedRow, runs: Runs, rng: np.random.Generator, references: References) -> ClaimResult | str:
    """Returns our result for a claim, or in words what it waits for.

    A claim that compares agents needs two runs of each on a task, all of one scale, and one that counts tasks all tasks
    of its set. It is not answered by scores that show no learning, nor against an agent with settings that are not the
    paper's and not ours.

    Args:
        printed: a row with a `claim`.
        runs: of all agents.
        rng: for the resamples.
        references: see there.

    Raises:
        PublishedError: there is no such claim.
    """
    claim = find_claim(printed)
    if claim.above_random:
        random = functools.partial(_random_level, references)
        claim = dataclasses.replace(claim, of_task=functools.partial(claim.of_task, random=random))
    against = tuple(printed.protocol.get("against", ()))
    min_runs, opponents = find_opponents(printed, claim)
    found: list[ClaimResult] = []
    reasons: list[str] = []
    compared: list[str] = []
    foreign = False
    for others in opponents:
        tasks = comparisons.runs_by_task(printed, runs, others, min_runs, claim.needs, claim.interval_runs)
        usable, unusable = _usable(printed, claim, tasks, references)
        reasons += unusable
        total = comparisons.TASK_SETS.get(printed.task, 1)
        if claim.takes_all_tasks and 0 < len(usable) < total:
            reasons.append(f"a number of {total} tasks, of which {len(usable)} can be compared")
            continue
        if not usable:
            continue
        compared += others
        if any(claim.belongs(_chosen(printed, by_agent)) for by_agent in usable.values()):
            found.append(_measure(printed, claim, usable, rng))
        else:
            foreign = True
    if not found:
        if foreign:
            return "none of the tasks with records of all agents compared belongs to this row"
        shortage = comparisons.shortage(printed, runs, against, min_runs, claim.needs)
        return "; ".join(dict.fromkeys(reasons)) or shortage
    weakest = min(found, key=functools.partial(_support, printed))
    left_out = [other for other in against if other not in compared]
    without = (f"without {', '.join(left_out)}",) if left_out else ()
    weakest = dataclasses.replace(
        weakest,
        compared=[group for item in found for group in item.runs],
        shortfalls=(*weakest.shortfalls, *without),
        note="; ".join(filter(None, (weakest.note, *dict.fromkeys(reasons)))),
    )
    return comparisons.with_candidates(weakest, printed, runs, claim.needs)


def find_claim(printed: PublishedRow) -> Claim:
    """Returns how a row's claim is answered.

    Raises:
        PublishedError: no such claim, or it needs a field that the row lacks.
    """
    name, protocol = str(printed.claim), printed.protocol
    make, fields = _OF_PROTOCOL.get(name, (None, ()))
    if make is not None and set(fields) <= set(protocol):
        claim = make(*(protocol[field] for field in fields))
    elif name in _OF_NORMALISED and printed.normaliser is not None:
        claim = _human_normalised(name, printed.normaliser)
    elif name in CLAIMS:
        claim = CLAIMS[name]
    else:
        raise PublishedError(f"The published numbers of {printed.paper} have a row with no such claim, {name!r}.")
    if protocol.get("sampled", False):
        claim = dataclasses.replace(claim, needs=(*claim.needs, SAMPLED))
    if "split_by" not in protocol:
        return claim
    needs = tuple(dict.fromkeys((*claim.needs, *_RATE_AND_TARGET)))
    return dataclasses.replace(claim, needs=needs, belongs=_split(printed))


def find_opponents(printed: PublishedRow, claim: Claim) -> tuple[int, list[tuple[str, ...]]]:
    """Returns what a claim's comparisons need: the fewest runs of each agent, and the other agents of each comparison.

    Args:
        printed: a row with a `claim`.
        claim: as `find_claim` returns it.

    Returns:
        Names as `protocol["against"]` has them; a claim about a single agent has one comparison, with nobody.
    """
    against = tuple(printed.protocol.get("against", ()))
    min_runs = max(claim.min_runs, 2 if against else 1)
    return min_runs, [against] if claim.together or not against else [(other,) for other in against]


def _support(printed: PublishedRow, result: ClaimResult) -> float:
    """How far a comparison speaks for a row, on a scale of its own: of several, the least decides."""
    if printed.better == "equal" and printed.value is not None:
        if printed.margin is not None and printed.margin[0] == "factor":
            return -abs(math.log(result.value / printed.value)) if result.value > 0 else -math.inf
        return -abs(result.value - printed.value)
    return -result.value if printed.better in ("less", "under") else result.value


def bootstrap_interval(
    claim: Claim,
    tasks: Sequence[Sequence[Records]],
    rng: np.random.Generator,
    confidence: float = intervals.LEVEL,
    best: int | None = None,
    together: Sequence[bool] | None = None,
) -> statistics.Interval | None:
    """Returns the percentile bootstrap interval of a claim, at the level that `statistics.expanded_level` gives.

    Runs are resampled within each agent and task; whole runs, so that a curve stays one, and so that one which learned
    all tasks is in or out on all of them. Where the best of many count, they are those of each resample. A count has an
    interval on each task, at Bonferroni's level for all of them, and its ends are added up; where they meet it is known
    to the nearest whole number, `COUNT_REACH` of a step to either side.

    Args:
        claim: of the row.
        tasks: for each task the runs of each agent, ours first.
        rng: for the resamples.
        confidence: probability content in (0, 1).
        best: how many runs of each agent count; None for all.
        together: for each agent, whether its i-th run of each task is the same one, or of the same settings; None where
            none is. Of no matter for a count, whose tasks have intervals of their own.

    Returns:
        None with fewer than `MIN_BOOTSTRAP_RUNS` of an agent on a task, or where all resamples are one number that is
        no count.
    """
    sizes = [len(group) for by_agent in tasks for group in by_agent]
    if min(sizes) < MIN_BOOTSTRAP_RUNS:
        return None

    def resample(group: Records) -> np.ndarray:
        return rng.multinomial(len(group), np.full(len(group), 1 / len(group)), size=claim.resamples)

    if together is None or claim.count is not None:
        together = [False] * len(tasks[0])
    numbers = []
    for by_agent, counts in zip(tasks, _resample_tasks(tasks, together, resample)):
        numbers.append(claim.of_task(by_agent)([_weights(*pair, best) for pair in zip(by_agent, counts)]))
    if claim.count is not None:
        return _count_interval(claim, tasks, numbers, confidence)
    tail = _tail(tasks, confidence, together)
    low, high = map(_rounded, np.quantile(claim.over_tasks(np.stack(numbers)), [tail, 1 - tail]))
    return (low, high) if low < high else None


def _resample_tasks(
    tasks: Sequence[Sequence[Records]], shared: Sequence[bool], resample: Callable[[Records], np.ndarray]
) -> Iterator[list[np.ndarray]]:
    """For each task the resamples of each agent's runs, which are the same ones on all tasks where they are shared."""
    of_all_tasks = [resample(runs) if is_shared else None for runs, is_shared in zip(tasks[0], shared)]
    for by_agent in tasks:
        yield [resample(runs) if of_all is None else of_all for runs, of_all in zip(by_agent, of_all_tasks)]


def _count_interval(
    claim: Claim, tasks: Sequence[Sequence[Records]], numbers: Sequence[np.ndarray], confidence: float
) -> statistics.Interval:
    """The interval of a count from its resamples on each task, [R]; open where a task has too few runs for any order.

    Args:
        claim: with a `count`.
        tasks: as for `bootstrap_interval`.
        numbers: of each task.
        confidence: of all tasks together.
    """
    assert claim.count is not None
    ends = []
    for by_agent, resampled in zip(tasks, numbers):
        if can_be_ordered(by_agent, len(tasks), confidence):
            tail = _tail([by_agent], _of_each(len(tasks), confidence))
            low = np.quantile(resampled, tail, method="lower")
            ends.append((float(low), float(np.quantile(resampled, 1 - tail, method="higher"))))
        else:
            ends.append(claim.count(len(by_agent)))
    low, high = (float(claim.over_tasks(np.array(end)[:, None])[0]) for end in zip(*ends))
    if low == high:
        reach = COUNT_REACH if claim.takes_all_tasks else COUNT_REACH / len(tasks)
        low, high = low - reach, high + reach
    return _rounded(low), _rounded(high)


def _tail(tasks: Sequence[Sequence[Records]], confidence: float, together: Sequence[bool] = ()) -> float:
    """The share of resamples below an interval, and above it.

    Where runs learned all tasks together, or have the same settings on all, theirs may be all the spread that there is:
    the degrees of freedom are those of the agent with the fewest.
    """
    sizes = [len(group) for by_agent in tasks for group in by_agent]
    freedom = sum(sizes) - len(sizes)
    if any(together):
        of_agents = [[len(group) - 1 for group in of_tasks] for of_tasks in zip(*tasks)]
        freedom = min(spare[0] if shared else sum(spare) for spare, shared in zip(of_agents, together))
    return (1 - statistics.expanded_level(confidence, min(sizes), freedom)) / 2


def can_be_ordered(by_agent: Sequence[Records], tasks: int, confidence: float = intervals.LEVEL) -> bool:
    """Returns whether there are so many runs that those of one agent can lie above another's by more than chance.

    One of binom(n + m, n) orders of n and m runs of the same kind has all of one above all of the other.

    Args:
        by_agent: the runs of each agent on a task.
        tasks: how many tasks are decided like this one.
        confidence: of all of them together.
    """
    ours, *others = map(len, by_agent)
    tail = (1 - _of_each(tasks, confidence)) / 2
    return all(1 / math.comb(ours + n, n) <= tail for n in others)


def _of_each(tasks: int, confidence: float) -> float:
    """Bonferroni's level of each of several intervals for a level of all of them."""
    return 1 - (1 - confidence) / tasks


def _weights(runs: Records, counts: np.ndarray, best: int | None) -> np.ndarray:
    """The weights of runs, [R, runs], from how often each is in a resample, [R, runs], of which the best may count."""
    if best is None:
        return counts / len(runs)
    return statistics.best_weights([record["evaluation"]["mean"] for record in runs], counts, best)


def _usable(
    printed: PublishedRow, claim: Claim, tasks: Mapping[str, list[Records]], references: References
) -> tuple[dict[str, list[Records]], list[str]]:
    """The tasks whose runs can answer a claim, and why the others cannot, in words."""
    usable, reasons = {}, []
    for task, by_agent in tasks.items():
        reason = foreign_settings(printed, claim, by_agent, references.differences)
        reason = reason or _without_learning(printed, claim, task, by_agent, references, len(tasks))
        if reason:
            reasons.append(reason)
        else:
            usable[task] = by_agent
    return usable, reasons


def foreign_settings(printed: PublishedRow, claim: Claim, by_agent: Sequence[Records], differences: Differences) -> str:
    """Says which settings of an agent compared with ours are neither the paper's nor ours; empty if none.

    Fields of `protocol["open_settings"]` are none: the paper does not print what they were.

    Args:
        printed: the row.
        claim: of the row.
        by_agent: one run or more of each agent, ours first.
        differences: see `References`.
    """
    if claim.in_pairs and len(by_agent) > 2:
        pairs = (foreign_settings(printed, claim, pair, differences) for pair in (by_agent[:2], by_agent[2:]))
        return next(filter(None, pairs), "")
    ours, *others = [differences(group[0]) for group in by_agent]
    not_printed = printed.protocol.get("open_settings", ())
    for group, theirs in zip(by_agent[1:], others):
        odd = [
            f"{name} {value[0]} for {value[1]}"
            for name, value in theirs.items()
            if ours.get(name) != value and name not in not_printed
        ]
        if odd:
            return f"{group[0]['agent']} at scale {group[0]['scale']} is not the paper's: {', '.join(sorted(odd))}"
    return ""


def _without_learning(
    printed: PublishedRow, claim: Claim, task: str, every: Sequence[Records], references: References, tasks: int
) -> str:
    """Says that a claim about scores has none that show learning, or nothing to tell by; empty otherwise."""
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
    """The runs of each agent that count."""
    return [comparisons.best_runs(printed, runs) for runs in by_agent]


def _measure(
    printed: PublishedRow, claim: Claim, tasks: Mapping[str, Sequence[Records]], rng: np.random.Generator
) -> ClaimResult:
    """Our result, from the tasks whose runs answer it, of which at least one counts."""
    every = [by_agent for by_agent in tasks.values() if claim.belongs(_chosen(printed, by_agent))]
    counted = [_chosen(printed, by_agent) for by_agent in every]
    best = comparisons.number_of_best(printed, [record for by_agent in every for runs in by_agent for record in runs])
    numbers = [claim.of_task(by_agent)(_equal(by_agent)) for by_agent in counted]
    value = _rounded(claim.over_tasks(np.stack(numbers))[0])
    of_agents = list(zip(*every))
    together = [comparisons.are_dependent(of_tasks) for of_tasks in of_agents]
    matched = all(comparisons.are_same_runs(of_tasks) for of_tasks, shared in zip(of_agents, together) if shared)
    matched = matched or claim.count is not None  # whose tasks have intervals of their own
    interval = None
    if claim.over_tasks is _largest:
        interval = _largest_interval(claim, every)
    elif claim.task_interval is None:
        interval = bootstrap_interval(claim, every, rng, best=best, together=together) if matched else None
    elif best is not None and any(len(runs) > best for by_agent in every for runs in by_agent):
        interval = _reselected_interval(claim, every, best, rng, together, matched)
    if interval is None and claim.task_interval is not None:
        at_tasks = [float(number[0]) for number in numbers]
        interval = _averaged_interval(claim.task_interval, counted, at_tasks, any(together))
    total = comparisons.TASK_SETS.get(printed.task, 1)
    shortfalls = (f"{len(tasks)} of {total} tasks",) if len(tasks) < total else ()
    groups = [group for by_agent in counted for group in by_agent]
    notes = []
    if "split_by" in printed.protocol:
        notes.append(f"{len(counted)} of the {len(tasks)} tasks belong to this row")
    if min(len(group) for by_agent in every for group in by_agent) < claim.interval_runs:
        notes.append(f"an interval takes {claim.interval_runs} runs of each agent")
    if claim.task_interval is None and not matched:
        notes.append("an interval takes the same seeds on all tasks that an agent learns together or in a sweep")
    if claim.never and max((value, *(interval or ()))) >= task_measures.RATIO_CAP:
        notes.append(f"{task_measures.RATIO_CAP:g} stands for {claim.never}")
    return ClaimResult(value, interval, groups, groups, shortfalls, "; ".join(notes))


def _reselected_interval(
    claim: Claim,
    tasks: Sequence[Sequence[Records]],
    best: int,
    rng: np.random.Generator,
    together: Sequence[bool],
    matched: bool,
) -> statistics.Interval | None:
    """As `bootstrap_interval`, of a number that is no function of weights: one that is of the chosen runs alone.

    Args:
        claim: whose number is a mean over tasks.
        tasks, best, rng, together: see there.
        matched: whether the i-th runs of the tasks are of one seed where `together` takes them as such; otherwise the
            ends of the tasks' own intervals are averaged, as if they were fully dependent.

    Returns:
        None with fewer than `MIN_BOOTSTRAP_RUNS`, or where all resamples are one number.
    """
    if min(len(runs) for by_agent in tasks for runs in by_agent) < MIN_BOOTSTRAP_RUNS:
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
            resampled.append(claim.of_task(chosen)(_equal(chosen))[0])
        numbers.append(resampled)
    if matched:
        tail = _tail(tasks, intervals.LEVEL, together)
        ends = np.quantile(claim.over_tasks(np.array(numbers)), [tail, 1 - tail])
    else:
        tails = [_tail([by_agent], intervals.LEVEL) for by_agent in tasks]
        of_tasks = [np.quantile(resampled, [tail, 1 - tail]) for resampled, tail in zip(numbers, tails)]
        ends = claim.over_tasks(np.array(of_tasks))
    low, high = map(_rounded, ends)
    return (low, high) if low < high else None


def _largest_interval(claim: Claim, tasks: Sequence[Sequence[Records]]) -> statistics.Interval | None:
    """The interval of the largest of the tasks' means over runs, from Student's of each at Bonferroni's level.

    A bootstrap of the largest would lie too high: of tasks that are alike, chance makes one the largest.
    """
    confidence = _of_each(len(tasks), intervals.LEVEL)
    of_runs = [claim.of_task(by_agent)([np.eye(len(runs)) for runs in by_agent]) for by_agent in tasks]
    if min(map(len, of_runs)) < claim.interval_runs:
        return None
    found = [intervals.mean_interval(values, confidence) or (values[0], values[0]) for values in of_runs]
    low, high = (_rounded(max(ends)) for ends in zip(*found))
    return (low, high) if low < high else None


def _equal(by_agent: Sequence[Records]) -> list[np.ndarray]:
    """The weights of all runs alike, [1, runs] for each agent."""
    return [np.full((1, len(runs)), 1 / len(runs)) for runs in by_agent]


def _averaged_interval(
    of_task: Callable[..., statistics.Interval | None],
    counted: Sequence[Sequence[Records]],
    numbers: Sequence[float],
    dependent: bool,
) -> statistics.Interval | None:
    """The interval of a mean over tasks from those of the tasks; None where a task has none.

    Args:
        of_task: as in `Claim`.
        counted: the runs that count, of each agent on each task.
        numbers: of the tasks.
        dependent: whether some agent learned them together, or by the same sampled settings.
    """
    found = [of_task(number, *map(len, by_agent)) for number, by_agent in zip(numbers, counted)]
    known = [interval for interval in found if interval is not None]
    if len(known) < len(found):
        return None
    low, high = map(_rounded, intervals.average(numbers, known, dependent))
    return low, high


def _split(printed: PublishedRow) -> Callable[[Sequence[Records]], bool]:
    """Whether a task lies on the row's side of `split_at`, by the rate minus the target of the agent `split_by`."""
    names = (printed.agent, *printed.protocol["against"])
    index, margin = names.index(printed.protocol["split_by"]), printed.protocol["split_at"]
    above = printed.protocol["split_side"] == "above"
    return lambda by_agent: task_measures.contracts_above(by_agent[index], margin) == above


def _rounded(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")


def _mean(numbers: np.ndarray) -> np.ndarray:
    return numbers.mean(axis=0)


def _root_of_mean(squares: np.ndarray) -> np.ndarray:
    """Root of the mean over tasks; 0 where that is negative, as an estimate of nothing may be."""
    return np.sqrt(np.maximum(squares.mean(axis=0), 0.0))


def _median(numbers: np.ndarray) -> np.ndarray:
    return np.median(numbers, axis=0)


def _sum(numbers: np.ndarray) -> np.ndarray:
    return numbers.sum(axis=0)


def _largest(numbers: np.ndarray) -> np.ndarray:
    return numbers.max(axis=0)


def _zero_or_one(agents: int) -> statistics.Interval:
    del agents
    return 0.0, 1.0


def _places(agents: int) -> statistics.Interval:
    return 1.0, float(agents)


def _geometric_mean(orders: np.ndarray) -> np.ndarray:
    return 10 ** orders.mean(axis=0)


def _mean_capped(scores: np.ndarray) -> np.ndarray:
    """Scores of which one above a human's, 1, counts as it, mean over tasks: the measure of DMLab-30."""
    return np.minimum(scores, 1.0).mean(axis=0)


def _mean_gap(scores: np.ndarray) -> np.ndarray:
    """What is missing to a human's score, 1, mean over tasks."""
    return np.maximum(1.0 - scores, 0.0).mean(axis=0)


def _share_interval(share: float, runs: int) -> statistics.Interval:
    return intervals.share_interval(round(share * runs), runs)


def _percentage_points(of_scores: Callable[[np.ndarray], np.ndarray], scores: np.ndarray) -> np.ndarray:
    """Ours minus theirs, of an aggregate over tasks, from [tasks, 2, R] to [R]."""
    ours, theirs = of_scores(scores)
    return 100.0 * (ours - theirs)


def _ratio(of_scores: Callable[[np.ndarray], np.ndarray], scores: np.ndarray) -> np.ndarray:
    """Ours over theirs, of an aggregate over tasks, from [tasks, 2, R] to [R]."""
    ours, theirs = of_scores(scores)
    return _over(ours, theirs)


def _ratio_of_leads(of_scores: Callable[[np.ndarray], np.ndarray], scores: np.ndarray) -> np.ndarray:
    """Ours over theirs, over the same of two other agents, of an aggregate over tasks, from [tasks, 4, R] to [R]."""
    ours, theirs, ours_elsewhere, theirs_elsewhere = of_scores(scores)
    return _over(_over(ours, theirs), _over(ours_elsewhere, theirs_elsewhere))


def _over(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b; where b is nothing, 1 if a is nothing as well, and else `task_measures.RATIO_CAP`."""
    some = b > 0
    of_nothing = np.where(a > 0, task_measures.RATIO_CAP, 1.0)
    return np.where(some, np.minimum(a / np.where(some, b, 1.0), task_measures.RATIO_CAP), of_nothing)


def _to_level(of_task: OfTask, *needs: str) -> Claim:
    return Claim(
        of_task,
        _median,
        needs,
        resamples=statistics.CURVE_RESAMPLES,
        learned=learning.last,
        level=task_measures.their_level,
        never="a level that is not reached",
    )


def _rank_correlation(name: str) -> Claim:
    return Claim(
        functools.partial(task_measures.rank_correlation, name=name),
        _mean,
        (f"sampled_hparams.{name}",),
        min_runs=3,
        task_interval=intervals.rank_correlation_interval,
        interval_runs=intervals.MIN_CORRELATED,
        learned=any,
        learned_median=True,
        reached_by_training=True,
    )


def _of_log(of_task: OfTask, columns: Sequence[str]) -> Claim:
    return Claim(of_task, _mean, tuple(f"series.{column}" for column in columns), reached_by_training=True)


def _logged(at_the_end: bool, columns: Sequence[str]) -> Claim:
    return _of_log(functools.partial(task_measures.logged, columns=columns, at_the_end=at_the_end), columns)


def _turning_back(columns: Sequence[str]) -> Claim:
    return _of_log(functools.partial(task_measures.turning_back, columns=columns), columns)


def _logged_difference(columns: Sequence[str]) -> Claim:
    claim = _of_log(functools.partial(task_measures.logged_difference, columns=columns), columns)
    return dataclasses.replace(claim, reached_by_training=False)


def _share_of_log_above(columns: Sequence[str], others: Sequence[str], factor: float) -> Claim:
    measure = functools.partial(task_measures.share_of_log_above, columns=columns, others=others, factor=factor)
    return _of_log(measure, (*columns, *others))


def _ratio_of_head_distances(metaparameters: Sequence[str]) -> Claim:
    measure = functools.partial(task_measures.ratio_of_head_distances, metaparameters=metaparameters)
    columns = [f"{name}_{head}" for name in metaparameters for head in (1, 2, 3)]
    claim = _of_log(measure, columns)
    return dataclasses.replace(claim, over_tasks=_median, never="heads that do not differ from the main one")


def _difference_from_publication(place: tuple[str, str]) -> Claim:
    """Distance of our scores from the numbers of another publication, over that of random play from them.

    Each is the root of the mean square over the tasks, so that none makes up for another; tasks on which we have not
    learned count as the others do. Random play has 1.

    Args:
        place: name of its table in `paper_configs/published/context/`, and the column there.
    """
    name, column = place
    (table,) = (table for table in published.context() if table.name == name)
    index = table.columns.index(column)
    numbers = {task: cells[index] for task, cells in table.rows.items()}
    known = {task: number for task, number in numbers.items() if number is not None}
    return Claim(
        functools.partial(task_measures.squared_distances_from, numbers=known),
        functools.partial(_ratio, _root_of_mean),
        learned=learning.whether_or_not,
        belongs=lambda by_agent: by_agent[0][0]["task"] in known,
        reached_by_training=True,
        above_random=True,
        never="a ratio to nothing",
    )


def _human_normalised(name: str, normaliser: str) -> Claim:
    measure = functools.partial(task_measures.human_normalised, references=published.normaliser(normaliser))
    return Claim(measure, **_OF_NORMALISED[name])


_OF_PROTOCOL: Mapping[str, tuple[Callable[..., Claim], tuple[str, ...]]] = {
    "rank_correlation": (_rank_correlation, ("correlated_with",)),
    "logged_at_the_start": (functools.partial(_logged, False), ("columns",)),
    "logged_at_the_end": (functools.partial(_logged, True), ("columns",)),
    "logged_difference": (_logged_difference, ("columns",)),
    "turning_back": (_turning_back, ("columns",)),
    "share_of_log_above": (_share_of_log_above, ("columns", "others", "factor")),
    "ratio_of_head_distances": (_ratio_of_head_distances, ("metaparameters",)),
    "difference_from_publication": (_difference_from_publication, ("publication",)),
}
"""Function that makes a claim, and the fields of the protocol that it takes."""
_DIFFERENCE: dict[str, Any] = {"learned": any}
_RATIO: dict[str, Any] = {"learned": any, "never": "a ratio to nothing"}
_OF_NORMALISED: Mapping[str, Mapping[str, Any]] = {
    "human_normalised_median_difference": _DIFFERENCE | {"over_tasks": functools.partial(_percentage_points, _median)},
    "human_capped_mean_difference": _DIFFERENCE | {"over_tasks": functools.partial(_percentage_points, _mean_capped)},
    "human_normalised_mean_ratio": _RATIO | {"over_tasks": functools.partial(_ratio, _mean)},
    "human_normalised_median_ratio": _RATIO | {"over_tasks": functools.partial(_ratio, _median)},
    "human_gap_mean_ratio": _RATIO | {"over_tasks": functools.partial(_ratio, _mean_gap)},
    "human_normalised_mean_ratio_of_leads": _RATIO
    | {
        "over_tasks": functools.partial(_ratio_of_leads, _mean),
        "learned": all,  # or a lead is over nothing
        "together": True,
        "in_pairs": True,
    },
}
_RATE_AND_TARGET = ("series.contraction", "series.contraction_target")
CLAIMS: Mapping[str, Claim] = {
    "improvement": Claim(
        task_measures.improvement,
        _mean,
        task_interval=intervals.improvement_interval,
        interval_runs=1,
        learned=any,
    ),
    "score_difference": Claim(task_measures.score_difference, _mean, learned=any),
    "difference_of_losses": Claim(
        task_measures.difference_of_losses, _mean, together=True, learned=learning.both_before, above_random=True
    ),
    "trend": Claim(
        task_measures.trend,
        _mean,
        together=True,
        task_interval=intervals.trend_interval,
        interval_runs=1,
        learned=learning.all_but_one,
    ),
    "speed": Claim(
        task_measures.frames_to_level,
        _mean,
        ("curve",),
        task_interval=intervals.improvement_interval,
        interval_runs=1,
        learned=all,
        level=task_measures.common_level,
    ),
    "frames_ratio": _to_level(task_measures.ratio_of_frames, "curve"),
    "seconds_ratio": _to_level(task_measures.ratio_of_seconds, "curve", "series.seconds"),
    "gains_ratio": Claim(
        task_measures.ratio_of_gains,
        _median,
        together=True,
        learned=learning.each_gain,
        never="a first gain that is none",
    ),
    "tasks_won": Claim(task_measures.won, _sum, together=True, learned=any, count=_zero_or_one),
    "tasks_won_share": Claim(task_measures.won, _mean, together=True, learned=any, count=_zero_or_one),
    "tasks_led": Claim(
        task_measures.led_throughout,
        _sum,
        ("curve",),
        together=True,
        learned=learning.leaders_or_last,
        count=_zero_or_one,
    ),
    "gaps_widened": Claim(
        task_measures.gap_widened, _sum, together=True, learned=learning.each_lead, count=_zero_or_one
    ),
    "gaps_widened_share": Claim(
        task_measures.gap_widened, _mean, together=True, learned=learning.each_lead, count=_zero_or_one
    ),
    "place": Claim(task_measures.place, _mean, together=True, learned=learning.all_but_one, count=_places),
    "settings_near_best": Claim(
        task_measures.near_best,
        _mean,
        ("curve",),
        min_runs=task_measures.SEARCH_RUNS,
        task_interval=_share_interval,
        learned=any,
        learned_best=task_measures.SEARCH_BEST,
        reached_by_training=True,
    ),
    "best_score": Claim(task_measures.score, _largest, learned=any),
    "lowest_return": Claim(task_measures.lowest_return, _mean, ("curve",), reached_by_training=True),
    "divergence": Claim(task_measures.divergence, _mean, ("series.kl",)),
    "divergence_growth": Claim(task_measures.growth, _geometric_mean, ("series.kl",)),
    "divergence_distance_ratio": Claim(task_measures.distance, _geometric_mean, ("series.kl",)),
    "divergence_distance_orders": Claim(task_measures.distance, _mean, ("series.kl",)),
    "contraction_at_the_end": Claim(
        task_measures.contraction_at_the_end, _mean, _RATE_AND_TARGET, reached_by_training=True
    ),
    "contraction_throughout": Claim(
        task_measures.contraction_throughout, _largest, _RATE_AND_TARGET, reached_by_training=True
    ),
    "contraction_difference": Claim(task_measures.contraction_difference, _mean, ("series.contraction",)),
}
"""Claims by the names that published rows use; see `find_claim` for those that need a field of the row."""
