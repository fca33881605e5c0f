"""Maps the spaces of Gymnasium environments to those of a learner: vectors or images, and indices or real vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from repro.environments.batched import one_line

KIND = "Gymnasium"
"""Name of this kind of environments in messages."""

SUPPORTED_ACTIONS = "Discrete, and Box of floating-point numbers"

SUPPORTED_OBSERVATIONS = (
    "Box (uint8 of rank 2 or 3 is an image, uint8 of a higher rank is not supported, everything else is a vector), "
    "Discrete, MultiDiscrete, MultiBinary, and Dict or Tuple of these"
)

Encoder = Callable[[Any], np.ndarray]
"""Maps an environment's observation to the learner's, [...], which may be a view of the environment's memory."""

Decoder = Callable[[np.ndarray], np.ndarray | list[int]]
"""Maps the learner's actions [N, ...] to one action for each environment."""


def read_actions(space: gymnasium.Space, label: str) -> tuple[gymnasium.Space, Decoder]:
    """Returns the learner's action space and a function that maps its actions to those of the environments.

    Args:
        space: action space of the environment; a Box of any rank becomes a vector of its components.
        label: name of the environment, for the message.

    Returns:
        A Discrete space from 0 or an unbounded float32 Box [A], and a function that maps actions [N] or [N, A] to N
        actions, scaled and clipped as described for `GymnasiumEnvironment`.

    Raises:
        ValueError: the space is not supported.
    """
    if isinstance(space, spaces.Discrete):
        start = int(np.asarray(space.start))
        return spaces.Discrete(int(np.asarray(space.n))), lambda actions: (actions + start).tolist()
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        raise ValueError(f"{KIND}: {label} has actions {space}; supported are {SUPPORTED_ACTIONS}.")
    dtype: Any = space.dtype
    # Some environments write the largest number for infinity, or that of float32 in a Box of float64.
    largest = float(min(np.finfo(dtype).max, np.finfo(np.float32).max))
    low, high = space.low.ravel().astype(np.float64), space.high.ravel().astype(np.float64)
    bounded = (low > -largest) & (high < largest)
    scale, centre = np.ones(low.size), np.zeros(low.size)
    scale[bounded] = (high[bounded] - low[bounded]) / 2
    centre[bounded] = (high[bounded] + low[bounded]) / 2

    def decode(actions: np.ndarray) -> np.ndarray:
        scaled = np.clip(centre + scale * actions, low, high)
        return scaled.astype(dtype).reshape(-1, *space.shape)

    return spaces.Box(-np.inf, np.inf, (low.size,), np.float32), decode


def read_observations(space: gymnasium.Space, label: str) -> tuple[spaces.Box, Encoder]:
    """Returns the learner's observation space and a function that maps the environment's observations to it.

    - An image, a uint8 Box of rank 2 or 3, becomes [H, W, C]. If its first dimension is smaller than both others, it
      is taken for the channels and moved to the end.
    - A uint8 Box of a higher rank, such as a stack of images, is not supported. Any other Box becomes a float32 vector,
      without scaling.
    - Discrete becomes a one-hot vector, MultiDiscrete one for each component, and MultiBinary its bits. Dict and Tuple
      are flattened to one vector by `gymnasium.spaces.utils.flatten`, including images within them.

    The function raises ValueError for an observation that does not fit the space.

    Args:
        space: observation space of the environment.
        label: name of the environment, for the message.

    Raises:
        ValueError: the space is not supported.
    """
    if not _is_supported(space):
        raise ValueError(f"{KIND}: {label} has observations {space}; supported are {SUPPORTED_OBSERVATIONS}.")
    if not isinstance(space, spaces.Box):
        flat_size = spaces.utils.flatdim(space)

        def flattened(obs: Any) -> np.ndarray:
            try:
                fault = _misfit(space, obs)
                if fault is None:
                    return spaces.utils.flatten(space, obs)
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                fault = f"{type(error).__name__}: {one_line(error)}"
            raise ValueError(f"{KIND}: {label} gave an observation that does not fit its space ({fault}).")

        return _vector_space(flat_size), flattened

    takes_any_byte = space.dtype == np.uint8 and bool((space.low == 0).all() and (space.high == 255).all())

    def checked(obs: Any) -> np.ndarray:
        found = np.asarray(obs)
        if takes_any_byte and found.dtype == np.uint8 and found.shape == space.shape:
            return found
        if (fault := _misfit(space, found)) is not None:
            raise ValueError(f"{KIND}: {label} gave an observation of {fault}.")
        return found

    if space.dtype != np.uint8 or len(space.shape) < 2:
        size = math.prod(space.shape)
        return _vector_space(size), checked if len(space.shape) == 1 else lambda obs: checked(obs).ravel()
    if len(space.shape) == 2:
        return _image_space((*space.shape, 1)), lambda obs: checked(obs)[..., np.newaxis]
    channels, height, width = space.shape
    if channels < min(height, width):
        return _image_space((height, width, channels)), lambda obs: np.moveaxis(checked(obs), 0, -1)
    return _image_space(space.shape), checked


def _misfit(space: gymnasium.Space, obs: Any) -> str | None:
    """Returns how an observation does not fit its space; None if it does. Bounds of floats are not checked.

    Raises:
        AttributeError, LookupError, TypeError, ValueError: the observation has not the parts of its space.
    """
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        faults = ((name, _misfit(part, obs[name])) for name, part in parts)
        return next((f"in {name!r}, {fault}" for name, fault in faults if fault is not None), None)
    found = np.asarray(obs)
    if found.shape != space.shape:
        return f"shape {found.shape}, and its space has {space.shape}"
    if not np.issubdtype(space.dtype, np.integer):
        return None
    if not np.issubdtype(found.dtype, np.integer) and found.dtype != np.bool_:
        return f"type {found.dtype}, and its space has {space.dtype}"
    low, high = _whole_bounds(space)
    if np.any(found < low) or np.any(found > high):
        return f"values from {found.min()} to {found.max()}, which are not all in its space {space}"
    return None


def _whole_bounds(space: gymnasium.Space) -> tuple[Any, Any]:
    """Returns the smallest and largest values of a space of whole numbers."""
    if isinstance(space, spaces.Discrete):
        first, count = int(np.asarray(space.start)), int(np.asarray(space.n))
        return first, first + count - 1
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    if isinstance(space, spaces.Box):
        return space.low, space.high
    return 0, 1  # MultiBinary


def _is_supported(space: gymnasium.Space) -> bool:
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        parts = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        return all(map(_is_supported, parts))
    if isinstance(space, spaces.Box):
        return space.dtype != np.uint8 or len(space.shape) < 4
    return isinstance(space, (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary))


def _vector_space(size: int) -> spaces.Box:
    return spaces.Box(-np.inf, np.inf, (size,), np.float32)


def _image_space(shape: tuple[int, ...]) -> spaces.Box:
    return spaces.Box(0, 255, shape, np.uint8)
