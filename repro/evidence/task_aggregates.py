"""Aggregates over tasks for claims, from [tasks, ..., R] to [..., R].

R is the number of weighted means over runs, as in `task_measures`. Comparisons of agents by an aggregate are [R].
"""

from collections.abc import Callable

import numpy as np

from repro.evidence import task_measures


def mean(numbers: np.ndarray) -> np.ndarray:
    return numbers.mean(axis=0)


def median(numbers: np.ndarray) -> np.ndarray:
    return np.median(numbers, axis=0)


def total(numbers: np.ndarray) -> np.ndarray:
    return numbers.sum(axis=0)


def largest(numbers: np.ndarray) -> np.ndarray:
    return numbers.max(axis=0)


def geometric_mean(orders: np.ndarray) -> np.ndarray:
    """Geometric mean of ratios from their orders of magnitude."""
    return 10 ** orders.mean(axis=0)


def root_of_mean(squares: np.ndarray) -> np.ndarray:
    """Root of the mean over tasks; 0 if the mean is negative, which an estimate of a square near 0 may be."""
    return np.sqrt(np.maximum(squares.mean(axis=0), 0.0))


def mean_capped(scores: np.ndarray) -> np.ndarray:
    """Mean over tasks of human-normalised scores capped at 1, a human's score: the measure of DMLab-30.

    It is 1 minus the human gap, the mean over tasks of max(0, 1 - score).
    """
    return np.minimum(scores, 1.0).mean(axis=0)


def percentage_points(of_scores: Callable[[np.ndarray], np.ndarray], scores: np.ndarray) -> np.ndarray:
    """Our aggregate minus theirs, in percentage points, from scores [tasks, 2, R] to [R]."""
    ours, theirs = of_scores(scores)
    return 100.0 * (ours - theirs)


def ratio(of_scores: Callable[[np.ndarray], np.ndarray], scores: np.ndarray) -> np.ndarray:
    """Ratio of our aggregate to theirs, from scores [tasks, 2, R] to [R]."""
    ours, theirs = of_scores(scores)
    return _over(ours, theirs)


def ratio_of_leads(of_scores: Callable[[np.ndarray], np.ndarray], scores: np.ndarray) -> np.ndarray:
    """Ratio of our aggregate to theirs, divided by the same ratio of two other agents, from [tasks, 4, R] to [R]."""
    ours, theirs, ours_elsewhere, theirs_elsewhere = of_scores(scores)
    return _over(_over(ours, theirs), _over(ours_elsewhere, theirs_elsewhere))


def _over(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns a / b, at most `task_measures.RATIO_CAP`, which also stands for b <= 0; but 1 if both are 0 or less."""
    some = b > 0
    of_nothing = np.where(a > 0, task_measures.RATIO_CAP, 1.0)
    return np.where(some, np.minimum(a / np.where(some, b, 1.0), task_measures.RATIO_CAP), of_nothing)
