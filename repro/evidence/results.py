"""Results: our side of a row, from the records of one task, of a claim, or of all tasks of an aggregate."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from repro.config import SCALES
from repro.evidence import claims, comparisons, intervals, published, statistics
from repro.evidence.comparisons import Key
from repro.evidence.groups import Group
from repro.evidence.records import budget_field, counted
from repro.evidence.references import References

PLAIN: Mapping[str, float] = {"random": 0.0, "human": 100.0}
"""Scores between which a plain one is its own percentage."""
ONE_SCORE, EQUAL_SCORES = "one score", "equal scores"
"""Why a mean has no interval: neither tells of a spread."""
BOOTSTRAP_SEED = 0
"""Each row has an rng of its own with this seed, so that its interval depends on nothing but its records."""


@dataclasses.dataclass(frozen=True)
class Result:
    """Our result for a row.

    Attributes:
        fields: of a `rows.Row`; empty where nothing answers it.
        note: what a reader must know.
        used: the records that the fields were chosen from.
        shortfalls: tasks, agents and the like that the number is about and `used` lacks.
        alternatives: intervals that must give the same answer, by what they are in words: without one of the tasks,
            where these are a part of the row's, or of a reading that the paper leaves open. None where there is none.
    """

    fields: Mapping[str, Any]
    note: str
    used: Sequence[Mapping[str, Any]] = ()
    shortfalls: tuple[str, ...] = ()
    alternatives: Mapping[str, statistics.Interval | None] = dataclasses.field(default_factory=dict)

    @property
    def learned(self) -> bool:
        """Whether training made the records."""
        return any(record["schedule"] != "study" for record in self.used)


def answer_task(printed: published.PublishedRow, groups: Mapping[Key, Group], field: str | None) -> Result:
    """Returns our result for a number of one task, where `protocol["best"]` is a number of the runs that end best.

    Args:
        printed: neither a claim nor an aggregate.
        groups: of all agents and tasks.
        field: the records' field that the budget is counted in; None for that of their own.
    """
    paper, experiment, task, agent = printed.paper, printed.experiment, printed.task, printed.agent
    group = groups.get((paper, str(experiment), task, str(agent)), Group(()))
    if printed.measure == "evaluation":
        wrong = {record["evaluation"]["unit"] for record in group.records} - {printed.unit}
        if wrong and printed.statement is not None:
            return Result({}, "")  # the records hold something else, which has a row of its own
        if wrong:
            note = f"records are in {', '.join(sorted(wrong))}, the paper in {printed.unit}: not compared"
            return Result({}, "; ".join([note, *group.notes]))
    counted_runs = comparisons.best_runs(printed, group.records)
    fields, notes = summarize_runs(counted_runs, field, printed.measure), list(group.notes)
    if len(counted_runs) < len(group.records):
        fields["seeds"] = tuple(record["seed"] for record in group.records)  # all that these were chosen from
        means = [record["evaluation"]["mean"] for record in group.records]
        low, high = intervals.best_interval(means, len(counted_runs), np.random.default_rng(BOOTSTRAP_SEED))
        fields["interval"] = (low, high) if low < high else None
        fields["no_interval"] = "" if low < high else EQUAL_SCORES
        notes.append(f"the best {len(counted_runs)} of {len(group.records)} runs count")
    alternatives = {}
    if fields:
        for other in printed.protocol.get("readings", ()):
            named = comparisons.experiment_and_agent(printed, other)
            read = summarize_runs(groups.get((paper, named[0], task, named[1]), Group(())).records, field)
            ends = (read["value"], read["value"]) if read.get("exact") else read.get("interval")
            alternatives[f"as {other} reads it"] = ends
    shortfalls, more = _of_search(printed, counted_runs, group.records)
    return Result(fields, "; ".join([*notes, *more]), group.records, shortfalls, alternatives)


def _of_search(
    printed: published.PublishedRow, chosen: Sequence[Mapping[str, Any]], every: Sequence[Mapping[str, Any]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is less than the paper's protocol about runs that diverged or were to be searched for, and what to note.

    Settings that a search tries may diverge, as long as none of the runs that count did.

    Args:
        printed: the row.
        chosen: the runs that count.
        every: these and those that they were chosen from.
    """
    count = sum("diverged" in record for record in every)
    diverged = (f"{count} of {len(every)} runs diverged",) if count else ()
    if printed.protocol.get("best") is None or not every:
        return diverged, ()
    searched = all(record.get("sampled_hparams") for record in every)
    if not searched:
        return (*diverged, "no search of settings"), ()
    harmless = len(chosen) < len(every) and not any("diverged" in record for record in chosen)
    return ((), diverged) if harmless else (diverged, ())


def answer_claim(
    printed: published.PublishedRow, groups: Mapping[Key, Group], references: References, field: str | None
) -> Result:
    """Returns our result for a claim; its budget, games and scale are the least of all that is compared for it.

    Args:
        printed: a claim.
        groups: of all agents and tasks.
        references: random players and the paper's settings.
        field: as for `answer_task`.
    """
    runs = {key: group.every for key, group in groups.items()}
    found = claims.answer(printed, runs, np.random.default_rng(BOOTSTRAP_SEED), references)
    if isinstance(found, str):
        return Result({}, found)
    used = [record for group in found.compared for record in group]
    fields = {
        "value": found.value,
        "interval": found.interval,
        "interval_over": "seeds",
        **_budget(used, field),
        "seeds": tuple(record["seed"] for record in min(found.candidates or found.runs, key=len)),
        "episodes": min(record["evaluation"]["episodes"] for record in used),
        "scale": min((record["scale"] for record in used), key=SCALES.index),
    }
    shortfalls, notes = _of_search(
        printed, used, used if found.candidates is None else [record for group in found.candidates for record in group]
    )
    note = "; ".join(filter(None, (found.note, *notes)))
    return Result(fields, note, used, (*shortfalls, *found.shortfalls), found.alternatives)


def answer_aggregate(
    printed: published.PublishedRow,
    groups: Mapping[Key, Group],
    scores: Mapping[str, Mapping[str, float]],
    field: str | None,
) -> Result:
    """Returns our result for an aggregate over tasks: not run before every one of its tasks is.

    It is in percent where scores are normalised, otherwise in the unit of the scores themselves.

    Args:
        printed: with a statistic.
        groups: of all agents and tasks.
        scores: random and human score of each task of the aggregate; empty where it is not of normalised scores.
        field: as for `answer_task`.
    """
    if printed.agent is None or printed.statistic is None:
        return Result({}, "")
    names = (printed.paper, printed.experiment, printed.agent)
    done = {t: g.records for (p, e, t, a), g in groups.items() if (p, e, a) == names and g.records}
    if not scores:
        whole = comparisons.tasks_of_aggregate(printed, {key: group.records for key, group in groups.items()})
        units = {record["evaluation"]["unit"] for records in done.values() for record in records}
        if not whole or units != {printed.unit}:
            if not done or printed.task not in comparisons.TASK_SETS:
                return Result({}, "")
            return Result({}, f"{len(done)} of the {comparisons.number_of_tasks(printed.task)} tasks have a record")
        scores = dict.fromkeys(whole, PLAIN)
    done = {task: records for task, records in done.items() if task in scores}
    if len(done) < len(scores):
        at_hand = _of_tasks_at_hand(printed, done, scores)
        return Result({}, f"{len(done)} of the {len(scores)} tasks have a record{at_hand}")
    used = [record for records in done.values() for record in records]
    fields, note = _summarize_tasks(printed, done, scores, field)
    return Result(fields, note, used, _of_search(printed, used, used)[0])


def summarize_runs(
    records: Sequence[Mapping[str, Any]], field: str | None, measure: published.Measure = "evaluation"
) -> dict[str, Any]:
    """Returns the fields of a row: mean over seeds, and its interval over seeds, or over episodes of a single seed.

    Seeds of a study have intervals of their own: those that their records hold are averaged, and a share of cases is
    over the cases of all.

    Args:
        records: of one agent on one task at one scale, one a seed; none give no fields.
        field: the records' field that the budget is counted in; None for that of their own.
        measure: what the row's number is.
    """
    if not records:
        return {}
    several = len(records) > 1
    values = [_measured(record, measure) for record in records]
    of_evaluations = measure == "evaluation"
    games = records[0]["evaluation"]["returns"] if of_evaluations else values
    exact = of_evaluations and all(record["evaluation"].get("exact", False) for record in records)
    over_cases = not exact and of_evaluations and (not several or _has_cases(records))
    interval = None
    if not exact:
        interval = _interval_over_cases(records) if over_cases else intervals.mean_interval(values)
    no_interval = ""
    if interval is None and not exact:
        no_interval = ONE_SCORE if len(records) == len(games) == 1 else EQUAL_SCORES
    return {
        "exact": exact,
        "value": float(np.mean(values)),
        "interval": interval,
        "no_interval": no_interval,
        "interval_over": "seeds" if several and not over_cases else _scores_of_one_seed(records[0]),
        **_budget(records, field),
        "seeds": tuple(record["seed"] for record in records),
        "episodes": min(record["evaluation"]["episodes"] for record in records),
        "scale": records[0]["scale"],
    }


def _has_cases(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether each run is a study that has an interval of its own, or cases of which it gives the share."""
    is_share = records[0]["evaluation"]["unit"].startswith(intervals.SHARE)
    stated = all("interval" in record["evaluation"] for record in records)
    return (is_share or stated) and all(record["schedule"] == "study" for record in records)


def _interval_over_cases(records: Sequence[Mapping[str, Any]]) -> statistics.Interval | None:
    """The interval of a mean over runs from those that they hold, or from all their games or cases together."""
    found = [record["evaluation"] for record in records]
    if any("interval" not in evaluation for evaluation in found):
        return intervals.mean_interval([x for one in found for x in one["returns"]], unit=found[0]["unit"])
    low, high = found[0]["interval"]
    if len(found) > 1:
        low, high = intervals.average([one["mean"] for one in found], [one["interval"] for one in found])
    return (low, high) if low < high else None


def interval_over_tasks(
    scores: statistics.Scores, runs: Mapping[str, Sequence[Mapping[str, Any]]], statistic: statistics.Statistic
) -> tuple[statistics.Interval | None, str]:
    """Returns the interval over seeds of an aggregate of one agent's scores, in percent, or why it has none.

    Args:
        scores: task to the normalised score of each run.
        runs: task to its records, in the same order.
        statistic: of the aggregate.

    Returns:
        The interval and nothing; or None, and in words why: too few runs, runs that depend on each other over tasks and
        are not the same ones on all of them, or resamples that are all one number.
    """
    of_tasks = list(runs.values())
    dependent = comparisons.are_dependent(of_tasks)
    if dependent and not comparisons.are_same_runs(of_tasks):
        return None, "an interval takes the same seeds on all tasks that are learned together or in a sweep"
    return _aggregate_interval(scores, statistic, "runs", dependent)


def _aggregate_interval(
    scores: statistics.Scores, statistic: statistics.Statistic, samples: str, dependent: bool = False
) -> tuple[statistics.Interval | None, str]:
    """The interval in percent or why there is none; `samples` says what has a score."""
    if min(map(len, scores.values())) < statistics.MIN_BOOTSTRAP_RUNS:
        return None, f"an interval takes {statistics.MIN_BOOTSTRAP_RUNS} {samples} on each task"
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    interval = statistics.stratified_interval(scores, statistic, rng, dependent=dependent)
    if interval is None:
        return None, f"no interval, since all {samples} give one number"
    return (100 * interval[0], 100 * interval[1]), ""


def _summarize_tasks(
    printed: published.PublishedRow,
    done: Mapping[str, Sequence[Mapping[str, Any]]],
    references: Mapping[str, Mapping[str, float]],
    field: str | None,
) -> tuple[dict[str, Any], str]:
    """Our result for an aggregate as fields of a `Row`, in percent, and why it has no interval, empty where it has one.

    The interval is over the games of all runs where some task has a single run, or too few for one over runs and the
    paper has one itself: no further run takes an interval away there.

    Args:
        printed: with a statistic.
        done: task to its records, one a seed, at least one each; tasks of one agent.
        references: random and human score of each of these tasks.
        field: the records' field that the budget is counted in; None for that of their own.
    """
    assert printed.statistic is not None
    function = statistics.STATISTICS[printed.statistic]
    several = min(map(len, done.values())) >= (statistics.MIN_BOOTSTRAP_RUNS if printed.n_seeds == 1 else 2)
    means = _normalised_means(done, references)
    if several:
        interval, no_interval = interval_over_tasks(means, done, function)
    else:
        returns = {task: [x for r in records for x in r["evaluation"]["returns"]] for task, records in done.items()}
        games = statistics.normalised_scores(returns, references)
        interval, no_interval = _aggregate_interval(games, function, "games")
    every = [record for records in done.values() for record in records]
    fields = {
        "value": 100 * statistics.aggregate(means, function),
        "interval": interval,
        "interval_over": "seeds" if several else "episodes",
        **_budget(every, field),
        "seeds": tuple(record["seed"] for record in min(done.values(), key=len)),
        "episodes": min(record["evaluation"]["episodes"] for record in every),
        "scale": min((record["scale"] for record in every), key=SCALES.index),
    }
    return fields, no_interval


def _of_tasks_at_hand(
    printed: published.PublishedRow,
    done: Mapping[str, Sequence[Mapping[str, Any]]],
    references: Mapping[str, Mapping[str, float]],
) -> str:
    """The aggregate over some of the tasks in words, where these are all that an agent learns together; else empty."""
    if not comparisons.learned_together(list(done.values())):
        return ""
    assert printed.statistic is not None
    value = 100 * statistics.aggregate(_normalised_means(done, references), statistics.STATISTICS[printed.statistic])
    return f", with a {printed.statistic.replace('_', ' ')} score of {value:.1f} %"


def _normalised_means(
    done: Mapping[str, Sequence[Mapping[str, Any]]], references: Mapping[str, Mapping[str, float]]
) -> dict[str, np.ndarray]:
    """The human-normalised mean of each run, by task."""
    means = {task: [record["evaluation"]["mean"] for record in records] for task, records in done.items()}
    return statistics.normalised_scores(means, references)


def _budget(records: Sequence[Mapping[str, Any]], field: str | None) -> dict[str, Any]:
    """The smallest budget of some runs and what it counts, by a field of theirs or, with None, that of their own.

    A run that diverged had the budget of the others: more of it had changed nothing.
    """
    field = field or budget_field(records[0])
    ended = [record[field] for record in records if "diverged" not in record]
    return {"budget": min(ended or [record[field] for record in records]), "counts": counted(field)}


def _scores_of_one_seed(record: Mapping[str, Any]) -> str:
    """What the evaluation of a single record has a score of.

    Where a study states the interval of several values itself, they are bootstrap resamples (`study.StudyResult`).
    """
    if record["schedule"] != "study":
        return "episodes"
    evaluation = record["evaluation"]
    return "resamples" if "interval" in evaluation and evaluation["episodes"] > 1 else "repetitions"


def _measured(record: Mapping[str, Any], measure: published.Measure) -> float:
    """The number of a record that a published row asks for."""
    if measure == "evaluation":
        return record["evaluation"]["mean"]
    if measure == "wall_minutes":
        return record["wall_seconds"] / 60
    return record["frames_per_second"]
