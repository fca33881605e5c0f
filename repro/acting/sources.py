"""Where the learner's batches come from: free-running actors, in threads or processes, or actors in lockstep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import ml_collections
import reverb
from tf_agents.policies import tf_policy
from tf_agents.trajectories import Trajectory

from repro.acting.actor import Actor
from repro.acting.actor_processes import ActorProcesses
from repro.acting.async_source import AsyncSource
from repro.acting.batches import BatchSource, GroupSizes
from repro.acting.evaluator_process import Evaluator
from repro.acting.lockstep_source import LockstepSource
from repro.acting.machines import own_machine
from repro.acting.remote import PulledWeights, RemoteWeights, Reporter
from repro.acting.remote_actor import begin, run_unroll_actor
from repro.acting.remote_source import RemoteSource
from repro.acting.remote_unrolls import UnrollSender
from repro.acting.rollout import Episode
from repro.acting.supervision import SupervisedActors
from repro.acting.unrolls import UnrollGroup
from repro.config import PROCESSES
from repro.environments.batched import BatchedEnvironment

SCHEDULES = ("async", "lockstep", "a3c", PROCESSES)
"""Values of `runtime.schedule` for which `make_source` or `make_remote_source` has a source."""


def make_source(
    config: ml_collections.ConfigDict,
    actors: SupervisedActors,
    spec: Trajectory,
    to_device: Callable[[Any], Any] | None,
    batch_size: int | None = None,
) -> BatchSource:
    """Returns the source that the `runtime` and `learner` sections of a configuration describe, for actors in threads.

    Args:
        config: configuration of an experiment with actors.
        actors: the actors of the source.
        spec: spec of one step of one environment, the agent's `collect_data_spec`.
        to_device: moves a batch to the learner's devices; None if its unrolls are only stored.
        batch_size: unrolls in a batch; None: `learner.batch_size`.

    Raises:
        ValueError: an unknown schedule, or sizes that do not fit.
        MemoryError: the unrolls need more memory than is available.
    """
    runtime = config.runtime
    sizes, make_group = _groups(config, spec, batch_size)
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
    *others, last = SCHEDULES
    raise ValueError(f"runtime.schedule={runtime.schedule!r}: choose {', '.join(others)} or {last}.")


def make_remote_source(
    config: ml_collections.ConfigDict,
    actors: ActorProcesses,
    weights: RemoteWeights,
    on_episode: Callable[[Episode], None],
    spec: Trajectory,
    to_device: Callable[[Any], Any] | None,
    batch_size: int | None = None,
    evaluator: Evaluator | None = None,
) -> RemoteSource:
    """Returns the source of a configuration whose actors are processes.

    Args:
        actors: the processes of the actors.
        weights: publisher of the learner's weights.
        on_episode: called with every finished game.
        evaluator: the evaluator beside training, if there is one.
        config, spec, to_device, batch_size: as for `make_source`.

    Raises:
        MemoryError: the unrolls need more memory than is available.
    """
    runtime = config.runtime
    sizes, make_group = _groups(config, spec, batch_size)
    queue_capacity = runtime.queue_capacity
    return RemoteSource(actors, weights, make_group, sizes, queue_capacity, to_device, on_episode, evaluator)


def run_remote_actor(
    config: ml_collections.ConfigDict,
    make_environment: Callable[[int, int], BatchedEnvironment],
    make_local_policy: Callable[[BatchedEnvironment], tf_policy.TFPolicy],
    seed: int,
    index: int,
    start: int,
    address: str,
    batch_size: int | None = None,
    overlap: int = 0,
) -> NoReturn:
    """Plays as one of the actors of `make_remote_source` until the learner is gone.

    Args:
        config, batch_size: as for `make_source`.
        make_environment: returns the actor's environments, given its number and a seed.
        make_local_policy: returns the actor's policy, given its environments.
        seed, index, start, address: as for `begin`.
        overlap: as for `Actor`.

    Raises:
        ValueError: the run has no such actor.
    """
    environment_seed, action_seed = begin(config.runtime.num_actors, seed, index, start, address)
    environment = make_environment(index, environment_seed)
    policy, client, length = make_local_policy(environment), reverb.Client(address), config.learner.unroll_length
    machine = own_machine(address)
    reporter = Reporter(client, index, start, machine)
    actor = Actor(environment, policy, PulledWeights(address), length, action_seed, reporter.append, overlap)
    sizes, make_group = _groups(config, policy.trajectory_spec, batch_size)
    sender = UnrollSender(client, index, start, machine)
    run_unroll_actor(actor, make_group, sizes, sender, reporter)


def _groups(
    config: ml_collections.ConfigDict, spec: Trajectory, batch_size: int | None
) -> tuple[GroupSizes, Callable[[], UnrollGroup]]:
    """Returns the sizes of groups of unrolls, and a function that allocates a group."""
    sizes = GroupSizes(config.runtime.envs_per_actor, batch_size or config.learner.batch_size)
    return sizes, lambda: UnrollGroup(spec, sizes.group, config.learner.unroll_length)
