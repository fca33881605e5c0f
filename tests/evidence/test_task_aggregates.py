"""Aggregates over tasks and comparisons of agents by them, worked out by hand."""

import numpy as np

from repro.evidence import task_aggregates


def test_a_ratio_to_nothing_is_capped_and_nothing_over_nothing_is_one():
    a, b = np.array([3.0, 3.0, 0.0, -1.0, -1.0]), np.array([2.0, 0.0, 0.0, -2.0, 2.0])
    found = task_aggregates.ratio(task_aggregates.mean, np.stack([a, b])[None])
    np.testing.assert_array_equal(found, [1.5, 1000, 1, 1, -0.5])
