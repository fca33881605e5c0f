"""What claims make of their numbers on several tasks: aggregates, from [tasks, ..., R] to [..., R].

R is the number of means over runs, as in `task_measures`. Comparisons of agents by an aggregate are [R].
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
    """Root of the mean over tasks; 0 where that is negative, as an estimate of nothing may be."""
    return np.sqrt(np.maximum(squares.mean(axis=0), 0.0))


def mean_capped(scores: np.ndarray) -> np.ndarray:
    """Scores of which one above a human's, 1, counts as it, mean over tasks: the measure of DMLab-30."""
    return np.minimum(scores, 1.0).mean(axis=0)


def mean_gap(scores: np.ndarray) -> np.ndarray:
    """What is missing to a human's score, 1, mean over tasks."""
    return np.maximum(1.0 - scores, 0.0).mean(axis=0)


def percentage_points(of_scores: Callable[[np.ndarray], np.ndarray], scores: np.ndarray) -> np.ndarray:
    """Ours minus theirs, of an aggregate over tasks, from [tasks, 2, R] to [R]."""
    ours, theirs = of_scores(scores)
    return 100.0 * (ours - theirs)


def ratio(of_scores: Callable[[np.ndarray], np.ndarray], scores: np.ndarray) -> np.ndarray:
    """Ours over theirs, of an aggregate over tasks, from [tasks, 2, R] to [R]."""
    ours, theirs = of_scores(scores)
    return _over(ours, theirs)


def ratio_of_leads(of_scores: Callable[[np.ndarray], np.ndarray], scores: np.ndarray) -> np.ndarray:
    """Ours over theirs, over the same of two other agents, of an aggregate over tasks, from [tasks, 4, R] to [R]."""
    ours, theirs, ours_elsewhere, theirs_elsewhere = of_scores(scores)
    return _over(_over(ours, theirs), _over(ours_elsewhere, theirs_elsewhere))


def _over(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b; where b is nothing, 1 if a is nothing as well, and else `task_measures.RATIO_CAP`."""
    some = b > 0
    of_nothing = np.where(a > 0, task_measures.RATIO_CAP, 1.0)
    return np.where(some, np.minimum(a / np.where(some, b, 1.0), task_measures.RATIO_CAP), of_nothing)
