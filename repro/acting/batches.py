"""Batches for the learner, and the interface of their sources."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import tensorflow as tf

from repro.acting.unrolls import UnrollGroup, stack_groups

POLL_SECONDS = 0.1
"""Time between two checks of a blocked thread whether the run was stopped."""
CLOSE_SECONDS = 30.0
"""Longest wait for the threads of a source that is closed; one that hangs ends with the process.

It is longer than a process that was told to stop may last (`stopping.STOP_SECONDS`), so that such a process ends before
Python shuts down: a thread that returns from compiled code, such as a compiler, during the shutdown would abort the
process.
"""


class Batch:
    """One batch for the learner.

    Attributes:
        groups: the groups of unrolls that make up the batch.
        trajectory: the batch on the learner's devices, as it takes it; None if the unrolls are only stored.
        versions: behaviour version of each group.
    """

    def __init__(self, groups: Sequence[UnrollGroup], to_device: Callable[[Any], Any] | None) -> None:
        self.groups = groups
        self.trajectory = to_device(stack_groups(groups)) if to_device else None
        self.versions = [group.version for group in groups]

    @property
    def acting(self) -> tuple[tf.Tensor, ...]:
        """The learner's variables when the unrolls began (`UnrollGroup.acting`).

        Raises:
            ValueError: they began with different weights.
        """
        if len(set(self.versions)) > 1:
            raise ValueError(
                f"A batch of several versions of the weights, {sorted(set(self.versions))}, has no on-policy gradient: "
                "learner.batch_size must divide runtime.envs_per_actor."
            )
        return self.groups[0].acting


class BatchSource(Protocol):
    """What the training loop needs of a source of batches."""

    @property
    def between_rounds(self) -> bool:
        """Whether no whole batch of the round is left: only then do actors take weights and can the state be saved."""

    @property
    def restarts(self) -> int:
        """Number of actors that were replaced in this process."""

    def next(self) -> Batch:
        """Waits for the next batch.

        Raises:
            ActorPoolError: the actors cannot go on.
            Interrupted: see `interrupt`.
        """

    def interrupt(self) -> None:
        """Ends a wait for a batch, from any thread; to be called before the run is saved for the last time."""

    def release(self, batch: Batch) -> None: ...

    def totals(self) -> dict[str, Any]:
        """Returns what the summary of the whole run says about the actors besides their restarts."""

    def get_state(self) -> dict[str, Any]: ...
    def set_state(self, state: dict[str, Any]) -> None: ...
    def close(self) -> None:
        """Ends the actors' threads and closes their environments."""


class GroupSizes:
    """How an actor's environments and the learner's batch split into groups of equal size, the largest that fits both.

    Attributes:
        group: number of environments in a group.
        per_actor: number of groups of an actor.
        per_batch: number of groups in a batch.
    """

    def __init__(self, envs_per_actor: int, batch_size: int) -> None:
        self.group = math.gcd(envs_per_actor, batch_size)
        self.per_actor = envs_per_actor // self.group
        self.per_batch = batch_size // self.group
