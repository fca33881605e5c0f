"""Batches from actors that run freely in threads."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from repro.acting.batches import POLL_SECONDS, Batch, GroupSizes
from repro.acting.supervision import Interrupted, Place, SupervisedActors
from repro.acting.unrolls import UnrollGroup, make_groups
from repro.acting.workers import Workers


class AsyncSource:
    """Actors run freely in threads of their own; a bounded queue holds them back when the learner is slower.

    While the learner works on one batch, a thread stacks the next and places it on the learner's devices.
    After a resume the actors start new games, with the next numbers where games are numbered, and with other seeds
    elsewhere.

    With `own_memory` an actor waits until its last unroll was learned from, as a worker of A3C does, and then takes the
    weights after that update.

    Args:
        actors: the actors, which all have the same number of environments.
        make_group: allocates the memory of one group.
        sizes: sizes of the groups.
        queue_capacity: number of batches that may wait, which bounds the policy lag.
        to_device: moves a batch to the learner's devices, in the prefetching thread; None if its unrolls are only
            stored.
        own_memory: whether each actor has memory for one unroll of each environment, which no other actor may use;
            `queue_capacity` does not matter then.

    Raises:
        MemoryError: see `make_groups`.
    """

    between_rounds = True  # there are no rounds

    def __init__(
        self,
        actors: SupervisedActors,
        make_group: Callable[[], UnrollGroup],
        sizes: GroupSizes,
        queue_capacity: int,
        to_device: Callable[[Any], Any] | None,
        own_memory: bool = False,
    ) -> None:
        self._actors = actors
        self._make_group = make_group
        self._sizes = sizes
        self._to_device = to_device
        self._free: list[queue.Queue[UnrollGroup]] = [queue.Queue() for _ in range(len(actors) if own_memory else 1)]
        self._filled: queue.Queue[UnrollGroup] = queue.Queue(queue_capacity * sizes.per_batch)
        self._ready: queue.Queue[Batch] = queue.Queue(1)
        in_learner_and_prefetch = 3 * sizes.per_batch
        shared = 0 if own_memory else self._filled.maxsize + in_learner_and_prefetch
        for i, group in enumerate(make_groups(make_group, len(actors) * sizes.per_actor + shared)):
            self._free[i % len(self._free)].put(group)
        self._interrupted = threading.Event()
        self._workers = Workers()
        self._started = False

    @property
    def restarts(self) -> int:
        return self._actors.restarts

    def next(self) -> Batch:
        if not self._started:
            self._started = True
            for place in self._actors.places:
                self._start_actor(place)
            self._workers.start("prefetch", self._prefetch)
        while True:
            self._check()
            try:
                return self._ready.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue

    def interrupt(self) -> None:
        self._interrupted.set()

    def release(self, batch: Batch) -> None:
        """Gives the batch's memory back to the actors."""
        for group in batch.groups:
            self._memory_of(group.actor).put(group)

    def totals(self) -> dict[str, Any]:
        return {}

    def get_state(self) -> dict[str, Any]:
        """Returns the numbers of the games that each actor has begun, and how many actors were in each place."""
        return self._actors.get_counters() | {"restarts": self._actors.get_predecessors()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Makes the actors begin new games, after those of `get_state`."""
        self._actors.set_predecessors(state["restarts"])
        self._actors.begin_again()
        self._actors.set_counters({index: counters for index, counters in state.items() if index != "restarts"})

    def close(self) -> None:
        self._workers.close()
        self._actors.close()

    def _check(self) -> None:
        """Checks the actors and replaces threads that hang; called in the learner's thread.

        Raises:
            ActorPoolError: they cannot go on.
            Interrupted: `interrupt` was called.
        """
        self._workers.check()
        for place in self._actors.check():
            for _ in range(self._sizes.per_actor):  # replaces the groups that the thread may still write into
                self._memory_of(place.index).put(self._make_group())
            self._start_actor(self._actors.supersede(place))
        if self._interrupted.is_set():
            raise Interrupted

    def _memory_of(self, actor: int) -> queue.Queue[UnrollGroup]:
        """The queue with an actor's free memory."""
        return self._free[actor % len(self._free)]

    def _start_actor(self, place: Place) -> None:
        self._workers.start(f"actor-{place.index}", lambda: self._act(place))

    def _act(self, place: Place) -> None:
        while True:
            groups = [self._workers.get(self._memory_of(place.index)) for _ in range(self._sizes.per_actor)]
            if self._workers.stopped:
                return
            for group in groups:
                group.actor = place.index
            place.actor.sync_weights()
            if not self._actors.collect(place, groups):
                return
            for group in groups:
                self._workers.put(self._filled, group)

    def _prefetch(self) -> None:
        while not self._workers.stopped:
            groups = [self._workers.get(self._filled) for _ in range(self._sizes.per_batch)]
            if not self._workers.stopped:
                self._workers.put(self._ready, Batch(groups, self._to_device))
