"""Batches from actors in other processes, on this machine or on others."""

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
    takes weights before each unroll. An actor that ends or hangs is started again; its unfinished games are lost, and
    at most one unroll of each. A group that arrives twice, as it may after a broken connection, is learned from once.
    Where gradients are taken at the weights that acted, a group whose weights the learner no longer has is skipped and
    counted as lost.

    The server listens on every interface of this machine and trusts everyone who connects, see `SequenceReplay`.

    Args:
        actors: the processes of the actors.
        weights: publisher of the learner's weights.
        make_group: allocates the memory of one group.
        sizes: sizes of the groups.
        queue_capacity: number of batches that may wait, which bounds the policy lag.
        to_device: moves a batch to the learner's devices; None if its unrolls are only stored.
        on_episode: called with every finished game.
        evaluator: the evaluator beside training, if there is one.

    Raises:
        MemoryError: see `make_groups`.
    """

    between_rounds = True  # there are no rounds

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
        self._acting_versions: dict[int, int] = {}  # by actor, of the last weights it is known to have used
        self._next: dict[tuple[int, int], int] = {}  # number of the next group, by actor and start
        self._missing = 0  # groups that never came, though later ones of their actors did
        self._machines: set[int] = set()  # of actors, and of this learner before a resume
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
        """Checks the actors and reports what happened to them; to be called during waits of the learner's thread.

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

        Unrolls in progress when a process ended are counted at their largest possible number.

        Args:
            others: states of the sources of the run's other learners.
        """
        states = [self.get_state(), *others]
        envs = self._sizes.group * self._sizes.per_actor
        games = envs * sum(int(state["actors"]["broken_off"]) for state in states)
        unrolls = games + self._sizes.group * sum(int(state["missing"]) for state in states)
        return describe_totals(self._actors.launcher.home, states, games, unrolls)

    def get_state(self) -> dict[str, Any]:
        """Returns the numbers behind the totals and behind new games after a resume; waiting unrolls are left out."""
        machines = with_own_machine(self._machines, self._actors.launcher.home)
        return {"actors": self._actors.get_state(), "missing": self._missing, "machines": machines}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continues the numbers of `get_state`; the actors begin new games, different from earlier ones."""
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
        """Waits for the next group that is new, and returns it."""
        group = self._workers.get(self._free)
        assert self._reader is not None, "it is there before the thread that takes"
        while not self._workers.stopped:
            header = self._reader.read_into(group)
            if self._workers.stopped or (self._is_new(header) and self._takes_acting(group, header)):
                break
        return group

    def _takes_acting(self, group: UnrollGroup, header: Header) -> bool:
        """Whether the variables for a gradient at a group's weights are still kept; `group` gets them."""
        acting = self._weights.acting_at(header.version)
        if acting is None:
            self._missing += 1
            return False
        group.acting = acting
        self._acting_versions[header.actor] = header.version
        if len(self._acting_versions) == len(self._actors):  # actors only take newer weights
            self._weights.clear_before(min(self._acting_versions.values()))
        return True

    def _is_new(self, header: Header) -> bool:
        """Whether a group is from this run's actors and has not come before; notes its origin and missing groups."""
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
