"""Bands: the range in which one further run of an experiment is expected, computed from recorded runs.

A band is the prediction interval of one further run,

    mean -+ t s sqrt(1 + 1/n),

with Student's quantile t. The spread s is the std of the n runs themselves if there are enough of them, and otherwise
that of their family, which is the related groups of runs. Scores for which more is better count as
log(score - random), where `random` is the score of a random player, if every run surpasses it: runs differ by factors
rather than by points, and a score below the random level is then below any band. Such a band reaches at least
`MIN_LOG_REACH` from the mean, because runs that all have a task's highest score do not show how much a run loses that
misses it in some episodes. If the runs are far above random play, a band begins above the interval of the random
player's score, however wide it would be. Bands are computed from the records each time and are not stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from repro.evidence import published

MIN_RUNS = 5
"""Fewest runs of a group whose runs are each judged by the spread of the others."""
MIN_DOF = MIN_RUNS - 2
"""Fewest degrees of freedom of a spread: those of the other runs of a group of `MIN_RUNS`."""
FALSE_ALARM_RATE = 0.0025
"""Chance that at least one of all runs judged together is out of its band although all are sound and normal.

The more runs share it, the wider are their bands. `tests.evidence.test_false_alarms` measures that it stays under 1 %
for other distributions."""
MIN_GAP = 8.0
"""Fewest stds of a group's own runs between their mean and random play for a run at random level to fall out."""
MIN_LOG_REACH = 0.05
"""Smallest distance from a band's end to the mean of log(score - random): 5 % of the distance to a random player."""
ROUNDING = 1e-9
"""Relative tolerance, since a run may differ from equal ones by rounding."""


class BandError(Exception):
    """A band cannot be made; the message is one sentence that says what is missing."""


@dataclasses.dataclass(frozen=True)
class Spread:
    """Spread of runs of one kind.

    Attributes:
        std: standard deviation, with the leading axes of the groups given to `spread_of`.
        dof: degrees of freedom of `std`.
    """

    std: np.ndarray
    dof: np.ndarray


@dataclasses.dataclass(frozen=True)
class Band:
    """Range in which one further run is expected.

    Attributes:
        scale: scale of the runs.
        unit: unit of the values.
        better: which side is a regression: with `more` or `above` a number below `low`, with `less` or `under` a number
            above `high`, with `equal` both.
        low, high: ends of the band; None on a side that is never a regression.
        floor: number up to which a run is out of the band as well, because a random player may have it; None if the
            runs are not far above random play.
        seeds, values: seeds and scores of the runs that the band was made from.
        spread: `own` if the spread is that of these runs, `pooled` if it is that of their family.
        false_alarm_rate: chance that one sound run is out of the band.
        method: description of how the ends follow from the values.
    """

    scale: str
    unit: str
    better: published.Better
    low: float | None
    high: float | None
    floor: float | None
    seeds: Sequence[int]
    values: Sequence[float]
    spread: str
    false_alarm_rate: float
    method: str

    def holds(self, value: float) -> bool:
        """Returns whether a run's number is in the band or on a side that is never a regression."""
        below = self.low is not None and value < self.low - ROUNDING * abs(self.low)
        above = self.high is not None and value > self.high + ROUNDING * abs(self.high)
        return not (below or above or self.is_random(value))

    def is_random(self, value: float) -> bool:
        """Returns whether a run's number is at random level, far below the runs of the band."""
        return self.floor is not None and value <= self.floor


def spread_of(groups: Sequence[np.ndarray]) -> Spread:
    """Returns the spread of a family: the largest std of its groups.

    Groups of one family differ in their spread, so the average of all is too narrow for the widest. The degrees of
    freedom are Satterthwaite's for a sum of variances, (sum d s^2)^2 / sum d s^4: d = n - 1 for a single group, and few
    if one group dominates the sum.

    Args:
        groups: scores of each group, [..., n], with n of two or more. Leading axes, if any, are equal and are kept.

    Raises:
        BandError: there is no group.
    """
    if not groups:
        raise BandError("A spread needs two runs of one kind.")
    dofs = np.array([group.shape[-1] - 1.0 for group in groups])
    variances = np.stack([group.var(axis=-1, ddof=1) for group in groups], axis=-1)
    squares = (dofs * variances**2).sum(axis=-1)
    positive = squares > 0
    dof = np.where(positive, (dofs * variances).sum(axis=-1) ** 2 / np.where(positive, squares, 1.0), dofs.sum())
    return Spread(np.sqrt(variances.max(axis=-1)), dof)


def reach(spread: Spread, count: int, rate: float, min_reach: float = 0.0) -> np.ndarray:
    """Returns how far one further run may lie from the mean of `count` runs, on one side.

    Args:
        spread: spread of the runs.
        count: number of runs.
        rate: chance that a sound run lies further away.
        min_reach: lower limit of the result.
    """
    return np.maximum(-special.stdtrit(spread.dof, rate) * spread.std * np.sqrt(1 + 1 / count), min_reach)


def dof_of(groups: Sequence[np.ndarray]) -> int:
    """Returns the number of runs beyond the first of each group."""
    return sum(group.shape[-1] - 1 for group in groups)


def on_band_scale(values: np.ndarray, level: float | None) -> np.ndarray:
    """Returns scores as bands compare them: log(score - level), or unchanged without a level.

    Args:
        values: scores of any shape; those at or below the level become -inf.
        level: score of a random player, or None.
    """
    if level is None:
        return values
    return np.log(np.maximum(values - level, 0.0), where=values > level, out=np.full(np.shape(values), -np.inf))


def is_far_above(scores: np.ndarray, level: float) -> np.ndarray:
    """Returns whether scores [..., n], n of two or more, are so far above a level that a sound run is, too.

    If n is four, sound runs with a normal distribution fall out in under 0.5 % of groups of five, wherever it lies.
    """
    return scores.mean(axis=-1) - level >= MIN_GAP * scores.std(axis=-1, ddof=1)


def make_band(
    runs: Sequence[Mapping[str, Any]],
    better: published.Better = "more",
    level: float | None = None,
    family: Sequence[np.ndarray] = (),
    false_alarm_rate: float = FALSE_ALARM_RATE,
    level_end: float | None = None,
) -> Band:
    """Makes the band of one experiment, task, agent and scale.

    Args:
        runs: one or more valid current records of one scale. From `MIN_RUNS - 1` on (a group of `MIN_RUNS` without the
            run to be judged) the band has their own spread, with fewer that of the family.
        better: which numbers are better, as in `published.Better`.
        level: score of a random player, below that of every run; None for a band in plain scores.
        family: scores of each related group, [n], as `on_band_scale` returns them.
        false_alarm_rate: chance in (0, 1) that one sound, normally distributed run is out of the band; for `equal` each
            side has half of it.
        level_end: upper end of the interval of the level; None without a level.

    Raises:
        BandError: there are too few runs here and in the family.
    """
    plain = np.array([run["evaluation"]["mean"] for run in runs])
    values = on_band_scale(plain, level)
    own = len(values) >= MIN_RUNS - 1
    groups = [values] if own else family
    if dof_of(groups) < MIN_DOF:
        raise BandError(
            f"A band needs {MIN_RUNS - 1} runs or more, or a family with {MIN_DOF} runs beyond the first of each "
            f"group; there are {len(values)} and {dof_of(groups)}."
        )
    spread = spread_of(groups)
    side = false_alarm_rate / 2 if better == "equal" else false_alarm_rate
    min_reach = 0.0 if level is None else MIN_LOG_REACH
    ends = values.mean() + np.array([-1.0, 1.0]) * reach(spread, len(values), side, min_reach)
    with np.errstate(over="ignore"):  # an end beyond the largest number is infinite
        low, high = ends if level is None else level + np.exp(ends)
    whose = "the runs' own spread" if own else f"the pooled spread of {len(family)} groups"
    scale = "" if level is None else f" in log(score - {level:.6g})"
    return Band(
        scale=runs[0]["scale"],
        unit=runs[0]["evaluation"]["unit"],
        better=better,
        low=None if better in ("less", "under") else float(low),
        high=None if better in ("more", "above") else float(high),
        floor=level_end if own and level_end is not None and is_far_above(plain, level_end) else None,
        seeds=[run["seed"] for run in runs],
        values=plain.tolist(),
        spread="own" if own else "pooled",
        false_alarm_rate=false_alarm_rate,
        method=f"Student's t, {float(spread.dof):.3g} degrees of freedom, from {whose}{scale}",
    )
