"""Calls of traced functions without most of TensorFlow's overhead in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from repro.memory import as_tensor


def flat_call(concrete: Any) -> Callable[..., list[tf.Tensor]]:
    """Returns a function that calls a traced function with flat arguments and returns flat outputs.

    A call of a `ConcreteFunction` compares, packs and unpacks nests, which takes several times as long as the rest of
    its Python code and holds Python's lock. Leaves are in the order of `tf.nest.flatten`. The memory of arrays is used
    without copying (`as_tensor`). If the function returns or assigns an argument unchanged, the result may share this
    memory, so the array must not change as long as the result is used. No gradient is recorded.

    The returned function raises TypeError if the number of leaves, or their shapes or dtypes, differ from those for
    which the function was traced.

    Args:
        concrete: a `tf.types.experimental.ConcreteFunction` whose arguments have known shapes and no leaves None. Its
            variables must exist as long as the returned function is called.
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
