"""Bands of the measures of a reference run, from the values of other seeds, and the judgement of a new run by them.

A measure lies in its band where

    |x - mean| <= max(WIDTH std sqrt(1 + 1 / n), FLOOR |mean|),

with the mean and standard deviation of n seeds, of logarithms where the values are positive and differ by more than a
factor of `LOG_RATIO`. A run is a regression where one measure lies beyond the same end of its band for `TRIES` seeds,
each of which is trained only if those before were out: hundreds of measures are looked at, and what is rare once in a
hundred measures is not so three times in the same one. `false_alarm_rate` computes how often all of that is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

TRIES = 3
"""Seeds that must agree before a run is called a regression."""

WIDTH = 5.0
"""Standard deviations from the mean to either end."""

FLOOR = 0.05
"""Least half width, as a fraction of the mean: processors round differently, and some measures hardly vary."""

LOG_RATIO = 3.0

MIN_SEEDS = 8


class Band(NamedTuple):
    """Where a measure of a new seed is expected; both ends finite."""

    low: float
    high: float

    def side(self, value: float) -> str:
        """Returns the end that a value lies beyond, `low` or `high`; `nan` for one that is not finite; or nothing."""
        if not math.isfinite(value):
            return "nan"
        return "low" if value < self.low else "high" if value > self.high else ""


def make_band(values: Sequence[float]) -> Band | None:
    """Returns the band of one measure, or None where it cannot have one, as some of its values are not finite.

    Args:
        values: of the seeds, at least two.
    """
    x = np.asarray(values, np.float64)
    if not np.isfinite(x).all():
        return None
    logarithmic = x.min() > 0 and x.max() / x.min() > LOG_RATIO
    y = np.log(x) if logarithmic else x
    half = WIDTH * y.std(ddof=1) * math.sqrt(1 + 1 / len(y))
    center = float(y.mean())
    if logarithmic:
        half = max(half, FLOOR)
        return Band(math.exp(center - half), math.exp(center + half))
    half = max(half, FLOOR * abs(center), 1e-9)
    return Band(center - half, center + half)


class Outlier(NamedTuple):
    """A measure that lies beyond an end of its band, or is not finite."""

    measure: str
    value: float
    band: Band
    side: str


def judge(measured: Mapping[str, float], bands: Mapping[str, Band]) -> list[Outlier]:
    """Returns the measures of one training that lie outside their bands, a missing one as NaN."""
    found = []
    for name, band in bands.items():
        value = measured.get(name, math.nan)
        if side := band.side(value):
            found.append(Outlier(name, value, band, side))
    return found


def confirmed(tries: Sequence[Sequence[Outlier]]) -> list[Outlier]:
    """Returns the outliers of the last seed that were out at the same end with every seed before."""
    before = [{(outlier.measure, outlier.side) for outlier in found} for found in tries[:-1]]
    return [outlier for outlier in tries[-1] if all((outlier.measure, outlier.side) in found for found in before)]


def false_alarm_rate(
    sample: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray],
    *,
    seeds: int,
    measures: int,
    trials: int,
    rng: np.random.Generator,
) -> float:
    """Returns how often at least one of many independent measures of a correct code is called a regression.

    Independence is the worst case: measures of one run that go together raise fewer alarms.

    Args:
        sample: values of the given shape from the distribution of a measure.
        seeds: n, that the bands are made from.
        measures: of the whole suite.
        trials: bands simulated; the rate of a single measure is found from these.
        rng: of the simulation.
    """
    values = sample(rng, (trials, seeds))
    news = sample(rng, (trials, TRIES))
    center, std = values.mean(axis=1), values.std(axis=1, ddof=1)
    half = WIDTH * std * math.sqrt(1 + 1 / seeds)
    high = (news > (center + half)[:, None]).all(axis=1)
    low = (news < (center - half)[:, None]).all(axis=1)
    return float(1 - (1 - (high | low).mean()) ** measures)
