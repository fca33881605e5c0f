"""TF-Agents specs of gymnasium spaces, and specs free of TensorFlow's wrappers."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.typing import types


def tensor_spec_of(space: gymnasium.Space, name: str) -> types.NestedTensorSpec:
    """Returns the bounded TF-Agents tensor spec of one (unbatched) gymnasium space.

    Args:
        space: a `Box`, a `Discrete` (int32 from its start), or a `Dict` of such.
        name: name of the spec; the entries of a `Dict` carry their own keys.

    Returns:
        A `BoundedTensorSpec` of the space's shape, dtype and bounds, or a dict of them.

    Raises:
        TypeError: the space is of another kind.
    """
    if isinstance(space, gymnasium.spaces.Dict):
        return {key: tensor_spec_of(entry, key) for key, entry in space.spaces.items()}
    if isinstance(space, gymnasium.spaces.Discrete):
        first, count = int(np.asarray(space.start)), int(np.asarray(space.n))
        return tensor_spec.BoundedTensorSpec((), tf.int32, first, first + count - 1, name)
    if isinstance(space, gymnasium.spaces.Box):
        low, high = (np.unique(bound) for bound in (space.low, space.high))
        return tensor_spec.BoundedTensorSpec(
            space.shape,
            tf.as_dtype(space.dtype),
            low[0] if low.size == 1 else space.low,
            high[0] if high.size == 1 else space.high,
            name,
        )
    raise TypeError(f"tensor_spec_of: expected a Box, Discrete or Dict space, got {type(space).__name__}.")


def unwrapped(nest: Any) -> Any:
    """The same nest of dicts, tuples and lists without the wrappers that an agent's attributes are tracked with.

    Nests made like a wrapped one are wrapped as well, and taking one apart then takes several times as long.
    """
    if isinstance(nest, dict):
        return {key: unwrapped(value) for key, value in nest.items()}
    if isinstance(nest, tuple) and hasattr(nest, "_fields"):
        return nest.__class__(*map(unwrapped, nest))
    if isinstance(nest, (tuple, list)):
        return (tuple if isinstance(nest, tuple) else list)(map(unwrapped, nest))
    return nest
