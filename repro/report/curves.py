"""Learning curves: the agents of a task in one figure, against frames or wall time.

If a config has `window_steps`, the curve over seeds follows the paper: means over windows of so many steps, with the
20th and 80th percentiles from four seeds on. A record has no single episodes but the mean return of the last 100
episodes at up to 500 points. So a window's return is the mean of the points logged in it, and lags by half of the time
that 100 episodes take.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from repro.evidence import run_measures, statistics
from repro.evidence.records import budget_field, counted, thin
from repro.evidence.rows import Row
from repro.report import figures
from repro.report.tables import amount, exact

MAX_POINTS = 120  # points of one line; a phone shows no more
MIN_SHARE = 0.15
"""Smallest share of the axis for our curves; a published number that would leave them less is not plotted but named."""
PERCENTILES = (20, 80)
MEAN_BAND = "95 % interval of the mean"
WINDOW_BAND = f"{PERCENTILES[0]}th to {PERCENTILES[1]}th percentile over seeds"
"""Descriptions of bands from `statistics.MIN_BOOTSTRAP_RUNS` seeds on."""
TIME_UNITS = {"hours": 3600.0, "minutes": 60.0, "seconds": 1.0}
"""Units of wall time in seconds; an axis has the largest unit of which it covers two or more."""

Records = Sequence[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Curve:
    """One agent's part of a figure, in data units.

    Attributes:
        agent: name of the agent.
        index: index of the agent, for its colour (`cards.agent_indices`).
        scale: scale of its runs.
        lines: seed to its points (frames or seconds of wall time, return), [N, 2].
        evaluations: final evaluation of each seed.
        mean: mean over seeds, [M, 2], on a common grid where all seeds have data, or in the middle of each window.
            Without windows it is empty for a single seed.
        band: low and high at each point of `mean`, [M, 2]: the 95 % interval of the mean, with windows percentiles over
            seeds instead. With fewer than `statistics.MIN_BOOTSTRAP_RUNS` seeds, the lowest and the highest seed.
        window: length of the windows in the unit of the budget; None without windows.
        end: largest frames or seconds of its runs.
        published, published_label: printed number and its text; None without one.
        random, random_label: score of the random policy and its text; None without one.
    """

    agent: str
    index: int
    scale: str
    lines: Mapping[int, np.ndarray]
    evaluations: Sequence[float]
    mean: np.ndarray
    band: np.ndarray
    window: int | None
    end: float
    published: float | None
    published_label: str | None
    random: float | None
    random_label: str | None


@dataclasses.dataclass(frozen=True)
class Plot:
    """The curves of one task on common axes.

    Attributes:
        curves: one curve per agent, with wall time in the unit of the axis.
        on_scale: for each curve whether its printed number is on the axis.
        random, random_label: score of the random policy and its text; None without one.
        y_range: ends (low, high) of the vertical axis.
        x_end: end of the horizontal axis.
        x_label: label of the horizontal axis.
        unit: unit of the returns.
        counts: what the budget counts, frames or steps.
    """

    curves: Sequence[Curve]
    on_scale: Sequence[bool]
    random: float | None
    random_label: str | None
    y_range: tuple[float, float]
    x_end: float
    x_label: str
    unit: str
    counts: str

    @property
    def y_label(self) -> str:
        """Label of the vertical axis."""
        return f"mean {self.unit}" if "return" in self.unit else f"mean return, {self.unit}"

    @property
    def over_seeds(self) -> str:
        """Description of line and band over seeds; empty if each agent has one seed and no windows."""
        plotted = [curve for curve in self.curves if len(curve.mean)]
        if not plotted:
            return ""
        seeds = [len(curve.lines) for curve in plotted if len(curve.lines) > 1]
        if not (window := plotted[0].window):
            return f"mean over seeds, {describe_band(seeds)}"
        in_windows = f"in windows of {amount(window)} {self.counts}"
        return f"mean over seeds {in_windows},\n{describe_band(seeds, WINDOW_BAND)}" if seeds else f"mean {in_windows}"


def make_curve(records: Records, row: Row | None, timed: bool = False, index: int = 0) -> Curve:
    """Prepares the curve of one agent.

    Args:
        records: records behind a row, one per seed, at least one.
        row: row with the printed number, its budget and the random score; None for a curve without them.
        timed: whether the curve is against the wall time of training instead of frames; needs `has_times`.
        index: index of the agent, for its colour.
    """
    lines = {r["seed"]: np.array(r["curve"], float).reshape(-1, 2) for r in records}
    lines = {seed: line for seed, line in lines.items() if len(line)}
    for seed in lines.keys() & {record["seed"] for record in records if "diverged" in record}:
        lines[seed] = _prolonged(lines[seed], [line for other, line in lines.items() if other != seed])
    end = max([line[-1, 0] for line in lines.values()], default=float(records[0][budget_field(records[0])]))
    if timed:
        seconds = {r["seed"]: run_measures.seconds_at(r, lines[r["seed"]][:, 0]) for r in records}
        lines = {seed: np.c_[times, lines[seed][:, 1]] for seed, times in seconds.items()}
        end = max(times[-1] for times in seconds.values())
    window = None if timed else get_window(records)
    mean, band = _windows(list(lines.values()), window) if window else mean_line(list(lines.values()))
    label = None
    if row is not None and row.published is not None:
        label = f"published {exact(row.published)}"
        if row.budget_field is not None:
            label += f" at {amount(row.published_budget)} {counted(row.budget_field)}"
    random_label = None
    if row is not None and row.random is not None:
        random_label = f"random policy {row.random:.4g} ({'printed' if row.random_is_printed else 'measured'})"
    return Curve(
        agent=records[0]["agent"],
        index=index,
        scale=records[0]["scale"],
        lines=lines,
        evaluations=[record["evaluation"]["mean"] for record in records],
        mean=mean,
        band=band,
        window=window,
        end=end,
        published=row.published if row else None,
        published_label=label,
        random=row.random if row else None,
        random_label=random_label,
    )


def make_plot(curves: Sequence[Curve], record: Mapping[str, Any], timed: bool = False) -> Plot:
    """Puts curves of one task on common axes.

    Args:
        curves: curves from `make_curve`, at least one.
        record: any record behind them, for the units.
        timed: as for `make_curve`.
    """
    counts = counted(budget_field(record))
    x_end, x_label = max(curve.end for curve in curves), f"environment {counts}"
    if timed:
        unit = next((name for name, length in TIME_UNITS.items() if x_end >= 2 * length), "seconds")
        curves = [_rescaled(curve, TIME_UNITS[unit]) for curve in curves]
        x_end, x_label = x_end / TIME_UNITS[unit], f"wall time of training, {unit}"
    found = ((curve.random, curve.random_label) for curve in curves if curve.random is not None)
    random, random_label = next(found, (None, None))
    values = [values for curve in curves for values in _drawn(curve, curves)]
    values += [np.array([random])] if random is not None else []
    low, high = (float(find(np.concatenate(values))) for find in (np.min, np.max))
    on_scale = [
        curve.published is not None
        and (high - low) >= MIN_SHARE * (max(high, curve.published) - min(low, curve.published))
        for curve in curves
    ]
    plotted = [curve.published for curve, on in zip(curves, on_scale) if on and curve.published is not None]
    low, high = min([low, *plotted]), max([high, *plotted])
    margin = 0.06 * (high - low) or 1.0
    y_range = (low - margin, high + margin)
    return Plot(curves, on_scale, random, random_label, y_range, x_end, x_label, record["evaluation"]["unit"], counts)


def has_times(records: Records) -> bool:
    """Returns whether all records have a curve and, in their log, the seconds of training."""
    return all(run_measures.holds(record, need) for record in records for need in ("curve", "series.seconds"))


def get_window(records: Records) -> int | None:
    """Returns the length of the curve's windows; None if the config has none, or a run is shorter than two windows.

    Args:
        records: runs of one config, at least one.
    """
    window = records[0]["config"].get("window_steps")
    return window if window and 2 * window <= min(record[budget_field(record)] for record in records) else None


def mean_line(lines: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the mean over seeds where all have data, and a band around it.

    Args:
        lines: one line per seed with points (frames, value), [N, 2].

    Returns:
        Points (frames, mean), [M, 2], on a common grid of M = `MAX_POINTS`; and low and high at each point, [M, 2]: the
        95 % interval of the mean, or the lowest and the highest of fewer than `statistics.MIN_BOOTSTRAP_RUNS` lines,
        whose interval would be many times as wide. M is 0 for a single line, or if the lines do not all overlap.
    """
    start = max((line[0, 0] for line in lines), default=0.0)
    end = min((line[-1, 0] for line in lines), default=0.0)
    if len(lines) < 2 or end < start:
        return np.zeros((0, 2)), np.zeros((0, 2))
    frames = np.linspace(start, end, MAX_POINTS)
    values = np.stack([np.interp(frames, line[:, 0], line[:, 1]) for line in lines])
    few = len(lines) < statistics.MIN_BOOTSTRAP_RUNS
    band = _seed_range(values) if few else statistics.pointwise_interval(values)
    return np.stack([frames, values.mean(axis=0)], axis=1), band


def describe_band(seeds: Sequence[int], of_many: str = MEAN_BAND) -> str:
    """Returns a description of the bands of several agents.

    Args:
        seeds: number of seeds of each agent.
        of_many: description of a band with `statistics.MIN_BOOTSTRAP_RUNS` seeds or more.
    """
    of_few = "lowest to highest seed"
    few = [count < statistics.MIN_BOOTSTRAP_RUNS for count in seeds]
    if any(few) and not all(few):
        of_many += f",\nof fewer than {statistics.MIN_BOOTSTRAP_RUNS} seeds {of_few}"
    return f"band: {of_few if all(few) else of_many}"


@figures.styled
def plot_curves(plot: Plot, title: str = "") -> Figure:
    """Plots the curves of one task.

    Each agent has a line, the mean over seeds, with a band. If there is a single agent, its seeds are thin lines.
    Printed numbers are dashed in the colour of their agent, the random policy's score is dotted.

    Args:
        plot: plot from `make_plot`.
        title: title above the axes.
    """
    published = [curve for curve in plot.curves if curve.published is not None]
    lines = len(plot.curves) + len(published) + (plot.random is not None) + len(plot.over_seeds.splitlines())
    figure = figures.new_figure(lines)
    axes = figure.add_subplot()
    for curve in plot.curves:
        _plot_curve(axes, curve, plot)
    for curve, on_scale in zip(plot.curves, plot.on_scale):
        _plot_published(axes, curve, plot, on_scale)
    if plot.random is not None:
        axes.axhline(plot.random, color=figures.MUTED, ls=":", lw=1.6, label=plot.random_label)
    axes.set(xlim=(0, plot.x_end), ylim=plot.y_range, xlabel=plot.x_label, ylabel=plot.y_label)
    axes.set_title(title, loc="left")
    axes.grid(axis="y")
    figures.label_amounts(axes)
    if axes.get_legend_handles_labels()[0]:
        figure.legend(loc="outside lower left", title=plot.over_seeds or None, alignment="left")
    return figure


def _plot_curve(axes: Axes, curve: Curve, plot: Plot) -> None:
    """Plots the mean over seeds with its band, or the only seed; nothing if no episode has ended."""
    seeds = f"{len(curve.lines)} seed{'s' if len(curve.lines) != 1 else ''}"
    scales = {other.scale for other in plot.curves}
    label = f"{curve.agent}, {seeds}" + (f", {curve.scale} scale" if len(scales) > 1 else "")
    style = figures.curve_style(curve.index)
    alone = _shows_seeds(curve, plot.curves)
    for seed, line in curve.lines.items():
        if alone:
            points = np.array(thin(line.tolist(), MAX_POINTS))
            name = label if not len(curve.mean) and seed == min(curve.lines) else None
            width, alpha = (0.8, 0.5) if len(curve.mean) else (1.8, 1.0)
            axes.plot(*points.T, gid=f"seed {seed}", label=name, lw=width, alpha=alpha, **style)
    if len(curve.mean):
        axes.fill_between(curve.mean[:, 0], *curve.band.T, color=style["color"], alpha=0.22, lw=0)
        axes.plot(*curve.mean.T, gid=f"mean {curve.agent}", label=label, lw=2.2, **style)


def _shows_seeds(curve: Curve, curves: Sequence[Curve]) -> bool:
    """Returns whether a figure of `curves` has a line for each seed of `curve`: if it is alone or has no mean."""
    return len(curves) == 1 or not len(curve.mean)


def _drawn(curve: Curve, curves: Sequence[Curve]) -> list[np.ndarray]:
    """Returns the values of a curve that a figure of `curves` must have room for, and its final score."""
    if _shows_seeds(curve, curves):
        return [*(line[:, 1] for line in curve.lines.values()), curve.band.ravel(), np.array(curve.evaluations)]
    return [curve.band.ravel(), curve.mean[:, 1], np.array([np.mean(curve.evaluations)])]


def _plot_published(axes: Axes, curve: Curve, plot: Plot, on_scale: bool) -> None:
    """Plots a dashed line at the printed number, or only names it in the legend if it is off the scale."""
    if curve.published is None:
        return
    label = f"{curve.published_label}" + (f" ({curve.agent})" if len(plot.curves) > 1 else "")
    style = {"color": figures.curve_style(curve.index)["color"], "ls": "--", "lw": 1.4}
    if on_scale:
        axes.axhline(curve.published, gid=f"published {curve.agent}", label=label, **style)
    else:
        arrow = "\u2191" if curve.published > plot.y_range[1] else "\u2193"
        axes.plot([], [], label=f"{arrow} {label}, off scale", **style)


def _rescaled(curve: Curve, seconds: float) -> Curve:
    """Returns the curve with wall time in units of `seconds` seconds."""
    lines = {seed: line / (seconds, 1.0) for seed, line in curve.lines.items()}
    return dataclasses.replace(curve, lines=lines, mean=curve.mean / (seconds, 1.0), end=curve.end / seconds)


def _prolonged(line: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the line of a run that diverged, continued with its last score at the later points of the others."""
    frames = np.unique([x for other in others for x in other[:, 0] if x > line[-1, 0]])
    return np.concatenate([line, np.stack([frames, np.full(len(frames), line[-1, 1])], axis=1)])


def _seed_range(values: np.ndarray) -> np.ndarray:
    """Returns the lowest and the highest of each column, from [seeds, M] to [M, 2]."""
    return np.stack([values.min(axis=0), values.max(axis=0)], axis=1)


def _windows(lines: Sequence[np.ndarray], window: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the curve of M whole windows in which all lines have points; M is 0 without lines.

    Returns:
        Middle of each window and mean over lines of their means in it, [M, 2]; and percentiles over lines, or the range
        of fewer than `statistics.MIN_BOOTSTRAP_RUNS` lines, [M, 2].
    """
    if not lines:
        return np.zeros((0, 2)), np.zeros((0, 2))
    middles, returns = [], []
    for end in np.arange(window, min(line[-1, 0] for line in lines) + 1, window):
        inside = [line[(end - window < line[:, 0]) & (line[:, 0] <= end), 1] for line in lines]
        if all(len(values) for values in inside):
            middles.append(end - window / 2)
            returns.append([values.mean() for values in inside])
    by_window = np.array(returns, float).reshape(-1, len(lines))
    mean = np.stack([np.array(middles), by_window.mean(axis=1)], axis=1)
    few = len(lines) < statistics.MIN_BOOTSTRAP_RUNS
    return mean, _seed_range(by_window.T) if few else np.percentile(by_window, PERCENTILES, axis=1).T
