"""Metaparameters of self-tuning agents over training, as in STAC's Figure 5."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from repro.evidence import run_measures
from repro.evidence.records import budget_field, counted, thin
from repro.report import curves, figures

HEIGHT = 100
"""Height of a row of panels, in points."""
COLUMNS = 2
LEGEND_COLUMNS = 4
MIN_RANGE = 0.01  # smallest range of an axis of values, so that rounding does not fill it


@dataclasses.dataclass(frozen=True)
class Head:
    """One metaparameter of one head over training, in data units.

    Attributes:
        lines: seed to logged points (frames or steps, value after the sigmoid), [N, 2].
        mean, band: mean and band over seeds, [M, 2], as in `curves.Curve`; empty with one seed.
    """

    lines: Mapping[int, np.ndarray]
    mean: np.ndarray
    band: np.ndarray

    @property
    def end(self) -> float:
        """Mean over the last tenth of the log and over seeds."""
        return float(np.mean([run_measures.start_and_end(line[:, 1])[1] for line in self.lines.values()]))

    @property
    def shown(self) -> np.ndarray:
        """Line over seeds, or that of the only seed, [P, 2]."""
        (first, *_) = self.lines.values()
        return self.mean if len(self.mean) else np.array(thin(first.tolist(), curves.MAX_POINTS))


def make_images(place: str, task: str, records: curves.Records) -> list[figures.Image]:
    """Returns the figure of one agent's metaparameters; empty if not all records have them.

    Args:
        place: id of the agent's place in the page.
        task: name of the task.
        records: one record per seed, at least one.
    """
    heads = make_heads(records)
    if not heads:
        return []
    svg = figures.svg_text(plot_metaparameters(heads, records[0]))
    return [figures.Image(f"{place}-metaparameters", _alt(heads, records[0]["agent"], task), svg, "metaparameters")]


def make_heads(records: curves.Records) -> dict[str, list[Head]]:
    """Returns the heads of each tuned metaparameter that all records have in their log, in the config's order.

    Args:
        records: one record per seed, at least one.
    """
    return {name: [_make_head(records, column) for column in columns] for name, columns in _columns(records).items()}


@figures.styled
def plot_metaparameters(by_name: Mapping[str, Sequence[Head]], record: Mapping[str, Any]) -> Figure:
    """Plots one agent's metaparameters, each in a panel of its own over the same frames or steps.

    A head is a line: the mean over seeds with a band from `curves.mean_line`, or the only seed.

    Args:
        by_name: heads from `make_heads`.
        record: any record behind them, for the agent and the unit of its budget.
    """
    first, *_ = by_name.values()
    title = _legend_title(record["agent"], first[0])
    columns = min(COLUMNS, len(by_name))
    rows, legend_rows = -(-len(by_name) // columns), -(-len(first) // LEGEND_COLUMNS)
    figure = figures.new_figure(len(title.splitlines()) + legend_rows, HEIGHT * rows + figures.LEGEND_LINE)
    panels = figure.subplots(rows, columns, sharex=True, squeeze=False).ravel()
    for axes, (name, heads) in zip(panels, by_name.items()):
        _plot_panel(axes, name, heads)
    for axes in panels[len(by_name) :]:
        axes.remove()
    for axes in panels[len(by_name) - columns : len(by_name)]:  # the lowest of each column
        axes.tick_params(labelbottom=True)
        axes.set_xlabel(f"environment {counted(budget_field(record))}")
    panels[0].set_xlim(0, max(line[-1, 0] for head in first for line in head.lines.values()))
    panels[0].locator_params(axis="x", nbins=4)
    figures.label_amounts(panels[0])
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside lower left",
        title=title,
        alignment="left",
        ncols=LEGEND_COLUMNS,
    )
    return figure


def _columns(records: curves.Records) -> dict[str, list[str]]:
    """Returns the columns of the log by metaparameter, one for each head, such as `gamma_1`, `gamma_2` of gamma."""
    found = {}
    for name in records[0]["config"].get("meta", {}).get("tuned", ()):
        of_heads = (f"{name}_{i}" for i in itertools.count(1))
        columns = itertools.takewhile(
            lambda column: all(run_measures.holds(record, f"series.{column}") for record in records), of_heads
        )
        found[name] = list(columns)
    return {name: columns for name, columns in found.items() if columns}


def _make_head(records: curves.Records, name: str) -> Head:
    lines = {}
    for record in records:
        used, values = run_measures.column(record, budget_field(record)), run_measures.column(record, name)
        assert used is not None, "the record keeps no column of its budget"
        assert values is not None, f"the record keeps no column {name!r}"
        lines[record["seed"]] = np.stack([used, values], axis=1)
    return Head(lines, *curves.mean_line(list(lines.values())))


def _plot_panel(axes: Axes, name: str, heads: Sequence[Head]) -> None:
    for i, head in enumerate(heads):
        style = figures.curve_style(i)
        if len(head.mean):
            axes.fill_between(head.mean[:, 0], *head.band.T, color=style["color"], alpha=0.22, lw=0)
        axes.plot(*head.shown.T, gid=f"{name} {i + 1}", label=f"head {i + 1}", lw=1.4, **style)
    values = np.concatenate([x for head in heads for x in (head.shown[:, 1], head.band.ravel())])
    low, high = values.min(), values.max()
    half = max(0.54 * (high - low), MIN_RANGE / 2)
    axes.set_ylim((low + high) / 2 - half, (low + high) / 2 + half)
    axes.locator_params(axis="y", nbins=4)
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.set_title(name, loc="left")
    axes.grid(axis="y")


def _alt(by_name: Mapping[str, Sequence[Head]], agent: str, task: str) -> str:
    """Returns a description of the figure."""
    first, *_ = by_name.values()
    ends = "; ".join(f"{name} {', '.join(f'{head.end:.3f}' for head in heads)}" for name, heads in by_name.items())
    order = f", of heads 1 to {len(first)}" if len(first) > 1 else ""
    return f"Metaparameters of {agent} on {task} over training, {_seeds(first[0])}. At the end{order}: {ends}."


def _legend_title(agent: str, head: Head) -> str:
    """Returns agent and seeds, and a description of line and band if there are several seeds."""
    over_seeds = f"\nmean over seeds, {curves.describe_band([len(head.lines)])}" if len(head.mean) else ""
    return f"{agent}, {_seeds(head)}{over_seeds}"


def _seeds(head: Head) -> str:
    return f"{len(head.lines)} seed{'s' if len(head.lines) > 1 else ''}"
