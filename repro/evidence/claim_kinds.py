"""Kinds of claims: what each measures on one task, how it aggregates tasks, and what it needs to be answered.

The `claim` of a published row names one of `CLAIMS`, or one that `find_claim` makes with further fields of the row.
A claim measures a number on each task and aggregates these over the tasks of the row's set, or over those tasks of the
set that the runs of the agent `protocol["split_by"]` select.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from repro.evidence import intervals, learning, published, statistics, task_aggregates, task_measures
from repro.evidence.comparisons import Records
from repro.evidence.published import PublishedError, PublishedRow
from repro.evidence.task_measures import BootstrapWeights, OfTask

SECONDS = "series.seconds"
"""Field that the records of a claim about times need; these are compared on one kind of machine alone."""
SAMPLED = "sampled_hparams"
"""Field that the records of a claim about a sweep need: each run has settings of its own."""


@dataclasses.dataclass(frozen=True)
class Claim:
    """How claims of one kind are answered.

    Attributes:
        of_task: measure on one task, an `OfTask`. With `above_random` it also takes the keyword argument `random`.
        over_tasks: aggregate over tasks, from the stacked results of `of_task`, such as [tasks, R], to [R].
        needs: parts that a record must have, as for `run_measures.holds`.
        min_runs: fewest runs of an agent on a task; at least two if agents are compared.
        in_pairs: whether agents are compared in pairs, whose results are then compared. Settings then only need to
            agree within a pair.
        together: whether all agents are compared at once, so that all must have runs. Otherwise ours is compared with
            one other agent at a time, agents without runs are left out, and the weakest comparison is the result.
        task_interval: function from the number on one task and the number of runs of each agent to an interval, which
            is averaged over tasks; None for a bootstrap of whole runs.
        least_reach: for a probability with a `task_interval`: function from the number of runs of each agent to the
            least distance to either end of a task's interval in an average over tasks. None for other numbers.
        resamples: number of resamples of a bootstrap interval.
        interval_runs: fewest runs of an agent on a task for an interval.
        learned: rule for which of the agents must have learned on a task; None for a claim that is not about scores.
        learned_median: whether the median of an agent's runs must have learned, instead of their mean.
        learned_best: number of best runs of an agent's search whose mean must have learned; None for all runs.
        level: function from the runs of each agent to a score on their learning curves that the claim is about on a
            task and that must show learning, too; None for a claim about final evaluations alone.
        count: for a whole number, such as a place or 1 if a condition holds and 0 otherwise: function from the number
            of agents to the smallest and the largest value on one task. None for other numbers.
        parts: for a count from several comparisons: function from the number of agents to the indices of the agents of
            each comparison. None if there is one comparison, of all agents.
        joined_by: how a count combines its comparisons: the condition must hold in `all` or in `any` of them, or each
            gives the place among two agents and together they give a `place`.
        never: meaning of the value `task_measures.RATIO_CAP`, in words, if a task may give it.
        belongs: function from the runs of each agent on a task, ours first, to whether the task counts.
        reached_by_training: whether the claim is about a value that training arrives at, so that less training than the
            paper's cannot contradict it.
        above_random: whether `of_task` takes `random`, a function from a record to a random player's score in its game.
    """

    of_task: Callable[..., Callable[[BootstrapWeights], np.ndarray]]
    over_tasks: Callable[[np.ndarray], np.ndarray]
    needs: tuple[str, ...] = ()
    min_runs: int = 1
    in_pairs: bool = False
    together: bool = False
    task_interval: Callable[..., statistics.Interval | None] | None = None
    least_reach: Callable[..., float] | None = None
    resamples: int = statistics.RESAMPLES
    interval_runs: int = statistics.MIN_BOOTSTRAP_RUNS
    learned: learning.Enough | None = None
    learned_median: bool = False
    learned_best: int | None = None
    level: Callable[[Sequence[Records]], float] | None = None
    count: Callable[[int], statistics.Interval] | None = None
    parts: Callable[[int], Sequence[tuple[int, ...]]] | None = None
    joined_by: Literal["all", "any", "place"] = "all"
    never: str = ""
    belongs: Callable[[Sequence[Records]], bool] = lambda _: True
    reached_by_training: bool = False
    above_random: bool = False

    def orders(self, tasks: int, others: int) -> int:
        """Returns how many decisions between two agents share the confidence level of a count's interval."""
        return tasks * (1 if self.joined_by == "all" else others)

    @property
    def is_of_each_task(self) -> bool:
        """Whether a single task may decide the claim: it is about a number of tasks or the largest of them."""
        return self.count is not None or self.over_tasks is task_aggregates.largest

    @property
    def takes_all_tasks(self) -> bool:
        """Whether the claim is about a number of tasks, which needs an answer on each task of the row's set."""
        return self.over_tasks is task_aggregates.total


def find_claim(printed: PublishedRow) -> Claim:
    """Returns the kind of claim of a row.

    Raises:
        PublishedError: there is no such claim, the row lacks a field that it needs, or the other publication's numbers
            are missing.
    """
    name, protocol = str(printed.claim), printed.protocol
    make, fields = _OF_PROTOCOL.get(name, (None, ()))
    if make is not None and set(fields) <= set(protocol):
        claim = make(*(protocol[field] for field in fields))
    elif name in _OF_NORMALISED and printed.normaliser is not None:
        claim = _OF_NORMALISED[name]
        references = published.normaliser(printed.normaliser, printed.directory)
        measure = functools.partial(claim.of_task, references=references)
        claim = dataclasses.replace(claim, of_task=measure)
    elif name == "difference_from_publication" and "publication" in protocol:
        claim = _difference_from_publication(_publication(printed))
    elif name in CLAIMS:
        claim = CLAIMS[name]
    else:
        raise PublishedError(f"The published numbers of {printed.paper} have a row with an unknown claim, {name!r}.")
    if protocol.get("reached_by_training", False):
        claim = dataclasses.replace(claim, reached_by_training=True)
    if protocol.get("sampled", False):
        claim = dataclasses.replace(claim, needs=(*claim.needs, SAMPLED))
    if "split_by" not in protocol:
        return claim
    needs = tuple(dict.fromkeys((*claim.needs, *_RATE_AND_TARGET)))
    return dataclasses.replace(claim, needs=needs, belongs=_split(printed))


def _split(printed: PublishedRow) -> Callable[[Sequence[Records]], bool]:
    """Returns a test for whether a task is on the row's side of `split_at`, by rate minus target of `split_by`."""
    names = (printed.agent, *printed.protocol["against"])
    index, margin = names.index(printed.protocol["split_by"]), printed.protocol["split_at"]
    above = printed.protocol["split_side"] == "above"
    return lambda by_agent: task_measures.contracts_above(by_agent[index], margin) == above


def _ours_and_each(agents: int) -> Sequence[tuple[int, ...]]:
    return [(0, other) for other in range(1, agents)]


def _each_and_the_last(agents: int) -> Sequence[tuple[int, ...]]:
    return [(leader, agents - 1) for leader in range(agents - 1)]


def _zero_or_one(agents: int) -> statistics.Interval:
    del agents
    return 0.0, 1.0


def _places(agents: int) -> statistics.Interval:
    return 1.0, float(agents)


def _share_interval(share: float, runs: int, confidence: float = intervals.LEVEL) -> statistics.Interval:
    return intervals.share_interval(round(share * runs), runs, confidence)


def _to_their_level(of_task: OfTask, *needs: str) -> Claim:
    return Claim(
        of_task,
        task_aggregates.median,
        needs,
        resamples=statistics.CURVE_RESAMPLES,
        learned=learning.last,
        level=task_measures.their_level,
        never="a level that is not reached",
    )


def _to_common_level(of_task: Callable[..., Callable[[BootstrapWeights], np.ndarray]], *needs: str) -> Claim:
    return Claim(
        functools.partial(of_task, to_common_level=True),
        task_aggregates.median,
        needs,
        resamples=statistics.CURVE_RESAMPLES,
        learned=all,
        level=task_measures.common_level,
    )


def _won(over_tasks: Callable[[np.ndarray], np.ndarray]) -> Claim:
    return Claim(task_measures.won, over_tasks, together=True, learned=any, count=_zero_or_one, parts=_ours_and_each)


def _rank_correlation(name: str) -> Claim:
    return Claim(
        functools.partial(task_measures.rank_correlation, name=name),
        task_aggregates.mean,
        (f"sampled_hparams.{name}",),
        min_runs=3,
        task_interval=intervals.rank_correlation_interval,
        interval_runs=intervals.MIN_CORRELATED,
        learned=any,
        learned_median=True,
        reached_by_training=True,
    )


def _of_log(of_task: OfTask, columns: Sequence[str]) -> Claim:
    return Claim(
        of_task, task_aggregates.mean, tuple(f"series.{column}" for column in columns), reached_by_training=True
    )


def _logged(at_the_end: bool, columns: Sequence[str]) -> Claim:
    return _of_log(functools.partial(task_measures.logged, columns=columns, at_the_end=at_the_end), columns)


def _turning_back(columns: Sequence[str]) -> Claim:
    return _of_log(functools.partial(task_measures.turning_back, columns=columns), columns)


def _divergence_share(largest: Sequence[tuple[str, float]]) -> Claim:
    return Claim(
        functools.partial(task_measures.divergence_share, largest=dict(largest)),
        task_aggregates.median,
        ("series.kl",),
    )


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
    return dataclasses.replace(
        claim, over_tasks=task_aggregates.median, never="heads that do not differ from the main one"
    )


def _publication(printed: PublishedRow) -> dict[str, float]:
    """Returns another publication's numbers by task, from the context table and column that the row names."""
    name, column = printed.protocol["publication"]
    table = next((table for table in published.context(printed.directory / "context") if table.name == name), None)
    if table is None or column not in table.columns:
        raise PublishedError(
            f"The published numbers of {printed.paper} name an unknown table or column of context: {name}."
        )
    index = table.columns.index(column)
    return {task: number for task, cells in table.rows.items() if (number := cells[index]) is not None}


def _difference_from_publication(numbers: Mapping[str, float]) -> Claim:
    """Returns a claim about the distance of our scores from another publication's, relative to that of random play.

    Each distance is the root mean square over tasks, so that errors of opposite signs do not cancel. Tasks without
    learning count like the others. Random play has the relative distance 1.

    Args:
        numbers: numbers of the publication, by task.
    """
    return Claim(
        functools.partial(task_measures.squared_distances_from, numbers=numbers),
        functools.partial(task_aggregates.ratio, task_aggregates.root_of_mean),
        learned=learning.whether_or_not,
        belongs=lambda by_agent: by_agent[0][0]["task"] in numbers,
        reached_by_training=True,
        above_random=True,
        never="a ratio to 0 or less",
    )


def _ratio_of_normalised(of_scores: Callable[[np.ndarray], np.ndarray]) -> Claim:
    over_tasks = functools.partial(task_aggregates.ratio, of_scores)
    return Claim(task_measures.human_normalised, over_tasks, learned=any, never="a ratio to 0 or less")


def _difference_of_normalised(of_scores: Callable[[np.ndarray], np.ndarray]) -> Claim:
    over_tasks = functools.partial(task_aggregates.percentage_points, of_scores)
    return Claim(task_measures.human_normalised, over_tasks, learned=any)


def _ratio_of_leads(of_scores: Callable[[np.ndarray], np.ndarray]) -> Claim:
    return Claim(
        task_measures.human_normalised,
        functools.partial(task_aggregates.ratio_of_leads, of_scores),
        together=True,
        in_pairs=True,
        learned=all,  # or a lead is over nothing
        never="a ratio to 0 or less",
    )


_OF_PROTOCOL: Mapping[str, tuple[Callable[..., Claim], tuple[str, ...]]] = {
    "rank_correlation": (_rank_correlation, ("correlated_with",)),
    "logged_at_the_start": (functools.partial(_logged, False), ("columns",)),
    "logged_at_the_end": (functools.partial(_logged, True), ("columns",)),
    "logged_difference": (_logged_difference, ("columns",)),
    "turning_back": (_turning_back, ("columns",)),
    "divergence_share": (_divergence_share, ("largest",)),
    "share_of_log_above": (_share_of_log_above, ("columns", "others", "factor")),
    "ratio_of_head_distances": (_ratio_of_head_distances, ("metaparameters",)),
}
"""Name of a claim to the function that makes it and the fields of the protocol that the function takes."""
_OF_NORMALISED: Mapping[str, Claim] = {
    "human_normalised_median_difference": _difference_of_normalised(task_aggregates.median),
    "human_capped_mean_difference": _difference_of_normalised(task_aggregates.mean_capped),
    "human_normalised_mean_ratio": _ratio_of_normalised(task_aggregates.mean),
    "human_normalised_median_ratio": _ratio_of_normalised(task_aggregates.median),
    "human_capped_mean_ratio": _ratio_of_normalised(task_aggregates.mean_capped),
    "human_normalised_mean_ratio_of_leads": _ratio_of_leads(task_aggregates.mean),
    "human_normalised_median_ratio_of_leads": _ratio_of_leads(task_aggregates.median),
}
"""Claims about normalised scores, whose `of_task` also takes `references`: random and human score of each game."""
_RATE_AND_TARGET = ("series.contraction", "series.contraction_target")
CLAIMS: Mapping[str, Claim] = {
    "improvement": Claim(
        task_measures.improvement,
        task_aggregates.mean,
        task_interval=intervals.improvement_interval,
        least_reach=intervals.reach_at_even_odds,
        interval_runs=1,
        learned=any,
    ),
    "spread": Claim(
        task_measures.spread,
        task_aggregates.mean,
        task_interval=intervals.spread_interval,
        learned=all,
        belongs=task_measures.differ,
    ),
    "score_difference": Claim(task_measures.score_difference, task_aggregates.mean, learned=any),
    "difference_of_losses": Claim(
        task_measures.difference_of_losses,
        task_aggregates.mean,
        together=True,
        learned=learning.both_before,
        above_random=True,
    ),
    "trend": Claim(
        task_measures.trend,
        task_aggregates.mean,
        together=True,
        task_interval=intervals.trend_interval,
        least_reach=intervals.reach_at_even_odds,
        interval_runs=1,
        learned=learning.all_but_one,
    ),
    "speed": Claim(
        task_measures.frames_to_level,
        task_aggregates.mean,
        ("curve",),
        task_interval=intervals.improvement_interval,
        least_reach=intervals.reach_at_even_odds,
        interval_runs=1,
        learned=all,
        level=task_measures.common_level,
    ),
    "frames_ratio": _to_their_level(task_measures.ratio_of_frames, "curve"),
    "frames_ratio_to_common_level": _to_common_level(task_measures.ratio_of_frames, "curve"),
    "seconds_ratio_to_common_level": _to_common_level(task_measures.ratio_of_seconds, "curve", SECONDS),
    "gains_ratio": Claim(
        task_measures.ratio_of_gains,
        task_aggregates.median,
        together=True,
        learned=learning.each_gain,
        never="a first gain of 0 or less",
    ),
    "tasks_won": _won(task_aggregates.total),
    "tasks_won_share": _won(task_aggregates.mean),
    "tasks_led": Claim(
        task_measures.led_throughout,
        task_aggregates.total,
        ("curve",),
        together=True,
        learned=learning.leaders_or_last,
        count=_zero_or_one,
        parts=_each_and_the_last,
    ),
    "last_surpassed": Claim(
        task_measures.last_surpassed,
        task_aggregates.total,
        together=True,
        learned=any,
        count=_zero_or_one,
        parts=_each_and_the_last,
        joined_by="any",
    ),
    "gaps_widened": Claim(
        task_measures.gap_widened, task_aggregates.total, together=True, learned=learning.each_lead, count=_zero_or_one
    ),
    "gaps_widened_share": Claim(
        task_measures.gap_widened, task_aggregates.mean, together=True, learned=learning.each_lead, count=_zero_or_one
    ),
    "place": Claim(
        task_measures.place,
        task_aggregates.mean,
        together=True,
        learned=learning.all_but_one,
        count=_places,
        parts=_ours_and_each,
        joined_by="place",
    ),
    "settings_near_best": Claim(
        task_measures.near_best,
        task_aggregates.mean,
        ("curve",),
        min_runs=task_measures.SEARCH_RUNS,
        task_interval=_share_interval,
        learned=any,
        learned_best=task_measures.SEARCH_BEST,
        reached_by_training=True,
    ),
    "best_score": Claim(task_measures.score, task_aggregates.largest, learned=any, reached_by_training=True),
    "lowest_return": Claim(task_measures.lowest_return, task_aggregates.mean, ("curve",), reached_by_training=True),
    "divergence": Claim(task_measures.divergence, task_aggregates.mean, ("series.kl",)),
    "divergence_growth": Claim(task_measures.growth, task_aggregates.geometric_mean, ("series.kl",)),
    "divergence_distance_ratio": Claim(task_measures.distance, task_aggregates.geometric_mean, ("series.kl",)),
    "divergence_distance_orders": Claim(task_measures.distance, task_aggregates.mean, ("series.kl",)),
    "contraction_at_the_end": Claim(
        task_measures.contraction_at_the_end, task_aggregates.mean, _RATE_AND_TARGET, reached_by_training=True
    ),
    "contraction_throughout": Claim(
        task_measures.contraction_throughout, task_aggregates.largest, _RATE_AND_TARGET, reached_by_training=True
    ),
    "contraction_below": Claim(
        task_measures.contraction_below, task_aggregates.largest, _RATE_AND_TARGET, reached_by_training=True
    ),
    "contraction_difference": Claim(
        task_measures.contraction_difference, task_aggregates.mean, ("series.contraction",)
    ),
}
"""Claims by the names that published rows use, except those that need a field of the row."""
