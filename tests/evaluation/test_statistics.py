"""Intervals against known answers, and their coverage."""

import numpy as np
import pytest

from repro.evaluation import statistics
from repro.evaluation.statistics import bootstrap_interval, human_normalised


def test_same_seed_same_interval_and_another_seed_another():
    scores = np.random.default_rng(1).normal(10, 3, 200)
    first = bootstrap_interval(scores, np.random.default_rng(5))
    assert first == bootstrap_interval(scores, np.random.default_rng(5))
    assert first != bootstrap_interval(scores, np.random.default_rng(6))


def test_interval_of_many_scores_is_the_normal_one():
    scores = np.random.default_rng(2).normal(10, 3, 400)
    low, high = bootstrap_interval(scores, np.random.default_rng(0))
    half = 1.96 * scores.std() / np.sqrt(400)
    np.testing.assert_allclose([low, high], [scores.mean() - half, scores.mean() + half], atol=0.05 * half)


def test_interval_of_two_scores_is_exact():
    # the resampled mean is 1, 2 or 3 with probabilities 1/4, 1/2, 1/4
    assert bootstrap_interval([1.0, 3.0], np.random.default_rng(0)) == (1.0, 3.0)
    assert bootstrap_interval([1.0, 3.0], np.random.default_rng(0), confidence=0.4) == (2.0, 2.0)


def test_equal_scores_have_an_interval_without_width():
    assert bootstrap_interval([21.0] * 200, np.random.default_rng(0)) == (21.0, 21.0)


def test_interval_covers_the_true_mean_about_as_often_as_it_says(monkeypatch):
    monkeypatch.setattr(statistics, "RESAMPLES", 400)
    generator = np.random.default_rng(3)
    covered = 0
    for _ in range(400):
        low, high = bootstrap_interval(generator.exponential(2.0, 100), generator)
        covered += low <= 2.0 <= high
    assert 0.90 <= covered / 400 <= 0.98


@pytest.mark.parametrize("scores", [[], [1.0], [[1.0, 2.0]], [1.0, float("nan")]])
def test_too_few_scores_or_no_numbers_are_refused(scores):
    with pytest.raises(ValueError, match="bootstrap_interval"):
        bootstrap_interval(scores, np.random.default_rng(0))


def test_human_normalised():
    assert human_normalised(-20.7, -20.7, 14.6) == 0.0
    assert human_normalised(14.6, -20.7, 14.6) == 1.0
    np.testing.assert_allclose(human_normalised(np.array([0.0, 10.0]), 2.0, 4.0), [-1.0, 4.0])
    with pytest.raises(ValueError, match="human_normalised"):
        human_normalised(1.0, 2.0, 2.0)
