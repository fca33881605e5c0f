"""The figures of C-trace's tabular study, in the paper's colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import ml_collections
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D

COLOURS = ("Blues_r", "Greens_r", "Reds_r", "Purples_r")
"""One colour map a family, dark to light: n = 1 to its last, alpha = 1 to 0."""
NAMES = ("uncorrected, n = {n} (dark to light)", "importance weighted, n = 1 to {i}", "alpha-Retrace, alpha = 1 to 0")
TREE_BACKUP = "alpha-TreeBackup, alpha = 1 to 0"
CONTRACTION, BIAS, VARIANCE = 2, 3, 4
"""Columns of the rows (family, parameter, contraction rate, bias, variance)."""
AXES = {CONTRACTION: "contraction rate", BIAS: "fixed-point bias", VARIANCE: "variance"}
PANELS = ((CONTRACTION, BIAS, VARIANCE), (CONTRACTION, VARIANCE, BIAS), (VARIANCE, BIAS, CONTRACTION))
"""x, y, and what the size of a point shows."""
SIZES = (3.0, 4.5, 6.5)
"""Diameters in points, smallest to largest third of the points by the quantity that is on neither axis."""
DENSE = 15
"""Where several problems share a figure, of n-step returns with more steps only every fifth is plotted."""
CAPTION = "problem 0; size of a point: smallest, middle or largest third of the points by what is on neither axis"

WIDE = 30.0
"""Variances that differ by more than this factor get a logarithmic axis.

It is linear up to the power of ten above the smallest positive one.
"""


def plot_tradeoffs(config: ml_collections.ConfigDict, points: Mapping[str, Sequence[Sequence[float]]]) -> Figure:
    """Contraction, bias and variance against each other, one row of three panels for a problem.

    Several problems are columns instead, a panel pair below each other.

    Args:
        config: of the study.
        points: rows (family, n or alpha, contraction rate, bias, variance) by letter of the pairing.
    """
    several = len(points) > 1
    columns, rows = (len(points), len(PANELS)) if several else (len(PANELS), 1)
    figure = Figure(figsize=(2.15 * columns, 2.2 * rows + 0.5) if several else (10.5, 3.7), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    pairings = {letter: f"({letter}) target {pi},\nbehaviour {mu}" for letter, pi, mu in config.problem.pairings}
    for i, (letter, data) in enumerate(points.items()):
        panels = grid[:, i] if several else grid[0]
        for axes, panel in zip(panels, PANELS):
            _plot_panel(axes, _thin(np.array(data)) if several else np.array(data), *panel)
            if not several or i == 0:
                axes.set_ylabel(AXES[panel[1]], fontsize=8)
            axes.set_xlabel(AXES[panel[0]], fontsize=8)
        if several:
            panels[0].set_title(pairings[letter], fontsize=8)
    steps = f"1 to {config.methods.uncorrected_n}"
    if several and config.methods.uncorrected_n > DENSE:
        steps = f"1 to {DENSE}, {DENSE + 5}, {DENSE + 10}, .. {config.methods.uncorrected_n}"
    names = [name.format(n=steps, i=config.methods.importance_n) for name in NAMES]
    names += [TREE_BACKUP] if config.methods.tree_backup else []
    handles = [_handle(family, name) for family, name in enumerate(names)]
    handles.append(Line2D([], [], marker="o", ls="", mfc="none", mec="red", ms=9, label="Retrace"))
    legend = figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8, frameon=False)
    legend.set_title(CAPTION, FontProperties(size=8))
    return figure


def plot_learning(panels: Sequence[Mapping[str, Any]]) -> Figure:
    """Error against experience, mean and standard error over repetitions, one panel for each setting.

    Args:
        panels: each with `title`, `x_label`, `y_label`, `x` [K], `labels`, `families` (numbers into `COLOURS`),
            and `mean` and `error`, both [K, M].
    """
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels)), panels):
        families = panel["families"]
        for i, (label, family) in enumerate(zip(panel["labels"], families)):
            place, count = i - families.index(family), families.count(family)
            colour = matplotlib.colormaps[COLOURS[family]](0.1 + 0.55 * place / max(count - 1, 1))
            mean, error = panel["mean"][:, i], panel["error"][:, i]
            axes.plot(panel["x"], mean, color=colour, lw=1.2, label=label)
            axes.fill_between(panel["x"], mean - error, mean + error, color=colour, alpha=0.25, lw=0)
        axes.set_xscale("log")
        axes.set(title=panel["title"], xlabel=panel["x_label"], ylabel=panel["y_label"], ylim=(0, None))
        _quiet(axes)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize=8, frameon=False)
    return figure


def _plot_panel(axes: Axes, data: np.ndarray, x: int, y: int, size: int) -> None:
    third = np.argsort(np.argsort(data[:, size], kind="stable"), kind="stable") * len(SIZES) // len(data)
    colours = np.empty((len(data), 4))
    for family in np.unique(data[:, 0]).astype(int):
        rows = data[:, 0] == family
        parameter = data[rows, 1] if family >= 2 else -data[rows, 1]  # dark where large
        shade = (parameter.max() - parameter) / max(np.ptp(parameter), 1.0)
        colours[rows] = matplotlib.colormaps[COLOURS[family]](0.05 + 0.65 * shade)
    for i, diameter in enumerate(SIZES):
        rows = third == i
        axes.scatter(
            data[rows, x], data[rows, y], s=diameter**2, c=colours[rows], lw=0, clip_on=False, zorder=3 - i / 9
        )
    retrace = data[(data[:, 0] == 2) & (data[:, 1] == 1)][0]
    axes.plot(retrace[x], retrace[y], "o", mfc="none", mec="red", ms=9, mew=1, clip_on=False, zorder=4)
    if VARIANCE in (x, y):
        positive = data[data[:, VARIANCE] > 0, VARIANCE]
        if positive.max() > WIDE * positive.min():
            scale = axes.set_xscale if x == VARIANCE else axes.set_yscale
            scale("symlog", linthresh=10 ** np.ceil(np.log10(positive.min())))
    _quiet(axes)


def _thin(data: np.ndarray) -> np.ndarray:
    return data[(data[:, 0] >= 2) | (data[:, 1] <= DENSE) | (data[:, 1] % 5 == 0)]


def _handle(family: int, name: str) -> Line2D:
    return Line2D([], [], marker="o", ls="", color=matplotlib.colormaps[COLOURS[family]](0.25), ms=6, label=name)


def _quiet(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=7)
