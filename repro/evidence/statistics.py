"""Normalised scores, aggregates over tasks, and intervals. Randomness is passed in.

Aggregates take a mapping from a task to the scores of its runs and never an array, so that runs and tasks cannot
be taken for each other.
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
"""Fewest runs of an agent on a task for a bootstrap interval; with fewer it covers less than 80 % of cases, not 95.

However many tasks there are, since a single one may make nearly all of an aggregate's spread."""
DIGITS = 12
"""Significant digits of a value and its interval: thirds of a run sum to one only nearly, which surpasses nothing."""

Scores: TypeAlias = Mapping[str, Sequence[float] | np.ndarray]
"""Task to the scores of its runs, one or more, all finite; the runs of a task need not be as many as another's."""

Interval: TypeAlias = tuple[float, float]
LEVEL = 0.95
"""Probability content of an interval, where nothing else is asked for."""
Statistic: TypeAlias = Callable[..., np.ndarray]
"""Function of one array [..., runs] for each task and `axis=-1`, as `scipy.stats.bootstrap` calls it."""


def stratified_interval(
    scores: Scores,
    statistic: Statistic,
    rng: np.random.Generator,
    confidence: float = LEVEL,
    dependent: bool = False,
) -> Interval | None:
    """Bootstrap interval of an aggregate over tasks: runs are resampled within each task.

    Runs that learned all tasks together, or by the same settings, are resampled on all at once, since chance may raise
    or lower all of their scores.

    Args:
        scores: of every task.
        statistic: `median`, `mean`, `interquartile_mean`, `optimality_gap` or `mean_capped`.
        rng: for the resamples.
        confidence: probability content in (0, 1).
        dependent: whether the i-th score of each task is of the same run, or of the same settings.

    Returns:
        None with fewer than `MIN_BOOTSTRAP_RUNS` of a task, or where all resamples are one number.

    Raises:
        TypeError: `scores` is not a mapping.
        ValueError: no task, a task without runs, or a score that is not finite; or tasks that depend on each other have
            different numbers of runs.
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
    """Student's 95 % interval of the mean at each point of a curve, each point on its own.

    Args:
        lines: [runs, points], two runs or more, finite.

    Returns:
        [points, 2], low and high.
    """
    runs = len(lines)
    if runs < 2 or not np.isfinite(lines).all():
        raise ValueError(f"pointwise_interval: needs two finite runs or more, got shape {lines.shape}")
    return lines.mean(axis=0)[:, None] + np.outer(mean_reach(lines, LEVEL), [-1.0, 1.0])


def mean_reach(samples: np.ndarray, confidence: float) -> np.ndarray:
    """Returns how far Student's interval of a mean reaches to each side of it.

    Args:
        samples: [N, ...], two or more.
        confidence: probability content in (0, 1).

    Returns:
        [...], of the mean over the first axis.
    """
    size = len(samples)
    return special.stdtrit(size - 1, 0.5 + confidence / 2) * (np.std(samples, axis=0, ddof=1) / size**0.5)


def best_weights(scores: Sequence[float] | np.ndarray, counts: np.ndarray, best: int) -> np.ndarray:
    """Returns the weights of runs, [R, runs], in the mean of the best ones of each resample.

    Args:
        scores: [runs].
        counts: [R, runs], how often each run is in a resample.
        best: how many count; all of a smaller resample.
    """
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable")
    taken = np.minimum(np.cumsum(counts[:, order], axis=-1), best)
    weights = np.empty(counts.shape)
    weights[:, order] = np.diff(taken, axis=-1, prepend=0) / taken[:, -1:]
    return weights


def expanded_level(confidence: float, runs: int, freedom: int) -> float:
    """The level at which a percentile interval of few runs has about the coverage asked for.

    The bootstrap distribution is narrower than that of the mean by sqrt((n-1)/n) and lacks Student's
    t. The expanded percentile interval (Hesterberg 2015, The American Statistician 69, Section 3.3) takes the
    quantiles Phi(-sqrt(n/(n-1)) t) and its mirror in place of the nominal ones, t with `freedom` degrees of
    freedom. No resampling leaves the range of the scores, so one task's 95 % interval still covers too seldom with
    few runs: in 50 % of cases with two, 75 % with three, 88 % with four, 91 % with five, from six on about as said
    (normal scores).

    Args:
        confidence: coverage asked for, in (0, 1).
        runs: fewest runs of a task, n, at least 2.
        freedom: degrees of freedom, the sum of runs - 1 over tasks; runs - 1 where these are the same of all tasks.
    """
    t = special.stdtrit(freedom, 0.5 + confidence / 2)
    tail = special.ndtr(-math.sqrt(runs / (runs - 1)) * t)
    return float(np.clip(1 - 2 * tail, confidence, 1 - 1e-12))


def rounded(number: float) -> float:
    """Returns a number to `DIGITS` significant digits."""
    return float(f"{number:.{DIGITS}g}")


def sample_std(values: Sequence[float] | np.ndarray) -> float:
    """Returns the std of a population that N values are a sample of, over N - 1; 0 of a single value."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def summarize_returns(
    unit: str, protocol: str, values: Sequence[float] | np.ndarray, digits: int = 9
) -> dict[str, object]:
    """Returns a record's `evaluation`, whose mean and std are those of the values before they are rounded.

    Args:
        unit: of the values.
        protocol: how a value came about, in words.
        values: [N], one an episode or a repetition, N at least 1.
        digits: significant ones that each value keeps; nine hold any float32.
    """
    return {
        "protocol": protocol,
        "episodes": len(values),
        "unit": unit,
        "mean": float(np.mean(values)),
        "std": sample_std(values),
        "returns": [float(f"{value:.{digits}g}") for value in values],
    }


def aggregate(scores: Scores, statistic: Statistic) -> float:
    """Returns an aggregate over tasks. Arguments and errors as for `stratified_interval`; one run a task will do."""
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
    """Mean over all runs of all tasks of max(0, 1 - score): what is missing to 1 (Agarwal et al. 2021)."""
    return np.mean(np.maximum(1.0 - np.concatenate(tasks, axis=axis), 0.0), axis=axis)


STATISTICS: Mapping[str, Statistic] = {"median": median, "mean": mean, "mean_capped": mean_capped}
"""The aggregates that papers print, by the name that published rows use."""


def wins(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Returns [n, m]: 1 where a score of ours, [n], is above one of theirs, [m], 0.5 where they are equal, else 0.

    Their mean is the probability of improvement (Agarwal et al. 2021).
    """
    return (ours[:, None] > theirs) + 0.5 * (ours[:, None] == theirs)


def human_normalised(score: float | np.ndarray, random: float, human: float) -> float | np.ndarray:
    """Human-normalised score, (score - random) / (human - random): 0 is random play, 1 a human's.

    Args:
        score: a score or any array of them, in the game's unit.
        random: the random player's score.
        human: the human's score, not equal to `random`.

    Raises:
        ValueError: `human` equals `random`.
    """
    if human == random:
        raise ValueError(f"human_normalised: human and random score are both {human}")
    return (score - random) / (human - random)


def normalised_scores(scores: Scores, references: Mapping[str, Mapping[str, float]]) -> dict[str, np.ndarray]:
    """Returns the `human_normalised` score of each run, by task.

    Args:
        scores: in the unit of each task.
        references: task to its `random` and `human` score.

    Raises:
        KeyError: a task has no reference.
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
