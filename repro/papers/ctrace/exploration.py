"""Epsilons of C-trace's actors: decreasing for DQN's only actor, constants for R2D2's environments."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import tensorflow as tf


class Exploration(Protocol):
    """An actor's exploration.

    epsilon: epsilon of the actor's policy, one for all its environments or one for each.
    """

    @property
    def epsilon(self) -> tf.Variable | np.ndarray: ...

    def set_frames(self, frames: int) -> None:
        """Updates epsilon, given the number of environment frames played so far."""


class LinearEpsilon:
    """An epsilon of `first` up to frame `begin`, then annealed linearly to `last` over `frames` more, then constant.

    A uniform random policy fills the replay before learning starts (Mnih et al., 2015). They anneal epsilon over the
    first million frames; that the annealing begins only after the replay is filled is assumed.

    Raises:
        ValueError: `frames` is below 1, or `begin` is negative.
    """

    def __init__(self, first: float, last: float, frames: int, *, begin: int) -> None:
        if frames < 1:
            raise ValueError(f"exploration.frames={frames}: choose 1 or more.")
        if begin < 0:
            raise ValueError(f"replay.first_frames={begin}: choose 0 or more.")
        self._first, self._last, self._frames, self._begin = first, last, frames, begin
        self.epsilon = tf.Variable(first, dtype=tf.float32, trainable=False, name="epsilon")

    def set_frames(self, frames: int) -> None:
        share = min(max(frames - self._begin, 0) / self._frames, 1.0)
        epsilon = self._first + share * (self._last - self._first)
        self.epsilon.assign(np.float32(epsilon))  # TensorFlow would cache a tensor for each Python number, forever


class ConstantEpsilons:
    """Constant epsilons, one for each environment of an actor, float32 [N]."""

    def __init__(self, epsilons: np.ndarray) -> None:
        self.epsilon = epsilons

    def set_frames(self, frames: int) -> None:
        """Has no effect: the epsilons are constant."""
