"""Intervals and normalised scores. Randomness is passed in: the same seed gives the same interval."""

from collections.abc import Sequence

import numpy as np
import scipy.stats

RESAMPLES = 9999


def bootstrap_interval(
    scores: Sequence[float] | np.ndarray, generator: np.random.Generator, confidence: float = 0.95
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean.

    Args:
        scores: [N], N at least 2: one number a seed, or one a game when there is a single seed.
        generator: draws the resamples.
        confidence: probability content in (0, 1).

    Returns:
        (low, high), in the unit of the scores. All scores equal: both are that score.

    Raises:
        ValueError: fewer than two scores, not one-dimensional, or not finite.
    """
    scores = np.asarray(scores, np.float64)
    if scores.ndim != 1 or scores.size < 2:
        raise ValueError(f"bootstrap_interval: needs at least two scores in one dimension, got shape {scores.shape}")
    if not np.isfinite(scores).all():
        raise ValueError("bootstrap_interval: scores must be finite")
    result = scipy.stats.bootstrap(
        (scores,),
        np.mean,
        n_resamples=RESAMPLES,
        confidence_level=confidence,
        method="percentile",
        rng=generator,
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


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
