"""Where the learner's batches come from: free-running actors, or actors in lockstep with the learner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_collections
from tf_agents.trajectories import Trajectory

from repro.acting.async_source import AsyncSource
from repro.acting.batches import BatchSource, GroupSizes
from repro.acting.lockstep_source import LockstepSource
from repro.acting.supervision import SupervisedActors
from repro.acting.unrolls import UnrollGroup


def make_source(
    config: ml_collections.ConfigDict,
    actors: SupervisedActors,
    spec: Trajectory,
    to_device: Callable[[Any], Any] | None,
    batch_size: int | None = None,
) -> BatchSource:
    """The source that a configuration's `runtime` and `learner` sections describe.

    Args:
        config: of an experiment with actors.
        actors: that play for it.
        spec: of one step of one environment, `collect_data_spec` of the agent.
        to_device: moves a batch to the learner's devices; None: its unrolls are stored alone.
        batch_size: unrolls in a batch; None: `learner.batch_size`.

    Raises:
        ValueError: an unknown schedule, or sizes that do not fit.
    """
    runtime = config.runtime
    sizes = GroupSizes(runtime.envs_per_actor, batch_size or config.learner.batch_size)

    def make_group() -> UnrollGroup:
        return UnrollGroup(spec, sizes.group, config.learner.unroll_length)

    if runtime.schedule == "async":
        return AsyncSource(actors, make_group, sizes, runtime.queue_capacity, to_device)
    if runtime.schedule == "a3c":
        if sizes.per_batch > 1:
            raise ValueError(
                f"runtime.schedule=a3c: learner.batch_size={config.learner.batch_size} must divide "
                f"runtime.envs_per_actor={runtime.envs_per_actor}, since an update learns from one actor's unrolls."
            )
        return AsyncSource(actors, make_group, sizes, runtime.queue_capacity, to_device, own_memory=True)
    if runtime.schedule == "lockstep":
        return LockstepSource(actors, make_group, sizes, runtime.lockstep_lag, to_device)
    raise ValueError(f"runtime.schedule={runtime.schedule!r}: choose async, lockstep or a3c.")
