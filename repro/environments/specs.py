"""TF-Agents specs of Gymnasium spaces, and specs without TensorFlow's wrappers."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.typing import types

STACK = 4
"""Number of frames in a stack."""


class FrameStackSpace(gymnasium.spaces.Box):
    """Space of a game's latest grey frames, uint8 [height, width, STACK], the newest last.

    It implies that an observation consists of the newest frames of the previous one and one more. At the start of a
    game, all frames before its first are black.

    Args:
        height, width: size of a frame in pixels.
    """

    def __init__(self, height: int, width: int) -> None:
        super().__init__(0, 255, (height, width, STACK), np.uint8)


class FrameStackSpec(tensor_spec.BoundedTensorSpec):
    """Spec of a `FrameStackSpace`; unrolls and replays with this spec store each frame only once."""

    def __reduce__(self) -> tuple[Any, ...]:
        return FrameStackSpec, super().__reduce__()[1]


def tensor_spec_of(space: gymnasium.Space, name: str) -> types.NestedTensorSpec:
    """Returns the bounded TF-Agents tensor spec of an unbatched Gymnasium space.

    Args:
        space: a `Box`, a `Discrete` (int32 from its start), or a `Dict` of these.
        name: name of the spec; entries of a `Dict` are named by their keys.

    Returns:
        A `BoundedTensorSpec` of the space's shape, dtype and bounds, a `FrameStackSpec` of a `FrameStackSpace`, or a
        dict of them.

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
        kind = FrameStackSpec if isinstance(space, FrameStackSpace) else tensor_spec.BoundedTensorSpec
        return kind(
            space.shape,
            tf.as_dtype(space.dtype),
            low[0] if low.size == 1 else space.low,
            high[0] if high.size == 1 else space.high,
            name,
        )
    raise TypeError(f"tensor_spec_of: expected a Box, Discrete or Dict space, got {type(space).__name__}.")


def unwrapped(nest: Any) -> Any:
    """Returns a nest of dicts, tuples and lists without the wrappers with which TensorFlow tracks attributes.

    Nests packed like a wrapped one are wrapped, too, and flattening them takes several times as long.
    """
    if isinstance(nest, dict):
        return {key: unwrapped(value) for key, value in nest.items()}
    if isinstance(nest, tuple) and hasattr(nest, "_fields"):
        return nest.__class__(*map(unwrapped, nest))
    if isinstance(nest, (tuple, list)):
        return (tuple if isinstance(nest, tuple) else list)(map(unwrapped, nest))
    return nest
