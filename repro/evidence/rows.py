"""Rows: each published number beside ours, with interval, budget, verdict and the command to repeat it."""

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping, Sequence

from repro.evidence import commands, comparisons, findings, published, random_player, results, staleness, statistics
from repro.evidence.comparisons import Key
from repro.evidence.groups import Group, group_records
from repro.evidence.records import StoredRecord
from repro.evidence.references import References, find_references
from repro.evidence.verdicts import Finding, Verdict, verdict_of


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
        better, margin: how `published` is met, as in `published.PublishedRow`.
        value: mean of ours over seeds of the mean over episodes, None when not run; for an aggregate, that of all
            its tasks.
        interval: 95 % interval of `value`; None when not run, with a single score, or with equal ones.
        interval_over: `seeds` when there are several, `episodes` when there is one or an aggregate has too few runs,
            `repetitions` of a study, or bootstrap `resamples` of them.
        no_interval: why a mean of runs or games has none, in words; empty where it has one or needs none. The note says
            it of claims and aggregates.
        random, human: reference scores of the task, printed or of our own random player, or None.
        random_is_printed: whether `random` is.
        budget: smallest budget of our runs, in `budget_field`.
        share: `budget` over `published_budget`.
        seeds: the seeds of our runs; where the best of them count, of all that these were chosen from.
        episodes: fewest episodes evaluated in one of our runs.
        scale: scale of our runs, None when not run.
        exact: whether `value` is exact, and needs no interval.
        trained: whether agents that were trained, and not a study alone, are behind `value`.
        finding: as in `verdicts`; None when there is no printed number to judge by.
        shortfalls: what is less than the paper's protocol behind `value`, in words; empty where nothing is, or nothing
            was run.
        settings: settings of our runs that are not the paper's, in words.
        sentence, main: as in `published.PublishedRow`.
        command: makes the row's runs again, or without any its first ones; None where there is no config for it.
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
    margin: tuple[published.MarginKind, float] | None = None
    published: float | None = None
    published_seeds: int | None = None
    published_budget: int | None = None
    budget_field: str | None = None
    counts: str = ""
    value: float | None = None
    interval: tuple[float, float] | None = None
    interval_over: str | None = None
    no_interval: str = ""
    random: float | None = None
    random_is_printed: bool = False
    human: float | None = None
    budget: int | None = None
    share: float | None = None
    seeds: tuple[int, ...] = ()
    episodes: int | None = None
    scale: str | None = None
    exact: bool = False
    trained: bool = False
    finding: Finding | None = None
    shortfalls: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    sentence: str | None = None
    main: bool = False
    command: str | None = None
    note: str = ""

    @property
    def verdict(self) -> Verdict | None:
        """The finding in one word, also of what is missing (`verdict_of`); None without a printed number."""
        return None if self.finding is None else verdict_of(self.finding, self.shortfalls)


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
    every = (record for group in groups.values() for record in group.every)
    references = find_references(every, published_dir, configs_dir)
    rows: list[Row] = []
    for paper in papers:
        printed = published.load(paper, published_dir).rows if paper in known else ()
        answered = {row_key(row) for row in printed if _compares(row, groups.get(row_key(row)))}
        rows += [printed_row(row, groups, references, published_dir, configs_dir) for row in printed]
        rows += [
            _own_row(key, of_scale, references, configs_dir)
            for key, group in sorted(groups.items())
            if key[0] == paper and key not in answered
            for of_scale in group.by_scale()
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
        others: further records, for `missing_players`; they have no rows.
    """
    stored = list(stored)
    keys = {comparisons.key_of(item.record) for item in stored}
    groups = group_records([*stored, *missing_players(stored, others)], configs_dir)
    rows = make_rows(groups, papers=sorted({key[0] for key in keys}), configs_dir=configs_dir)
    return [
        row for row in rows if row.statistic is None and (row.claim is not None and row.seeds or row_key(row) in keys)
    ]


def missing_players(stored: Iterable[StoredRecord], others: Iterable[StoredRecord]) -> list[StoredRecord]:
    """Returns the random players of games that `stored` has none of, as claims about scores need them.

    One of a game and seed is enough, since all hold the same episodes.
    """
    keys = {comparisons.key_of(item.record) for item in stored}
    players = {
        (*key, item.record["seed"]): item
        for item in others
        if item.record["agent"] == random_player.AGENT and (key := comparisons.key_of(item.record)) not in keys
    }
    return list(players.values())


def row_key(row: published.PublishedRow | Row) -> Key:
    """Returns where the records of a row's own agent and task are."""
    return (row.paper, str(row.experiment), row.task, str(row.agent))


def _compares(printed: published.PublishedRow, group: Group | None) -> bool:
    """Whether the records of a group are what a printed number asks for."""
    if group is None or printed.statistic is not None or printed.claim is not None:
        return False
    units = {record["evaluation"]["unit"] for record in group.records}
    return printed.statement is None or printed.measure != "evaluation" or units <= {printed.unit}


def printed_row(
    printed: published.PublishedRow,
    groups: Mapping[Key, Group],
    references: References,
    published_dir: pathlib.Path,
    configs_dir: pathlib.Path,
) -> Row:
    """Returns the row of one printed number.

    Args:
        printed: that number.
        groups, published_dir, configs_dir: as for `make_rows`.
        references: of all records.
    """
    scores: Mapping[str, Mapping[str, float]] = {}
    if printed.normaliser is not None:
        scores = published.normaliser(printed.normaliser, published_dir)
    field, budget = printed.protocol.get("budget_field"), printed.protocol.get("budget")
    if printed.statistic is not None:
        ours = results.answer_aggregate(printed, groups, scores, field)
    elif printed.claim is not None:
        ours = results.answer_claim(printed, groups, references, field)
    else:
        ours = results.answer_task(printed, groups, field)
    share = ours.fields["budget"] / budget if ours.fields and budget else None
    differing = references.differing_settings(ours.used)
    shortfalls = findings.list_shortfalls(printed, ours, share, len(differing)) if ours.fields else ()
    random = scores.get(printed.task, {}).get("random")
    random_is_printed = random is not None
    if random is None and printed.claim is None:
        random = references.random_score(ours.used)
    is_score = ours.learned and printed.measure == "evaluation" and printed.claim is None and printed.statistic is None
    beside = random if is_score else 0.0
    notes = [ours.note]
    if ours.fields and beside is None:
        notes.append("no random player's record to compare with")
    if dissent := findings.find_dissent(printed, ours, share, beside):
        notes.append(f"not answered the same {' or '.join(dissent)}")
    if not ours.fields and printed.cannot_run is not None:
        notes.append(f"needs {printed.cannot_run}")
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
        margin=printed.margin,
        unit=printed.unit,
        published=printed.value,
        published_seeds=printed.n_seeds,
        published_budget=budget,
        budget_field=field,
        random=random,
        random_is_printed=random_is_printed,
        human=scores.get(printed.task, {}).get("human"),
        share=share,
        finding=findings.judge(printed, ours, share, beside),
        shortfalls=shortfalls,
        trained=ours.learned,
        settings=tuple(f"{name} {ours_} for {theirs}" for name, (ours_, theirs) in differing.items()),
        sentence=printed.sentence,
        main=printed.main,
        command=commands.row_command(printed, ours.used, groups, configs_dir),
        note="; ".join(filter(None, (*notes, printed.note))),
        **ours.fields,
    )


def _own_row(key: Key, group: Group, references: References, configs_dir: pathlib.Path) -> Row:
    """The row of runs that answer no printed number."""
    paper, experiment, task, agent = key
    units = sorted({record["evaluation"]["unit"] for record in group.records})
    runs = list(map(commands.of_record, group.records)) or commands.with_seeds(
        [commands.Run(paper, experiment, agent, task)], statistics.MIN_BOOTSTRAP_RUNS
    )
    return Row(
        paper=paper,
        experiment=experiment,
        task=task,
        agent=agent,
        unit=", ".join(units),
        random=references.random_score(group.records),
        command=commands.command(runs, configs_dir),
        note="; ".join(group.notes),
        **results.summarize_runs(group.records if len(units) == 1 else (), None),
    )
