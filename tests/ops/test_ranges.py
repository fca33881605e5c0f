"""Checks that keep a setting within the range or the names for which an operator is defined."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf

from repro.ops import ranges


@pytest.mark.parametrize(
    ("interval", "inside", "outside"),
    [
        ("[0, 1]", [0, 0.5, 1, np.float32(1)], [-1e-9, 1.1, np.nan, -np.inf]),
        ("(0, inf]", [1e-300, 10, np.inf], [0, -1, np.nan]),
        ("[0, 1)", [0.0, 0.999], [1, 1.0, np.int64(1), np.float32(2)]),
        ("[1, inf)", [1, 10**30], [0, np.inf]),
    ],
)
def test_bounds(interval, inside, outside):
    for x in inside:
        ranges.assert_in("op", interval, first=x)
    for x in outside:
        message = f"op: second must lie in {interval}, got {x}"
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            ranges.assert_in("op", interval, first=inside[0], second=x)


def test_names():
    ranges.assert_one_of("op", ("a", "b"), first="a", second="b")
    with pytest.raises(ValueError, match="^op: second must be one of a, b, got 'c'$"):
        ranges.assert_one_of("op", ("a", "b"), first="a", second="c")


def test_tensors_and_none_are_not_checked():
    @tf.function(autograph=False)
    def graph(x):
        ranges.assert_in("op", "[0, 1]", x=x, y=None, z=tf.constant(2.0))

    operations = graph.get_concrete_function(tf.TensorSpec([])).graph.get_operations()
    assert [operation.type for operation in operations] == ["Placeholder", "Const"]
