"""Traced functions that take and return leaves: what they compute, and which arguments they refuse."""

import numpy as np
import pytest
import tensorflow as tf

from repro.aligned import aligned_empty
from repro.flat_call import flat_call

FACTOR = tf.Variable(2.0)
VECTOR, NUMBER = tf.TensorSpec([3]), tf.TensorSpec([], tf.int32)


@pytest.fixture(scope="module")
def concrete():
    @tf.function(autograph=False)
    def function(nest, number):
        return {"last": nest["b"] + 1.0, "first": (FACTOR * nest["a"], number)}

    return function.get_concrete_function({"b": VECTOR, "a": VECTOR}, NUMBER)


def test_leaves_are_in_the_order_of_nests(concrete):
    FACTOR.assign(2.0)
    call = flat_call(concrete)
    nest, number = {"b": np.full(3, 5, np.float32), "a": tf.constant([1.0, 2.0, 3.0])}, np.int32(7)
    found = call(*tf.nest.flatten((nest, tf.constant(number))))
    expected = concrete({key: tf.constant(x) for key, x in nest.items()}, tf.constant(number))
    for a, b in zip(found, tf.nest.flatten(expected), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(found[0], [2, 4, 6])


def test_variables_and_arrays_are_read_in_each_call(concrete):
    call, array = flat_call(concrete), aligned_empty((3,), np.float32)
    for factor in (3.0, 4.0):
        FACTOR.assign(factor)
        array[:] = factor
        found = call(array, array, tf.constant(1))
        np.testing.assert_array_equal(found[0], np.full(3, factor * factor))


def test_a_function_without_inputs_or_without_outputs():
    read = flat_call(tf.function(lambda: [FACTOR.read_value()], autograph=False).get_concrete_function())
    assign = flat_call(
        tf.function(lambda x: [FACTOR.assign(x)][:0], autograph=False).get_concrete_function(tf.TensorSpec([]))
    )
    assert assign(tf.constant(5.0)) == []
    assert [float(x) for x in read()] == [5.0]


@pytest.mark.parametrize(
    "leaves",
    [
        (np.ones(3, np.float32), np.ones(3, np.float32)),
        (np.ones(3, np.float32), np.ones(4, np.float32), tf.constant(1)),  # which the operations would take
        (np.ones(3, np.float32), np.ones((1, 3), np.float32), tf.constant(1)),
        (np.ones(3, np.float32), np.ones(3, np.int32), tf.constant(1)),
        (np.ones(3, np.float32), np.ones(3, np.float32), tf.constant(1), tf.constant(1)),
    ],
)
def test_other_leaves_than_those_of_the_trace_are_refused(concrete, leaves):
    with pytest.raises(TypeError, match=r"^A function for \[\(\(3,\), 'float32'\), .* was called with .*float32"):
        flat_call(concrete)(*leaves)
