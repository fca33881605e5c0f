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
"""Version of a place where no unroll lies yet."""


class MixedBatch(NamedTuple):
    """A batch for the learner.

    trajectory: new unrolls, then replayed ones, in arrays [B, T+1, ...] of their own.
    replayed_versions: behaviour versions of the replayed ones, int64 [R].
    """

    trajectory: Trajectory
    replayed_versions: np.ndarray


class MixedBatches:
    """Stores new unrolls first in, first out, and adds replayed ones to them, sampled uniformly with replacement.

    The new unrolls are stored first, so that a replayed one may be among them, as the first batch's all are. An unroll
    keeps the core's state that it began with, and the policy that acted.

    Args:
        spec: of one step of one environment, as `collect_data_spec` of an agent.
        unroll_length: T.
        capacity: unrolls stored, in memory that is taken up as they come.
        num_replayed: R, replayed unrolls in a batch.

    Raises:
        ValueError: too little capacity or nothing to replay; or the full replay is larger than the memory that is
            available.
    """

    def __init__(self, spec: Trajectory, unroll_length: int, capacity: int, num_replayed: int) -> None:
        if num_replayed < 1:
            raise ValueError(f"A batch must have one replayed unroll at least, not {num_replayed}.")
        check_fits("replay.capacity", capacity, capacity * UnrollReplay(spec, unroll_length, 1).nbytes)
        self._replay = UnrollReplay(spec, unroll_length, capacity)
        if capacity < (needed := min_capacity(spec)):
            raise ValueError(f"replay.capacity={capacity}: a replay of frames must hold {needed} unrolls at least.")
        self._versions = np.full(capacity, NO_VERSION, np.int64)  # that of unroll i lies at i % capacity
        self._num_replayed = num_replayed

    def mix(self, new: Sequence[Trajectory], versions: Sequence[int], rng: np.random.Generator) -> MixedBatch:
        """Stores new unrolls and returns them with replayed ones.

        Args:
            new: groups of unrolls, arrays [G, T+1, ...].
            versions: behaviour version of each group.
            rng: samples the replayed ones.
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
        """Checks the books against each other.

        Raises:
            RuntimeError: they are not as they must be; the message says where.
        """
        self._replay.check_valid()
        filled = min(self._replay.end, len(self._versions))
        if (self._versions[:filled] == NO_VERSION).any() or (self._versions[filled:] != NO_VERSION).any():
            raise RuntimeError(f"Not all of the {filled} stored unrolls, and they alone, have a behaviour version.")

    def get_state(self) -> dict[str, Any]:
        """Everything that `mix` depends on; the arrays are the replay's own, not copies."""
        filled = min(self._replay.end, len(self._versions))
        return {"replay": self._replay.get_state(), "versions": self._versions[:filled]}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continues exactly where `get_state` was taken."""
        self._replay.set_state(state["replay"])
        self._versions[: len(state["versions"])] = state["versions"]
