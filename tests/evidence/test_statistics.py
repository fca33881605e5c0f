"""Intervals against known answers, and their coverage."""

import numpy as np
import pytest

from repro.evidence import intervals, statistics
from repro.evidence.statistics import (
    aggregate,
    human_normalised,
    pointwise_interval,
    stratified_interval,
)


def _alone(scores, rng, confidence=0.95):
    """The interval of one task's mean."""
    return stratified_interval({"task": scores}, statistics.mean, rng, confidence)


def test_same_seed_same_interval_and_another_seed_another():
    scores = np.random.default_rng(1).normal(10, 3, 200)
    first = _alone(scores, np.random.default_rng(5))
    assert first == _alone(scores, np.random.default_rng(5))
    assert first != _alone(scores, np.random.default_rng(6))


def test_interval_of_many_scores_is_the_normal_one():
    scores = np.random.default_rng(2).normal(10, 3, 400)
    low, high = _alone(scores, np.random.default_rng(0))
    half = 1.96 * scores.std() / np.sqrt(400)
    np.testing.assert_allclose([low, high], [scores.mean() - half, scores.mean() + half], atol=0.05 * half)


def test_interval_of_two_scores_is_exact(monkeypatch):
    """The resampled mean is 1, 2 or 3 with probabilities 1/4, 1/2, 1/4."""
    monkeypatch.setattr(statistics, "MIN_BOOTSTRAP_RUNS", 2)
    assert _alone([1.0, 3.0], np.random.default_rng(0)) == (1.0, 3.0)
    assert _alone([1.0, 3.0], np.random.default_rng(0), confidence=0.2) is None  # from 2 to 2


def test_equal_scores_have_no_interval():
    assert _alone([21.0] * 200, np.random.default_rng(0)) is None


@pytest.mark.parametrize("runs", [1, 2, 3])
def test_fewer_than_four_runs_of_a_task_have_no_interval(runs):
    scores = {"a": [0.0, 1.0, 2.0, 4.0], "b": [1.0, 2.0, 5.0, 7.0]}
    assert stratified_interval(scores, statistics.mean, np.random.default_rng(0)) is not None
    scores["b"] = scores["b"][:runs]
    assert stratified_interval(scores, statistics.mean, np.random.default_rng(0)) is None


@pytest.mark.parametrize(
    ("runs", "min_share", "max_share"),
    [
        (2, 0.45, 0.55),
        (3, 0.71, 0.79),
        (6, 0.92, 0.98),
        (20, 0.92, 0.98),
        pytest.param(200, 0.92, 0.98, marks=pytest.mark.slow),
    ],
)
def test_interval_covers_the_true_mean_as_often_as_it_says(monkeypatch, runs, min_share, max_share):
    monkeypatch.setattr(statistics, "RESAMPLES", 999)
    monkeypatch.setattr(statistics, "MIN_BOOTSTRAP_RUNS", 2)
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(1000):
        low, high = _alone(rng.normal(5.0, 2.0, runs), rng)
        covered += low <= 5.0 <= high
    assert min_share <= covered / 1000 <= max_share


def test_plain_percentile_interval_of_few_runs_would_cover_too_seldom(monkeypatch):
    monkeypatch.setattr(statistics, "RESAMPLES", 999)
    monkeypatch.setattr(statistics, "expanded_level", lambda confidence, runs, freedom: confidence)
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(1000):
        low, high = _alone(rng.normal(5.0, 2.0, 6), rng)
        covered += low <= 5.0 <= high
    assert covered / 1000 < 0.90


@pytest.mark.parametrize(("runs", "tasks"), [(3, 10), (5, 10), pytest.param(2, 57, marks=pytest.mark.slow)])
def test_stratified_interval_covers_the_true_aggregate(monkeypatch, runs, tasks):
    monkeypatch.setattr(statistics, "RESAMPLES", 999)
    monkeypatch.setattr(statistics, "MIN_BOOTSTRAP_RUNS", 2)
    rng = np.random.default_rng(4)
    centres = rng.normal(1.0, 1.0, tasks)
    covered = 0
    for _ in range(400):
        scores = {f"task {i}": rng.normal(centre, 0.3, runs) for i, centre in enumerate(centres)}
        low, high = stratified_interval(scores, statistics.mean, rng)
        covered += low <= centres.mean() <= high
    assert 0.92 <= covered / 400 <= 0.98


@pytest.mark.parametrize(("dependent", "at_least", "at_most"), [(True, 0.86, 0.97), (False, 0.0, 0.6)])
def test_runs_that_learned_all_tasks_are_resampled_whole(monkeypatch, dependent, at_least, at_most):
    """With chance that is the same on all tasks, tasks resampled apart give an interval of a third of the width."""
    monkeypatch.setattr(statistics, "RESAMPLES", 999)
    rng = np.random.default_rng(6)
    covered = 0
    for _ in range(300):
        chance = rng.normal(0.0, 1.0, 5)
        scores = {f"task {i}": 1.0 + chance + rng.normal(0.0, 0.1, 5) for i in range(10)}
        low, high = stratified_interval(scores, statistics.mean, rng, dependent=dependent)
        covered += low <= 1.0 <= high
    assert at_least <= covered / 300 <= at_most


def test_runs_that_learned_all_tasks_are_as_many_on_each():
    with pytest.raises(ValueError, match="same"):
        stratified_interval(
            {"a": [0.0, 1.0, 3.0, 2.0], "b": [0.0, 1.0, 2.0, 3.0, 4.0]},
            statistics.mean,
            np.random.default_rng(0),
            dependent=True,
        )


SCORES = {"a": [0.0, 0.4], "b": [1.0, 2.0], "c": [3.0]}
"""Means 0.2, 1.5 and 3; sorted runs 0, 0.4, 1, 2, 3."""


@pytest.mark.parametrize(
    ("statistic", "expected"),
    [
        (statistics.median, 1.5),
        (statistics.mean, 4.7 / 3),
        (statistics.mean_capped, (0.2 + 1 + 1) / 3),
        (statistics.interquartile_mean, (0.4 + 1 + 2) / 3),  # a quarter of five runs is one at each end
        (statistics.optimality_gap, (1.0 + 0.6) / 5),
    ],
)
def test_aggregates_of_a_hand_case(statistic, expected):
    assert aggregate(SCORES, statistic) == pytest.approx(expected)


def test_aggregates_do_not_depend_on_the_order_of_tasks_or_runs():
    turned = {task: SCORES[task][::-1] for task in reversed(SCORES)}
    for statistic in statistics.STATISTICS.values():
        assert aggregate(turned, statistic) == aggregate(SCORES, statistic)


@pytest.mark.parametrize("call", [aggregate, lambda s, f: stratified_interval(s, f, np.random.default_rng(0))])
def test_an_array_is_refused_since_its_axes_could_be_swapped(call):
    with pytest.raises(TypeError, match="mapping from task to runs"):
        call(np.ones((3, 2)), statistics.mean)


def test_runs_are_resampled_within_tasks():
    # tasks far apart, no noise within: resampling across tasks would have given a wide interval
    scores = {"a": [0.0, 0.0, 0.0, 0.0], "b": [100.0, 100.0, 100.0, 101.0]}
    low, high = stratified_interval(scores, statistics.mean, np.random.default_rng(0))
    assert 50.0 <= low <= high <= 50.5


def test_stratified_interval_has_the_generator_s_randomness_only():
    scores = {"a": [0.0, 0.4, 0.3, 0.9], "b": [1.0, 2.0, 1.7, 1.1]}
    first = stratified_interval(scores, statistics.median, np.random.default_rng(5))
    assert first == stratified_interval(scores, statistics.median, np.random.default_rng(5))


@pytest.mark.parametrize("scores", [{}, {"a": []}, {"a": [1.0, float("inf")]}, {"a": [[1.0]]}])
def test_aggregates_of_nothing_or_no_numbers_are_refused(scores):
    with pytest.raises(ValueError, match="aggregate"):
        aggregate(scores, statistics.mean)


@pytest.mark.parametrize("scores", [[], [[1.0, 2.0]], [1.0, float("nan")]])
def test_no_scores_or_no_numbers_are_refused(scores):
    with pytest.raises(ValueError, match="stratified_interval"):
        _alone(scores, np.random.default_rng(0))


def test_human_normalised():
    assert human_normalised(-20.7, -20.7, 14.6) == 0.0
    assert human_normalised(14.6, -20.7, 14.6) == 1.0
    np.testing.assert_allclose(human_normalised(np.array([0.0, 10.0]), 2.0, 4.0), [-1.0, 4.0])
    with pytest.raises(ValueError, match="human_normalised"):
        human_normalised(1.0, 2.0, 2.0)


def test_pointwise_interval_is_that_of_each_point_alone():
    lines = np.cumsum(np.random.default_rng(0).standard_normal((4, 5)), axis=1)
    alone = [intervals.mean_interval(column) for column in lines.T]
    np.testing.assert_allclose(pointwise_interval(lines), alone)
    with pytest.raises(ValueError, match="pointwise_interval"):
        pointwise_interval(lines[:1])


def test_an_evaluation_rounds_its_returns_and_not_their_mean():
    evaluation = statistics.summarize_returns("points", "three games", [1 / 3, 2 / 3, 123456789.75])
    assert evaluation["returns"] == [0.333333333, 0.666666667, 123456790.0]
    assert evaluation["mean"] == pytest.approx((1 + 123456789.75) / 3, rel=1e-15)
    assert [evaluation[name] for name in ("protocol", "episodes", "unit")] == ["three games", 3, "points"]
    assert statistics.summarize_returns("points", "a game", np.array([1 / 3]), digits=7)["returns"] == [0.3333333]
    exact = np.float32(np.random.default_rng(0).normal(size=100))
    assert np.array_equal(np.float32(statistics.summarize_returns("points", "p", exact)["returns"]), exact)
    high = (9357.0 + 0.01 * np.random.default_rng(0).standard_normal(100)).astype(np.float32)  # not added in float32
    found = statistics.summarize_returns("points", "p", high)
    assert (found["mean"], found["std"]) == (high.astype(float).mean(), high.astype(float).std(ddof=1))
