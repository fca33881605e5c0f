"""Results: our numbers for a row, from the records of one task, of a claim, or of all tasks of an aggregate."""

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
"""Reference scores with which a plain score is its own percentage."""
ONE_SCORE, EQUAL_SCORES = "one score", "equal scores"
"""Reasons why a mean has no interval: neither shows a spread."""
BOOTSTRAP_SEED = 0
"""Seed of a separate rng for each row, so that the row's interval depends only on its records."""


@dataclasses.dataclass(frozen=True)
class Result:
    """Our result for a row.

    Attributes:
        fields: attributes of a `rows.Row` by name; empty if nothing answers the row.
        note: what a reader must know.
        used: records behind the fields, including those that the best were chosen from.
        shortfalls: tasks, agents and the like that the number is about and `used` lacks.
        alternatives: intervals that must give the same answer, by a name in words: those without one of the tasks, if
            only a part of the row's tasks is available, and those of other readings of what the paper leaves open. A
            value is None if there is no such interval.
    """

    fields: Mapping[str, Any]
    note: str
    used: Sequence[Mapping[str, Any]] = ()
    shortfalls: tuple[str, ...] = ()
    alternatives: Mapping[str, statistics.Interval | None] = dataclasses.field(default_factory=dict)

    @property
    def learned(self) -> bool:
        """Whether any of the records comes from training and not from a study."""
        return any(record["schedule"] != "study" for record in self.used)


def answer_task(printed: published.PublishedRow, groups: Mapping[Key, Group], field: str | None) -> Result:
    """Returns our result for a number of one task; with `protocol["best"]` only the best runs of a search count.

    Args:
        printed: row that is neither a claim nor an aggregate.
        groups: groups of all agents and tasks.
        field: field of the records that the budget is counted in; None for each record's own budget field.
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
        fields["seeds"] = tuple(record["seed"] for record in group.records)  # all runs that the best are chosen from
        means = [record["evaluation"]["mean"] for record in group.records]
        low, high = intervals.best_interval(means, len(counted_runs), np.random.default_rng(BOOTSTRAP_SEED))
        fields["interval"] = (low, high) if low < high else None
        fields["no_interval"] = "" if low < high else EQUAL_SCORES
        notes.append(f"the best {len(counted_runs)} of {len(group.records)} runs count")
    alternatives = {}
    if fields:
        for other, otherwise in printed.protocol.get("readings", {}).items():
            named = comparisons.experiment_and_agent(printed, other)
            read = summarize_runs(groups.get((paper, named[0], task, named[1]), Group(())).records, field)
            if read:
                ends = (read["value"], read["value"]) if read.get("exact") else read["interval"]
                alternatives[f"if {otherwise}, which gives {read['value']:.4g}"] = ends
    shortfalls, more = _of_search(printed, counted_runs, group.records)
    return Result(fields, "; ".join([*notes, *more]), group.records, shortfalls, alternatives)


def _of_search(
    printed: published.PublishedRow, chosen: Sequence[Mapping[str, Any]], every: Sequence[Mapping[str, Any]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns shortfalls and notes about runs that diverged and about a missing search of settings.

    Settings that a search tries may diverge, as long as none of the runs that count did: this is a note, no shortfall.

    Args:
        printed: the row.
        chosen: runs that count.
        every: runs that they were chosen from, including themselves.
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
    """Returns our result for a claim; its budget, games and scale are the smallest of all runs compared for it.

    Args:
        printed: row with a claim.
        groups: groups of all agents and tasks.
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
    """Returns our result for an aggregate over tasks; without fields until every task has a record.

    It is in percent if scores are normalised, otherwise in the unit of the scores.

    Args:
        printed: row with a statistic.
        groups: groups of all agents and tasks.
        scores: random and human score of each task of the aggregate; empty for scores that are not normalised.
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

    For a study, intervals in the records of several seeds are averaged, and a share of cases has an interval over the
    cases of all seeds.

    Args:
        records: records of one agent on one task at one scale, one per seed; without any the result is empty.
        field: field of the records that the budget is counted in; None for their own budget field.
        measure: number of a record that the row is about.
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
    """Returns whether all records are of a study and either have intervals or are about a share of cases."""
    is_share = records[0]["evaluation"]["unit"].startswith(intervals.SHARE)
    stated = all("interval" in record["evaluation"] for record in records)
    return (is_share or stated) and all(record["schedule"] == "study" for record in records)


def _interval_over_cases(records: Sequence[Mapping[str, Any]]) -> statistics.Interval | None:
    """Returns the interval of a mean over runs: from the records' intervals, or else over all games or cases."""
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
    """Returns the interval over seeds of an aggregate of one agent's scores, in percent, or the reason for none.

    Args:
        scores: task to the normalised score of each run.
        runs: task to its records, in the same order.
        statistic: function of the aggregate.

    Returns:
        The interval and an empty string; or None and a sentence with the reason: too few runs, dependent tasks without
        the same runs on all of them, or resamples that all give the same number.
    """
    of_tasks = list(runs.values())
    dependent = comparisons.are_dependent(of_tasks)
    if dependent and not comparisons.are_same_runs(of_tasks):
        return None, "an interval needs the same seeds on all tasks that are learned together or in a sweep"
    return _aggregate_interval(scores, statistic, "runs", dependent)


def _aggregate_interval(
    scores: statistics.Scores, statistic: statistics.Statistic, samples: str, dependent: bool = False
) -> tuple[statistics.Interval | None, str]:
    """Returns the interval in percent, or the reason for none; `samples` names what has a score: runs or games."""
    if min(map(len, scores.values())) < statistics.MIN_BOOTSTRAP_RUNS:
        return None, f"an interval needs {statistics.MIN_BOOTSTRAP_RUNS} {samples} on each task"
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    interval = statistics.stratified_interval(scores, statistic, rng, dependent=dependent)
    if interval is None:
        return None, f"no interval, since all {samples} give the same number"
    return (100 * interval[0], 100 * interval[1]), ""


def _summarize_tasks(
    printed: published.PublishedRow,
    done: Mapping[str, Sequence[Mapping[str, Any]]],
    references: Mapping[str, Mapping[str, float]],
    field: str | None,
) -> tuple[dict[str, Any], str]:
    """Returns an aggregate's fields of a `Row`, in percent, and the reason for no interval, empty if it has one.

    The interval is over the games of all runs if some task has a single run, or if some task has too few for one over
    runs and the paper has a single run itself. In the second case, further runs never remove the interval.

    Args:
        printed: row with a statistic.
        done: task to one agent's records, one per seed, at least one for each task.
        references: random and human score of each of these tasks.
        field: field of the records that the budget is counted in; None for their own budget field.
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
    """Describes the aggregate over the available tasks if an agent learned them together; otherwise empty."""
    if not comparisons.learned_together(list(done.values())):
        return ""
    assert printed.statistic is not None
    value = 100 * statistics.aggregate(_normalised_means(done, references), statistics.STATISTICS[printed.statistic])
    return f", with a {printed.statistic.replace('_', ' ')} score of {value:.1f} %"


def _normalised_means(
    done: Mapping[str, Sequence[Mapping[str, Any]]], references: Mapping[str, Mapping[str, float]]
) -> dict[str, np.ndarray]:
    """Returns the human-normalised mean of each run, by task."""
    means = {task: [record["evaluation"]["mean"] for record in records] for task, records in done.items()}
    return statistics.normalised_scores(means, references)


def _budget(records: Sequence[Mapping[str, Any]], field: str | None) -> dict[str, Any]:
    """Returns the fields `budget`, the smallest one of some runs, and `counts`, its unit in words.

    Runs that diverged are left out if there are others, because more training would have changed nothing. With None as
    `field` it is the records' own budget field.
    """
    field = field or budget_field(records[0])
    ended = [record[field] for record in records if "diverged" not in record]
    return {"budget": min(ended or [record[field] for record in records]), "counts": counted(field)}


def _scores_of_one_seed(record: Mapping[str, Any]) -> str:
    """Returns what each score of a record's evaluation belongs to: `episodes`, `repetitions` or `resamples`.

    The values of a study that states their interval itself are bootstrap resamples (`study.StudyResult`).
    """
    if record["schedule"] != "study":
        return "episodes"
    evaluation = record["evaluation"]
    return "resamples" if "interval" in evaluation and evaluation["episodes"] > 1 else "repetitions"


def _measured(record: Mapping[str, Any], measure: published.Measure) -> float:
    """Returns the number of a record that a published row is about."""
    if measure == "evaluation":
        return record["evaluation"]["mean"]
    if measure == "wall_minutes":
        return record["wall_seconds"] / 60
    return record["frames_per_second"]
