"""Calls of traced functions without most of what TensorFlow does in Python around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from repro.memory import as_tensor


def flat_call(concrete: Any) -> Callable[..., list[tf.Tensor]]:
    """Returns a traced function that takes the leaves of its arguments, and returns those of its outputs.

    A call of a `ConcreteFunction` compares nests, packs and unpacks them, which takes several times as long as the rest
    of its Python, all of it with Python's lock. Leaves are in the order of `tf.nest.flatten`. Arrays are read where
    they lie (`as_tensor`). No gradient is recorded.

    Args:
        concrete: a `tf.types.experimental.ConcreteFunction`. Its variables must live as long as it is called.

    Raises:
        TypeError: in a call; the leaves are not as many, or have other shapes or types than those it was traced for.
    """
    inputs = concrete.inputs[: len(concrete.inputs) - len(concrete.captured_inputs)]
    shapes, dtypes = [tuple(x.shape) for x in inputs], [x.dtype for x in inputs]

    def call(*leaves: Any) -> list[tf.Tensor]:
        tensors = [as_tensor(leaf) for leaf in leaves]
        if [tuple(leaf.shape) for leaf in leaves] != shapes or [x.dtype for x in tensors] != dtypes:
            found = [(tuple(x.shape), x.dtype.name) for x in tensors]
            raise TypeError(f"{concrete.name} is for {list(zip(shapes, dtypes))} and was called with {found}.")
        return concrete.inference_fn.call_flat(*tensors, *concrete.captured_inputs) or []

    return call
