"""Figure of a population: who adopted whose weights, fitness, and hyper-parameters over training (Figure E.1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from repro.files import write_whole
from repro.launch.lineage import Lineage
from repro.report import figures

FIGURE = "lineage.svg"
PANEL_HEIGHT = 110
"""Height of one panel, in points."""
MEMBER_HEIGHT = 9
"""Height of a member's line in the panel of the lineage, in points."""


def write_figure(path: Path, lineage: Lineage, unit: str) -> Path:
    """Writes `lineage.svg` into the folder of a population and returns its path.

    Args:
        path: folder of the population.
        lineage: lineage with at least one comparison.
        unit: unit of the budget, frames or steps.

    Raises:
        OSError: the file cannot be written.
    """
    write_whole(path / FIGURE, figures.svg_text(plot_lineage(lineage, unit)))
    return path / FIGURE


def descent(lineage: Lineage, member: int) -> list[int]:
    """Returns which member had the ancestors of a member's weights in each piece of training, from the first on."""
    members: list[int] = []
    for comparison in reversed(lineage.rounds):
        parent = comparison[member].parent if members else None  # weights adopted after the last piece are not trained
        member = member if parent is None else parent
        members.append(member)
    return members[::-1]


@figures.styled
def plot_lineage(lineage: Lineage, unit: str) -> Figure:
    """Plots a population over the frames or steps of each member.

    The first panel has a line for each member and an arrow from parent to child at each adoption; the other panels have
    the fitness and hyper-parameters of each member. The line of descent of the best member, or of the first one if none
    has a fitness, is in colour.

    Args:
        lineage: lineage with at least one comparison.
        unit: unit of the budget, frames or steps.
    """
    names = list(lineage.first[0])
    heights = [PANEL_HEIGHT + MEMBER_HEIGHT * len(lineage.first)] + [PANEL_HEIGHT] * (1 + len(names))
    figure = figures.new_figure(height=sum(heights))
    panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    has_fitness = any(member.fitness is not None for member in lineage.rounds[-1])
    best = descent(lineage, lineage.best if has_fitness else 0)
    _plot_members(panels[0], lineage, best)
    _plot_values(panels[1], "fitness", lineage, best)
    for axes, name in zip(panels[2:], names, strict=True):
        _plot_values(axes, name, lineage, best)
        axes.set_yscale("log")
    panels[-1].set_xlim(0, lineage.boundaries[-1])
    panels[-1].set_xlabel(f"environment {unit} of each member")
    panels[-1].locator_params(axis="x", nbins=4)
    figures.label_amounts(panels[-1])
    return figure


def _plot_members(axes: Axes, lineage: Lineage, best: Sequence[int]) -> None:
    """Plots a line for each member, arrows from parents to children, and the line of descent."""
    ends = lineage.boundaries[: len(lineage.rounds)]
    starts = [0, *ends[:-1]]
    size = len(lineage.first)
    axes.hlines(range(size), 0, ends[-1], color=figures.GRID, lw=0.8)
    axes.hlines(best, starts, ends, color=figures.COLORS[0], lw=1.8)
    for frames, comparison, heir in zip(ends, lineage.rounds, [*best[1:], None], strict=True):
        for child, member in enumerate(comparison):
            if member.parent is not None:
                color = figures.COLORS[0] if child == heir else figures.MUTED
                arrow = {"arrowstyle": "->", "color": color, "lw": 0.8, "shrinkA": 0, "shrinkB": 0}
                axes.annotate("", (frames, child), (frames, member.parent), arrowprops=arrow)
    axes.set_ylim(size - 0.5, -0.5)
    axes.set_yticks(range(0, size, 1 + size // 12))
    axes.set_title("member, and whose weights it adopts", loc="left")


def _plot_values(axes: Axes, name: str, lineage: Lineage, best: Sequence[int]) -> None:
    """Plots fitness or a hyper-parameter of each member up to each comparison, and along the line of descent."""
    values = np.array(
        [[m.fitness if name == "fitness" else m.hparams[name] for m in comparison] for comparison in lineage.rounds],
        float,
    )  # [R, N], NaN for None
    ends = lineage.boundaries[: len(values)]
    x = np.repeat([0, *ends], 2)[1:-1]  # both ends of each piece
    for i, of_member in enumerate(values.T):
        axes.plot(x, np.repeat(of_member, 2), gid=f"{name} {i}", color=figures.MUTED, lw=0.6, alpha=0.6)
    descended = values[range(len(values)), list(best)]
    axes.plot(x, np.repeat(descended, 2), gid=f"{name} descent", color=figures.COLORS[0], lw=1.8)
    axes.set_title(name, loc="left")
    axes.grid(axis="y")
