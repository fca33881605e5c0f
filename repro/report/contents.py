"""Contents of the report, collected from records, published numbers, configs and the papers' READMEs."""

import collections
import dataclasses
import functools
import json
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence

import markdown_it
from markupsafe import Markup

from repro.evidence import comparisons, published, settings, staleness
from repro.evidence.comparisons import Key
from repro.evidence.external import ExternalRow, make_external_rows
from repro.evidence.groups import Group, group_records, stale_records
from repro.evidence.records import ROOT, StoredRecord, ValidationError, read_all
from repro.evidence.rows import Row, make_rows, missing_players, row_key
from repro.evidence.sentences import count_verdicts
from repro.files import headline
from repro.report import agent_table, aggregates, cards, figures, tables

PAPERS_DIR = ROOT / "repro" / "papers"


@dataclasses.dataclass(frozen=True)
class Contents:
    """Data of the report: rows, their records, files that were left out with the reason, and the external check."""

    stored: Sequence[StoredRecord]
    rows: Sequence[Row]
    groups: Mapping[Key, Group]
    errors: Sequence[ValidationError]
    stale: Sequence[tuple[pathlib.Path, str]]
    external: Sequence[ExternalRow]


@dataclasses.dataclass(frozen=True)
class Setting:
    """Printed hyper-parameter: its table, name and value, a comparison with our configs, and whether they differ."""

    table: str
    name: str
    printed: str
    ours: str
    differs: bool


@dataclasses.dataclass(frozen=True)
class RowGroup:
    """The rows of one printed table, or those that answer no printed number.

    Attributes:
        anchor: id of its place in the page.
        title: title of the table.
        rows: rows, those with a result first.
    """

    anchor: str
    title: str
    rows: Sequence[Row]

    @property
    def results(self) -> int:
        """Number of rows with a result."""
        return sum(bool(row.seeds) for row in self.rows)


@dataclasses.dataclass(frozen=True)
class PaperSection:
    """One paper's part of the page.

    Attributes:
        name: short name of the paper.
        title, citation: title and citation of the paper.
        link: address of the paper; None if the citation has none.
        counts: verdict to the number of printed numbers and sentences that have it.
        trained: verdict to how many of these come from trained agents.
        groups: rows of the paper, groups with a result first.
        experiments: experiment to its cards, in the order of the cards.
        paper_figures: figures that experiments have plotted beside their records.
        overviews: figures over tasks, with all agents.
        together: aggregate of each agent over its tasks, with its figures.
        deviations: deviations from the paper, as HTML.
        settings: printed settings.
        sources: name, title, source and confidence of each printed table.
    """

    name: str
    title: str
    citation: str
    link: str | None
    counts: Mapping[str, int]
    trained: Mapping[str, int]
    groups: Sequence[RowGroup]
    experiments: Mapping[str, Sequence[cards.Card]]
    paper_figures: Sequence[figures.Image]
    overviews: Sequence[figures.Image]
    together: Sequence[tuple[aggregates.Aggregate, Sequence[figures.Image]]]
    deviations: Markup
    settings: Sequence[Setting]
    sources: Sequence[tuple[str, str, str, str]]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def cards(self) -> list[cards.Card]:
        return [card for of_experiment in self.experiments.values() for card in of_experiment]

    def compared(self, experiment: str) -> list[agent_table.AgentLine]:
        """Returns the comparison of an experiment's agents over its tasks; empty if no agent shares several tasks."""
        scores: dict[str, dict[str, Sequence[float]]] = collections.defaultdict(dict)
        of_agents: dict[str, list[comparisons.Records]] = collections.defaultdict(list)
        for card in self.experiments[experiment]:
            for agent, values in card.scores.items():
                scores[agent][card.task] = values
            for runs in card.runs:
                of_agents[str(runs.row.agent)].append(runs.records)
        dependent = [agent for agent, of_tasks in of_agents.items() if comparisons.are_dependent(of_tasks)]
        lines = agent_table.compare_agents(scores, dependent) if scores else []
        return lines if any(line.tasks > 1 for line in lines) else []

    @property
    def parts(self) -> dict[str, list[str]]:
        """Heading to its experiments: those with learning curves, then those with records only."""
        found: dict[str, list[str]] = {"Learning curves": [], "Records": []}
        for experiment, of_experiment in self.experiments.items():
            has_curves = any(image.kind == "by-steps" for card in of_experiment for image in card.images)
            found["Learning curves" if has_curves else "Records"].append(experiment)
        return {heading: experiments for heading, experiments in found.items() if experiments}

    @functools.cached_property
    def anchors(self) -> set[str]:
        """Ids of the places that show runs of an agent, on one task or over its tasks."""
        return {runs.anchor for card in self.cards for runs in card.runs} | {item.anchor for item, _ in self.together}

    def find_place(self, row: Row) -> str | None:
        """Returns the id of the place that shows a row's runs, or of its experiment; None without a run or a place."""
        if row.seeds and cards.anchor(row) in self.anchors:
            return cards.anchor(row)
        return f"{self.name}-{row.experiment}" if row.seeds and row.experiment in self.experiments else None

    @property
    def images(self) -> list[figures.Image]:
        """All figures of the section."""
        of_tasks = [image for card in self.cards for image in card.all_images]
        return [
            *self.paper_figures,
            *self.overviews,
            *(image for _, made in self.together for image in made),
            *of_tasks,
        ]


def collect(
    results_dir: pathlib.Path,
    published_dir: pathlib.Path = published.PUBLISHED_DIR,
    configs_dir: pathlib.Path = staleness.CONFIGS_DIR,
    committed: Iterable[StoredRecord] = (),
) -> Contents:
    """Reads the records below a directory and makes their rows.

    Args:
        results_dir: root of the record layout; it may not exist.
        published_dir: folder of published numbers.
        configs_dir: folder of current configs.
        committed: further records. Their random players are used for claims if `results_dir` has none on the task, but
            have no rows.

    Raises:
        PublishedError: the published numbers cannot be read.
    """
    stored, errors = read_all(results_dir)
    players = missing_players(stored, committed)
    without_row = {comparisons.key_of(item.record) for item in players}
    groups = group_records([*stored, *players], configs_dir)
    rows = make_rows(groups, published_dir=published_dir, configs_dir=configs_dir)
    rows = [row for row in rows if row.published is not None or row_key(row) not in without_row]
    external = make_external_rows(groups, published_dir / "context")
    return Contents(stored, rows, groups, errors, list(stale_records(groups).items()), external)


def make_sections(
    contents: Contents,
    results_dir: pathlib.Path,
    published_dir: pathlib.Path = published.PUBLISHED_DIR,
    configs_dir: pathlib.Path = staleness.CONFIGS_DIR,
) -> list[PaperSection]:
    """Returns the page's sections, one per paper, those with a run first. Arguments as for `collect`."""
    sections = [
        _section(paper, rows, contents, results_dir, published_dir, configs_dir)
        for paper, rows in tables.by_paper(contents.rows).items()
    ]
    return sorted(sections, key=lambda section: not section.cards)


def results_first(rows: Sequence[Row]) -> list[Row]:
    """Returns the rows in an order in which those with a result are first."""
    return sorted(rows, key=lambda row: not row.seeds)


def _section(
    paper: str,
    rows: Sequence[Row],
    contents: Contents,
    results_dir: pathlib.Path,
    published_dir: pathlib.Path,
    configs_dir: pathlib.Path,
) -> PaperSection:
    title, citation, sources, printed_settings, titles = paper, "", [], [], {}
    if paper in published.papers(published_dir):
        printed_settings = _settings(paper, published_dir, configs_dir)
        numbers = published.load(paper, published_dir)
        title, citation = numbers.title, numbers.citation
        sources = [(name, t["title"], t["source"], t["confidence"]) for name, t in numbers.tables.items()]
        titles = {name: table["title"] for name, table in numbers.tables.items()}
    by_experiment = collections.defaultdict(list)
    for card in cards.make_cards(rows, contents.groups, contents.stored, published_dir, configs_dir):
        by_experiment[card.experiment].append(card)
    together = aggregates.make_aggregates(rows, contents.groups)
    return PaperSection(
        name=paper,
        title=title,
        citation=citation,
        link=paper_link(citation),
        counts=count_verdicts(rows),
        trained=tables.count_trained(rows),
        groups=_row_groups(paper, rows, titles),
        experiments=by_experiment,
        paper_figures=_figures(results_dir / paper, configs_dir / paper),
        overviews=aggregates.make_images(paper, together, rows),
        together=[(item, aggregates.make_agent_images(item)) for item in together],
        deviations=_deviations(PAPERS_DIR / paper / "README.md"),
        settings=printed_settings,
        sources=sources,
    )


def paper_link(citation: str) -> str | None:
    """Returns the address of a paper if its citation has an arXiv number, otherwise None."""
    found = re.search(r"arXiv (\d{4}\.\d{4,5})", citation)
    return f"https://arxiv.org/abs/{found[1]}" if found else None


def _row_groups(paper: str, rows: Sequence[Row], titles: Mapping[str, str]) -> list[RowGroup]:
    """Returns the rows by printed table, tables with a result first and random play last."""
    by_heading = collections.defaultdict(list)
    for row in sorted(results_first(rows), key=tables.is_random_play):
        by_heading[tables.heading(row, titles)].append(row)
    return [
        RowGroup(f"{paper}-rows-{number}", heading, of_heading)
        for number, (heading, of_heading) in enumerate(by_heading.items(), start=1)
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
    """Describes how the configs compare with a printed setting; experiments with the same answer are named together."""
    by_answer = collections.defaultdict(list)
    for item in compared:
        answer = f"differs, {item.ours}" if item.status == "differs" else str(item.status)
        by_answer[answer].append(item.experiment)
    known = {answer: names for answer, names in by_answer.items() if answer != "no config yet"}
    if not known:
        return "no config yet"
    return "; ".join(f"{answer} ({', '.join(dict.fromkeys(names))})" for answer, names in known.items())


def _figures(paper_dir: pathlib.Path, configs_dir: pathlib.Path) -> list[figures.Image]:
    """Returns the figures that experiments have plotted beside their records."""
    images = []
    for path in sorted(paper_dir.glob("*/figure.svg")):
        experiment = path.parent.name
        title = _figure_title(configs_dir / f"{experiment}.py")
        alt = f"{title}. The rows above and the records have its numbers."
        svg = path.read_text(encoding="utf-8")
        images.append(figures.Image(f"{paper_dir.name}-{experiment}", alt, svg, "paper-figure", title))
    return images


def _figure_title(config: pathlib.Path) -> str:
    """Returns the title of a figure: the first line of its config's docstring without the paper, or the file's name."""
    line = headline(config) if config.is_file() else ""
    if not line:
        return config.stem
    return line.rstrip(".").removeprefix(f"{tables.PAPERS.get(config.parent.name, config.parent.name)}, ")


def _deviations(readme: pathlib.Path) -> Markup:
    """Returns the section on deviations of a paper's README as HTML; empty if there is none."""
    if not readme.is_file():
        return Markup("")
    _, _, rest = readme.read_text(encoding="utf-8").partition("## Deviations from the paper\n")
    section = rest.partition("\n## ")[0]
    return Markup(markdown_it.MarkdownIt("commonmark", {"html": False}).render(section))
