"""Batches of new and replayed unrolls (IMPALA, Section 5.2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import Trajectory

from repro.aligned import concatenated
from repro.machine_memory import check_fits
from repro.replay.unrolls import UnrollReplay, min_capacity

NO_VERSION = -1
"""Version of a slot that holds no unroll yet."""


class MixedBatch(NamedTuple):
    """A batch for the learner.

    Attributes:
        trajectory: new unrolls followed by replayed unrolls, copied into arrays [B, T+1, ...].
        replayed_versions: behaviour-policy versions of the replayed unrolls, int64 [R].
    """

    trajectory: Trajectory
    replayed_versions: np.ndarray


class MixedBatches:
    """Stores new unrolls, first in, first out, and appends replayed ones, sampled uniformly with replacement.

    New unrolls are stored before replayed ones are sampled, so that a sample may repeat a new unroll; in the first
    batch every sample does. An unroll is stored with the core's state at its start and the outputs of the behaviour
    policy.

    Args:
        spec: spec of one step of one environment, such as an agent's `collect_data_spec`.
        unroll_length: T.
        capacity: number of unrolls stored; memory is taken up as they arrive.
        num_replayed: R, the number of replayed unrolls in a batch.

    Raises:
        ValueError: the capacity is too small, `num_replayed` is below 1, or the full replay needs more memory than is
            available.
    """

    def __init__(self, spec: Trajectory, unroll_length: int, capacity: int, num_replayed: int) -> None:
        if num_replayed < 1:
            raise ValueError(f"A batch must have 1 or more replayed unrolls, got {num_replayed}.")
        check_fits("replay.capacity", capacity, capacity * UnrollReplay(spec, unroll_length, 1).nbytes)
        self._replay = UnrollReplay(spec, unroll_length, capacity)
        if capacity < (needed := min_capacity(spec)):
            raise ValueError(
                f"replay.capacity={capacity}: choose {needed} or more, the fewest unrolls for a replay of frames."
            )
        self._versions = np.full(capacity, NO_VERSION, np.int64)  # the version of unroll i is at i % capacity
        self._num_replayed = num_replayed

    def mix(self, new: Sequence[Trajectory], versions: Sequence[int], rng: np.random.Generator) -> MixedBatch:
        """Stores new unrolls and returns them with replayed ones.

        Args:
            new: groups of unrolls, arrays [G, T+1, ...].
            versions: behaviour-policy version of each group.
            rng: random number generator that samples the replayed unrolls.

        Raises:
            ValueError: the numbers of groups and of versions differ.
        """
        for unrolls, version in zip(new, versions, strict=True):
            begin = self._replay.end
            self._replay.add(unrolls)
            self._versions[np.arange(begin, self._replay.end) % len(self._versions)] = version
        numbers = self._replay.sample_numbers(rng, self._num_replayed)
        parts = (*new, self._replay.take(numbers))
        trajectory = tf.nest.map_structure(lambda *leaves: concatenated(leaves), *parts)
        return MixedBatch(trajectory, self._versions[numbers % len(self._versions)])

    def check_valid(self) -> None:
        """Checks the invariants of the replay and of the stored versions.

        Raises:
            RuntimeError: an invariant is broken; the message says which.
        """
        self._replay.check_valid()
        filled = min(self._replay.end, len(self._versions))
        if (self._versions[:filled] == NO_VERSION).any() or (self._versions[filled:] != NO_VERSION).any():
            raise RuntimeError(f"The slots with a behaviour version are not those of the {filled} stored unrolls.")

    def get_state(self) -> dict[str, Any]:
        """Returns everything that `mix` depends on; the arrays are views of the replay's memory, not copies."""
        filled = min(self._replay.end, len(self._versions))
        return {"replay": self._replay.get_state(), "versions": self._versions[:filled]}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores a state from `get_state`; later calls of `mix` return what they would have returned then."""
        self._replay.set_state(state["replay"])
        self._versions[: len(state["versions"])] = state["versions"]
