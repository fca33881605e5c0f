"""How the learner's weights reach the actors of the same process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import tensorflow as tf


class WeightsSnapshot(NamedTuple):
    """Immutable copies of the learner's variables and the number of updates behind them."""

    version: int
    values: tuple[tf.Tensor, ...]


class Published(Protocol):
    """Where an actor finds the latest snapshot."""

    @property
    def latest(self) -> WeightsSnapshot: ...


class WeightsPublisher:
    """Holds the latest snapshot; publishing and reading need no lock, since a snapshot never changes.

    Args:
        variables: the learner's variables, in the order of the actors' policy variables.
    """

    def __init__(self, variables: Sequence[tf.Variable]) -> None:
        self._variables = variables
        self.latest = WeightsSnapshot(-1, ())

    def publish(self, version: int) -> None:
        """Takes a snapshot after so many gradient steps."""
        self.latest = WeightsSnapshot(version, tuple(v.read_value() for v in self._variables))
