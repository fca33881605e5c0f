"""Several tasks together: normalised scores as bars, performance profiles, aggregates beside the published ones."""

import collections
import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup

from repro.evidence import statistics
from repro.evidence.rows import BOOTSTRAP_SEED, Group, Key, Row
from repro.report import svg

MIN_TASKS, MIN_TASKS_OF_A_PROFILE = 2, 5
WIDTH = 640
LEFT, RIGHT = 150, 64
ROW, BAR = 30, 9
# Below this score, in percent, bars grow in proportion to it, above with its logarithm.
LINEAR_TO = 10.0
PROFILE_TO = 200.0
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
        experiment, agent: as in the records.
        tasks, total: tasks with a record, and those that the paper prints a number for.
        bars, profile: charts; the profile is None with few tasks.
        lines: name of the statistic, published, ours, interval; in percent, over the tasks with a record.
    """

    anchor: str
    experiment: str
    agent: str
    tasks: int
    total: int
    bars: Markup
    profile: Markup | None
    lines: Sequence[tuple[str, float, float, tuple[float, float] | None]]


def make_aggregates(rows: Sequence[Row], groups: Mapping[Key, Group]) -> list[Aggregate]:
    """Returns what the rows of one paper give together, one for every agent with enough normalised tasks.

    Args:
        rows: of one paper.
        groups: records behind them.
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
    """Returns the id of the place where a row's agent is shown over all its tasks."""
    return f"{row.paper}-{row.experiment}-{row.agent}-together"


def _aggregate(rows: Sequence[Row], total: int, groups: Mapping[Key, Group]) -> Aggregate:
    ours: dict[str, np.ndarray] = {}
    theirs: dict[str, np.ndarray] = {}
    for row in rows:
        records = groups[row.paper, str(row.experiment), row.task, str(row.agent)].records
        ours[row.task] = _normalised(row, [record["evaluation"]["mean"] for record in records])
        theirs[row.task] = _normalised(row, [float(row.published or 0.0)])
    several = all(len(runs) > 1 for runs in ours.values())
    lines = []
    for name, statistic in SHOWN.items():
        interval = None
        if several:
            low, high = statistics.stratified_interval(ours, statistic, np.random.default_rng(BOOTSTRAP_SEED))
            interval = (100 * low, 100 * high)
        published = 100 * statistics.aggregate(theirs, statistic)
        lines.append((name, published, 100 * statistics.aggregate(ours, statistic), interval))
    first = rows[0]
    profile = _profile(ours, theirs) if len(rows) >= MIN_TASKS_OF_A_PROFILE else None
    return Aggregate(
        anchor(first), str(first.experiment), str(first.agent), len(rows), total, _bars(ours, theirs), profile, lines
    )


def _normalised(row: Row, scores: Sequence[float]) -> np.ndarray:
    assert row.random is not None
    assert row.human is not None
    return np.asarray(statistics.human_normalised(np.array(scores), row.random, row.human))


def _bars(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> Markup:
    """Two bars a task, best of ours first."""
    tasks = sorted(ours, key=lambda task: -ours[task].mean())
    values = {task: (100 * float(ours[task].mean()), 100 * float(theirs[task].mean())) for task in tasks}
    low = min(0.0, *(min(pair) for pair in values.values()))
    high = max(100.0, *(max(pair) for pair in values.values()))
    height = 34 + ROW * len(tasks) + 44

    def x(percent: float) -> float:
        return LEFT + (WIDTH - RIGHT - LEFT) * (_squeezed(percent) - _squeezed(low)) / (
            _squeezed(high) - _squeezed(low)
        )

    parts = []
    foot = 34 + ROW * len(tasks)
    for tick in svg.log_ticks(low, high, LINEAR_TO):
        parts += [svg.line(x(tick), 30, x(tick), foot, "grid"), svg.text(x(tick), foot + 16, f"{tick:g}")]
    parts.append(svg.text((LEFT + WIDTH - RIGHT) / 2, height - 8, "human-normalised score, %"))
    parts += [svg.rectangle(LEFT, 8, 12, 9, "ours", "ours"), svg.text(LEFT + 18, 17, "ours", "start")]
    parts += [svg.rectangle(LEFT + 70, 8, 12, 9, "theirs", "published")]
    parts.append(svg.text(LEFT + 88, 17, "published, at its own budget", "start"))
    for i, task in enumerate(tasks):
        top = 38 + ROW * i
        parts.append(svg.text(LEFT - 8, top + BAR + 4, task, "end"))
        for j, (kind, value) in enumerate(zip(("ours", "theirs"), values[task])):
            name = f"{task}, {'ours' if kind == 'ours' else 'published'}: {value:.1f} %"
            parts.append(svg.rectangle(x(0.0), top + j * (BAR + 1), x(value) - x(0.0), BAR, kind, name))
            parts.append(
                svg.text(
                    max(x(value), x(0.0)) + 5,
                    top + j * (BAR + 1) + BAR,
                    f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}",
                    "start",
                    "small",
                )
            )
    parts.append(svg.line(x(0.0), 30, x(0.0), foot, "axis"))
    return svg.chart(WIDTH, height, _sentence(values), parts)


def _profile(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> Markup:
    """Share of runs above each score, averaged over tasks (Agarwal et al. 2021)."""
    height, foot, top = 290, 246, 30
    levels = np.linspace(0.0, PROFILE_TO, 201)

    def share(scores: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.mean([[(runs > level / 100).mean() for level in levels] for runs in scores.values()], axis=0)

    def place(shares: np.ndarray) -> list[tuple[float, float]]:
        x = 54 + (WIDTH - 74) * levels / PROFILE_TO
        return list(zip(x, foot - (foot - top) * shares))

    parts = [svg.text(4, 12, "share of runs above the score", "start")]
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = foot - (foot - top) * value
        parts += [svg.line(54, y, WIDTH - 20, y, "grid"), svg.text(48, y + 4, f"{value:g}", "end")]
    for tick in svg.ticks(0.0, PROFILE_TO):
        parts.append(svg.text(54 + (WIDTH - 74) * tick / PROFILE_TO, foot + 18, f"{tick:g}"))
    parts.append(svg.text(WIDTH / 2, height - 4, "human-normalised score, %"))
    parts.append(svg.polyline(place(share(theirs)), "published", "published"))
    parts.append(svg.polyline(place(share(ours)), "mean", "ours"))
    half = f"{100 * share(ours)[50]:.0f} % of our runs and {100 * share(theirs)[50]:.0f} % of the published scores"
    return svg.chart(WIDTH, height, f"Performance profile over {len(ours)} tasks: {half} are above 50 %.", parts)


def _squeezed(percent: float) -> float:
    return math.copysign(math.log10(1 + abs(percent) / LINEAR_TO), percent)


def _sentence(values: Mapping[str, tuple[float, float]]) -> str:
    shown = [f"{task} {ours:.1f} % (published {theirs:.1f} %)" for task, (ours, theirs) in list(values.items())[:12]]
    more = f" and {len(values) - 12} more tasks" if len(values) > 12 else ""
    return "Human-normalised scores: " + ", ".join(shown) + more + "."
