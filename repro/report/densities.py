"""Densities of observed contraction rates over training, as in C-trace's Figures 12 and 13."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy
from matplotlib.figure import Figure

from repro.evidence import run_measures
from repro.report import figures

HEIGHT = 190
X_LABEL = "observed contraction rate, over all of training"
POINTS = 120  # points of one outline
KDE_REACH = 3.0  # bandwidths of the kernel by which an outline continues beyond the rates
MIN_HALF_RANGE = 0.005  # smallest half range of the axis of rates, so that rounding does not fill it
MIN_RANGE = 1e-5
"""Smallest range of rates that are not equal: the log is in single precision, and an axis shows no more."""


@dataclasses.dataclass(frozen=True)
class Densities:
    """One agent's contraction rates on a task, in data units.

    Attributes:
        outlines: seed to points (rate, density per unit of rate), [POINTS, 2].
        constants: seed to its rate, for seeds whose rates are all equal, or that logged only one.
        end: mean rate over the last tenth of the log and over seeds.
        target: mean of the logged targets over the same rows: the rate that C-trace aims for, or that of n steps if the
            agent learns from n-step returns; None if a log does not have them.
    """

    outlines: Mapping[int, np.ndarray]
    constants: Mapping[int, float]
    end: float
    target: float | None

    @property
    def ends(self) -> list[float]:
        """Rates that the axis must include."""
        ends = [*self.constants.values(), *(outline[i, 0] for outline in self.outlines.values() for i in (0, -1))]
        return ends if self.target is None else [*ends, self.target]


def has_rates(records: Sequence[Mapping[str, Any]]) -> bool:
    """Returns whether all records have observed contraction rates in their log."""
    return all(run_measures.holds(record, "series.contraction") for record in records)


def make_densities(records: Sequence[Mapping[str, Any]]) -> Densities:
    """Estimates the density of each seed's rates over all logged rows.

    Args:
        records: one record per seed, at least one, for which `has_rates` is true.
    """
    rates = {r["seed"]: _column(r, "contraction") for r in records}
    constant = {seed: np.ptp(values) < MIN_RANGE for seed, values in rates.items()}
    has_target = all(run_measures.holds(record, "series.contraction_target") for record in records)
    return Densities(
        {seed: make_outline(values) for seed, values in rates.items() if not constant[seed]},
        {seed: float(values.mean()) for seed, values in rates.items() if constant[seed]},
        _end(list(rates.values())),
        _end([_column(record, "contraction_target") for record in records]) if has_target else None,
    )


def make_outline(rates: np.ndarray) -> np.ndarray:
    """Returns a Gaussian kernel density estimate with Scott's bandwidth, [POINTS, 2] (rate, density per unit of rate).

    Args:
        rates: contraction rates in [0, 1], not all equal, [N]; the outline is within [0, 1], too.
    """
    kernel = scipy.stats.gaussian_kde(rates)
    reach = KDE_REACH * float(np.sqrt(kernel.covariance[0, 0]))
    along = np.linspace(max(rates.min() - reach, 0.0), min(rates.max() + reach, 1.0), POINTS)
    return np.stack([along, kernel(along)], axis=1)


def x_range(densities: Iterable[Densities]) -> tuple[float, float]:
    """Returns the ends of an axis of rates with room for some densities."""
    ends = [end for item in densities for end in item.ends]
    middle, half = (min(ends) + max(ends)) / 2, max(0.54 * (max(ends) - min(ends)), MIN_HALF_RANGE)
    return float(middle - half), float(middle + half)


@figures.styled
def plot_densities(by_agent: Mapping[str, tuple[int, Densities]]) -> Figure:
    """Plots the densities of the agents of one task.

    A seed is a filled outline in the colour of its agent, or an upright line if its rates are all equal; the mean of
    the logged targets is a dashed line.

    Args:
        by_agent: agent to its index, for its colour, and its densities from `make_densities`.
    """
    targets = sum(densities.target is not None for _, densities in by_agent.values())
    figure = figures.new_figure(len(by_agent) + targets, HEIGHT)
    axes = figure.add_subplot()
    for agent, (index, densities) in by_agent.items():
        style = figures.curve_style(index)
        seeds = {**densities.outlines, **densities.constants}
        for seed in sorted(seeds):
            label = agent if seed == min(seeds) else None
            if seed in densities.outlines:
                axes.fill_between(*densities.outlines[seed].T, color=style["color"], alpha=0.18, lw=0)
                axes.plot(*densities.outlines[seed].T, gid=f"seed {seed}", label=label, lw=1.2, **style)
            else:
                axes.axvline(densities.constants[seed], gid=f"seed {seed}", label=label, lw=1.8, **style)
        if densities.target is not None:
            label = f"mean target {densities.target:.4f}" + (f" ({agent})" if len(by_agent) > 1 else "")
            axes.axvline(densities.target, gid="target", label=label, color=style["color"], ls="--", lw=1.4)
    axes.set(xlim=x_range(densities for _, densities in by_agent.values()), xlabel=X_LABEL, ylabel="density")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")
    figure.legend(loc="outside lower left", alignment="left")
    return figure


def densities_title(densities: Densities, agent: str, task: str) -> str:
    """Returns a description of one agent's densities in a figure."""
    count = len(densities.outlines) + len(densities.constants)
    seeds = f"{count} seed{'s' if count > 1 else ''}"
    target = "" if densities.target is None else f", mean target {densities.target:.4f}"
    what = f"Densities of the observed contraction rates of {agent} on {task} over training, {seeds}"
    return f"{what}; mean at the end {densities.end:.4f}{target}."


def _column(record: Mapping[str, Any], name: str) -> np.ndarray:
    values = run_measures.column(record, name)
    assert values is not None, f"the record keeps no column {name!r}"
    return values


def _end(logs: Sequence[np.ndarray]) -> float:
    return float(np.mean([run_measures.start_and_end(log)[1] for log in logs]))
