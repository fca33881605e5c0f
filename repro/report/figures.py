"""Style and files of the report's figures: matplotlib without pyplot, reproducible bytes, light and dark mode."""

import dataclasses
import io
import os
import re
from collections.abc import Callable
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from repro.report.tables import amount

WIDTH, HEIGHT = 360, 240
"""Size of a figure without its legend, in points; the page scales it to its column."""
POINTS_PER_INCH = 72
PNG_DPI = 220
LEGEND_LINE = 15
"""Height of a line of the legend below the axes, in points."""
INK, GRID, MUTED = "#2b2b2a", "#dbdad2", "#7b7a74"
DARK = {INK: "#d9d8d0", GRID: "#3b3b38", MUTED: "#8f8e88"}
"""Colours of text, grid and reference lines to those that a browser shows in dark mode."""
COLORS = ("#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc", "#ca9161", "#56b4e9")
"""Colours of agents, distinguishable with any colour vision, on a light and on a dark page."""
STYLE: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "figure.facecolor": "none",
    "font.size": 10,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "hatch.linewidth": 0.8,
    "legend.fontsize": "small",
    "legend.frameon": False,
    "legend.title_fontsize": "small",
    "path.simplify": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "repro",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclasses.dataclass(frozen=True)
class Image:
    """Figure of the page.

    Attributes:
        name: file name without `.svg`, unique on the page.
        alt: description for readers who do not see it.
        svg: text of the file.
        kind: CSS class of the image.
        title: heading on the page, for a figure that has one of its own.
    """

    name: str
    alt: str
    svg: str
    kind: str = ""
    title: str = ""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in units of the `viewBox`, rounded."""
        box = re.search(r'viewBox="[\d.-]+ [\d.-]+ ([\d.]+) ([\d.]+)"', self.svg)
        assert box is not None, f"{self.name} has no viewBox"
        return round(float(box[1])), round(float(box[2]))


def styled(plot: Callable[..., Figure]) -> Callable[..., Figure]:
    """Decorates a plotting function to use the style of the report."""
    return matplotlib.rc_context(STYLE)(plot)


def new_figure(legend_lines: int = 0, height: float = HEIGHT, width: float = WIDTH) -> Figure:
    """Returns an empty figure, made without pyplot, so that only its caller holds a reference to it.

    Args:
        legend_lines: lines of text below the axes, for which the figure is made taller.
        height, width: size without these lines, in points.
    """
    size = width / POINTS_PER_INCH, (height + LEGEND_LINE * legend_lines) / POINTS_PER_INCH
    return Figure(figsize=size, layout="constrained")


def curve_style(index: int) -> dict[str, Any]:
    """Returns color and line style of the agent with this index (`cards.agent_indices`)."""
    return {"color": COLORS[index % len(COLORS)], "linestyle": "-" if index < len(COLORS) else "-."}


def label_amounts(axes: Axes) -> None:
    """Formats the ticks of the x axis as 200k or 1.5M if it reaches 1000 or more."""
    if axes.get_xlim()[1] >= 1000:
        axes.xaxis.set_major_formatter(lambda value, _: amount(int(value)))


def svg_text(figure: Figure) -> str:
    """Returns a figure as SVG whose text, grid and reference lines follow the light or dark mode of the browser.

    Coordinates have two decimals. The text has no date and no version, so that it is the same each time.
    """
    buffer = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = re.sub(r"<!--.*?-->|<!DOCTYPE[^>]*>\s*", "", buffer.getvalue(), flags=re.DOTALL)
    text = re.sub(r'(?<=[ \n](?:d|x|y))="[^"]*"|transform="[^"]*"', _hundredths, text)
    for i, color in enumerate(DARK):
        text = text.replace(color, f"var(--c{i},{color})")
    dark = "".join(f"--c{i}:{color};" for i, color in enumerate(DARK.values()))
    style = '<style type="text/css">'
    return text.replace(style, f"{style}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}", 1)


def save_png(figure: Figure, path_png: str | os.PathLike[str]) -> None:
    """Writes a figure on white as a PNG, the same bytes each time.

    Args:
        figure: any figure of the report.
        path_png: file to write.

    Raises:
        OSError: the file cannot be written.
    """
    with matplotlib.rc_context(STYLE):
        figure.savefig(path_png, format="png", dpi=PNG_DPI, facecolor="white", metadata={"Software": None})


def _hundredths(found: re.Match[str]) -> str:
    return re.sub(r"(\.\d\d)\d+", r"\1", found[0])
