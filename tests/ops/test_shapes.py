"""Checks that keep one shape from being mistaken for another."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repro.ops import shapes


def test_types():
    found = shapes.convert("op", x=np.zeros([2, 3]), y=[1, 2], z=tf.zeros([3]))
    assert [tensor.dtype for tensor in found.values()] == [tf.float32] * 3
    with pytest.raises(
        ValueError, match=r"^op: y must be float32, got float64; convert it by tf\.cast\(y, tf\.float32\)$"
    ):
        shapes.convert("op", x=tf.zeros([2]), y=tf.zeros([2], tf.float64))
    with pytest.raises(ValueError, match=r"^op: y must be bool, got float32; convert it by tf\.cast\(y, tf\.bool\)$"):
        shapes.convert("op", tf.bool, y=tf.zeros([2]))
    with pytest.raises(ValueError, match=r"^op: x must be float32, got NoneType: "):
        shapes.convert("op", x=None)
    with pytest.raises(ValueError, match=r"^op: x must be float32, got an array of Python objects$"):
        shapes.convert("op", x=np.array([0.0, None]))


def test_rank():
    shapes.assert_rank_at_least("op", 2, x=tf.zeros([2, 3]), y=tf.zeros([2, 3, 4]))
    with pytest.raises(ValueError, match=r"^op: y must have rank 2 or more, got shape \(3,\)"):
        shapes.assert_rank_at_least("op", 2, x=tf.zeros([2, 3]), y=tf.zeros([3]))


def test_scalar():
    shapes.assert_scalar("op", x=tf.constant(1.0))
    with pytest.raises(ValueError, match=r"^op: x must be a scalar, got shape \(1,\)"):
        shapes.assert_scalar("op", x=tf.zeros([1]))


@pytest.mark.parametrize("shape", [[2, 3, 1], [2], [3, 2], [1, 3]])
def test_same_shape_does_not_broadcast(shape):
    shapes.assert_same_shape("op", x=tf.zeros([2, 3]), y=tf.zeros([2, 3]))
    with pytest.raises(ValueError, match=r"^op: y must have the shape of x, got .* and \(2, 3\)"):
        shapes.assert_same_shape("op", x=tf.zeros([2, 3]), y=tf.zeros(shape))


def test_steps():
    shapes.assert_steps("op", x=tf.zeros([1, 3]))
    with pytest.raises(ValueError, match=r"^op: x must have a known number of steps, 1 or more, got \(0, 3\)"):
        shapes.assert_steps("op", x=tf.zeros([0, 3]))

    @tf.function(input_signature=[tf.TensorSpec([None, None])], autograph=False)
    def unknown_steps(x):
        shapes.assert_steps("op", x=x)

    with pytest.raises(
        ValueError, match=r"got \(None, None\); set it, for example with tf\.ensure_shape\(x, \[20, None\]\)"
    ):
        unknown_steps.get_concrete_function()


def test_unknown_shapes_in_a_graph():
    @tf.function(input_signature=[tf.TensorSpec(None), tf.TensorSpec(None)], autograph=False)
    def unknown_rank(x, y):
        shapes.assert_rank_at_least("op", 1, x=x, y=y)

    with pytest.raises(ValueError, match="op: x must have rank 1 or more, got shape <unknown>"):
        unknown_rank.get_concrete_function()

    @tf.function(input_signature=[tf.TensorSpec([2, None]), tf.TensorSpec([None, 3])], autograph=False)
    def unknown_dimension(x, y):
        shapes.assert_same_shape("op", x=x, y=y)
        return tf.identity(x)  # what could fail by itself might be reported first

    unknown_dimension(tf.zeros([2, 3]), tf.zeros([2, 3]))
    for shape in ([1, 3], [3, 3]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="op: y must have the shape of x"):
            unknown_dimension(tf.zeros([2, 3]), tf.zeros(shape))


@pytest.mark.parametrize("dtype", [tf.float32, tf.bool])
def test_xla_does_not_broadcast_a_dimension_that_is_known_when_it_compiles(dtype):
    @tf.function(
        input_signature=[tf.TensorSpec([2, None]), tf.TensorSpec([2, None], dtype)], jit_compile=True, autograph=False
    )
    def compiled(x, y):
        shapes.assert_same_shape("op", x=x, y=y)
        return tf.where(tf.cast(y, tf.bool), x, 0.0)

    compiled(tf.zeros([2, 3]), tf.zeros([2, 3], dtype))
    with pytest.raises(tf.errors.InvalidArgumentError, match="op_y_must_have_the_shape_of_x"):
        compiled(tf.zeros([2, 3]), tf.zeros([2, 1], dtype))
