"""Kinds of claims: what each measures on a task and over tasks, and what it needs to be answered.

The `claim` of a published row names one of `CLAIMS`, or one that `find_claim` makes with further fields of the row.
Each is a number of one task, then an aggregate over the tasks of the row's set, or over those of them that
`protocol["split_by"]` chooses by the runs of an agent.
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

SAMPLED = "sampled_hparams"
"""What the runs of a claim about a sweep need, of which each has settings of its own."""


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
        parts: of a count that several comparisons make: from the number of agents to those of each comparison. None
            where there is one, of all agents.
        joined_by: what they make: whether something is so in `all` of them, or in `any`; or a `place`, of which each
            gives that among two.
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
        """Returns how many orders of two agents share the level of a count's interval."""
        return tasks * (1 if self.joined_by == "all" else others)

    @property
    def is_of_each_task(self) -> bool:
        """Whether a single task may decide it: it is about the number of tasks, or the largest of them."""
        return self.count is not None or self.over_tasks is task_aggregates.largest

    @property
    def takes_all_tasks(self) -> bool:
        """Whether it is about a number of tasks of the row's set, which a part of the set says nothing of."""
        return self.over_tasks is task_aggregates.total


def find_claim(printed: PublishedRow) -> Claim:
    """Returns how a row's claim is answered.

    Raises:
        PublishedError: no such claim, it needs a field that the row lacks, or scores to compare with are missing.
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
    """Whether a task lies on the row's side of `split_at`, by the rate minus the target of the agent `split_by`."""
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


def _to_level(of_task: OfTask, *needs: str) -> Claim:
    return Claim(
        of_task,
        task_aggregates.median,
        needs,
        resamples=statistics.CURVE_RESAMPLES,
        learned=learning.last,
        level=task_measures.their_level,
        never="a level that is not reached",
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
    """The numbers of another publication, by task: of a context table and column that the row names."""
    name, column = printed.protocol["publication"]
    table = next((table for table in published.context(printed.directory / "context") if table.name == name), None)
    if table is None or column not in table.columns:
        raise PublishedError(
            f"The published numbers of {printed.paper} name an unknown table or column of context: {name}."
        )
    index = table.columns.index(column)
    return {task: number for task, cells in table.rows.items() if (number := cells[index]) is not None}


def _difference_from_publication(numbers: Mapping[str, float]) -> Claim:
    """Distance of our scores from the numbers of another publication, over that of random play from them.

    Each is the root of the mean square over the tasks, so that none makes up for another; tasks on which we have not
    learned count as the others do. Random play has 1.

    Args:
        numbers: that publication's, by task.
    """
    return Claim(
        functools.partial(task_measures.squared_distances_from, numbers=numbers),
        functools.partial(task_aggregates.ratio, task_aggregates.root_of_mean),
        learned=learning.whether_or_not,
        belongs=lambda by_agent: by_agent[0][0]["task"] in numbers,
        reached_by_training=True,
        above_random=True,
        never="a ratio to nothing",
    )


def _ratio_of_normalised(of_scores: Callable[[np.ndarray], np.ndarray]) -> Claim:
    over_tasks = functools.partial(task_aggregates.ratio, of_scores)
    return Claim(task_measures.human_normalised, over_tasks, learned=any, never="a ratio to nothing")


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
        never="a ratio to nothing",
    )


_OF_PROTOCOL: Mapping[str, tuple[Callable[..., Claim], tuple[str, ...]]] = {
    "rank_correlation": (_rank_correlation, ("correlated_with",)),
    "logged_at_the_start": (functools.partial(_logged, False), ("columns",)),
    "logged_at_the_end": (functools.partial(_logged, True), ("columns",)),
    "logged_difference": (_logged_difference, ("columns",)),
    "turning_back": (_turning_back, ("columns",)),
    "share_of_log_above": (_share_of_log_above, ("columns", "others", "factor")),
    "ratio_of_head_distances": (_ratio_of_head_distances, ("metaparameters",)),
}
"""Function that makes a claim, and the fields of the protocol that it takes."""
_OF_NORMALISED: Mapping[str, Claim] = {
    "human_normalised_median_difference": _difference_of_normalised(task_aggregates.median),
    "human_capped_mean_difference": _difference_of_normalised(task_aggregates.mean_capped),
    "human_normalised_mean_ratio": _ratio_of_normalised(task_aggregates.mean),
    "human_normalised_median_ratio": _ratio_of_normalised(task_aggregates.median),
    "human_gap_mean_ratio": _ratio_of_normalised(task_aggregates.mean_gap),
    "human_normalised_mean_ratio_of_leads": _ratio_of_leads(task_aggregates.mean),
    "human_normalised_median_ratio_of_leads": _ratio_of_leads(task_aggregates.median),
}
"""Claims about normalised scores, whose `of_task` takes `references` besides: random and human score of each game."""
_RATE_AND_TARGET = ("series.contraction", "series.contraction_target")
CLAIMS: Mapping[str, Claim] = {
    "improvement": Claim(
        task_measures.improvement,
        task_aggregates.mean,
        task_interval=intervals.improvement_interval,
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
        interval_runs=1,
        learned=learning.all_but_one,
    ),
    "speed": Claim(
        task_measures.frames_to_level,
        task_aggregates.mean,
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
        task_aggregates.median,
        together=True,
        learned=learning.each_gain,
        never="a first gain that is none",
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
    "best_score": Claim(task_measures.score, task_aggregates.largest, learned=any),
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
    "contraction_difference": Claim(
        task_measures.contraction_difference, task_aggregates.mean, ("series.contraction",)
    ),
}
"""Claims by the names that published rows use, but for those that need a field of the row."""
