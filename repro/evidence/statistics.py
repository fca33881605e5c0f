"""Normalised scores, aggregates over tasks, and intervals. Random numbers are passed in.

Aggregates take a mapping from a task to the scores of its runs and never an array, so that runs and tasks cannot be
confused.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import scipy
from scipy import special

RESAMPLES = 9999
CURVE_RESAMPLES = 999
MIN_BOOTSTRAP_RUNS = 4
"""Fewest runs of an agent on a task for a bootstrap interval; with fewer it covers under 80 % of cases instead of 95 %.

More tasks do not help, since a single one may make nearly all of an aggregate's spread."""
DIGITS = 12
"""Significant digits of a value and its interval, so that rounding errors do not count as surpassing a number."""

Scores: TypeAlias = Mapping[str, Sequence[float] | np.ndarray]
"""Task to the scores of its runs, one or more, all finite; tasks may have different numbers of runs."""

Interval: TypeAlias = tuple[float, float]
LEVEL = 0.95
"""Default confidence level of an interval."""
Statistic: TypeAlias = Callable[..., np.ndarray]
"""Function of one array [..., runs] per task and of `axis=-1`, as called by `scipy.stats.bootstrap`."""


def stratified_interval(
    scores: Scores,
    statistic: Statistic,
    rng: np.random.Generator,
    confidence: float = LEVEL,
    dependent: bool = False,
) -> Interval | None:
    """Returns the bootstrap interval of an aggregate over tasks; runs are resampled within each task.

    Runs that learned all tasks together, or with the same settings on all, are resampled on all tasks at once, since
    chance may raise or lower all of their scores.

    Args:
        scores: scores of every task.
        statistic: `median`, `mean`, `interquartile_mean`, `optimality_gap` or `mean_capped`.
        rng: random numbers of the resamples.
        confidence: confidence level in (0, 1).
        dependent: whether the i-th score of each task is of the same run, or of the same settings.

    Returns:
        Interval, or None with fewer than `MIN_BOOTSTRAP_RUNS` runs of a task, or if all resamples give the same number.

    Raises:
        TypeError: `scores` is not a mapping.
        ValueError: there is no task, a task has no runs, a score is not finite, or dependent tasks have different
            numbers of runs.
    """
    samples = _checked("stratified_interval", scores)
    sizes = [sample.size for sample in samples.values()]
    if min(sizes) < MIN_BOOTSTRAP_RUNS or all(np.ptp(sample) == 0 for sample in samples.values()):
        return None
    freedom = sizes[0] - 1 if dependent else sum(sizes) - len(sizes)
    low, high = scipy.stats.bootstrap(
        tuple(samples.values()),
        statistic,
        n_resamples=RESAMPLES,
        vectorized=True,
        paired=dependent,
        confidence_level=expanded_level(confidence, min(sizes), freedom),
        method="percentile",
        rng=rng,
    ).confidence_interval
    return (float(low), float(high)) if low < high else None


def pointwise_interval(lines: np.ndarray) -> np.ndarray:
    """Returns Student's 95 % interval of the mean at each point of a curve, each point by itself.

    Args:
        lines: finite values of two runs or more, [runs, points].

    Returns:
        Low and high, [points, 2].

    Raises:
        ValueError: there are fewer than two runs, or a value is not finite.
    """
    runs = len(lines)
    if runs < 2 or not np.isfinite(lines).all():
        raise ValueError(f"pointwise_interval: needs two finite runs or more, got shape {lines.shape}")
    return lines.mean(axis=0)[:, None] + np.outer(mean_reach(lines, LEVEL), [-1.0, 1.0])


def mean_reach(samples: np.ndarray, confidence: float) -> np.ndarray:
    """Returns the half width of Student's interval of a mean over the first axis.

    Args:
        samples: two samples or more, [N, ...].
        confidence: confidence level in (0, 1).

    Returns:
        Half widths, [...].
    """
    size = len(samples)
    return special.stdtrit(size - 1, 0.5 + confidence / 2) * (np.std(samples, axis=0, ddof=1) / size**0.5)


def best_weights(scores: Sequence[float] | np.ndarray, counts: np.ndarray, best: int) -> np.ndarray:
    """Returns the weights of runs, [R, runs], in the mean of the best ones of each resample.

    Args:
        scores: scores of the runs, [runs].
        counts: how often each run is in a resample, [R, runs].
        best: how many runs of a resample count; all if it has fewer.
    """
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable")
    taken = np.minimum(np.cumsum(counts[:, order], axis=-1), best)
    weights = np.empty(counts.shape)
    weights[:, order] = np.diff(taken, axis=-1, prepend=0) / taken[:, -1:]
    return weights


def expanded_level(confidence: float, runs: int, freedom: int) -> float:
    """Returns the level at which a percentile interval of few runs has about the desired coverage.

    The bootstrap distribution is narrower than that of the mean by sqrt((n-1)/n) and lacks Student's t. The expanded
    percentile interval (Hesterberg 2015, The American Statistician 69, Section 3.3) replaces the nominal quantiles by
    Phi(-sqrt(n/(n-1)) t) and its mirror image, with t for `freedom` degrees of freedom. Resampling never leaves the
    range of the scores, so one task's 95 % interval still covers too seldom with few runs: for normal scores in 50 % of
    cases with two, 75 % with three, 88 % with four, 91 % with five, and about the desired share from six on.

    Args:
        confidence: desired coverage in (0, 1).
        runs: fewest runs of a task, n, at least 2.
        freedom: degrees of freedom: the sum of runs - 1 over tasks, or runs - 1 if all tasks have the same runs.
    """
    t = special.stdtrit(freedom, 0.5 + confidence / 2)
    tail = special.ndtr(-math.sqrt(runs / (runs - 1)) * t)
    return float(np.clip(1 - 2 * tail, confidence, 1 - 1e-12))


def rounded(number: float) -> float:
    """Returns a number rounded to `DIGITS` significant digits."""
    return float(f"{number:.{DIGITS}g}")


def sample_std(values: Sequence[float] | np.ndarray) -> float:
    """Returns the sample std of N values, with N - 1 as the divisor; 0 for a single value."""
    return float(np.std(values, ddof=1, dtype=np.float64)) if len(values) > 1 else 0.0


def summarize_returns(
    unit: str, protocol: str, values: Sequence[float] | np.ndarray, digits: int = 9
) -> dict[str, object]:
    """Returns a record's `evaluation`, with the mean and std of the values before they are rounded.

    Args:
        unit: unit of the values.
        protocol: how a value is measured, in words.
        values: one value per episode or repetition, [N], N at least 1.
        digits: significant digits of each recorded value; nine are enough for any float32.
    """
    return {
        "protocol": protocol,
        "episodes": len(values),
        "unit": unit,
        "mean": float(np.mean(values, dtype=np.float64)),
        "std": sample_std(values),
        "returns": [float(f"{value:.{digits}g}") for value in values],
    }


def aggregate(scores: Scores, statistic: Statistic) -> float:
    """Returns an aggregate over tasks. Arguments and errors as for `stratified_interval`; one run per task suffices."""
    return float(statistic(*_checked("aggregate", scores).values(), axis=-1))


def median(*tasks: np.ndarray, axis: int = -1) -> np.ndarray:
    """Median over tasks of the mean over runs."""
    return np.median(_task_means(tasks, axis), axis=0)


def mean(*tasks: np.ndarray, axis: int = -1) -> np.ndarray:
    """Mean over tasks of the mean over runs."""
    return np.mean(_task_means(tasks, axis), axis=0)


def mean_capped(*tasks: np.ndarray, axis: int = -1) -> np.ndarray:
    """Mean over tasks of min(1, mean over runs), the measure of DMLab-30 (IMPALA, Section 5.3.1)."""
    return np.mean(np.minimum(_task_means(tasks, axis), 1.0), axis=0)


def interquartile_mean(*tasks: np.ndarray, axis: int = -1) -> np.ndarray:
    """Mean of all runs of all tasks but the lowest and the highest quarter (Agarwal et al. 2021)."""
    return scipy.stats.trim_mean(np.concatenate(tasks, axis=axis), 0.25, axis=axis)


def optimality_gap(*tasks: np.ndarray, axis: int = -1) -> np.ndarray:
    """Mean over all runs of all tasks of max(0, 1 - score), the shortfall from 1 (Agarwal et al. 2021)."""
    return np.mean(np.maximum(1.0 - np.concatenate(tasks, axis=axis), 0.0), axis=axis)


STATISTICS: Mapping[str, Statistic] = {"median": median, "mean": mean, "mean_capped": mean_capped}
"""Aggregates that papers print, by the name that published rows use."""


def wins(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Returns 1 for each pair in which a score of ours, [n], is above one of theirs, [m], 0.5 for ties, else 0, [n, m].

    The mean over all pairs is the probability of improvement (Agarwal et al. 2021).
    """
    return (ours[:, None] > theirs) + 0.5 * (ours[:, None] == theirs)


def human_normalised(score: float | np.ndarray, random: float, human: float) -> float | np.ndarray:
    """Returns the human-normalised score, (score - random) / (human - random): 0 for random play, 1 for a human.

    Args:
        score: score or array of scores of any shape, in the game's unit.
        random: score of a random player.
        human: score of a human, not equal to `random`.

    Raises:
        ValueError: `human` equals `random`.
    """
    if human == random:
        raise ValueError(f"human_normalised: human and random score are both {human}")
    return (score - random) / (human - random)


def normalised_scores(scores: Scores, references: Mapping[str, Mapping[str, float]]) -> dict[str, np.ndarray]:
    """Returns the `human_normalised` score of each run, by task.

    Args:
        scores: scores in the unit of each task.
        references: task to its `random` and `human` score.

    Raises:
        KeyError: a task has no reference.
        ValueError: the two reference scores of a task are equal.
    """
    return {
        task: np.asarray(human_normalised(np.array(of_runs, np.float64), **references[task]))
        for task, of_runs in scores.items()
    }


def _checked(caller: str, scores: Scores) -> dict[str, np.ndarray]:
    if not isinstance(scores, Mapping):
        raise TypeError(f"{caller}: needs a mapping from task to runs, got {type(scores).__name__}")
    if not scores:
        raise ValueError(f"{caller}: needs at least one task")
    arrays = {task: np.asarray(runs, np.float64) for task, runs in scores.items()}
    for task, runs in arrays.items():
        if runs.ndim != 1 or not runs.size or not np.isfinite(runs).all():
            raise ValueError(f"{caller}: {task} needs a list of finite scores, one a run, got {runs}")
    return arrays


def _task_means(tasks: Sequence[np.ndarray], axis: int) -> np.ndarray:
    return np.stack([np.mean(runs, axis=axis) for runs in tasks])
