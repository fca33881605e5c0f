"""Bands: where a further run of an experiment is expected, from runs that are at hand.

A band is the prediction interval of one further run,

    mean -+ t s sqrt(1 + 1/n),

with Student's quantile t. The spread s is the std of the n runs themselves where there are enough, and
otherwise that of their family: related groups of runs. Scores for which more is better count as log(score - random),
with the score of a random player, where every run surpasses it: runs differ by factors rather than by points, and a
score at the random level is then below any band. They reach `MIN_LOG_REACH` or more from the mean, because runs that
all have a task's highest score say nothing of one that misses it in some episodes. Bands are computed from records
each time and kept in no file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from repro.evidence import published

MIN_RUNS = 5
"""Runs of a group of which each is judged by the spread of the others."""
MIN_DOF = MIN_RUNS - 2
"""Fewest degrees of freedom behind a spread: those of the others."""
FALSE_ALARM_RATE = 0.002
"""Chance that one or more sound normally distributed runs of all that are judged together fall out.

`tests.evidence.test_false_alarms` measures that it stays under 1 % for other distributions."""
MIN_LOG_REACH = 0.05
"""Least distance from a band's end to the mean of log(score - random): 5 % of the distance to a random player."""
ROUNDING = 1e-9
"""Relative; a run of equal runs may miss them by rounding."""


class BandError(Exception):
    """A band cannot be made; the message is one sentence that says what it lacks."""


@dataclasses.dataclass(frozen=True)
class Spread:
    """How far runs of one kind lie apart.

    Attributes:
        std: an array where `spread_of` was given arrays.
        dof: degrees of freedom behind it.
    """

    std: np.ndarray
    dof: np.ndarray


@dataclasses.dataclass(frozen=True)
class Band:
    """Where a further run is expected.

    Attributes:
        scale: scale of the runs.
        unit: of the values.
        better: `more`, `above`: only a number below `low` is a regression; `less`, `under`: only one above `high`;
            `equal`: both.
        low, high: ends of the band, None on a side that is never a regression.
        seeds, values: the runs it was made from.
        spread: `own`, or `pooled` for that of the family.
        false_alarm_rate: chance that one sound run falls out.
        method: how the ends follow from the values, in words.
    """

    scale: str
    unit: str
    better: published.Better
    low: float | None
    high: float | None
    seeds: Sequence[int]
    values: Sequence[float]
    spread: str
    false_alarm_rate: float
    method: str

    def holds(self, value: float) -> bool:
        """Whether a run's number is no regression."""
        below = self.low is not None and value < self.low - ROUNDING * abs(self.low)
        above = self.high is not None and value > self.high + ROUNDING * abs(self.high)
        return not (below or above)


def spread_of(groups: Sequence[np.ndarray]) -> Spread:
    """Returns the spread of a family: the largest std of its groups.

    Groups of one family differ in their spread, so the average of all is too narrow for the widest. The degrees of
    freedom are Satterthwaite's for a sum of variances, (sum d s^2)^2 / sum d s^4: all d = n - 1 of a single group,
    and few where one group alone decides.

    Args:
        groups: [..., n] scores of each group, n two or more; leading axes, if any, are equal and stay.

    Raises:
        BandError: no group.
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
        spread: of the runs.
        count: how many there are.
        rate: chance to miss a sound run.
        min_reach: result where the spread gives less.
    """
    return np.maximum(-special.stdtrit(spread.dof, rate) * spread.std * np.sqrt(1 + 1 / count), min_reach)


def dof_of(groups: Sequence[np.ndarray]) -> int:
    """Returns how many runs there are beyond the first of each group."""
    return sum(group.shape[-1] - 1 for group in groups)


def on_band_scale(values: np.ndarray, level: float | None) -> np.ndarray:
    """Returns scores as bands compare them: log(score - level), or as they are without a level.

    Args:
        values: any shape; at or below the level they become -inf.
        level: what a random player scores, or None.
    """
    if level is None:
        return values
    return np.log(np.maximum(values - level, 0.0), where=values > level, out=np.full(np.shape(values), -np.inf))


def make_band(
    runs: Sequence[Mapping[str, Any]],
    better: published.Better = "more",
    level: float | None = None,
    family: Sequence[np.ndarray] = (),
    false_alarm_rate: float = FALSE_ALARM_RATE,
) -> Band:
    """Makes the band of one experiment, task, agent and scale.

    Args:
        runs: valid current records of one scale, one or more; those of a group of `MIN_RUNS` without the one to be
            judged have a spread of their own.
        better: as in `published.Better`.
        level: what a random player scores, below every run; None for a band in plain scores.
        family: [n] scores of each related group, as `on_band_scale` gives them, for fewer runs.
        false_alarm_rate: chance that one sound run falls out, in (0, 1), for normally distributed runs; at half of it
            on both sides for `equal`.

    Raises:
        BandError: too few runs here and in the family.
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
        seeds=[run["seed"] for run in runs],
        values=plain.tolist(),
        spread="own" if own else "pooled",
        false_alarm_rate=false_alarm_rate,
        method=f"Student's t, {float(spread.dof):.3g} degrees of freedom, from {whose}{scale}",
    )
