"""What the report shows, gathered from records, published numbers, configs and the papers' own pages."""

import base64
import collections
import dataclasses
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import markdown_it
from markupsafe import Markup

from repro.evidence import bands, comparisons, published, settings, staleness
from repro.evidence.records import ROOT, RecordError, StoredRecord, ValidationError, read_all
from repro.evidence.rows import Group, Key, Row, group_records, make_rows, stale_records
from repro.evidence.statistics import human_normalised
from repro.evidence.verdicts import VERDICTS
from repro.report import aggregates, curves, densities, tables

PAPERS_DIR = ROOT / "repro" / "papers"
# What differs between scales and agents by their nature, so says nothing about a deviation.
SCALE_FIELDS = (*staleness.RUN_FIELDS, "scale", "agent")


@dataclasses.dataclass(frozen=True)
class Contents:
    """What the report is made from: rows, their records, and the files left out with the reason."""

    stored: Sequence[StoredRecord]
    rows: Sequence[Row]
    groups: Mapping[Key, Group]
    faults: Sequence[ValidationError]
    stale: Sequence[tuple[pathlib.Path, str]]


@dataclasses.dataclass(frozen=True)
class Context:
    """What another publication reports on a task: its title, protocol in words, unit, and (agent, number)."""

    title: str
    protocol: str
    unit: str
    numbers: Sequence[tuple[str, float]]


@dataclasses.dataclass(frozen=True)
class Setting:
    """A printed hyper-parameter: place, name, value as printed, what our configs hold, and whether that differs."""

    table: str
    name: str
    printed: str
    ours: str
    differs: bool


@dataclasses.dataclass(frozen=True)
class Card:
    """One experiment on one task: its learning curve and what that shows, None without one, and what was measured.

    `timed_svg` is the same curve against wall time, None for records without times; `rates_svg` shows the densities of
    observed contraction rates, None for records without them.
    """

    anchor: str
    row: Row
    svg: Markup | None
    timed_svg: Markup | None
    rates_svg: Markup | None
    plot: curves.Plot | None
    records: Sequence[Mapping[str, Any]]
    facts: Sequence[tuple[str, str]]
    differences: Sequence[tuple[str, Any, Any]]
    context: Sequence[Context]


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure that an experiment has drawn beside its records, as a data URI."""

    experiment: str
    uri: str


@dataclasses.dataclass(frozen=True)
class PaperSection:
    """One paper's part of the page."""

    name: str
    title: str
    citation: str
    counts: Mapping[str, int]
    rows: Sequence[Row]
    cards: Sequence[Card]
    figures: Sequence[Figure]
    together: Sequence[aggregates.Aggregate]
    deviations: Markup
    settings: Sequence[Setting]
    sources: Sequence[tuple[str, str, str, str]]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def anchors(self) -> set[str]:
        """Ids of the places that rows may link to."""
        return {card.anchor for card in self.cards} | {together.anchor for together in self.together}


def collect(
    results_dir: pathlib.Path,
    published_dir: pathlib.Path = published.PUBLISHED_DIR,
    configs_dir: pathlib.Path = staleness.CONFIGS_DIR,
) -> Contents:
    """Reads the records below a directory.

    Args:
        results_dir: root of the record layout; may be absent.
        published_dir: published numbers.
        configs_dir: current configs.

    Raises:
        PublishedError: the published numbers cannot be read.
    """
    stored, faults = read_all(results_dir)
    groups = group_records(stored, configs_dir)
    rows = make_rows(groups, published_dir=published_dir, configs_dir=configs_dir)
    return Contents(stored, rows, groups, faults, list(stale_records(groups).items()))


def make_sections(
    contents: Contents,
    results_dir: pathlib.Path,
    published_dir: pathlib.Path = published.PUBLISHED_DIR,
    configs_dir: pathlib.Path = staleness.CONFIGS_DIR,
) -> list[PaperSection]:
    """Returns the page's sections, a paper each. Arguments as for `collect`."""
    return [
        _section(paper, rows, contents, results_dir, published_dir, configs_dir)
        for paper, rows in by_paper(contents.rows).items()
    ]


def by_paper(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Returns the rows of each paper, papers in the order of `tables.PAPERS`, any other after them."""
    found = collections.defaultdict(list)
    for row in rows:
        found[row.paper].append(row)
    order = list(tables.PAPERS)
    return dict(sorted(found.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)))


def counts(rows: Iterable[Row]) -> dict[str, int]:
    """Returns how many rows with a printed number have each verdict."""
    found = collections.Counter(row.verdict for row in rows if row.verdict is not None)
    return {name: found[name] for name in VERDICTS}


def results_first(rows: Sequence[Row]) -> list[Row]:
    """Returns the rows with those that have a result in front."""
    return sorted(rows, key=lambda row: not row.seeds)


def anchor(row: Row) -> str:
    """Returns the id of the place where a row's result is shown."""
    if row.statistic is not None or row.task in comparisons.TASK_SETS:
        return aggregates.anchor(row)
    return "-".join(filter(None, (row.paper, row.experiment, row.task, row.agent)))


def _section(
    paper: str,
    rows: Sequence[Row],
    contents: Contents,
    results_dir: pathlib.Path,
    published_dir: pathlib.Path,
    configs_dir: pathlib.Path,
) -> PaperSection:
    title, citation, sources, printed_settings = paper, "", [], []
    if paper in published.papers(published_dir):
        printed_settings = _settings(paper, published_dir, configs_dir)
        numbers = published.load(paper, published_dir)
        title, citation = numbers.title, numbers.citation
        sources = [(name, t["title"], t["source"], t["confidence"]) for name, t in numbers.tables.items()]
    paths = {_key(item.record): item.path for item in contents.stored}
    cards: dict[Key, Card] = {}
    for row in sorted(rows, key=lambda row: not _is_evaluation(row, contents.groups)):
        key = _row_key(row)
        if row.seeds and row.statistic is None and key in contents.groups and key not in cards:
            cards[key] = _card(row, contents.groups[key].records, paths[key], published_dir, configs_dir)
    return PaperSection(
        name=paper,
        title=title,
        citation=citation,
        counts=counts(rows),
        rows=results_first(rows),
        cards=sorted(cards.values(), key=lambda card: card.plot is None),  # learning curves first
        figures=_figures(results_dir / paper),
        together=aggregates.make_aggregates(rows, contents.groups),
        deviations=_deviations(PAPERS_DIR / paper / "README.md"),
        settings=printed_settings,
        sources=sources,
    )


def _is_evaluation(row: Row, groups: Mapping[Key, Group]) -> bool:
    """Whether a row's number is the final evaluation that the curve of its records leads to, and not a claim's."""
    return _row_key(row) in groups and row.unit in {r["evaluation"]["unit"] for r in groups[_row_key(row)].records}


def _card(
    row: Row,
    records: Sequence[Mapping[str, Any]],
    path: pathlib.Path,
    published_dir: pathlib.Path,
    configs_dir: pathlib.Path,
) -> Card:
    name = f"Learning curve of {row.agent} on {row.task}, {len(records)} seeds, to {tables.budget(row)}; "
    name += f"final evaluation {tables.ours(row)}, published {tables.exact(row.published)}."
    try:
        where = row.paper, str(row.experiment), "paper"
        paper_config = staleness.agent_config(*where, str(row.agent), configs_dir)
        own = staleness.current_config(*where, configs_dir).get("variants", {}).get(str(row.agent), {})
        ignored = (*SCALE_FIELDS, *_unread_sections(records[0]["config"], own))
        difference = staleness.config_difference(records[0]["config"], paper_config, ignored)
    except RecordError:
        difference = {}
    plot = curves.make_plot(records, row) if any(record["curve"] for record in records) else None
    timed = curves.make_plot(records, row, timed=True) if curves.has_times(records) else None
    rates = densities.make_densities(records) if densities.has_rates(records) else None
    rates_name = densities.title_of(rates, str(row.agent), row.task) if rates else ""
    return Card(
        anchor=anchor(row),
        row=row,
        svg=curves.curve_svg(plot, name) if plot else None,
        timed_svg=curves.curve_svg(timed, f"The same against the wall time of training. {name}") if timed else None,
        rates_svg=densities.density_svg(rates, rates_name) if rates else None,
        plot=plot,
        records=records,
        facts=_facts(row, records, path),
        differences=[(field, value, reference) for field, (value, reference) in difference.items()],
        context=_context(row, records[0]["config"], published_dir),
    )


def _unread_sections(config: Mapping[str, Any], own: Mapping[str, Any]) -> set[str]:
    """The sections that an agent does not read, where its own fields bring another algorithm with all its sections."""
    sections = {name for name, value in own.items() if isinstance(value, Mapping)}
    if "algorithm" not in own or not sections:
        return set()
    return {name for name, value in config.items() if isinstance(value, Mapping)} - sections - {"env"}


def _context(row: Row, config: Mapping[str, Any], published_dir: pathlib.Path) -> list[Context]:
    environment = config.get("env", {}).get("name", "")
    return [
        Context(table.title, _pairs(table.protocol), table.unit, list(numbers.items()))
        for table in published.context(published_dir / "context")
        if row.paper in table.papers and (numbers := table.task_numbers(row.task, environment))
    ]


def _settings(paper: str, published_dir: pathlib.Path, configs_dir: pathlib.Path) -> list[Setting]:
    found: dict[tuple[str, str, str], list[settings.SettingComparison]] = collections.defaultdict(list)
    for compared in settings.compare_settings(paper, configs_dir, published_dir):
        printed = compared.setting
        value = printed.value if isinstance(printed.value, str) else json.dumps(printed.value)
        found[printed.table, printed.name, value].append(compared)
    return [
        Setting(*key, _judged(compared), any(c.status == "differs" for c in compared))
        for key, compared in found.items()
    ]


def _judged(compared: Sequence[settings.SettingComparison]) -> str:
    """What the configs hold, in words; experiments that agree are named together."""
    by_answer = collections.defaultdict(list)
    for item in compared:
        answer = f"differs, {item.ours}" if item.status == "differs" else str(item.status)
        by_answer[answer].append(item.experiment)
    known = {answer: names for answer, names in by_answer.items() if answer != "no config yet"}
    if not known:
        return "no config yet"
    return "; ".join(f"{answer} ({', '.join(dict.fromkeys(names))})" for answer, names in known.items())


def _facts(row: Row, records: Sequence[Mapping[str, Any]], path: pathlib.Path) -> list[tuple[str, str]]:
    def unique(values: Iterable[str]) -> str:
        return "; ".join(dict.fromkeys(values))

    facts = [("Evaluation", unique(_protocol(record["evaluation"]["protocol"]) for record in records))]
    if row.value is not None and row.random is not None and row.human is not None:
        facts.append(("Human-normalised", f"{100 * human_normalised(row.value, row.random, row.human):.1f} %"))
    facts += [
        ("Band", _band(bands.band_path(path, records[0]["scale"]))),
        ("Hardware", unique(_hardware(record["hardware"]) for record in records)),
        ("Versions", unique(_pairs(record["versions"]) for record in records)),
    ]
    return facts


def _band(path: pathlib.Path) -> str:
    try:
        band = bands.read_band(path)
    except bands.BandError as error:
        return str(error)
    if band is None:
        return f"none: it takes {bands.MIN_RUNS} seeds"
    ends = [f"{word} {tables.number(end)}" for word, end in (("from", band.low), ("to", band.high)) if end is not None]
    alarms = f"false alarms {100 * band.false_alarm_rate:g} % a run"
    return f"{' '.join(ends)} {bands.unit_of(band)}, {band.method}, from {len(band.values)} seeds, {alarms}"


def _protocol(protocol: str | Mapping[str, Any]) -> str:
    return protocol if isinstance(protocol, str) else _pairs(protocol)


def _hardware(hardware: Mapping[str, Any]) -> str:
    cores = f"{hardware['cores']} core{'s' if hardware['cores'] != 1 else ''}"
    return f"{hardware['cpu']}, {cores}, {hardware['gpu'] or 'no GPU'}"


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)


def _key(record: Mapping[str, Any]) -> Key:
    return (record["paper"], record["experiment"], record["task"], record["agent"])


def _row_key(row: Row) -> Key:
    return (row.paper, str(row.experiment), row.task, str(row.agent))


def _figures(paper_dir: pathlib.Path) -> list[Figure]:
    return [
        Figure(path.parent.name, "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode())
        for path in sorted(paper_dir.glob("*/figure.svg"))
    ]


def _deviations(readme: pathlib.Path) -> Markup:
    """The section on deviations of a paper's README as HTML; empty where there is none."""
    if not readme.is_file():
        return Markup("")
    _, _, rest = readme.read_text(encoding="utf-8").partition("## Deviations from the paper\n")
    section = rest.partition("\n## ")[0]
    return Markup(markdown_it.MarkdownIt("commonmark", {"html": False}).render(section))
