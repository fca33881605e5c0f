"""The figures of C-trace's tabular study, in the paper's colours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib
import ml_collections
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D

COLOURS = ("Blues_r", "Greens_r", "Reds_r", "Purples_r")
"""Colour map of each family, from dark at n = 1 or alpha = 1 to light at the largest n or alpha = 0."""
MARKERS = ("o", "s", "^", "D")
LINES = ("--", ":", "-")
"""Line style of each family; with `MARKERS` it distinguishes the families without colours."""
NAMES = ("uncorrected, n = {n}", "importance weighted, n = 1 to {i}", "alpha-Retrace, alpha = 1 to 0")
TREE_BACKUP = "alpha-TreeBackup, alpha = 1 to 0"
CONTRACTION, BIAS, VARIANCE = 2, 3, 4
"""Columns of the rows (family, parameter, contraction rate, bias, variance)."""
AXES = {CONTRACTION: "contraction rate", BIAS: "fixed-point bias", VARIANCE: "variance"}
PANELS = ((CONTRACTION, BIAS, VARIANCE), (CONTRACTION, VARIANCE, BIAS), (VARIANCE, BIAS, CONTRACTION))
"""Quantities on the x axis and the y axis of each panel, and the one shown by the size of a point."""
SIZES = (3.0, 4.5, 6.5)
"""Marker diameters in points, for the smallest to the largest third by the quantity that is on neither axis."""
DENSE = 15
"""Largest n up to which all n-step returns are plotted in a figure of several problems; above, every fifth."""
CAPTION = """\
problem 0, no error bars: contraction rate and bias are exact, variance is one estimate from {trajectories} trajectories
shade of a point: dark to light as listed below; n = 1 is one method, uncorrected (hidden) and importance weighted
size of a point: smallest, middle or largest third of the points by what is on neither axis
axes of variance: one range, {scale}"""
LINEAR = "linear"
LOGARITHMIC = "logarithmic from {start:g} on; linear below, where only variances of 0 lie"
BANDS = "line: mean of {repetitions} repetitions\nband: one standard error\nto each side (bootstrap)"

WIDE = 30.0
"""Ratio of a figure's largest to its smallest positive variance above which its variance axes are logarithmic."""


def plot_tradeoffs(config: ml_collections.ConfigDict, points: Mapping[str, Sequence[Sequence[float]]]) -> Figure:
    """Plots contraction, bias and variance against each other; a single problem is a row of three panels.

    Several problems are columns of three panels instead. All variance axes share one scale and range, and so do the
    contraction axes; the range of biases is that of the problem.

    Args:
        config: configuration of the study.
        points: rows (family, n or alpha, contraction rate, bias, variance) by letter of the pairing.
    """
    several = len(points) > 1
    columns, rows = (len(points), len(PANELS)) if several else (len(PANELS), 1)
    figure = Figure(figsize=(1.85 * columns, 2.1 * rows + 0.8) if several else (10.5, 4.0), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex="row" if several else "none")
    titles = {
        letter: f"({letter}) target {pi},\nbehaviour {mu}".replace("dirichlet", "Dirichlet")
        for letter, pi, mu in config.problem.pairings
    }
    data = {letter: _thin(np.array(found)) if several else np.array(found) for letter, found in points.items()}
    start = _first_decade(np.concatenate([*data.values()])[:, VARIANCE])
    for i, letter in enumerate(data):
        panels = grid[:, i] if several else grid[0]
        for row, (axes, panel) in enumerate(zip(panels, PANELS)):
            if i > 0 and panel[1] == VARIANCE:
                axes.sharey(grid[row, 0])
            _plot_panel(axes, data[letter], *panel)
            axes.set_xlabel(AXES[panel[0]], fontsize=8)
            if not several or i == 0:
                axes.set_ylabel(AXES[panel[1]], fontsize=8)
            if start is not None and panel[0] == VARIANCE:
                _make_logarithmic(axes.xaxis, axes.set_xscale, start)
            if start is not None and panel[1] == VARIANCE:
                _make_logarithmic(axes.yaxis, axes.set_yscale, start)
        if several:
            panels[0].set_title(titles[letter], fontsize=8)
    steps = f"1 to {config.methods.uncorrected_n}"
    if several and config.methods.uncorrected_n > DENSE:
        steps = f"1 to {DENSE}, {DENSE + 5}, {DENSE + 10}, .. {config.methods.uncorrected_n}"
    names = [name.format(n=steps, i=config.methods.importance_n) for name in NAMES]
    names += [TREE_BACKUP] if config.methods.tree_backup else []
    handles = [_handle(family, name) for family, name in enumerate(names)]
    handles.append(Line2D([], [], marker="o", ls="", mfc="none", mec="red", ms=9, label="Retrace"))
    legend = figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8, frameon=False)
    scale = LINEAR if start is None else LOGARITHMIC.format(start=start)
    caption = CAPTION.format(trajectories=config.variance.trajectories, scale=scale)
    legend.set_title(caption, FontProperties(size=8))
    return figure


def plot_learning(panels: Sequence[Mapping[str, Any]], repetitions: int) -> Figure:
    """Plots error against experience, mean and standard error over repetitions, with a panel for each setting.

    Args:
        panels: dicts with `title`, `x_label`, `y_label`, `x` [K], `labels`, `families` (indices into `COLOURS`), and
            `mean` and `error`, both [K, M].
        repetitions: number of repetitions behind each mean.
    """
    figure = Figure(figsize=(4.4 * len(panels) + 2.2, 4.6), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels):
        families = panel["families"]
        for i, (label, family) in enumerate(zip(panel["labels"], families)):
            place, count = i - families.index(family), families.count(family)
            colour = matplotlib.colormaps[COLOURS[family]](0.1 + 0.55 * place / max(count - 1, 1))
            mean, error = panel["mean"][:, i], panel["error"][:, i]
            axes.plot(panel["x"], mean, color=colour, lw=1.2, ls=LINES[family], label=label)
            axes.fill_between(panel["x"], mean - error, mean + error, color=colour, alpha=0.25, lw=0)
        axes.set_xscale("log")
        axes.set(title=panel["title"], xlabel=panel["x_label"], ylabel=panel["y_label"], ylim=(0, None))
        _quiet(axes)
    handles, labels = axes.get_legend_handles_labels()
    legend = figure.legend(handles, labels, loc="outside right center", fontsize=8, frameon=False, handlelength=2.8)
    legend.set_title(BANDS.format(repetitions=repetitions), FontProperties(size=8))
    return figure


def _plot_panel(axes: Axes, data: np.ndarray, x: int, y: int, size: int) -> None:
    third = np.argsort(np.argsort(data[:, size], kind="stable"), kind="stable") * len(SIZES) // len(data)
    for family in np.unique(data[:, 0]).astype(int):
        in_family = data[:, 0] == family
        parameter = data[:, 1] if family >= 2 else -data[:, 1]  # dark where large
        largest = parameter[in_family].max()
        shade = (largest - parameter) / max(np.ptp(parameter[in_family]), 1.0)
        for i, diameter in enumerate(SIZES):
            rows = in_family & (third == i)
            if not rows.any():
                continue
            colours = matplotlib.colormaps[COLOURS[family]](0.05 + 0.65 * shade[rows])
            axes.scatter(
                data[rows, x],
                data[rows, y],
                s=diameter**2,
                c=colours,
                marker=MARKERS[family],
                lw=0,
                clip_on=False,
                zorder=3 - i / 9,
            )
    retrace = data[(data[:, 0] == 2) & (data[:, 1] == 1)][0]
    axes.plot(retrace[x], retrace[y], "o", mfc="none", mec="red", ms=9, mew=1, clip_on=False, zorder=4)
    _quiet(axes)


def _first_decade(variances: np.ndarray) -> float | None:
    """Returns the power of ten at or below the smallest positive variance; None if the axes should be linear."""
    positive = variances[variances > 0]
    return float(10 ** np.floor(np.log10(positive.min()))) if positive.max() > WIDE * positive.min() else None


def _make_logarithmic(axis: Axis, set_scale: Callable[..., None], start: float) -> None:
    set_scale("symlog", linthresh=start, linscale=0.5)
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    if axis.get_label_text():
        axis.set_label_text(f"{axis.get_label_text()} (log scale)")


def _thin(data: np.ndarray) -> np.ndarray:
    return data[(data[:, 0] >= 2) | (data[:, 1] <= DENSE) | (data[:, 1] % 5 == 0)]


def _handle(family: int, name: str) -> Line2D:
    colour = matplotlib.colormaps[COLOURS[family]](0.25)
    return Line2D([], [], marker=MARKERS[family], ls="", color=colour, ms=6, label=name)


def _quiet(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=7)
