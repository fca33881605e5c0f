"""Rows: each published number beside ours, with interval, budget, verdict and the command to repeat it."""

import collections
import dataclasses
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from repro.evidence import (
    claims,
    commands,
    comparisons,
    intervals,
    published,
    random_player,
    settings,
    staleness,
    statistics,
)
from repro.evidence.records import SCALES, StoredRecord, budget_field, counted
from repro.evidence.verdicts import BUDGET_TOLERANCE, MIN_RUNS, VERDICTS, Finding, Verdict, find, verdict_of, weakest

# Each row has an rng of its own with this seed, so that a row's interval depends on nothing but
# its records.
BOOTSTRAP_SEED = 0

Key = comparisons.Key


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the tables, in plain values.

    Attributes:
        paper, experiment, task, agent: what is run; experiment and agent are None where nothing here answers.
        table, column: where the number is printed and what the paper calls the agent; None for a run of ours
            that answers no printed number.
        statistic: one of `statistics.STATISTICS` for an aggregate over tasks, else None.
        statement: the claim behind the number, where it is not a number of a table; else None.
        claim: by what runs answer the statement, as in `published.PublishedRow`.
        unit: unit of published, value and interval.
        published: the printed number, or None.
        published_seeds: the paper's runs, or None.
        published_budget: the paper's training budget, in `budget_field`.
        budget_field: num_env_frames, num_env_steps, agent_steps or gradient_steps; None without a published budget.
        counts: what `budget` counts, in words.
        better: how `published` is met, as in `published.Better`.
        value: mean of ours over seeds of the mean over episodes, None when not run; for an aggregate, that of all
            its tasks.
        interval: 95 % interval of `value`; None when not run, with a single score, or with equal ones.
        interval_over: `seeds` when there are several, `episodes` when there is one, `repetitions` of a study, or
            bootstrap `resamples` of them.
        random, human: reference scores of the task, printed or of our own random player, or None.
        budget: smallest budget of our runs, in `budget_field`.
        share: `budget` over `published_budget`.
        seeds: the seeds of our runs; where the best of them count, of all that these were chosen from.
        episodes: fewest episodes evaluated in one of our runs.
        scale: scale of our runs, None when not run.
        exact: whether `value` is exact, and needs no interval.
        finding: as in `verdicts`; None when there is no printed number to judge by.
        shortfalls: what is less than the paper's protocol behind `value`, in words; empty where nothing is, or nothing
            was run.
        settings: settings of our runs that are not the paper's, in words.
        sentence: as in `published.PublishedRow`.
        command: makes the row's runs again, or without any its first ones; None where there is no config for it, or
            where the row is an aggregate.
        note: what a reader must know: stale or unpooled records, why an aggregate is not run; empty
            otherwise.
    """

    paper: str
    experiment: str | None
    task: str
    agent: str | None
    unit: str
    table: str | None = None
    column: str | None = None
    statistic: str | None = None
    statement: str | None = None
    claim: str | None = None
    better: published.Better = "more"
    published: float | None = None
    published_seeds: int | None = None
    published_budget: int | None = None
    budget_field: str | None = None
    counts: str = ""
    value: float | None = None
    interval: tuple[float, float] | None = None
    interval_over: str | None = None
    random: float | None = None
    human: float | None = None
    budget: int | None = None
    share: float | None = None
    seeds: tuple[int, ...] = ()
    episodes: int | None = None
    scale: str | None = None
    exact: bool = False
    finding: Finding | None = None
    shortfalls: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    sentence: str | None = None
    command: str | None = None
    note: str = ""

    @property
    def verdict(self) -> Verdict | None:
        """The finding in one word, `reproduced` at full share of the protocol; None without a printed number."""
        return None if self.finding is None else verdict_of(self.finding, self.shortfalls)


@dataclasses.dataclass(frozen=True)
class Group:
    """The records behind one row.

    Attributes:
        records: current ones of the largest scale at hand, in order of seed.
        smaller: current ones of smaller scales.
        notes: what was left out, and why.
        stale: path of each stale record to the reason.
    """

    records: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...] = ()
    stale: Mapping[pathlib.Path, str] = dataclasses.field(default_factory=dict)
    smaller: tuple[Mapping[str, Any], ...] = ()

    @property
    def every(self) -> tuple[Mapping[str, Any], ...]:
        """Current records of all scales, those of the largest first."""
        return (*self.records, *self.smaller)


def group_records(
    stored: Iterable[StoredRecord], configs_dir: pathlib.Path = staleness.CONFIGS_DIR, *, keep_stale: bool = False
) -> dict[Key, Group]:
    """Sorts records by what they answer, leaving stale ones aside.

    Only runs of one scale are averaged: the largest scale at hand, since its budget is nearest to the
    paper's. Comparisons use the largest scale that all agents compared have.

    Args:
        stored: valid records.
        configs_dir: current configs, for staleness.
        keep_stale: counts stale records as if they were not, to see what rests on them.

    Returns:
        (paper, experiment, task, agent) to its group; a group may be empty when all its records are stale.
    """
    current: dict[Key, list[Mapping[str, Any]]] = collections.defaultdict(list)
    notes: dict[Key, list[str]] = collections.defaultdict(list)
    stale: dict[Key, dict[pathlib.Path, str]] = collections.defaultdict(dict)
    for item in stored:
        record = item.record
        key = comparisons.key_of(record)
        current[key]  # a key with stale records only still has its row
        reason = None if keep_stale else staleness.stale_reason(record, configs_dir)
        if reason:
            notes[key].append(f"seed {record['seed']} is stale: {reason}")
            stale[key][item.path] = reason
        else:
            current[key].append(record)
    groups = {}
    for key, records in current.items():
        scale = max((record["scale"] for record in records), key=SCALES.index, default=None)
        used = sorted((record for record in records if record["scale"] == scale), key=lambda record: record["seed"])
        smaller = sorted((record for record in records if record["scale"] != scale), key=lambda record: record["seed"])
        for other in SCALES:
            seeds = ", ".join(str(record["seed"]) for record in smaller if record["scale"] == other)
            if seeds:
                notes[key].append(f"runs of scale {other}, seeds {seeds}, are not averaged with these")
        groups[key] = Group(tuple(used), tuple(notes[key]), stale[key], tuple(smaller))
    return groups


def stale_records(groups: Mapping[Key, Group]) -> dict[pathlib.Path, str]:
    """Returns the path of each stale record with the reason, in order of paths."""
    return dict(sorted(item for group in groups.values() for item in group.stale.items()))


def make_rows(
    groups: Mapping[Key, Group],
    *,
    papers: Sequence[str] | None = None,
    experiment: str | None = None,
    published_dir: pathlib.Path = published.PUBLISHED_DIR,
    configs_dir: pathlib.Path = staleness.CONFIGS_DIR,
) -> list[Row]:
    """Returns a row for every published number, then one for every scale of a group that answers none, paper by paper.

    Args:
        groups: from `group_records`.
        papers: papers to show, default all with published numbers or records.
        experiment: only rows of this experiment.
        published_dir: published numbers.
        configs_dir: configs, to know which rows have a command.
    """
    known = published.papers(published_dir)
    if papers is None:
        papers = sorted({*known, *(key[0] for key in groups)})
    references = _references(groups, published_dir, configs_dir)
    rows: list[Row] = []
    for paper in papers:
        printed = published.load(paper, published_dir).rows if paper in known else ()
        answered = {_key(row) for row in printed if _compares(row, groups.get(_key(row)))}
        rows += [_printed_row(row, groups, references, published_dir, configs_dir) for row in printed]
        rows += [
            _own_row(key, of_scale, references, configs_dir)
            for key, group in sorted(groups.items())
            if key[0] == paper and key not in answered
            for of_scale in _scales(group)
        ]
    return [row for row in rows if experiment is None or row.experiment == experiment]


def rows_for(
    stored: Iterable[StoredRecord],
    configs_dir: pathlib.Path = staleness.CONFIGS_DIR,
    others: Iterable[StoredRecord] = (),
) -> list[Row]:
    """Returns only the rows of the given records and the claims that they answer: what a finished run prints.

    Args:
        stored: valid records, as `records.read_all` gives them or those of one run.
        configs_dir: current configs.
        others: further records, of which the random players' are read, since claims need them; they have no rows.
    """
    stored = list(stored)
    keys = {comparisons.key_of(item.record) for item in stored}
    players = [item for item in others if item.record["agent"] == random_player.AGENT]
    players = [item for item in players if comparisons.key_of(item.record) not in keys]
    groups = group_records([*stored, *players], configs_dir)
    rows = make_rows(groups, papers=sorted({key[0] for key in keys}), configs_dir=configs_dir)
    return [row for row in rows if row.statistic is None and (row.claim is not None and row.seeds or _key(row) in keys)]


def _key(row: published.PublishedRow | Row) -> Key:
    return (row.paper, str(row.experiment), row.task, str(row.agent))


def _compares(printed: published.PublishedRow, group: Group | None) -> bool:
    """Whether the records of a group are what a printed number asks for."""
    if group is None or printed.statistic is not None or printed.claim is not None:
        return False
    units = {record["evaluation"]["unit"] for record in group.records}
    return printed.statement is None or printed.measure != "evaluation" or units <= {printed.unit}


@dataclasses.dataclass(frozen=True)
class _Ours:
    """Our result for a row.

    Attributes:
        fields: of a `Row`; empty where nothing answers it.
        note: what a reader must know.
        used: the records that the fields were chosen from.
        shortfalls: tasks, agents and the like that the number is about and `used` lacks.
    """

    fields: Mapping[str, Any]
    note: str
    used: Sequence[Mapping[str, Any]] = ()
    shortfalls: tuple[str, ...] = ()

    @property
    def learned(self) -> bool:
        """Whether training made the records."""
        return any(record["schedule"] != "study" for record in self.used)


def _references(
    groups: Mapping[Key, Group], published_dir: pathlib.Path, configs_dir: pathlib.Path
) -> claims.References:
    levels = random_player.levels(record for group in groups.values() for record in group.every)

    def differences(record: Mapping[str, Any]) -> Mapping[str, tuple[Any, Any]]:
        return settings.differences(record, configs_dir, published_dir)

    return claims.References(lambda record: levels.get(random_player.game_of(record)), differences)


def _random_score(used: Sequence[Mapping[str, Any]], references: claims.References) -> float | None:
    """What a random player scores in the game of some records; None without a record of one, or for several games."""
    levels = {references.random(record) for record in used}
    level = levels.pop() if len(levels) == 1 else None
    return None if level is None else level.mean


def _printed_row(
    printed: published.PublishedRow,
    groups: Mapping[Key, Group],
    references: claims.References,
    published_dir: pathlib.Path,
    configs_dir: pathlib.Path,
) -> Row:
    """The row of one printed number."""
    scores: Mapping[str, Mapping[str, float]] = {}
    if printed.normaliser is not None:
        scores = published.normaliser(printed.normaliser, published_dir)
    field, budget = printed.protocol.get("budget_field"), printed.protocol.get("budget")
    if printed.statistic is not None:
        ours = _aggregate(printed, groups, scores, field)
    elif printed.claim is not None:
        ours = _claimed(printed, groups, references, field)
    else:
        ours = _single(printed, groups.get(_key(printed), Group(())), field)
    share = ours.fields["budget"] / budget if ours.fields and budget else None
    differing = _differing_settings(ours.used, references)
    shortfalls = _shortfalls(printed, ours, share, len(differing)) if ours.fields else ()
    random = scores.get(printed.task, {}).get("random")
    if random is None and printed.claim is None:
        random = _random_score(ours.used, references)
    note = ours.note
    if not ours.fields and printed.cannot_run is not None:
        note = "; ".join(filter(None, (ours.note, f"needs {printed.cannot_run}")))
    return Row(
        paper=printed.paper,
        experiment=printed.experiment,
        task=printed.task,
        agent=printed.agent,
        table=printed.table,
        column=printed.column,
        statistic=printed.statistic,
        statement=printed.statement,
        claim=printed.claim,
        better=printed.better,
        unit=printed.unit,
        published=printed.value,
        published_seeds=printed.n_seeds,
        published_budget=budget,
        budget_field=field,
        random=random,
        human=scores.get(printed.task, {}).get("human"),
        share=share,
        finding=_finding(printed, ours, share, random or 0.0),
        shortfalls=shortfalls,
        settings=tuple(f"{name} {ours_} for {theirs}" for name, (ours_, theirs) in differing.items()),
        sentence=printed.sentence,
        command=_command(printed, ours.used, groups, configs_dir),
        note="; ".join(filter(None, (note, printed.note))),
        **ours.fields,
    )


def _finding(printed: published.PublishedRow, ours: _Ours, share: float | None, random: float) -> Finding | None:
    """What our result says of a printed number; None without one."""
    if printed.value is None:
        return None
    if not ours.fields:
        return "not run" if printed.cannot_run is None else "cannot run here"
    value, interval = ours.fields["value"], ours.fields["interval"]
    ends = (value, value) if ours.fields.get("exact") else interval
    found = find(printed.value, printed.better, ends, printed.tolerance(random))
    if ours.learned and printed.measure == "evaluation":
        if len(ours.fields["seeds"]) < min(MIN_RUNS, printed.n_seeds or MIN_RUNS):
            return "undecided"
        too_early = share < 1 - BUDGET_TOLERANCE if share is not None else ours.fields["scale"] != "paper"
        if found == "contradicts" and printed.statement is None and too_early:
            return "undecided"  # more training may reach a score
    return found


def _shortfalls(printed: published.PublishedRow, ours: _Ours, share: float | None, differing: int) -> tuple[str, ...]:
    """What is less than the paper's protocol behind our result for a row."""
    fields, found = ours.fields, []
    if share is None and fields["scale"] != "paper":
        found.append(f"scale {fields['scale']}")
    if share is not None and share < 1 - BUDGET_TOLERANCE:
        found.append(f"{100 * share:.2g} % of the budget")
    expected = printed.n_seeds or (MIN_RUNS if ours.learned and printed.measure == "evaluation" else 1)
    if len(fields["seeds"]) < expected:
        found.append(f"{len(fields['seeds'])} of {expected} runs")
    episodes = printed.protocol.get("episodes")
    if episodes is not None and fields["episodes"] < episodes:
        found.append(f"{fields['episodes']} of {episodes} episodes")
    if differing:
        found.append("1 setting differs" if differing == 1 else f"{differing} settings differ")
    return (*found, *ours.shortfalls)


def _differing_settings(used: Sequence[Mapping[str, Any]], references: claims.References) -> dict[str, tuple[Any, Any]]:
    """Settings of some records that are not the paper's, each once: field to (ours, the paper's)."""
    kinds = {(comparisons.key_of(record), record["config_sha256"]): record for record in used}
    return {name: value for record in kinds.values() for name, value in references.differences(record).items()}


def _command(
    printed: published.PublishedRow,
    used: Sequence[Mapping[str, Any]],
    groups: Mapping[Key, Group],
    configs_dir: pathlib.Path,
) -> str | None:
    """What makes the row's runs again, or its first ones; None for an aggregate, and for a set of tasks with no claim.

    Where a row is about the best of several runs, the others are made again, too.
    """
    if printed.statistic is not None or printed.experiment is None:
        return None
    if used:
        kinds = dict.fromkeys((comparisons.key_of(record), record["scale"]) for record in used)
        every = [record for key, scale in kinds for record in groups[key].every if record["scale"] == scale]
        return commands.command(map(commands.of_record, every), configs_dir)
    if printed.task in comparisons.TASK_SETS and printed.claim is None:
        return None
    return commands.command(commands.first_runs(printed), configs_dir)


def _single(printed: published.PublishedRow, group: Group, field: str | None) -> _Ours:
    """Our result for a number of one task."""
    if printed.measure == "evaluation":
        wrong = {record["evaluation"]["unit"] for record in group.records} - {printed.unit}
        if wrong and printed.statement is not None:
            return _Ours({}, "")  # the records hold something else, which has a row of its own
        if wrong:
            note = f"records are in {', '.join(sorted(wrong))}, the paper in {printed.unit}: not compared"
            return _Ours({}, "; ".join([note, *group.notes]))
    return _Ours(_of_runs(group.records, field, printed.measure), "; ".join(group.notes), group.records)


def _claimed(
    printed: published.PublishedRow, groups: Mapping[Key, Group], references: claims.References, field: str | None
) -> _Ours:
    """Our result for a claim."""
    runs = {key: group.every for key, group in groups.items()}
    found = claims.answer(printed, runs, np.random.default_rng(BOOTSTRAP_SEED), references)
    if isinstance(found, str):
        return _Ours({}, found)
    every = [record for group in found.runs for record in group]
    fields = {
        "value": found.value,
        "interval": found.interval,
        "interval_over": "seeds",
        **_budget(every, field),
        "seeds": tuple(record["seed"] for record in min(found.candidates or found.runs, key=len)),
        "episodes": min(record["evaluation"]["episodes"] for record in every),
        "scale": min((record["scale"] for record in every), key=SCALES.index),
    }
    return _Ours(fields, found.note, [record for group in found.compared for record in group], found.shortfalls)


def _aggregate(
    printed: published.PublishedRow,
    groups: Mapping[Key, Group],
    references: Mapping[str, Mapping[str, float]],
    field: str | None,
) -> _Ours:
    """Our result for an aggregate over tasks, in percent: not run before every one of its tasks is."""
    if printed.agent is None or printed.statistic is None or not references:
        return _Ours({}, "")
    names = (printed.paper, printed.experiment, printed.agent)
    done = {t: g.records for (p, e, t, a), g in groups.items() if (p, e, a) == names and t in references and g.records}
    if len(done) < len(references):
        return _Ours({}, f"{len(done)} of the {len(references)} tasks have a record")
    used = [record for records in done.values() for record in records]
    return _Ours(aggregate_of(done, references, printed.statistic, field), "", used)


def aggregate_of(
    done: Mapping[str, Sequence[Mapping[str, Any]]],
    references: Mapping[str, Mapping[str, float]],
    statistic: str,
    budget_field: str | None = None,
) -> dict[str, Any]:
    """Returns our result for an aggregate as fields of a `Row`, in percent.

    Args:
        done: task to its records, one a seed, at least one each; tasks of one agent.
        references: random and human score of each of these tasks.
        statistic: one of `statistics.STATISTICS`.
        budget_field: the records' field that the budget is counted in; None for that of their own.
    """
    function = statistics.STATISTICS[statistic]

    def normalised(task: str, scores: Sequence[float]) -> np.ndarray:
        return np.asarray(statistics.human_normalised(np.array(scores, np.float64), **references[task]))

    several = all(len(records) > 1 for records in done.values())
    means = {task: normalised(task, [r["evaluation"]["mean"] for r in records]) for task, records in done.items()}
    games = {task: normalised(task, records[0]["evaluation"]["returns"]) for task, records in done.items()}
    scores = means if several else games
    interval = None
    if all(len(sample) > 1 for sample in scores.values()):
        low, high = statistics.stratified_interval(scores, function, np.random.default_rng(BOOTSTRAP_SEED))
        interval = (100 * low, 100 * high) if low < high else None
    every = [record for records in done.values() for record in records]
    return {
        "value": 100 * statistics.aggregate(means, function),
        "interval": interval,
        "interval_over": "seeds" if several else "episodes",
        **_budget(every, budget_field),
        "seeds": tuple(record["seed"] for record in min(done.values(), key=len)),
        "episodes": min(record["evaluation"]["episodes"] for record in every),
        "scale": min((record["scale"] for record in every), key=SCALES.index),
    }


def sentences(rows: Iterable[Row]) -> list[tuple[Row, Finding, tuple[str, ...]]]:
    """Returns each printed number or sentence once, with the finding and the shortfalls of all its rows together.

    Args:
        rows: of one paper or more; those without a printed number are passed over.

    Returns:
        The first row of each, in order.
    """
    parts: dict[tuple[str, str | int], list[Row]] = {}
    for index, row in enumerate(rows):
        if row.finding is not None:
            parts.setdefault((row.paper, index if row.sentence is None else row.sentence), []).append(row)
    return [
        (
            of_one[0],
            weakest([row.finding for row in of_one if row.finding is not None]),
            tuple(dict.fromkeys(text for row in of_one for text in row.shortfalls)),
        )
        for of_one in parts.values()
    ]


def count_verdicts(rows: Iterable[Row]) -> dict[str, int]:
    """Returns how many printed numbers and sentences have each verdict; arguments as for `sentences`."""
    found = collections.Counter(verdict_of(finding, shortfalls) for _, finding, shortfalls in sentences(rows))
    return {name: found[name] for name in VERDICTS}


def _scales(group: Group) -> list[Group]:
    """The group itself, of its largest scale, then one of each smaller scale."""
    found = [group]
    for scale in reversed(SCALES):
        if records := tuple(record for record in group.smaller if record["scale"] == scale):
            found.append(Group(records))
    return found


def _own_row(key: Key, group: Group, references: claims.References, configs_dir: pathlib.Path) -> Row:
    """The row of runs that answer no printed number."""
    paper, experiment, task, agent = key
    units = sorted({record["evaluation"]["unit"] for record in group.records})
    runs = list(map(commands.of_record, group.records)) or [commands.Run(paper, experiment, agent, task)]
    return Row(
        paper=paper,
        experiment=experiment,
        task=task,
        agent=agent,
        unit=", ".join(units),
        random=_random_score(group.records, references),
        command=commands.command(runs, configs_dir),
        note="; ".join(group.notes),
        **_of_runs(group.records if len(units) == 1 else (), None),
    )


def _of_runs(
    records: Sequence[Mapping[str, Any]], budget_field: str | None, measure: published.Measure = "evaluation"
) -> dict[str, Any]:
    """Our result for a row: mean over seeds, and its interval over seeds, or over episodes if there is one seed.

    The interval of one seed is that of its record, where the record holds one.
    """
    if not records:
        return {}
    several = len(records) > 1
    values = [measured(record, measure) for record in records]
    games = records[0]["evaluation"]["returns"] if measure == "evaluation" else values
    exact = measure == "evaluation" and all(record["evaluation"].get("exact", False) for record in records)
    interval = None if exact else intervals.mean_interval(values if several else games)
    if not several and measure == "evaluation" and "interval" in records[0]["evaluation"]:
        low, high = records[0]["evaluation"]["interval"]
        interval = (low, high) if low < high else None
    return {
        "exact": exact,
        "value": float(np.mean(values)),
        "interval": interval,
        "interval_over": "seeds" if several else _scores_of_one_seed(records[0]),
        **_budget(records, budget_field),
        "seeds": tuple(record["seed"] for record in records),
        "episodes": min(record["evaluation"]["episodes"] for record in records),
        "scale": records[0]["scale"],
    }


def _budget(records: Sequence[Mapping[str, Any]], field: str | None) -> dict[str, Any]:
    """The smallest budget of some runs and what it counts, by a field of theirs or, with None, that of their own."""
    field = field or budget_field(records[0])
    return {"budget": min(record[field] for record in records), "counts": counted(field)}


def _scores_of_one_seed(record: Mapping[str, Any]) -> str:
    """What the evaluation of a single record has a score of.

    Where a study states the interval of several values itself, they are bootstrap resamples (`study.StudyResult`).
    """
    if record["schedule"] != "study":
        return "episodes"
    evaluation = record["evaluation"]
    return "resamples" if "interval" in evaluation and evaluation["episodes"] > 1 else "repetitions"


def measured(record: Mapping[str, Any], measure: published.Measure) -> float:
    """Returns the number of a record that a published row asks for."""
    if measure == "evaluation":
        return record["evaluation"]["mean"]
    if measure == "wall_minutes":
        return record["wall_seconds"] / 60
    return record["frames_per_second"]
