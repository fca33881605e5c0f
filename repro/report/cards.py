"""Cards: the results on one task of one experiment, with learning curves of its agents, their runs and settings."""

import collections
import dataclasses
import itertools
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from repro.evidence import bands, comparisons, judgements, published, random_player, settings, staleness
from repro.evidence.comparisons import Key
from repro.evidence.groups import Group, stale_records
from repro.evidence.records import RecordError, StoredRecord, as_folder
from repro.evidence.rows import Row, row_key
from repro.evidence.statistics import human_normalised
from repro.report import agent_table, aggregates, curves, densities, figures, metaparameters, stability, tables
from repro.report.videos import Video, find_videos


@dataclasses.dataclass(frozen=True)
class Context:
    """Numbers of another publication on a task: its title, protocol in words, unit, and pairs (agent, number)."""

    title: str
    protocol: str
    unit: str
    numbers: Sequence[tuple[str, float]]


@dataclasses.dataclass(frozen=True)
class Runs:
    """One agent's runs on a task.

    Attributes:
        anchor: id of their place in the page.
        row: row that their evaluation answers.
        stored: records with their files, one per seed.
        facts: further facts, as pairs of name and text.
        differences: field, value and the paper's value of each setting that differs.
        images: Figure of the agent's metaparameters, if its records have them.
    """

    anchor: str
    row: Row
    stored: Sequence[StoredRecord]
    facts: Sequence[tuple[str, str]]
    differences: Sequence[tuple[str, Any, Any]]
    images: Sequence[figures.Image]

    @property
    def records(self) -> list[Mapping[str, Any]]:
        return [item.record for item in self.stored]


@dataclasses.dataclass(frozen=True)
class Card:
    """One task of one experiment.

    Attributes:
        anchor: id of its place in the page.
        experiment, task: names as in the records.
        images: learning curves by frames and by wall time, densities of contraction rates, and returns of a sweep, as
            far as records have them.
        runs: runs of each agent.
        scores: agent to the scores of its runs, for agents with the same unit, the experiment's own agent first.
        context: numbers of other publications.
        videos: agent to its video, for agents with a record.
    """

    anchor: str
    experiment: str
    task: str
    images: Sequence[figures.Image]
    runs: Sequence[Runs]
    scores: Mapping[str, Sequence[float]]
    context: Sequence[Context]
    videos: Mapping[str, Video]

    @property
    def all_images(self) -> list[figures.Image]:
        """Figures of the task and of each agent."""
        return [*self.images, *(image for item in self.runs for image in item.images)]

    @property
    def compared(self) -> list[agent_table.AgentLine]:
        """Comparison of the agents; empty if none can be compared with the first."""
        return agent_table.compare_agents({agent: {self.task: runs} for agent, runs in self.scores.items()})


def make_cards(
    rows: Sequence[Row],
    groups: Mapping[Key, Group],
    stored: Iterable[StoredRecord],
    published_dir: pathlib.Path,
    configs_dir: pathlib.Path,
) -> list[Card]:
    """Returns the cards of one paper's rows, those with figures first.

    Args:
        rows: rows of one paper.
        groups: records behind the rows.
        stored: all records with their files.
        published_dir, configs_dir: as for `contents.collect`.
    """
    item_of = {_run_key(item.record): item for item in stored}
    stale = stale_records(groups)
    reference = judgements.Reference([item for item in item_of.values() if item.path not in stale], published_dir)
    found: dict[Key, Runs] = {}
    for row in sorted(rows, key=lambda row: not is_evaluation(row, groups)):
        key = row_key(row)
        if row.seeds and row.statistic is None and key in groups and key not in found:
            items = [item_of[_run_key(record)] for record in groups[key].records]
            found[key] = _runs(row, items, reference, configs_dir)
    by_task = collections.defaultdict(list)
    for runs in found.values():
        by_task[str(runs.row.experiment), runs.row.task].append(runs)
    indices = agent_indices(rows)
    cards = [_card(task_runs, indices, published_dir, configs_dir) for task_runs in by_task.values()]
    return sorted(cards, key=lambda card: not card.images)


def anchor(row: Row) -> str:
    """Returns the id of the place that shows a row's result."""
    if row.statistic is not None or row.task in comparisons.TASK_SETS:
        return aggregates.anchor(row)
    return "-".join(filter(None, (row.paper, as_folder(str(row.experiment)), as_folder(row.task), row.agent)))


def agent_indices(rows: Iterable[Row]) -> dict[tuple[str, str], int]:
    """Returns the index of each (experiment, agent) with a result, which decides its colour.

    No two agents of an experiment have the same index. As far as there are colours, an agent has the same one in all
    experiments of the paper, and so do agents of the same variant, which is the part of a name after the first `_`, as
    of ddpg_er and naf_er. If an experiment has two agents of a variant, each agent of this variant has its own colour.

    Args:
        rows: rows of one paper.
    """
    in_order = sorted((row for row in rows if row.seeds), key=_has_no_curve)
    names = list(dict.fromkeys((str(row.experiment), str(row.agent)) for row in in_order))
    variants = {agent: agent.partition("_")[2] or agent for _, agent in names}
    counts = collections.Counter((experiment, variants[agent]) for experiment, agent in names)
    repeated = {variant for (_, variant), count in counts.items() if count > 1}
    shared = {agent: agent if variant in repeated else variant for agent, variant in variants.items()}
    places = {key: place for place, key in enumerate(dict.fromkeys(shared.values()))}
    indices: dict[tuple[str, str], int] = {}
    for experiment, agent in sorted(names, key=lambda name: places[shared[name[1]]]):
        place = places[shared[agent]]
        used = {index for (other, _), index in indices.items() if other == experiment}
        is_free = place < len(figures.COLORS) and place not in used
        indices[experiment, agent] = place if is_free else next(i for i in itertools.count() if i not in used)
    return indices


def _has_no_curve(row: Row) -> bool:
    """Returns whether a row is of a study or a random player, which get colours after agents that learn."""
    return row.agent == random_player.AGENT or (row.table is not None and not row.trained)


def is_evaluation(row: Row, groups: Mapping[Key, Group]) -> bool:
    """Returns whether a row's number is the final evaluation of its records, and not the number of a claim.

    Args:
        row: any row.
        groups: all records.
    """
    return row_key(row) in groups and row.unit in {r["evaluation"]["unit"] for r in groups[row_key(row)].records}


def _run_key(record: Mapping[str, Any]) -> tuple[Key, int, str]:
    return comparisons.key_of(record), record["seed"], record["scale"]


def _card(
    runs: Sequence[Runs],
    indices: Mapping[tuple[str, str], int],
    published_dir: pathlib.Path,
    configs_dir: pathlib.Path,
) -> Card:
    row, config = runs[0].row, runs[0].records[0]["config"]
    place = f"{row.paper}-{as_folder(str(row.experiment))}-{as_folder(row.task)}"
    index = {str(item.row.agent): indices[str(row.experiment), str(item.row.agent)] for item in runs}
    images = []
    for timed in (False, True):
        images += _curve_images(place, runs, index, timed)
    rates = {
        str(item.row.agent): (index[str(item.row.agent)], densities.make_densities(item.records))
        for item in runs
        if densities.has_rates(item.records)
    }
    if rates:
        alt = " ".join(densities.densities_title(made, agent, row.task) for agent, (_, made) in rates.items())
        images.append(figures.Image(f"{place}-rates", alt, figures.svg_text(densities.plot_densities(rates)), "rates"))
    images += _stability_images(place, runs, index)
    scores = _scores(runs, configs_dir)
    context = _context(row, config, published_dir)
    recorded = {item.row.agent for item in runs}
    found = find_videos(runs[0].stored[0].path.parents[1])
    shown = {agent: video for agent, video in found.items() if agent in recorded}
    return Card(place, str(row.experiment), row.task, images, runs, scores, context, shown)


def _scores(runs: Sequence[Runs], configs_dir: pathlib.Path) -> dict[str, list[float]]:
    """Returns the scores of each agent's runs, first those of the agent that the config names, if it has runs."""
    row = runs[0].row
    try:
        own = staleness.current_config(row.paper, str(row.experiment), "desk", configs_dir)["agent"]
    except RecordError:
        own = row.agent
    in_order = sorted(runs, key=lambda item: item.row.agent != own)
    unit = in_order[0].records[0]["evaluation"]["unit"]
    return {
        str(item.row.agent): [record["evaluation"]["mean"] for record in item.records]
        for item in in_order
        if item.records[0]["evaluation"]["unit"] == unit
    }


def _curve_images(place: str, runs: Sequence[Runs], index: Mapping[str, int], timed: bool) -> list[figures.Image]:
    """Returns a figure of all agents with a curve for each unit of their returns."""
    by_unit = collections.defaultdict(list)
    for item in runs:
        plotted = curves.has_times(item.records) if timed else any(record["curve"] for record in item.records)
        if plotted:
            by_unit[item.records[0]["evaluation"]["unit"]].append(item)
    images = []
    for number, same_unit in enumerate(by_unit.values(), start=1):
        name = f"{place}-{'time' if timed else 'curve'}" + (f"-{number}" if number > 1 else "")
        plot = curves.make_plot(
            [curves.make_curve(item.records, item.row, timed, index[str(item.row.agent)]) for item in same_unit],
            same_unit[0].records[0],
            timed,
        )
        svg = figures.svg_text(curves.plot_curves(plot))
        alt = ("The same against the wall time of training. " if timed else "") + _curve_alt(same_unit)
        images.append(figures.Image(name, alt, svg, "by-time" if timed else "by-steps"))
    return images


def _stability_images(place: str, runs: Sequence[Runs], index: Mapping[str, int]) -> list[figures.Image]:
    """Returns a figure of the agents of a sweep whose returns have the unit of the first; empty without a sweep."""
    swept = [item for item in runs if stability.has_settings(item.records)]
    units = [item.records[0]["evaluation"]["unit"] for item in swept]
    returns = {
        str(item.row.agent): (index[str(item.row.agent)], stability.sort_returns(item.records))
        for item, unit in zip(swept, units)
        if unit == units[0]
    }
    if not returns:
        return []
    svg = figures.svg_text(stability.plot_stability(returns, units[0]))
    return [figures.Image(f"{place}-stability", stability.describe(returns, runs[0].row.task), svg, "stability")]


def _curve_alt(runs: Sequence[Runs]) -> str:
    """Returns a description of learning curves."""
    agents = ", ".join(str(item.row.agent) for item in runs)
    ends = "; ".join(
        f"{item.row.agent}: {len(item.stored)} seed{'s' if len(item.stored) > 1 else ''}, "
        f"to {tables.budget(item.row)}, final evaluation {tables.ours(item.row)}, "
        f"published {tables.exact(item.row.published)}"
        for item in runs
    )
    return f"Learning curve{'s' if len(runs) > 1 else ''} of {agents} on {runs[0].row.task}. {ends}."


def _runs(row: Row, stored: Sequence[StoredRecord], reference: judgements.Reference, configs_dir: pathlib.Path) -> Runs:
    try:
        differing = settings.config_differences(stored[0].record, configs_dir)
    except RecordError:
        differing = {}
    differences = [(field, ours, theirs) for field, (ours, theirs) in differing.items()]
    images = metaparameters.make_images(anchor(row), row.task, [item.record for item in stored])
    return Runs(anchor(row), row, stored, _facts(row, stored, reference), differences, images)


def _context(row: Row, config: Mapping[str, Any], published_dir: pathlib.Path) -> list[Context]:
    environment = config.get("env", {}).get("name", "")
    return [
        Context(table.title, _pairs(table.protocol), table.unit, list(numbers.items()))
        for table in published.context(published_dir / "context")
        if row.paper in table.papers and (numbers := table.task_numbers(row.task, environment))
    ]


def _facts(row: Row, stored: Sequence[StoredRecord], reference: judgements.Reference) -> list[tuple[str, str]]:
    records = [item.record for item in stored]

    def unique(values: Iterable[str]) -> str:
        return "; ".join(dict.fromkeys(values))

    facts = [("Evaluation", unique(_protocol(record["evaluation"]["protocol"]) for record in records))]
    if row.value is not None and row.random is not None and row.human is not None:
        facts.append(("Human-normalized", f"{100 * human_normalised(row.value, row.random, row.human):.1f} %"))
    facts += [
        ("Band", _band(records[0], reference)),
        ("Hardware", unique(_hardware(record["hardware"]) for record in records)),
        ("Versions", unique(_pairs(record["versions"]) for record in records)),
    ]
    return facts


def _band(record: Mapping[str, Any], reference: judgements.Reference) -> str:
    """Describes where one further run like a record is expected."""
    try:
        band = reference.band(record)
    except bands.BandError as error:
        return f"none: {error}"
    ends = [f"{word} {tables.number(end)}" for word, end in (("from", band.low), ("to", band.high)) if end is not None]
    alarms = f"false alarms {100 * band.false_alarm_rate:g} % a run"
    return f"{' '.join(ends)} {band.unit} for one further run, {len(band.values)} seeds, {band.method}, {alarms}"


def _protocol(protocol: str | Mapping[str, Any]) -> str:
    return protocol if isinstance(protocol, str) else _pairs(protocol)


def _hardware(hardware: Mapping[str, Any]) -> str:
    cores = f"{hardware['cores']} core{'s' if hardware['cores'] != 1 else ''}"
    return f"{hardware['cpu']}, {cores}, {hardware['gpu'] or 'no GPU'}"


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)
