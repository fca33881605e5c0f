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
        paper, experiment, task, agent: names of the runs; experiment and agent are None if nothing answers the row.
        unit: unit of `published`, `value` and `interval`.
        table, column: Table of the printed number and the paper's name of the agent; None for runs of ours that answer
            no printed number.
        statistic: one of `statistics.STATISTICS` for an aggregate over tasks, otherwise None.
        statement: sentence behind the number if it is not a number of a table, otherwise None.
        claim: kind of claim that answers the statement, as in `published.PublishedRow`.
        better, margin: how our number must compare with `published`, as in `published.PublishedRow`.
        published: printed number, or None.
        published_seeds: number of the paper's runs, or None.
        published_budget: the paper's training budget, in `budget_field`.
        budget_field: `num_env_frames`, `num_env_steps`, `agent_steps` or `gradient_steps`; None without a published
            budget.
        counts: what `budget` counts, in words.
        value: our number, such as the mean over seeds of the mean over episodes, or the aggregate over all tasks; None
            if not run.
        interval: 95 % interval of `value`; None if not run, with a single score, or with equal scores.
        interval_over: what the interval is over: `seeds` if there are several, `episodes` if there is one or an
            aggregate has too few runs, `repetitions` of a study, or bootstrap `resamples` of them.
        no_interval: why a mean of runs or games has no interval; empty if it has one or needs none. For claims and
            aggregates the reason is in `note`.
        random, human: reference scores of the task, printed or of our own random player, or None.
        random_is_printed: whether `random` is a printed score.
        budget: smallest budget of our runs, in `budget_field`.
        share: ratio of `budget` to `published_budget`.
        seeds: seeds of our runs; if only the best count, of all runs that these were chosen from.
        episodes: fewest evaluation episodes of one of our runs.
        scale: scale of our runs; None if not run.
        exact: whether `value` is exact and needs no interval.
        trained: whether `value` comes from trained agents and not from studies alone.
        finding: finding as in `verdicts`; None if there is no printed number.
        shortfalls: what `value` lacks of the paper's protocol, in words; empty if it lacks nothing or was not run.
        settings: settings of our runs that are not the paper's, in words.
        sentence, main: as in `published.PublishedRow`.
        command: shell command that makes the row's runs again, or its first ones if it has none; None if there is no
            config for it.
        note: what a reader must know, such as stale records, records that are not averaged, or why an aggregate is not
            run; empty otherwise.
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
        """Verdict from the finding and the shortfalls (`verdict_of`); None without a printed number."""
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
        groups: groups from `group_records`.
        papers: papers to show; None for all with published numbers or records.
        experiment: experiment whose rows are returned; None for all.
        published_dir: folder of published numbers.
        configs_dir: folder of configs, which give rows their settings and commands.

    Raises:
        PublishedError: published numbers are malformed.
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
    """Returns only the rows of the given records and of the claims that they answer, for a finished run to print.

    Args:
        stored: valid records, from `records.read_all` or of one run.
        configs_dir: folder of current configs.
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
    """Returns the records of random players in `others` for experiments and tasks on which `stored` has none.

    Claims about scores need them. One per seed is enough, since records of other scales hold the same episodes.
    """
    keys = {comparisons.key_of(item.record) for item in stored}
    players = {
        (*key, item.record["seed"]): item
        for item in others
        if item.record["agent"] == random_player.AGENT and (key := comparisons.key_of(item.record)) not in keys
    }
    return list(players.values())


def row_key(row: published.PublishedRow | Row) -> Key:
    """Returns the key of the group with the records of a row's agent and task."""
    return (row.paper, str(row.experiment), row.task, str(row.agent))


def _compares(printed: published.PublishedRow, group: Group | None) -> bool:
    """Returns whether the records of a group answer a printed number."""
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
        printed: printed number.
        groups, published_dir, configs_dir: as for `make_rows`.
        references: references made from all records.
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
        notes.append(f"the answer differs {' or '.join(dissent)}")
    if doubt := findings.find_doubt(printed, ours, beside):
        notes.append(doubt)
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
        note=". ".join(filter(None, ("; ".join(filter(None, notes)), printed.note))),
        **ours.fields,
    )


def _own_row(key: Key, group: Group, references: References, configs_dir: pathlib.Path) -> Row:
    """Returns the row of runs that answer no printed number."""
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
