"""Bands of the measures of a reference run, made from the values of other seeds, and judgement of a new run by them.

A measure is in its band if

    |x - mean| <= max(WIDTH std sqrt(1 + 1 / n), FLOOR |mean|, FRACTION_FLOOR for fractions),

with the mean and std of n seeds. If the values differ by more than a factor of `LOG_RATIO` and the name of the measure
says that it cannot be negative, the band is one of logarithms, with `FLOOR` itself as the smallest half width.

A run is a regression if one measure is beyond the same end of its band for `TRIES` seeds, each of which is trained only
if those before it were out. Among hundreds of measures, one that is out by chance is common, but the same measure is
hardly ever out five times. `tests.regression.test_bands` simulates how often these rules are wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

TRIES = 5
"""Number of seeds that must agree before a run counts as a regression."""

WIDTH = 3.0
"""Number of stds from the mean to either end."""

FLOOR = 0.02
"""Smallest half width as a fraction of the mean: processors round differently, and some measures hardly vary."""

FRACTION_FLOOR = 0.01
"""Smallest half width of a measure whose values are all in [0, 1]: many fractions are 0 for most seeds."""

LOG_RATIO = 3.0

NEVER_NEGATIVE = (
    "spread",
    "gradient_norm",
    "kl",
    "value_loss",
    "critic_loss",
    "baseline_loss",
    "td_loss",
    "evaluation",
    "return",
)
"""Words in the names of measures of which logarithms may be taken; a return of 0 or less prevents it."""

MIN_SEEDS = 8


class Band(NamedTuple):
    """Range in which a measure of a new seed is expected."""

    low: float
    high: float

    def side(self, value: float) -> str:
        """Returns the end that a value is beyond, `low` or `high`; `nan` if it is not finite; empty if it is inside."""
        if not math.isfinite(value):
            return "nan"
        return "low" if value < self.low else "high" if value > self.high else ""


def make_band(name: str, values: Sequence[float]) -> Band:
    """Returns the band of one measure.

    Args:
        name: name of the measure.
        values: finite values of at least two seeds.

    Raises:
        ValueError: a value is not finite.
    """
    x = np.asarray(values, np.float64)
    if not np.isfinite(x).all():
        raise ValueError(f"A band needs finite values, got {values}.")
    low, high = band_ends(x, any(word in name.replace(",", "").split() for word in NEVER_NEGATIVE))
    return Band(float(low), float(high))


def band_ends(values: np.ndarray, never_negative: bool) -> tuple[np.ndarray, np.ndarray]:
    """Returns the low and the high ends of the bands of measures, each [...].

    Args:
        values: finite values of n seeds, [..., n].
        never_negative: whether logarithms may be taken of them.
    """
    lowest, highest = values.min(axis=-1), values.max(axis=-1)
    logarithmic = never_negative & (lowest > 0) & (highest > LOG_RATIO * lowest)
    scaled = np.where(logarithmic[..., None], np.log(np.maximum(values, 1e-300)), values)
    center = scaled.mean(axis=-1)
    half = WIDTH * scaled.std(axis=-1, ddof=1) * math.sqrt(1 + 1 / values.shape[-1])
    is_fraction = (lowest >= 0) & (highest <= 1)
    floor = np.where(is_fraction, np.maximum(FLOOR * np.abs(center), FRACTION_FLOOR), FLOOR * np.abs(center))
    half = np.maximum(half, np.where(logarithmic, FLOOR, np.maximum(floor, 1e-9)))
    low, high = center - half, center + half
    with np.errstate(over="ignore"):
        return np.where(logarithmic, np.exp(low), low), np.where(logarithmic, np.exp(high), high)


class Outlier(NamedTuple):
    """Measure that is beyond an end of its band or not finite; `side` is as `Band.side` returns it."""

    measure: str
    value: float
    band: Band
    side: str


def judge(measured: Mapping[str, float], bands: Mapping[str, Band]) -> list[Outlier]:
    """Returns the measures of one training that are outside their bands.

    Args:
        measured: value of each measure by name, including all in `bands`.
        bands: bands by the name of the measure.
    """
    return [
        Outlier(name, measured[name], band, side) for name, band in bands.items() if (side := band.side(measured[name]))
    ]


def confirmed(tries: Sequence[Sequence[Outlier]]) -> list[Outlier]:
    """Returns the outliers of the last seed that were beyond the same end with every seed before it."""
    before = [{(outlier.measure, outlier.side) for outlier in found} for found in tries[:-1]]
    return [outlier for outlier in tries[-1] if all((outlier.measure, outlier.side) in found for found in before)]
