"""Operations of graphs, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repro.training.graph_cost import operations

ROWS, INPUTS, OUTPUTS = 7, 3, 5
PRODUCT = 2 * ROWS * INPUTS * OUTPUTS


def variable(*shape):
    return tf.Variable(np.ones(shape, np.float32))


def test_operations_are_those_of_the_products_of_any_graph():
    weights = variable(INPUTS, OUTPUTS)

    def gradient(x):
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.square(x @ weights))
        return tape.gradient(y, weights)

    assert operations(gradient, tf.TensorSpec([ROWS, INPUTS])) == 2 * PRODUCT
    assert operations(lambda x: tf.matmul(x, weights, transpose_a=True), tf.TensorSpec([INPUTS, ROWS])) == PRODUCT
    with pytest.raises(ValueError, match="unknown shape"):
        operations(gradient, tf.TensorSpec([None, INPUTS]))


def test_a_product_of_more_dimensions():
    weights = variable(INPUTS, OUTPUTS)
    found = operations(lambda x: tf.einsum("btf,fg->btg", x, weights), tf.TensorSpec([2, ROWS, INPUTS]))
    assert found == 2 * PRODUCT


def test_what_nothing_needs_costs_nothing_and_an_assignment_is_needed():
    weights, kept = variable(INPUTS, OUTPUTS), variable(ROWS, OUTPUTS)

    def function(x, keep):
        y = x @ weights
        if keep:
            kept.assign(y)
        return x + 1.0

    for keep, expected in ((False, 0), (True, PRODUCT)):
        assert operations(lambda x, keep=keep: function(x, keep), tf.TensorSpec([ROWS, INPUTS])) == expected


@pytest.mark.parametrize(("stride", "height", "width"), [(1, 6, 9), (2, 3, 5)])
def test_a_convolution_and_its_gradients_have_as_many_products(stride, height, width):
    """To the kernel, to the input, and of the gradient to the kernel again."""
    kernel = variable(4, 3, 2, 8)
    forward = 2 * (ROWS * height * width * 8) * (4 * 3 * 2)
    images = tf.TensorSpec([ROWS, 6, 9, 2])

    def convolve(x):
        return tf.nn.conv2d(x, kernel, stride, "SAME")

    def gradient(x, to_input):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.square(convolve(x)))
        return tape.gradient(y, x if to_input else kernel)

    def gradient_of_gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            z = tf.reduce_sum(tf.square(gradient(x, to_input=False)))
        return tape.gradient(z, x)

    assert operations(convolve, images) == forward
    assert operations(lambda x: gradient(x, to_input=True), images) == 2 * forward
    assert operations(lambda x: gradient(x, to_input=False), images) == 2 * forward
    # Besides: to the input and to what came back, each of the gradient to the kernel; then through the first one.
    assert operations(gradient_of_gradient, images) == 5 * forward
