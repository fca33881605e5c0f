"""How the learner's weights reach the actors of the same process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import tensorflow as tf


class WeightsSnapshot(NamedTuple):
    """Immutable copies of the learner's variables and the number of gradient steps behind them.

    values: of the policy's variables.
    acting: of all variables that a gradient at these weights needs; () where no such gradient is taken.
    """

    version: int
    values: tuple[tf.Tensor, ...]
    acting: tuple[tf.Tensor, ...] = ()


class Published(Protocol):
    """Where an actor finds the latest snapshot."""

    @property
    def latest(self) -> WeightsSnapshot: ...


class WeightsPublisher:
    """Holds the latest snapshot; publishing and reading need no lock, since a snapshot never changes.

    Args:
        variables: the learner's variables, in the order of the actors' policy variables.
        acting: the learner's variables that a gradient at published weights needs.
    """

    def __init__(self, variables: Sequence[tf.Variable], acting: Sequence[tf.Variable] = ()) -> None:
        self._variables = variables
        self._acting = acting
        self.latest = WeightsSnapshot(-1, ())

    def publish(self, version: int) -> None:
        """Takes a snapshot after so many gradient steps."""
        values, acting = (tuple(v.read_value() for v in group) for group in (self._variables, self._acting))
        self.latest = WeightsSnapshot(version, values, acting)
