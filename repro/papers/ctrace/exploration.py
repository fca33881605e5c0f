"""The epsilon of C-trace's actors: falling for DQN's one, a constant for each of R2D2's."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import tensorflow as tf


class Exploration(Protocol):
    """An actor's epsilon.

    epsilon: for its policy, a number for all its environments or one for each.
    """

    @property
    def epsilon(self) -> tf.Variable | np.ndarray: ...

    def set_frames(self, frames: int) -> None:
        """Told how many environment frames were played."""


class LinearEpsilon:
    """From `first` to `last`, linearly over so many frames, then constant (Mnih et al., 2015).

    Raises:
        ValueError: no frames.
    """

    def __init__(self, first: float, last: float, frames: int) -> None:
        if frames < 1:
            raise ValueError(f"exploration.frames={frames}: must be at least 1.")
        self._first, self._last, self._frames = first, last, frames
        self.epsilon = tf.Variable(first, dtype=tf.float32, trainable=False, name="epsilon")

    def set_frames(self, frames: int) -> None:
        share = min(frames / self._frames, 1.0)
        self.epsilon.assign(self._first + share * (self._last - self._first))


class ConstantEpsilons:
    """One for each environment of an actor, float32 [N]."""

    def __init__(self, epsilons: np.ndarray) -> None:
        self.epsilon = epsilons

    def set_frames(self, frames: int) -> None:
        """They stay."""
