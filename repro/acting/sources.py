"""Where the learner's batches come from: free-running actors, or actors in lockstep with the learner."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import ml_collections
import numpy as np
import tensorflow as tf
from tf_agents.trajectories import Trajectory

from repro.acting.actor import Actor
from repro.acting.unrolls import UnrollGroup, stack_groups

POLL_SECONDS = 0.1
"""How often a blocked thread looks whether the run was stopped."""


class Batch:
    """One batch for the learner.

    Attributes:
        trajectory: as the learner takes it, placed on its devices; None where the unrolls are stored alone.
        versions: behaviour version of each group of unrolls in it.
    """

    def __init__(self, groups: Sequence[UnrollGroup], to_device: Callable[[Any], Any] | None) -> None:
        self.groups = groups
        self.trajectory = to_device(stack_groups(groups)) if to_device else None
        self.versions = [group.version for group in groups]

    @property
    def acting(self) -> tuple[tf.Tensor, ...]:
        """The learner's variables when the unrolls began (`UnrollGroup.acting`).

        Raises:
            ValueError: they began with different ones.
        """
        if len(set(self.versions)) > 1:
            raise ValueError(
                f"A batch of weights {sorted(set(self.versions))} has no on-policy gradient: with "
                "runtime.schedule=async learner.batch_size may not be above runtime.envs_per_actor."
            )
        return self.groups[0].acting


class BatchSource(Protocol):
    """What the training loop needs of a schedule."""

    @property
    def between_rounds(self) -> bool:
        """Whether no batch of a round is left: only then do actors take weights, and can a state be saved."""

    def next(self) -> Batch: ...
    def release(self, batch: Batch) -> None: ...
    def get_state(self) -> dict[str, Any]: ...
    def set_state(self, state: dict[str, Any]) -> None: ...
    def close(self) -> None: ...


class GroupSizes:
    """How an actor's environments and the learner's batch split into groups of equal size.

    Raises:
        ValueError: neither number divides the other.
    """

    def __init__(self, envs_per_actor: int, batch_size: int) -> None:
        small, large = sorted((envs_per_actor, batch_size))
        if large % small:
            raise ValueError(
                f"runtime.envs_per_actor={envs_per_actor} and learner.batch_size={batch_size}: "
                "one must be a multiple of the other."
            )
        self.group = small
        self.per_actor = envs_per_actor // small
        self.per_batch = batch_size // small


class AsyncSource:
    """Actors run freely in threads of their own; a bounded queue holds them back when the learner is slower.

    While the learner works on one batch, a thread stacks the next and places it on the learner's devices.
    After an interruption the actors start new games, with numbers of their own where games are numbered.

    Args:
        actors: their environments all have the same number of games.
        make_group: allocates the memory of one group.
        sizes: of groups.
        queue_capacity: batches that may wait; it bounds the policy lag.
        to_device: moves a batch to the learner's devices, in the prefetching thread; None: its unrolls are stored
            alone.
    """

    between_rounds = True  # there are none

    def __init__(
        self,
        actors: Sequence[Actor],
        make_group: Callable[[], UnrollGroup],
        sizes: GroupSizes,
        queue_capacity: int,
        to_device: Callable[[Any], Any] | None,
    ) -> None:
        self._actors = actors
        self._sizes = sizes
        self._to_device = to_device
        self._free: queue.Queue[UnrollGroup] = queue.Queue()
        self._filled: queue.Queue[UnrollGroup] = queue.Queue(queue_capacity * sizes.per_batch)
        self._ready: queue.Queue[Batch] = queue.Queue(1)
        in_learner_and_prefetch = 3 * sizes.per_batch
        for _ in range(len(actors) * sizes.per_actor + self._filled.maxsize + in_learner_and_prefetch):
            self._free.put(make_group())
        self._stop = threading.Event()
        self._error: BaseException | None = None
        bodies = [(f"actor-{i}", self._act_body(actor)) for i, actor in enumerate(actors)]
        self._threads = [
            threading.Thread(target=self._guard, args=(body,), name=name, daemon=True)
            for name, body in [*bodies, ("prefetch", self._prefetch)]
        ]
        self._started = False

    def next(self) -> Batch:
        if not self._started:
            self._started = True
            for thread in self._threads:
                thread.start()
        batch = self._get(self._ready)
        if batch is None:
            raise self._error or RuntimeError("The actors were stopped.")
        return batch

    def release(self, batch: Batch) -> None:
        """Gives the batch's memory back to the actors."""
        for group in batch.groups:
            self._free.put(group)

    def get_state(self) -> dict[str, Any]:
        """Numbers of the games that have begun, by actor."""
        counters = {str(i): actor.get_counters() for i, actor in enumerate(self._actors)}
        return {index: counted for index, counted in counters.items() if counted}

    def set_state(self, state: dict[str, Any]) -> None:
        """New games begin, behind those of `get_state`."""
        for index, counted in state.items():
            self._actors[int(index)].set_counters(counted)

    def close(self) -> None:
        self._stop.set()
        if self._started:
            for thread in self._threads:
                thread.join(timeout=30)

    def _guard(self, body: Callable[[], None]) -> None:
        try:
            body()
        except BaseException as error:  # noqa: BLE001 - handed to the learner's thread, which raises it
            self._error = error
            self._stop.set()

    def _act_body(self, actor: Actor) -> Callable[[], None]:
        def body() -> None:
            while True:
                groups = [self._get(self._free) for _ in range(self._sizes.per_actor)]
                if self._stop.is_set():
                    return
                actor.sync_weights()
                actor.collect(groups)
                for group in groups:
                    self._put(self._filled, group)

        return body

    def _prefetch(self) -> None:
        while not self._stop.is_set():
            groups = [self._get(self._filled) for _ in range(self._sizes.per_batch)]
            if not self._stop.is_set():
                self._put(self._ready, Batch(groups, self._to_device))

    def _get(self, source: queue.Queue) -> Any:
        while not self._stop.is_set():
            try:
                return source.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue
        return None

    def _put(self, sink: queue.Queue, item: Any) -> None:
        while not self._stop.is_set():
            try:
                sink.put(item, timeout=POLL_SECONDS)
            except queue.Full:
                continue
            return


class LockstepSource:
    """Actors and learner in fixed alternation, so that a run is the same bit for bit each time.

    In a round every actor plays one unroll under the weights at the round's start, and the learner takes the
    batches of the round `lag` rounds before. With lag 0 it waits for the round to end.

    Args:
        actors: together they fill a whole number of batches per round.
        make_group, sizes, to_device: as for `AsyncSource`.
        lag: rounds between acting and learning, at least 0.

    Raises:
        ValueError: a round is not a whole number of batches.
    """

    def __init__(
        self,
        actors: Sequence[Actor],
        make_group: Callable[[], UnrollGroup],
        sizes: GroupSizes,
        lag: int,
        to_device: Callable[[Any], Any] | None,
    ) -> None:
        groups_per_round = len(actors) * sizes.per_actor
        if groups_per_round % sizes.per_batch:
            raise ValueError(
                f"runtime.schedule=lockstep needs num_actors * envs_per_actor ({groups_per_round * sizes.group}) "
                f"to be a multiple of learner.batch_size ({sizes.per_batch * sizes.group})."
            )
        self._actors = actors
        self._sizes = sizes
        self._to_device = to_device
        self._lag = lag
        self._free = deque(make_group() for _ in range(groups_per_round * (lag + 2)))
        self._rounds: deque[list[UnrollGroup]] = deque()  # played, waiting for their turn
        self._in_flight: list[Future] = []
        self._learning: deque[UnrollGroup] = deque()  # of the current round, not yet learned from
        self._pool = ThreadPoolExecutor(len(actors), thread_name_prefix="actor")

    @property
    def between_rounds(self) -> bool:
        return not self._learning

    def next(self) -> Batch:
        if not self._learning:
            self._begin_round()
        groups = [self._learning.popleft() for _ in range(self._sizes.per_batch)]
        return Batch(groups, self._to_device)

    def release(self, batch: Batch) -> None:
        self._free.extend(batch.groups)

    def get_state(self) -> dict[str, Any]:
        self._finish_playing()
        rounds = {
            str(i): {str(j): _group_state(group) for j, group in enumerate(groups)}
            for i, groups in enumerate(self._rounds)
        }
        actors = {str(i): actor.get_state() for i, actor in enumerate(self._actors) if actor.started}
        acting = {
            str(i): {str(j): value.numpy() for j, value in enumerate(groups[0].acting)}
            for i, groups in enumerate(self._rounds)
        }
        return {"rounds": rounds, "acting": acting, "actors": actors}

    def set_state(self, state: dict[str, Any]) -> None:
        for i, actor_state in state["actors"].items():
            self._actors[int(i)].set_state(actor_state)
        for i in range(len(state["rounds"])):
            saved, values = state["rounds"][str(i)], state["acting"][str(i)]
            acting = tuple(tf.constant(values[str(j)]) for j in range(len(values)))  # the same of the whole round
            groups = [self._free.popleft() for _ in saved]
            for j, group in enumerate(groups):
                _restore_group(group, saved[str(j)])
                group.acting = acting
            self._rounds.append(groups)

    def close(self) -> None:
        self._pool.shutdown()

    def _begin_round(self) -> None:
        self._finish_playing()
        while len(self._rounds) < max(self._lag, 1):
            self._start_playing()
            self._finish_playing()
        self._learning.extend(self._rounds.popleft())
        if self._lag:
            self._start_playing()

    def _start_playing(self) -> None:
        for actor in self._actors:
            actor.sync_weights()  # here, not in the actor's thread: the learner may publish before that runs
            groups = [self._free.popleft() for _ in range(self._sizes.per_actor)]
            self._in_flight.append(self._pool.submit(self._play, actor, groups))

    @staticmethod
    def _play(actor: Actor, groups: list[UnrollGroup]) -> list[UnrollGroup]:
        actor.collect(groups)
        return groups

    def _finish_playing(self) -> None:
        if self._in_flight:
            self._rounds.append([group for future in self._in_flight for group in future.result()])
            self._in_flight = []


def _group_state(group: UnrollGroup) -> dict[str, Any]:
    arrays = {str(i): array for i, array in enumerate(tf.nest.flatten(group.arrays))}
    return {"arrays": arrays, "version": np.int64(group.version)}


def _restore_group(group: UnrollGroup, state: dict[str, Any]) -> None:
    group.version = int(state["version"])
    for i, array in enumerate(tf.nest.flatten(group.arrays)):
        np.copyto(array, state["arrays"][str(i)])


def make_source(
    config: ml_collections.ConfigDict,
    actors: Sequence[Actor],
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
    if runtime.schedule == "lockstep":
        return LockstepSource(actors, make_group, sizes, runtime.lockstep_lag, to_device)
    raise ValueError(f"runtime.schedule={runtime.schedule!r}: choose async or lockstep.")
