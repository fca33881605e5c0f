"""The comparison of agents, worked out by hand."""

import pytest

from repro.evidence import intervals
from repro.report.agent_table import compare_agents


def test_one_task_by_hand():
    ours, theirs = [1.0, 2.0, 3.0, 4.0], [2.0, 5.0, 6.0, 7.0]
    reference, other = compare_agents({"a": {"pong": ours}, "b": {"pong": theirs}})
    assert (reference.agent, reference.runs, reference.mean, reference.interquartile_mean) == ("a", 4, 2.5, 2.5)
    assert reference.improvement is None
    low, high = reference.interval
    assert 1.0 <= low < 2.5 < high <= 4.0
    assert (other.agent, other.mean, other.interquartile_mean) == ("b", 5.0, 5.5)
    assert other.improvement == (12 + 1 + 0.5) / 16  # 2 is above one, equal to one; the others are above all
    assert other.improvement_interval == pytest.approx(intervals.improvement_interval(13.5 / 16, 4, 4))


def test_tasks_are_averaged_without_scores_of_several_units():
    scores = {"a": {"x": [1.0, 2.0], "y": [10.0, 20.0], "z": [0.0, 1.0]}, "b": {"x": [3.0, 4.0], "y": [0.0, 1.0]}}
    reference, other = compare_agents(scores)
    assert (reference.tasks, other.tasks, other.runs) == (2, 2, 4)
    assert other.mean is other.interval is None
    assert other.improvement == 0.5
    low, high = other.improvement_interval
    assert 0.0 < low < 0.5 < high < 1.0


def test_tasks_learned_together_tell_no_more_than_one():
    scores = {agent: {task: [1.0, 2.0] for task in "xyz"} for agent in "ab"}
    scores["c"] = scores["b"]
    _, apart, _ = compare_agents(scores)
    for dependent, of_b, of_c in ((["b"], True, False), (["a"], True, True), (["c"], False, True)):
        _, *others = compare_agents(scores, dependent)
        for line, is_dependent in zip(others, (of_b, of_c)):
            of_one = pytest.approx(intervals.improvement_interval(0.5, 2, 2))
            assert line.improvement_interval == (of_one if is_dependent else apart.improvement_interval)
    assert intervals.improvement_interval(0.5, 2, 2)[0] < apart.improvement_interval[0] - 0.1


@pytest.mark.parametrize(
    "scores",
    [
        {"a": {"x": [1.0, 2.0]}},
        {"a": {"x": [1.0, 2.0]}, "b": {"x": [1.0]}},
        {"a": {"x": [1.0]}, "b": {"x": [1.0, 2.0]}},
        {"a": {"x": [1.0, 2.0]}, "b": {"y": [1.0, 2.0]}},
    ],
)
def test_without_two_runs_of_both_on_a_task_nothing_is_compared(scores):
    assert compare_agents(scores) == []


def test_few_or_equal_runs_have_no_interval_of_the_interquartile_mean():
    _, equal = compare_agents({"a": {"x": [1.0, 2.0]}, "b": {"x": [3.0] * 5}})
    assert (equal.interquartile_mean, equal.interval) == (3.0, None)
    reference, _ = compare_agents({"a": {"x": [1.0, 2.0, 3.0]}, "b": {"x": [1.0, 2.0]}})
    assert reference.interquartile_mean == 2.0
    assert reference.interval is None
