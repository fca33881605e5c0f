"""Cost of a function of tensors, counted in its graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph

from repro.environments import specs


def operations(function: Callable[..., Any], *arguments: Any) -> int:
    """Returns the floating-point operations of products in a function's graph, two for each product of two numbers.

    Products are matrix products, by `Einsum` too, and convolutions, as far as the function's outputs or assignments
    need them. Other operations add about a hundredth in networks of a hundred units. Loops and branches are not
    counted.

    Args:
        function: function of tensors.
        arguments: nested `TensorSpec` of its arguments, with every dimension known.

    Raises:
        ValueError: the graph does not know the shape of a product.
    """
    graph = tf.function(function, autograph=False).get_concrete_function(*arguments).graph
    total = 0
    for op in needed(graph):
        sizes = _sizes(op)
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            raise ValueError(f"operations: {op.name} has an unknown shape, {sizes}")
        total += 2 * int(np.prod(known, dtype=np.int64)) if known else 0
    return total


def batch_spec(spec: Any, *shape: int) -> Any:
    """Returns nested specs [*shape, ...] of a batch of what nested specs [...] describe, as `operations` needs them."""
    return tf.nest.map_structure(lambda x: tf.TensorSpec([*shape, *x.shape], x.dtype), specs.unwrapped(spec))


def needed(graph: FuncGraph) -> list[tf.Operation]:
    """Returns the operations that outputs or effects of a graph depend on: for example, no gradient of the input."""
    pending, seen = [*(x.op for x in graph.outputs), *graph.control_outputs], set()
    while pending:
        op = pending.pop()
        if op not in seen:
            seen.add(op)
            pending += [*(x.op for x in op.inputs), *op.control_inputs]
    return [op for op in graph.get_operations() if op in seen]


def _sizes(op: tf.Operation) -> list[int | None]:
    """Factors of the number of products of an operation; empty for one of another kind."""

    def shape(tensor: tf.Tensor) -> list[int | None]:
        return [None] if tensor.shape.rank is None else tensor.shape.as_list()

    if op.type == "MatMul":
        summed = shape(op.inputs[0])[0 if op.get_attr("transpose_a") else -1]
        return [*shape(op.outputs[0]), summed]
    if op.type == "Einsum":
        labels = op.get_attr("equation").decode().split("->")[0].split(",")
        sizes = [pair for label, x in zip(labels, op.inputs) for pair in zip(label, shape(x), strict=True)]
        return list(dict(sizes).values())
    # A convolution multiplies every number of its output by the kernel's height, width and channels that come in. Its
    # gradients have as many products.
    if op.type == "Conv2D":
        return shape(op.outputs[0]) + shape(op.inputs[1])[:3]
    if op.type == "Conv2DBackpropInput":
        return shape(op.inputs[2]) + shape(op.inputs[1])[:3]
    if op.type == "Conv2DBackpropFilter":
        return shape(op.inputs[2]) + shape(op.outputs[0])[:3]
    return []
