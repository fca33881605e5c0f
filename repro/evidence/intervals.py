"""Confidence intervals that hold for few runs, in closed form except for that of the best of many.

A percentile bootstrap of two to five runs covers far less often than its nominal level, and has no width if all runs
agree. So means use Student's t, shares the exact binomial interval, probabilities of improvement and trends Newcombe's,
rank correlations Fisher's z, and spreads F; averages over tasks combine these. `tests/evidence/test_coverage.py`
measures the share of cases in which they hold the true number, for 2 to 10 runs.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import scipy
from scipy import special

from repro.evidence import statistics
from repro.evidence.statistics import LEVEL, Interval

TINY = 1e-12
SHARE = "1 if "
"""Beginning of the unit of numbers that are 1 if a condition holds and 0 otherwise; their mean is a share of cases."""
SPREAD_SHARE = 0.4
"""Share of a spread's degrees of freedom that is used: with more, scores with long tails are covered too seldom."""
MIN_CORRELATED = 4
"""Fewest runs for the interval of a rank correlation; the variance of Fisher's z has n - 3 in its denominator."""


def mean_interval(scores: Sequence[float] | np.ndarray, confidence: float = LEVEL, unit: str = "") -> Interval | None:
    """Returns Student's interval of a mean, or the exact binomial one of a share.

    Args:
        scores: finite scores, [N]: one per seed, or one per game or case of a single seed.
        confidence: confidence level in (0, 1).
        unit: unit of the scores. If it begins with `SHARE`, each score is 0 or 1 and nothing else is possible.

    Returns:
        (low, high) in the unit of the scores. Except for a share, None with a single score or if all scores are equal,
        which tells nothing about their spread.

    Raises:
        ValueError: `scores` is empty, not one-dimensional or not finite, or a score of a share is neither 0 nor 1.
    """
    values = np.asarray(scores, np.float64)
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise ValueError(f"mean_interval: needs finite scores in one dimension, got {scores!r}")
    if unit.startswith(SHARE):
        if not np.isin(values, (0.0, 1.0)).all():
            raise ValueError(f"mean_interval: {unit!r} is 0 or 1, got {scores!r}")
        return share_interval(int(values.sum()), values.size, confidence)
    if values.size < 2 or np.ptp(values) == 0:
        return None
    reach = statistics.mean_reach(values, confidence)
    return float(values.mean() - reach), float(values.mean() + reach)


def best_interval(scores: Sequence[float], best: int, rng: np.random.Generator) -> Interval:
    """Returns the interval of the mean of the best of many runs, which spans two 95 % intervals.

    One is a bootstrap that chooses the best of each resample; no resample surpasses the best of all runs. The other is
    the interval of the mean of the chosen runs, which ignores that they were chosen.

    Args:
        scores: scores of more runs than `best`.
        best: how many runs count.
        rng: random numbers of the resamples.
    """
    runs = len(scores)
    counts = rng.multinomial(runs, np.full(runs, 1 / runs), size=statistics.RESAMPLES)
    means = statistics.best_weights(scores, counts, best) @ np.asarray(scores, np.float64)
    tail = (1 - statistics.expanded_level(LEVEL, runs, runs - 1)) / 2
    resampled = np.quantile(means, [tail, 1 - tail])
    low, high = mean_interval(sorted(scores)[-best:]) or resampled
    return statistics.rounded(min(low, resampled[0])), statistics.rounded(max(high, resampled[1]))


def share_interval(count: int, total: int, confidence: float = LEVEL) -> Interval:
    """Returns the exact interval of a probability from `count` successes in `total` trials (Clopper and Pearson).

    Raises:
        ValueError: `count` is not in [0, total], or `total` is less than 1.
    """
    if not 0 <= count <= total or total < 1:
        raise ValueError(f"share_interval: there must be 0 to {total} successes in 1 trial or more, got {count}")
    tail = (1 - confidence) / 2
    low = special.betaincinv(count, total - count + 1, tail) if count else 0.0
    high = special.betaincinv(count + 1, total - count, 1 - tail) if count < total else 1.0
    return float(low), float(high)


def improvement_interval(probability: float, ours: float, theirs: float, confidence: float = LEVEL) -> Interval:
    """Returns the interval of P(ours > theirs) + P(ours = theirs) / 2 on one task (Newcombe 2006, method 5).

    It holds every theta with |probability - theta| <= z sqrt(V(theta)), where

        V = theta (1 - theta) (1 + (N - 1) (1 - theta) / (2 - theta) + (N - 1) theta / (1 + theta)) / (n m),

    N = (n + m) / 2. So it has a width even if every run of one agent is above every run of the other.

    Args:
        probability: share of pairs of runs in which ours is higher; ties count half.
        ours, theirs: numbers of runs n and m, 1 or more; those of `trend_interval` are not integers.
        confidence: confidence level in (0, 1).
    """
    z = special.ndtri(0.5 + confidence / 2)
    others = (ours + theirs) / 2 - 1

    def excess(theta: float) -> float:
        spread = 1 + others * ((1 - theta) / (2 - theta) + theta / (1 + theta))
        return float((probability - theta) ** 2 - z * z * theta * (1 - theta) * spread / (ours * theirs))

    first, last = TINY, 1 - TINY  # at 0 and 1 themselves the variance is 0
    low = scipy.optimize.brentq(excess, first, min(probability, last)) if probability > first else 0.0
    high = scipy.optimize.brentq(excess, max(probability, first), last) if probability < last else 1.0
    return float(low), float(high)


def trend_interval(probability: float, *runs: int, confidence: float = LEVEL) -> Interval:
    """Returns the interval of `task_measures.trend` on one task, which always has a width.

    It is `improvement_interval` of two agents of n runs each. The n is chosen such that the variance at even odds,
    (2 n + 1) / (12 n^2), equals that of the trend of k agents with one distribution of scores (Jonckheere and
    Terpstra's, for a mean over K = k (k - 1) / 2 pairs of agents; i counts from 0):

        V = (sum_i (k - 1 - 2 i)^2 / n_i + sum_{i < j} 1 / (n_i n_j)) / (12 K^2)

    This takes into account that pairs of agents share runs. If the runs of the first or the last agent spread ten times
    as far as those of the others, it holds the true number in 85 % of cases.

    Args:
        probability: share of pairs of runs in which the later agent's is higher, ties counted half; mean over pairs of
            agents.
        runs: numbers of runs n_i of the agents in their order, two agents or more.
        confidence: confidence level in (0, 1).
    """
    twelvefold = 12 * _variance_at_even_odds(runs)
    of_each = (1 + math.sqrt(1 + twelvefold)) / twelvefold
    return improvement_interval(probability, of_each, of_each, confidence)


def reach_at_even_odds(*runs: int, confidence: float = LEVEL) -> float:
    """Returns how far a trend, or a probability of improvement of two agents, is from 1/2 by chance on one task.

    It is z sqrt(V), with V as in `trend_interval`, and holds for agents with one distribution of scores.

    Args:
        runs: numbers of runs of the agents, two agents or more.
        confidence: confidence level in (0, 1).
    """
    return float(special.ndtri(0.5 + confidence / 2)) * math.sqrt(_variance_at_even_odds(runs))


def _variance_at_even_odds(runs: Sequence[int]) -> float:
    """Returns the variance V of `trend_interval` of agents with one distribution of scores."""
    agents = len(runs)
    of_agents = sum((agents - 1 - 2 * place) ** 2 / n for place, n in enumerate(runs))
    of_pairs = sum(1 / (n * m) for n, m in itertools.combinations(runs, 2))
    return (of_agents + of_pairs) / (12 * math.comb(agents, 2) ** 2)


def rank_correlation_interval(correlation: float, runs: int, confidence: float = LEVEL) -> Interval | None:
    """Returns the interval of Spearman's rank correlation (Fisher's z, with Bonett and Wright's variance of 2000).

        z +- z_q sqrt((1 + r^2 / 2) / (n - 3)),  z = artanh(r)

    The absolute value of r is clipped to 1 - 6 / (n (n^2 - 1)), which is half a step between possible correlations
    below 1.

    Args:
        correlation: correlation r over the runs.
        runs: number of runs n.
        confidence: confidence level in (0, 1).

    Returns:
        (low, high) in [-1, 1], `correlation` between them; None with fewer than `MIN_CORRELATED` runs.
    """
    if runs < MIN_CORRELATED:
        return None
    max_correlation = 1 - 6 / (runs * (runs**2 - 1))
    z = math.atanh(min(max(correlation, -max_correlation), max_correlation))
    reach = special.ndtri(0.5 + confidence / 2) * math.sqrt((1 + correlation**2 / 2) / (runs - 3))
    return min(math.tanh(z - reach), correlation), max(math.tanh(z + reach), correlation)


def spread_interval(orders: float, ours: int, theirs: int, confidence: float = LEVEL) -> Interval:
    """Returns the interval of the orders of magnitude between two stds over runs.

    It is that of Fisher's F for normal scores with the share `SPREAD_SHARE` of the degrees of freedom n - 1. With all
    of them it would hold the true number of lognormal scores in only 60 to 90 % of cases. For normal scores it is
    therefore too wide.

    Args:
        orders: log10 of the ratio of our std to theirs.
        ours, theirs: numbers of runs, 2 or more.
        confidence: confidence level in (0, 1).
    """
    freedom = SPREAD_SHARE * (ours - 1), SPREAD_SHARE * (theirs - 1)
    low, high = (float(special.fdtri(*freedom, 0.5 + side * confidence / 2)) for side in (-1, 1))
    return orders - math.log10(high) / 2, orders - math.log10(low) / 2


def average(values: Sequence[float], intervals: Sequence[Interval], dependent: bool = False) -> Interval:
    """Returns the interval of a mean of numbers from the intervals of the numbers (Zou and Donner 2008).

    The squared distances from the numbers to the ends of their intervals add up like variances. For numbers that depend
    on each other in any way, the distances themselves are added up, as an upper limit.

    Args:
        values: one or more numbers, such as one per task.
        intervals: interval of each number, all at the same level.
        dependent: whether the numbers may depend on each other, as those of tasks that one agent learned together.

    Raises:
        ValueError: there are not as many intervals as numbers.
    """
    add = math.fsum if dependent else _root_of_squares
    below = add([value - low for value, (low, _) in zip(values, intervals, strict=True)])
    above = add([high - value for value, (_, high) in zip(values, intervals, strict=True)])
    mean = math.fsum(values) / len(values)
    return mean - below / len(values), mean + above / len(values)


def average_probabilities(values: Sequence[float], intervals: Sequence[Interval], reaches: Sequence[float]) -> Interval:
    """Returns the interval of a mean of probabilities on independent tasks, by `average`.

    A probability far from 1/2 has a short interval, and chance makes some of many probabilities so. The average would
    be too short: of agents without a difference on 57 tasks it would leave out 1/2 in 13 % of cases. So the distances
    from the numbers to the ends are at least as at even odds.

    Args:
        values, intervals: as for `average`.
        reaches: distance of each number by `reach_at_even_odds`.
    """
    wide = [(min(low, value - by), max(high, value + by)) for value, (low, high), by in zip(values, intervals, reaches)]
    low, high = average(values, wide)
    return max(0.0, low), min(1.0, high)


def _root_of_squares(distances: Sequence[float]) -> float:
    return math.sqrt(sum(distance**2 for distance in distances))
