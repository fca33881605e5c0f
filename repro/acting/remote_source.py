"""Batches of actors in other processes, on this machine or on others."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import reverb

from repro.acting import weights_relay
from repro.acting.actor_processes import ActorProcesses
from repro.acting.batches import POLL_SECONDS, Batch, GroupSizes
from repro.acting.evaluator_process import Evaluator
from repro.acting.machines import describe_totals, with_own_machine
from repro.acting.remote import RemoteWeights, Reports, make_tables, start_server
from repro.acting.remote_unrolls import Header, UnrollReader, make_queue
from repro.acting.rollout import Episode
from repro.acting.supervision import Interrupted
from repro.acting.unrolls import UnrollGroup, make_groups
from repro.acting.workers import Workers
from repro.quiet import suppress_stderr


class RemoteSource:
    """Actors run freely in processes of their own; a bounded queue on Reverb holds them back when the learner is slow.

    As in `AsyncSource`, the next batch is stacked and placed on devices while the learner works on one, and an actor
    takes weights before each unroll. An actor that ends or hangs is started again, whose games are lost that were open,
    and at most the unroll of each that was under way. A group that the learner has already, which a broken connection
    may bring again, is not learned from twice. Where gradients are taken at the weights that acted, a group whose
    weights the learner has given up is passed over, and counted as lost.

    The server listens on every interface of this machine and trusts whoever connects, see `SequenceReplay`.

    Args:
        actors: their processes.
        weights: the learner's.
        make_group: allocates the memory of one group.
        sizes: of groups.
        queue_capacity: batches that may wait; it bounds the policy lag.
        to_device: moves a batch to the learner's devices; None: its unrolls are stored alone.
        on_episode: called with every finished game.
        evaluator: beside training, if there is one.
    """

    between_rounds = True  # there are none

    def __init__(
        self,
        actors: ActorProcesses,
        weights: RemoteWeights,
        make_group: Callable[[], UnrollGroup],
        sizes: GroupSizes,
        queue_capacity: int,
        to_device: Callable[[Any], Any] | None,
        on_episode: Callable[[Episode], None],
        evaluator: Evaluator | None = None,
    ) -> None:
        self._actors = actors
        self._evaluator = evaluator
        self._weights = weights
        self._sizes = sizes
        self._max_groups = queue_capacity * sizes.per_batch
        self._to_device = to_device
        self._on_episode = on_episode
        self._free: queue.Queue[UnrollGroup] = queue.Queue()
        in_learner_and_prefetch = 3 * sizes.per_batch
        self._groups = make_groups(make_group, in_learner_and_prefetch)
        for group in self._groups:
            self._free.put(group)
        self._ready: queue.Queue[Batch] = queue.Queue(1)
        self._acting_versions: dict[int, int] = {}  # of the last weights that each actor was seen to play with
        self._next: dict[tuple[int, int], int] = {}  # number of the next group of an actor and its start
        self._missing = 0  # groups that never came, though later ones of their actors did
        self._machines: set[int] = set()  # that actors played on, and this learner before an interruption
        self._interrupted = threading.Event()
        self._workers = Workers()
        self._server: reverb.Server | None = None
        self._reader: UnrollReader | None = None

    @property
    def restarts(self) -> int:
        return self._actors.restarts

    def next(self) -> Batch:
        if self._server is None:
            self._start()
        while True:
            self.check()
            try:
                batch = self._ready.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue
            for episode in self._reports.read_games():
                self._on_episode(episode)
            return batch

    def check(self) -> None:
        """Looks at the actors, and says what happened to them; for whoever waits, in the learner's thread.

        Raises:
            ActorPoolError: the actors cannot go on.
            Interrupted: see `interrupt`.
        """
        self._workers.check()
        self._actors.look()
        self._actors.check()
        if self._evaluator is not None:
            self._evaluator.look()
        if self._interrupted.is_set():
            raise Interrupted

    def interrupt(self) -> None:
        self._interrupted.set()

    def release(self, batch: Batch) -> None:
        """Gives the batch's memory back."""
        for group in batch.groups:
            self._free.put(group)

    def totals(self, others: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
        """See `describe_totals`.

        Of the unrolls that were under way when a process ended, the most that there can have been are counted.

        Args:
            others: states of the sources of the run's other learners.
        """
        states = [self.get_state(), *others]
        envs = self._sizes.group * self._sizes.per_actor
        games = envs * sum(int(state["actors"]["broken_off"]) for state in states)
        unrolls = games + self._sizes.group * sum(int(state["missing"]) for state in states)
        return describe_totals(self._actors.launcher.home, states, games, unrolls)

    def get_state(self) -> dict[str, Any]:
        """What the totals and other games after an interruption depend on; unrolls that wait are not part of it."""
        machines = with_own_machine(self._machines, self._actors.launcher.home)
        return {"actors": self._actors.get_state(), "missing": self._missing, "machines": machines}

    def set_state(self, state: dict[str, Any]) -> None:
        """New games begin, other than those before."""
        self._actors.set_state(state["actors"])
        self._missing = int(state["missing"])
        self._machines = {int(machine) for machine in state["machines"]}

    def close(self) -> None:
        if self._evaluator is not None:
            self._evaluator.close()
        self._actors.close()
        weights_relay.remove_unused()
        self._workers.stop()
        if self._server is not None:
            if self._reader is not None:
                self._reader.end_wait()
            self._workers.close()
            with suppress_stderr():
                self._server.stop()

    def _start(self) -> None:
        values, experience = self._weights.latest.values, make_queue(self._groups[0], self._max_groups)
        tables = [experience, *make_tables(values), *(self._evaluator.make_tables() if self._evaluator else ())]
        self._server = start_server(tables, self._actors.launcher.port)
        address = f"localhost:{self._server.port}"
        self._weights.connect(address)
        self._reports, self._reader = Reports(address), UnrollReader(address, self._groups[0])
        self._workers.start("prefetch", self._prefetch)
        self._actors.start(address)
        if self._evaluator is not None:
            self._evaluator.start(address)

    def _prefetch(self) -> None:
        while not self._workers.stopped:
            groups = [self._take() for _ in range(self._sizes.per_batch)]
            if not self._workers.stopped:
                self._workers.put(self._ready, Batch(groups, self._to_device))

    def _take(self) -> UnrollGroup:
        """The next group that is new."""
        group = self._workers.get(self._free)
        assert self._reader is not None, "it is there before the thread that takes"
        while not self._workers.stopped:
            header = self._reader.read_into(group)
            if self._workers.stopped or (self._is_new(header) and self._takes_acting(group, header)):
                break
        return group

    def _takes_acting(self, group: UnrollGroup, header: Header) -> bool:
        """Whether what a gradient at the weights of a group needs is here; `group` gets it."""
        acting = self._weights.acting_at(header.version)
        if acting is None:
            self._missing += 1
            return False
        group.acting = acting
        self._acting_versions[header.actor] = header.version
        if len(self._acting_versions) == len(self._actors):  # they only take newer ones
            self._weights.clear_before(min(self._acting_versions.values()))
        return True

    def _is_new(self, header: Header) -> bool:
        """Whether a group is of this run's actors and was not here before; notes its origin and what is missing."""
        if not self._actors.is_known(header.actor, header.start):
            return False
        self._actors.report(header.actor, header.start)
        self._machines.add(header.machine)
        origin = header.actor, header.start
        expected = self._next.get(origin, 0)
        if header.number < expected:
            return False
        self._missing += header.number - expected
        self._next[origin] = header.number + 1
        return True
