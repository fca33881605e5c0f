"""How the learner's weights reach the actors of the same process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from repro.flat_call import flat_call


class WeightsSnapshot(NamedTuple):
    """Immutable copies of the learner's variables and the number of gradient steps behind them.

    values: values of the policy's variables.
    acting: values of all variables that a gradient at these weights needs; () if no such gradient is taken.
    """

    version: int
    values: tuple[tf.Tensor, ...]
    acting: tuple[tf.Tensor, ...] = ()


def compile_assign(variables: Sequence[tf.Variable]) -> Callable[[Sequence[tf.Tensor]], None]:
    """Returns `assign(values)`, which overwrites all variables in one call, at least twice as fast as one by one.

    `assign` raises ValueError if there are not as many values as variables. If a value is an array, its variable may
    keep the memory, and nobody may write there again.
    """

    @tf.function(autograph=False)
    def assign_all(*values: tf.Tensor) -> None:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)

    call = flat_call(assign_all.get_concrete_function(*(tf.TensorSpec(v.shape, v.dtype) for v in variables)))

    def assign(values: Sequence[tf.Tensor]) -> None:
        if len(values) != len(variables):
            raise ValueError(f"There are {len(values)} values for {len(variables)} variables.")
        call(*values)

    return assign


class Published(Protocol):
    """Where an actor finds the latest snapshot."""

    @property
    def latest(self) -> WeightsSnapshot: ...


class WeightsPublisher:
    """Holds the latest snapshot; publishing and reading need no lock, since a snapshot never changes.

    Args:
        variables: the learner's variables, in the order of the actors' policy variables.
        acting: the learner's variables that a gradient at published weights needs.
        delay: number of publications by which `latest` is behind the newest; the first one stays until as many have
            followed.

    Attributes:
        latest: snapshot that actors take; its version is -1 before the first publication.

    Raises:
        ValueError: `delay` is negative.
    """

    def __init__(self, variables: Sequence[tf.Variable], *, acting: Sequence[tf.Variable] = (), delay: int = 0) -> None:
        if delay < 0:
            raise ValueError(f"runtime.weights_delay={delay}: choose 0 or more.")
        read = tf.function(lambda: [v.read_value() for v in (*variables, *acting)], autograph=False)
        # TensorFlow warns of a function that it traces for many publishers.
        self._read = flat_call(read.get_concrete_function())
        self._num_values = len(variables)
        self._snapshots: deque[WeightsSnapshot] = deque(maxlen=delay + 1)  # oldest first
        self.latest = WeightsSnapshot(-1, ())

    def publish(self, version: int) -> None:
        """Takes a snapshot after `version` gradient steps; it replaces one of the same version."""
        read = tuple(self._read())
        values, acting = read[: self._num_values], read[self._num_values :]
        if self._snapshots and self._snapshots[-1].version == version:
            self._snapshots.pop()
        self._snapshots.append(WeightsSnapshot(version, values, acting))
        self.latest = self._snapshots[0]

    def get_state(self) -> dict[str, Any]:
        """Returns the snapshots before the newest, which has the present weights and is published again; {} if none."""
        return {str(i): _snapshot_state(snapshot) for i, snapshot in enumerate(list(self._snapshots)[:-1])}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continues where `get_state` was taken, once the present weights are published."""
        self._snapshots.extend(_restored_snapshot(state[str(i)]) for i in range(len(state)))

    def get_latest(self) -> dict[str, Any]:
        """Returns the snapshot that actors take, for trainers that do not publish at every update."""
        return _snapshot_state(self.latest)

    def set_latest(self, state: dict[str, Any]) -> None:
        """Publishes the snapshot of `get_latest`."""
        self.latest = _restored_snapshot(state)
        self._snapshots.append(self.latest)


def _snapshot_state(snapshot: WeightsSnapshot) -> dict[str, Any]:
    values, acting = (
        {str(i): value.numpy() for i, value in enumerate(group)} for group in (snapshot.values, snapshot.acting)
    )
    return {"version": snapshot.version, "values": values, "acting": acting}


def _restored_snapshot(state: dict[str, Any]) -> WeightsSnapshot:
    values, acting = (
        tuple(tf.constant(state[name][str(i)]) for i in range(len(state[name]))) for name in ("values", "acting")
    )
    return WeightsSnapshot(int(state["version"]), values, acting)
