"""Results over several tasks: bars of normalized scores, performance profiles, aggregates beside published ones."""

import collections
import dataclasses
import re
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from repro.evidence import results, statistics
from repro.evidence.comparisons import Key
from repro.evidence.groups import Group
from repro.evidence.rows import Row
from repro.report import figures, tables
from repro.report.figures import COLORS, MUTED

MIN_TASKS, MIN_TASKS_OF_A_PROFILE = 2, 5
ROW_HEIGHT = 24
LINEAR_TO = 10.0
"""Score in percent up to which the axis of the bars is about linear; above it is logarithmic."""
PROFILE_TO = 200.0
PROBABILITIES = ("improvement", "speed")
"""Claims whose value is the probability that a run of ours is ahead of one of theirs."""
BASIS = re.compile(r"\d+ of \d+ tasks|.* of the budget")
"""Shortfalls that are shown beside a probability of improvement."""
PUBLISHED_LABEL = "published, at its own budget"
SHOWN: Mapping[str, statistics.Statistic] = {
    "median": statistics.median,
    "interquartile mean": statistics.interquartile_mean,
    "mean": statistics.mean,
    "optimality gap": statistics.optimality_gap,
}


@dataclasses.dataclass(frozen=True)
class Aggregate:
    """One agent of one experiment over its tasks.

    Attributes:
        anchor: id of its place in the page.
        experiment, agent: names as in the records.
        total: number of tasks for which the paper prints a number.
        ours, theirs: task with a record to the normalized scores of our runs, and to the published score, [1].
        lines: name of each statistic with the published number, ours and its interval, in percent, over the tasks with
            a record.
        no_interval: name of each statistic to the reason why it has no interval; empty if it has one.
    """

    anchor: str
    experiment: str
    agent: str
    total: int
    ours: Mapping[str, np.ndarray]
    theirs: Mapping[str, np.ndarray]
    lines: Sequence[tuple[str, float, float, tuple[float, float] | None]]
    no_interval: Mapping[str, str]

    @property
    def tasks(self) -> int:
        """Number of tasks with a record."""
        return len(self.ours)


def make_aggregates(rows: Sequence[Row], groups: Mapping[Key, Group]) -> list[Aggregate]:
    """Returns the aggregate of every agent of a paper that has at least `MIN_TASKS` normalized tasks with a record.

    Args:
        rows: rows of one paper.
        groups: records behind the rows.
    """
    by_agent = collections.defaultdict(list)
    for row in rows:
        if row.statistic is None and row.published is not None and row.random is not None and row.human is not None:
            by_agent[str(row.experiment), str(row.agent)].append(row)
    return [
        _aggregate(done, len(all_rows), groups)
        for all_rows in by_agent.values()
        if len(done := [row for row in all_rows if row.value is not None]) >= MIN_TASKS
    ]


def anchor(row: Row) -> str:
    """Returns the id of the place that shows a row's agent over all its tasks."""
    return f"{row.paper}-{row.experiment}-{row.agent}-together"


def make_images(paper: str, together: Sequence[Aggregate], rows: Sequence[Row]) -> list[figures.Image]:
    """Returns the figures over tasks of one paper: intervals of aggregates, and of probabilities of improvement.

    Args:
        paper: short name of the paper.
        together: aggregates from `make_aggregates`.
        rows: rows of the paper.
    """
    made = []
    if together:
        name = f"{paper}-aggregates"
        alt = "Aggregate human-normalized scores with 95 % intervals; the tables below have the numbers."
        made.append(figures.Image(name, alt, figures.svg_text(plot_intervals(together))))
    if claims := [row for row in rows if row.claim in PROBABILITIES and row.value is not None]:
        alt = "Probabilities of improvement with 95 % intervals: " + "; ".join(
            f"{row.column} {tables.ours(row)}, {_basis(row)}" for row in claims
        )
        made.append(figures.Image(f"{paper}-improvement", alt, figures.svg_text(plot_improvements(claims))))
    return made


def make_agent_images(aggregate: Aggregate) -> list[figures.Image]:
    """Returns the bars of one agent's tasks, and its performance profile if it has enough tasks."""
    images = [figures.Image(f"{aggregate.anchor}-tasks", bars_alt(aggregate), figures.svg_text(plot_bars(aggregate)))]
    if aggregate.tasks >= MIN_TASKS_OF_A_PROFILE:
        name = f"{aggregate.anchor}-profile"
        images.append(figures.Image(name, profile_alt(aggregate), figures.svg_text(plot_profile(aggregate))))
    return images


@figures.styled
def plot_bars(aggregate: Aggregate) -> Figure:
    """Plots our bar and the published one of each task, best of ours first; see `LINEAR_TO` for the axis."""
    values = _percentages(aggregate)
    figure = figures.new_figure(height=70 + ROW_HEIGHT * len(values))
    axes = figure.add_subplot()
    places, by_side = np.arange(len(values)), np.array(list(values.values()))
    for side, (label, color) in enumerate((("ours", COLORS[0]), (PUBLISHED_LABEL, MUTED))):
        bars = axes.barh(places + 0.4 * side - 0.2, by_side[:, side], 0.38, color=color, label=label)
        texts = [f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" for value in by_side[:, side]]
        axes.bar_label(bars, texts, padding=3, fontsize="x-small")
    low, high = min(0.0, by_side.min()), max(100.0, by_side.max())
    axes.set_xscale("asinh", linear_width=LINEAR_TO)
    axes.set_xlim(1.8 * low, 1.8 * high)
    axes.set_xticks(ticks := log_ticks(low, high, LINEAR_TO), [f"{tick:g}" for tick in ticks], minor=False)
    axes.set_yticks(places, list(values))
    axes.set_ylim(len(values) - 0.5, -0.5)
    axes.axvline(0, color=figures.INK, lw=0.8)
    axes.set_xlabel("human-normalized score, %")
    axes.grid(axis="x")
    figure.legend(loc="outside upper left", ncols=2)
    return figure


@figures.styled
def plot_profile(aggregate: Aggregate) -> Figure:
    """Plots the share of runs above each score, averaged over tasks (Agarwal et al. 2021)."""
    levels = np.linspace(0.0, PROFILE_TO, 201)
    figure = figures.new_figure(2)
    axes = figure.add_subplot()
    axes.plot(levels, shares_above(aggregate.ours, levels), color=COLORS[0], lw=2.2, gid="ours", label="ours")
    axes.plot(levels, shares_above(aggregate.theirs, levels), color=MUTED, lw=1.4, ls="--", label=PUBLISHED_LABEL)
    axes.set(xlim=(0, PROFILE_TO), ylim=(0, 1.02))
    axes.set(xlabel="human-normalized score, %", ylabel="share of runs above the score")
    axes.grid()
    figure.legend(loc="outside lower left", alignment="left")
    return figure


@figures.styled
def plot_intervals(together: Sequence[Aggregate]) -> Figure:
    """Plots the aggregates of a paper's agents with 95 % intervals, one panel per statistic (Agarwal et al. 2021)."""
    figure = figures.new_figure(height=110 + 2 * ROW_HEIGHT * len(together))
    panels = figure.subplots(2, 2, sharey=True)
    for panel, axes in enumerate(panels.flat):
        for place, aggregate in enumerate(together):
            name, published, value, interval = aggregate.lines[panel]
            if interval:
                axes.barh(place, interval[1] - interval[0], 0.5, interval[0], color=COLORS[0], alpha=0.4)
            label = {"ours": "ours, 95 % interval", "theirs": PUBLISHED_LABEL} if panel == place == 0 else {}
            axes.plot([value], [place], "|", color=COLORS[0], ms=14, mew=2.5, label=label.get("ours"))
            axes.plot([published], [place], "D", color=MUTED, mfc="none", ms=6, label=label.get("theirs"))
            axes.set_title(name)
        axes.use_sticky_edges = False  # otherwise the axis would end at the bars
        axes.margins(x=0.15)
        axes.grid(axis="x")
    panels[0, 0].set_yticks(range(len(together)), [aggregate.agent for aggregate in together])
    panels[0, 0].set_ylim(len(together) - 0.5, -0.5)
    figure.supxlabel("human-normalized score over the tasks with a record, %", fontsize="medium")
    figure.legend(loc="outside upper left", ncols=2)
    return figure


@figures.styled
def plot_improvements(rows: Sequence[Row]) -> Figure:
    """Plots probabilities of improvement with their intervals; the dashed line at 0.5 stands for no difference."""
    figure = figures.new_figure(1, height=60 + ROW_HEIGHT * len(rows), width=1.2 * figures.WIDTH)
    axes = figure.add_subplot()
    for place, row in enumerate(rows):
        assert row.value is not None
        if row.interval:
            low, high = row.interval
            axes.barh(place, high - low, 0.5, low, color=COLORS[0], alpha=0.4)
        axes.plot([row.value], [place], "|", color=COLORS[0], ms=14, mew=2.5)
    axes.axvline(0.5, color=MUTED, ls="--", lw=1.4)
    axes.set_yticks(range(len(rows)), [f"{row.column}\n{_basis(row)}" for row in rows], fontsize="small")
    axes.set(xlim=(-0.02, 1.02), ylim=(len(rows) - 0.5, -0.5))
    axes.set_xlabel("probability of improvement\n(bar: 95 % interval; 0.5: no difference)")
    axes.grid(axis="x")
    return figure


def _basis(row: Row) -> str:
    """Describes the basis of a row: the number of its tasks, or the task, and the share of the budget if it is less."""
    parts = [part for part in row.shortfalls if BASIS.fullmatch(part)]
    return ", ".join(parts if any(part.endswith("tasks") for part in parts) else [row.task, *parts])


def shares_above(scores: Mapping[str, np.ndarray], levels: np.ndarray) -> np.ndarray:
    """Returns the share of runs above each level, averaged over tasks, [N].

    Args:
        scores: task to the normalized scores of its runs.
        levels: scores in percent, [N].
    """
    return np.mean([(100 * runs[:, None] > levels).mean(axis=0) for runs in scores.values()], axis=0)


def log_ticks(low: float, high: float, unit: float) -> list[float]:
    """Returns 0 and plus or minus the powers of ten times `unit`, as far as they are in [low, high]."""
    powers = [unit * 10**i for i in range(9)]
    return [x for x in (*(-p for p in reversed(powers)), 0.0, *powers) if low <= x <= high]


def bars_alt(aggregate: Aggregate) -> str:
    """Returns a description of the bars, with the numbers of the first twelve tasks."""
    values = _percentages(aggregate)
    shown = [f"{task} {ours:.1f} % (published {theirs:.1f} %)" for task, (ours, theirs) in list(values.items())[:12]]
    more = f" and {len(values) - 12} more tasks" if len(values) > 12 else ""
    return "Human-normalized scores: " + ", ".join(shown) + more + "."


def profile_alt(aggregate: Aggregate) -> str:
    """Returns a description of the performance profile."""
    ours, theirs = (shares_above(side, np.array([50.0]))[0] for side in (aggregate.ours, aggregate.theirs))
    half = f"{100 * ours:.0f} % of our runs and {100 * theirs:.0f} % of the published scores"
    return f"Performance profile over {aggregate.tasks} tasks: {half} are above 50 %."


def _aggregate(rows: Sequence[Row], total: int, groups: Mapping[Key, Group]) -> Aggregate:
    ours: dict[str, np.ndarray] = {}
    theirs: dict[str, np.ndarray] = {}
    runs = {}
    for row in rows:
        runs[row.task] = records = groups[row.paper, str(row.experiment), row.task, str(row.agent)].records
        ours[row.task] = _normalized(row, [record["evaluation"]["mean"] for record in records])
        theirs[row.task] = _normalized(row, [float(row.published or 0.0)])
    lines, no_interval = [], {}
    for name, statistic in SHOWN.items():
        interval, no_interval[name] = results.interval_over_tasks(ours, runs, statistic)
        published = 100 * statistics.aggregate(theirs, statistic)
        lines.append((name, published, 100 * statistics.aggregate(ours, statistic), interval))
    first = rows[0]
    return Aggregate(anchor(first), str(first.experiment), str(first.agent), total, ours, theirs, lines, no_interval)


def _normalized(row: Row, scores: Sequence[float]) -> np.ndarray:
    assert row.random is not None
    assert row.human is not None
    return np.asarray(statistics.human_normalised(np.array(scores), row.random, row.human))


def _percentages(aggregate: Aggregate) -> dict[str, tuple[float, float]]:
    """Returns task to our mean score and the published one in percent, best of ours first."""
    tasks = sorted(aggregate.ours, key=lambda task: -aggregate.ours[task].mean())
    return {
        task: (100 * float(aggregate.ours[task].mean()), 100 * float(aggregate.theirs[task].mean())) for task in tasks
    }
