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
    they lie (`as_tensor`); what a function returns or assigns as it is may keep their memory, in which they must not
    change then. No gradient is recorded.

    Args:
        concrete: a `tf.types.experimental.ConcreteFunction`, whose arguments have known shapes and no leaf of which is
            None. Its variables must live as long as it is called.

    Raises:
        TypeError: in a call; the leaves are not as many, or have other shapes or types than those it was traced for.
    """
    inputs = concrete.inputs[: len(concrete.inputs) - len(concrete.captured_inputs)]
    shapes, dtypes = [tuple(x.shape) for x in inputs], [x.dtype for x in inputs]

    def call(*leaves: Any) -> list[tf.Tensor]:
        tensors = [as_tensor(leaf) for leaf in leaves]
        if [tuple(leaf.shape) for leaf in leaves] != shapes or [x.dtype for x in tensors] != dtypes:
            found = [(tuple(x.shape), x.dtype.name) for x in tensors]
            expected = [(shape, dtype.name) for shape, dtype in zip(shapes, dtypes)]
            raise TypeError(f"A function for {expected} was called with {found}.")
        return concrete.inference_fn.call_flat(*tensors, *concrete.captured_inputs) or []

    return call
