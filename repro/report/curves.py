"""Learning curves: inline SVG for the page, PNG for documents.

Where a config has `window_steps`, the curve over seeds is the paper's own: in windows of so many steps, with the 20th
and 80th percentiles. A record holds no single episodes but the mean return of the last 100 at up to 500 moments, so a
window's return is the mean of those logged in it, and lags by half of the time that 100 episodes take.
"""

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from repro.evidence import published, run_measures, statistics
from repro.evidence.records import counted, thin
from repro.evidence.rows import BOOTSTRAP_SEED, Row
from repro.report import svg
from repro.report.tables import amount, exact

WIDTH, HEIGHT = 480, 290
LEFT, RIGHT, TOP, BOTTOM = 54, 20, 22, 40
MAX_POINTS = 120  # of one line in the page; a phone shows no more
# A published number so far off that our curve would fill less than this share of the axis is named, not
# drawn.
SMALLEST_SHARE = 0.15
PERCENTILES = (20, 80)
TIME_UNITS = {"hours": 3600.0, "minutes": 60.0, "seconds": 1.0}
"""Units of wall time and their seconds; an axis has the largest of which it is two or more."""


@dataclasses.dataclass(frozen=True)
class Plot:
    """What a learning curve shows, in data units.

    Attributes:
        lines: seed to [N, 2] (frames or wall time, return).
        mean: [M, 2], mean over seeds where all have data, on a common grid or in the middles of windows; empty with
            one seed.
        band: [M, 2], low and high at each point: the 95 % interval of that mean, or the percentiles over seeds
            where there are windows; empty with one seed.
        window: length of the windows in frames; None without.
        published, published_label: the printed number and its text, None without one.
        on_scale: whether the printed number lies on the axis.
        random: the random player's score, or None.
        y_range: (low, high) of the axis.
        x_end: end of the axis.
        x_label: what the axis is, in words.
        unit: unit of the returns.
        counts: what the budget counts, frames or steps.
    """

    lines: Mapping[int, np.ndarray]
    mean: np.ndarray
    band: np.ndarray
    window: int | None
    published: float | None
    published_label: str | None
    on_scale: bool
    random: float | None
    y_range: tuple[float, float]
    x_end: float
    x_label: str
    unit: str
    counts: str

    @property
    def y_label(self) -> str:
        """What the lines show, in words."""
        return f"mean {self.unit}" if "return" in self.unit else f"mean return, {self.unit}"

    @property
    def mean_label(self) -> str:
        """What the line over seeds is, in words."""
        return (
            f"mean over seeds in windows of {amount(self.window)} {self.counts}" if self.window else "mean over seeds"
        )

    @property
    def band_label(self) -> str:
        """What the band is, in words."""
        if self.window:
            return f"{PERCENTILES[0]}th to {PERCENTILES[1]}th percentile over seeds"
        return "95 % interval of the mean over seeds"


def make_plot(records: Sequence[Mapping[str, Any]], row: Row | None, timed: bool = False) -> Plot:
    """Prepares the curve of one row.

    Args:
        records: those behind the row, one a seed, at least one.
        row: gives the printed number with its budget and the random score; None without either.
        timed: against the wall time of training and not frames; for records that `has_times` holds for.
    """
    lines = {r["seed"]: np.array(r["curve"], float).reshape(-1, 2) for r in records}
    lines = {seed: line for seed, line in lines.items() if len(line)}
    x_label = f"environment {counted(records[0])}"
    if timed:
        lines, unit_of_time = _against_time(records, lines)
        x_label = f"wall time of training, {unit_of_time}"
    window = None if timed else window_of(records)
    mean, band = _windows(list(lines.values()), window) if window else _mean_line(list(lines.values()))
    target, random = (row.published, row.random) if row else (None, None)
    label = None
    if row is not None and target is not None:
        label = f"published {exact(target)} at {amount(row.published_budget)} {row.budget_field}"
    values = [line[:, 1] for line in lines.values()] + [[r["evaluation"]["mean"]] for r in records]
    values += [[random]] if random is not None else []
    low, high = float(min(map(np.min, values))), float(max(map(np.max, values)))
    on_scale = target is not None and (high - low) >= SMALLEST_SHARE * (max(high, target) - min(low, target))
    if on_scale and target is not None:
        low, high = min(low, target), max(high, target)
    margin = 0.06 * (high - low) or 1.0
    x_end = max([line[-1, 0] for line in lines.values()], default=float(records[0]["frames"]))
    unit = records[0]["evaluation"]["unit"]
    return Plot(
        lines,
        mean,
        band,
        window,
        target,
        label,
        on_scale,
        random,
        (low - margin, high + margin),
        x_end,
        x_label,
        unit,
        counted(records[0]),
    )


def has_times(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all records keep a curve and, in their log, the seconds of training."""
    return all(run_measures.holds(record, need) for record in records for need in ("curve", "series.seconds"))


def curve_svg(plot: Plot, title: str) -> Markup:
    """Returns a learning curve as an `<svg>` element that takes its colours from the page's CSS.

    Args:
        plot: from `make_plot`.
        title: what it shows, read out by screen readers.
    """
    low, high = plot.y_range
    right, foot = WIDTH - RIGHT, HEIGHT - BOTTOM

    def x(along: float) -> float:
        return LEFT + (right - LEFT) * along / plot.x_end

    def y(value: float) -> float:
        return TOP + (foot - TOP) * (high - value) / (high - low)

    def place(points: Iterable[Sequence[float]]) -> list[tuple[float, float]]:
        return [(x(along), y(value)) for along, value in points]

    def level(value: float, kind: str) -> str:
        return svg.line(LEFT, y(value), right, y(value), kind)

    parts = [svg.text(4, 12, plot.y_label, "start")]
    for value in svg.ticks(low, high):
        parts += [level(value, "grid"), svg.text(LEFT - 6, y(value) + 4, f"{value:g}", "end")]
    for tick in svg.ticks(0, plot.x_end):
        parts.append(svg.text(x(tick), foot + 18, amount(int(tick)) if tick >= 1000 else f"{tick:g}"))
    parts.append(svg.text((LEFT + right) / 2, HEIGHT - 4, plot.x_label))
    labels = []
    if plot.random is not None:
        parts.append(level(plot.random, "random"))
        labels.append(svg.text(right - 4, y(plot.random) + 15, f"random {exact(plot.random)}", "end", "label"))
    if plot.published is not None and plot.on_scale:
        parts.append(level(plot.published, "published"))
        labels.append(svg.text(LEFT + 4, y(plot.published) - 6, f"{plot.published_label}", "start", "label"))
    elif plot.published is not None:
        arrow = "\u2191" if plot.published > high else "\u2193"
        labels.append(svg.text(right - 4, 12, f"{arrow} {plot.published_label}, off scale", "end", "label"))
    if len(plot.band):
        along = plot.mean[:, 0]
        outline = np.concatenate([np.c_[along, plot.band[:, 0]], np.c_[along, plot.band[:, 1]][::-1]])
        parts.append(svg.polygon(place(outline), "band", plot.band_label))
    for seed, points in plot.lines.items():
        parts.append(svg.polyline(place(thin(list(points), MAX_POINTS)), "seed", f"seed {seed}"))
    if len(plot.mean):
        parts.append(svg.polyline(place(plot.mean), "mean", plot.mean_label))
    return svg.chart(WIDTH, HEIGHT, title, parts + labels)


def save_curve(
    records: Sequence[Mapping[str, Any]],
    printed: published.PublishedRow | None,
    path_png: str | os.PathLike[str],
) -> None:
    """Writes the learning curve of some records beside the printed number as a PNG.

    Args:
        records: runs of one agent on one task, one a seed, at least one.
        printed: the number they answer, or None.
        path_png: file to write.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    row = None
    if printed is not None:
        references = published.normaliser(printed.normaliser).get(printed.task, {}) if printed.normaliser else {}
        row = Row(
            paper=printed.paper,
            experiment=printed.experiment,
            task=printed.task,
            agent=printed.agent,
            unit=printed.unit,
            published=printed.value,
            published_budget=printed.protocol.get("budget"),
            budget_field=printed.protocol.get("budget_field", "frames"),
            random=references.get("random"),
        )
    plot = make_plot(records, row)
    figure, axes = plt.subplots(figsize=(7.5, 4.2), dpi=160, layout="constrained")
    width, color = (2.2, "#184f95") if len(plot.lines) == 1 else (0.9, "#6da7ec")
    for i, points in enumerate(plot.lines.values()):
        label = "one seed" if i == 0 else None
        axes.plot(points[:, 0] / 1e6, points[:, 1], label=label, lw=width, color=color)
    if len(plot.mean):
        along = plot.mean[:, 0] / 1e6
        axes.fill_between(along, *plot.band.T, color="#6da7ec", alpha=0.25, lw=0, label=plot.band_label)
        axes.plot(along, plot.mean[:, 1], color="#184f95", lw=2.2, label=plot.mean_label)
    if plot.published is not None and plot.on_scale:
        axes.axhline(plot.published, color="#0b0b0b", ls="--", lw=1.2, label=plot.published_label)
    elif plot.published is not None:
        axes.plot([], [], color="#0b0b0b", ls="--", lw=1.2, label=f"{plot.published_label} (off this scale)")
    if plot.random is not None:
        axes.axhline(plot.random, color="#898781", ls=":", lw=1.2, label=f"random {exact(plot.random)}")
    axes.set(xlim=(0, plot.x_end / 1e6), ylim=plot.y_range, xlabel=f"{plot.x_label}, millions")
    axes.set_ylabel(plot.y_label)
    first, seeds = records[0], f"{len(records)} seed{'s' if len(records) > 1 else ''}"
    axes.set_title(f"{first['agent']} on {first['task']}, {first['scale']} scale, {seeds}", loc="left")
    axes.grid(axis="y", color="#e1e0d9", lw=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=9)
    figure.savefig(path_png)
    plt.close(figure)


def window_of(records: Sequence[Mapping[str, Any]]) -> int | None:
    """Returns the length of the windows of the records' curve; None where their paper has none, or none of two ended.

    Args:
        records: runs of one config, at least one.
    """
    window = records[0]["config"].get("window_steps")
    return window if window and 2 * window <= min(record["frames"] for record in records) else None


def _against_time(
    records: Sequence[Mapping[str, Any]], lines: Mapping[int, np.ndarray]
) -> tuple[dict[int, np.ndarray], str]:
    """The lines with wall time for frames, and its unit."""
    seconds = {r["seed"]: run_measures.seconds_at(r, lines[r["seed"]][:, 0]) for r in records}
    longest = max(of[-1] for of in seconds.values())
    unit = next((name for name, length in TIME_UNITS.items() if longest >= 2 * length), "seconds")
    return {seed: np.c_[of / TIME_UNITS[unit], lines[seed][:, 1]] for seed, of in seconds.items()}, unit


def _windows(lines: Sequence[np.ndarray], window: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean over lines of their means in each whole window that all have points in, [M, 2] at the windows' middles, and
    the percentiles, [M, 2]; M is 0 for one line."""
    if len(lines) < 2:
        return np.zeros((0, 2)), np.zeros((0, 2))
    middles, returns = [], []
    for end in np.arange(window, min(line[-1, 0] for line in lines) + 1, window):
        inside = [line[(end - window < line[:, 0]) & (line[:, 0] <= end), 1] for line in lines]
        if all(len(values) for values in inside):
            middles.append(end - window / 2)
            returns.append([values.mean() for values in inside])
    by_window = np.array(returns, float).reshape(-1, len(lines))
    mean = np.stack([np.array(middles), by_window.mean(axis=1)], axis=1)
    return mean, np.percentile(by_window, PERCENTILES, axis=1).T


def _mean_line(lines: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The mean over lines where all have data, [M, 2], and the ends of its interval, [M, 2]; M is 0 for one line."""
    start = max((line[0, 0] for line in lines), default=0.0)
    end = min((line[-1, 0] for line in lines), default=0.0)
    if len(lines) < 2 or end < start:
        return np.zeros((0, 2)), np.zeros((0, 2))
    frames = np.linspace(start, end, MAX_POINTS)
    values = np.stack([np.interp(frames, line[:, 0], line[:, 1]) for line in lines])
    band = statistics.pointwise_interval(values, np.random.default_rng(BOOTSTRAP_SEED))
    return np.stack([frames, values.mean(axis=0)], axis=1), band
