"""Densities of observed contraction rates over training, as in C-trace's Figures 12 and 13: inline SVG for the page."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.stats
from markupsafe import Markup

from repro.evidence import run_measures
from repro.report import svg

WIDTH, HEIGHT = 480, 210
LEFT, RIGHT, TOP, BOTTOM = 54, 20, 22, 40
POINTS = 120  # of one outline
REACH = 3.0  # bandwidths of the kernel that an outline goes on for beyond the rates
LEAST_HALF = 0.005  # of the axis of rates, so that no rounding fills it
SMALLEST_RANGE = 1e-5
"""Rates that differ by less are equal: the log is in single precision, and an axis shows no more."""


@dataclasses.dataclass(frozen=True)
class Densities:
    """What a drawing of contraction rates shows, in data units.

    Attributes:
        outlines: seed to [POINTS, 2] (rate, density per unit of rate).
        constants: seed to its rate, for seeds whose rates are all equal, or that logged one only.
        end: mean rate over the last tenth of the log and over seeds.
        target: the same of the rate that C-trace aims for; None where a log does not say it.
    """

    outlines: Mapping[int, np.ndarray]
    constants: Mapping[int, float]
    end: float
    target: float | None

    @property
    def x_range(self) -> tuple[float, float]:
        """Ends of the axis of rates."""
        ends = [*self.constants.values(), *(outline[i, 0] for outline in self.outlines.values() for i in (0, -1))]
        if self.target is not None:
            ends.append(self.target)
        middle, half = (min(ends) + max(ends)) / 2, max(0.54 * (max(ends) - min(ends)), LEAST_HALF)
        return float(middle - half), float(middle + half)

    @property
    def highest(self) -> float:
        """The largest density; 1 without any."""
        return max((float(outline[:, 1].max()) for outline in self.outlines.values()), default=1.0)


def has_rates(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all records keep the observed contraction rates of their log."""
    return all(run_measures.holds(record, "series.contraction") for record in records)


def make_densities(records: Sequence[Mapping[str, Any]]) -> Densities:
    """Estimates the density of each seed's rates, all logged rows together.

    Args:
        records: one a seed, at least one; `has_rates` holds for them.
    """
    rates = {r["seed"]: _column(r, "contraction") for r in records}
    constant = {seed: np.ptp(of) < SMALLEST_RANGE for seed, of in rates.items()}
    said = all(run_measures.holds(record, "series.contraction_target") for record in records)
    return Densities(
        {seed: outline_of(of) for seed, of in rates.items() if not constant[seed]},
        {seed: float(of.mean()) for seed, of in rates.items() if constant[seed]},
        _end(list(rates.values())),
        _end([_column(record, "contraction_target") for record in records]) if said else None,
    )


def outline_of(rates: np.ndarray) -> np.ndarray:
    """Returns a Gaussian kernel density estimate with Scott's bandwidth, [POINTS, 2] (rate, density per unit of rate).

    Args:
        rates: [N], not all equal; contraction rates in [0, 1], and so is the outline.
    """
    kernel = scipy.stats.gaussian_kde(rates)
    reach = REACH * float(np.sqrt(kernel.covariance[0, 0]))
    along = np.linspace(max(rates.min() - reach, 0.0), min(rates.max() + reach, 1.0), POINTS)
    return np.stack([along, kernel(along)], axis=1)


def density_svg(densities: Densities, title: str) -> Markup:
    """Returns the densities as an `<svg>` element that takes its colours from the page's CSS.

    A seed is a filled outline, or an upright line where its rates are all equal; the target is a dashed line.

    Args:
        densities: from `make_densities`.
        title: what it shows, read out by screen readers.
    """
    low, high = densities.x_range
    right, foot = WIDTH - RIGHT, HEIGHT - BOTTOM

    def x(rate: float) -> float:
        return LEFT + (right - LEFT) * (rate - low) / (high - low)

    def y(density: float) -> float:
        return foot - (foot - TOP) * density / densities.highest

    parts = [svg.text(4, 12, "density", "start")]
    if densities.outlines:
        for value in svg.ticks(0.0, densities.highest, 5):
            parts.append(svg.line(LEFT, y(value), right, y(value), "grid"))
            parts.append(svg.text(LEFT - 6, y(value) + 4, f"{value:g}", "end"))
    parts += [svg.text(x(tick), foot + 18, f"{tick:g}") for tick in svg.ticks(low, high)]
    parts.append(svg.text((LEFT + right) / 2, HEIGHT - 4, "observed contraction rate, over all of training"))
    for seed, outline in densities.outlines.items():
        corners = [(outline[0, 0], 0.0), *outline, (outline[-1, 0], 0.0)]
        parts.append(svg.polygon([(x(rate), y(density)) for rate, density in corners], "density", f"seed {seed}"))
    for seed, rate in densities.constants.items():
        parts.append(svg.polyline([(x(rate), foot), (x(rate), TOP)], "seed", f"seed {seed}, always {rate:.4f}"))
    parts.append(svg.line(LEFT, foot, right, foot, "axis"))
    if densities.target is not None:
        parts.append(svg.line(x(densities.target), foot, x(densities.target), TOP, "target"))
        parts.append(svg.text(right - 4, 12, f"mean target of C-trace {densities.target:.4f}", "end", "label"))
    return svg.chart(WIDTH, HEIGHT, title, parts)


def title_of(densities: Densities, agent: str, task: str) -> str:
    """Returns in words what the drawing shows."""
    count = len(densities.outlines) + len(densities.constants)
    seeds = f"{count} seed{'s' if count > 1 else ''}"
    target = "" if densities.target is None else f", mean target of C-trace {densities.target:.4f}"
    what = f"Densities of the observed contraction rates of {agent} on {task} over training, {seeds}"
    return f"{what}; mean at the end {densities.end:.4f}{target}."


def _column(record: Mapping[str, Any], name: str) -> np.ndarray:
    values = run_measures.column(record, name)
    assert values is not None, f"the record keeps no column {name!r}"
    return values


def _end(logs: Sequence[np.ndarray]) -> float:
    return float(np.mean([run_measures.start_and_end(log)[1] for log in logs]))
