"""How synchronous learners find each other, and report to the chief, whose process is the run, before each update.

Gradients are not sent this way: they are exchanged in the train step, under `devices.make_learners_strategy`.
"""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, answer_challenge, deliver_challenge
from typing import Any, NamedTuple, NoReturn

import tensorflow as tf
from tensorflow.python.eager import context

from repro.acting.actor_processes import JOIN_SECONDS, START_SECONDS, ActorProcess, Launcher
from repro.acting.batches import POLL_SECONDS
from repro.acting.machines import own_address
from repro.acting.rollout import Episode
from repro.acting.supervision import ActorPoolError, PatientClock, Supervision
from repro.environments.batched import one_line

LOOK_SECONDS = 1.0
"""Time between two checks whether an update has ended."""
REASON_SECONDS = 3.0
"""Longest wait for the reason why a learner is gone: after the end of its connection, for how it ended, and after its
own end, for its last messages."""
BEAT_SECONDS = 3.0
"""Time between two signs of life of a learner, whatever it does."""
NO_BEAT_SECONDS = 30.0
"""Time without a sign of life after which the chief gives up a learner, and a learner the chief."""
LOCAL = "localhost"


class LearnerLostError(Exception):
    """A learner is gone or hangs; the message says which and why. The run can go on from its last checkpoint."""


class Ready(NamedTuple):
    """Message of a learner that has its share of a batch.

    versions: versions of the weights that played the share, one for each of its groups.
    games: games of its actors that ended since the last update.
    restarts: number of its actors that were replaced in its process.
    state: state of its source.
    """

    versions: list[int]
    games: list[Episode]
    restarts: int
    state: dict[str, Any]


class _Joined(NamedTuple):
    connection: Connection
    address: str


class _Beat(NamedTuple):
    """A sign of life."""


class _Failed(NamedTuple):
    reason: str


class _Gone(NamedTuple):
    reason: str


class LearnerGroup:
    """The other learners of a run, as the chief sees them.

    Args:
        launcher: starts their processes.
        num_learners: number of learners, including the chief.
        supervision: how they are watched, as actors are.

    Attributes:
        restarts: number of all their actors that were replaced in their processes.
        states: states of their sources when they were last ready, by number.
    """

    def __init__(self, launcher: Launcher, num_learners: int, supervision: Supervision) -> None:
        self.states: dict[str, dict[str, Any]] = {}
        self._launcher = launcher
        self._supervision = supervision
        self._host = launcher.home or LOCAL
        self._numbers = range(1, num_learners)
        self._restarts = dict.fromkeys(self._numbers, 0)
        self._key = secrets.token_hex()
        self._listener = socket.create_server((self._host, 0))
        self._listener.settimeout(LOOK_SECONDS)
        self._processes: dict[int, ActorProcess] = {}
        self._keepers: dict[int, threading.Thread] = {}
        self._connections: dict[int, Connection] = {}
        self._inbox: queue.Queue[tuple[int, Any]] = queue.Queue()
        self._clock = PatientClock(min(NO_BEAT_SECONDS, supervision.silent_seconds))  # of signs of life
        self._seen: dict[int, float] = {}  # time on the clock of each learner's last one
        self._heard_out: dict[int, threading.Event] = {}  # whether all that a learner said is in the inbox
        self._joined = threading.Event()  # set once all have joined
        self._updates = 0  # number of updates that all were ready for
        self._updating = False  # whether the last of these is in progress
        self._hangs = False
        self._closed = threading.Event()

    @property
    def restarts(self) -> int:
        return sum(self._restarts.values())

    @property
    def num_learners(self) -> int:
        return 1 + len(self._numbers)

    def connect(self) -> list[str]:
        """Starts the others; returns the addresses by which all learners exchange gradients, the chief's first.

        Raises:
            LearnerLostError: one ends, or has not joined in time.
        """
        address = f"{self._host}:{self._listener.getsockname()[1]}"
        for number in self._numbers:
            self._processes[number] = self._launcher.start_learner(number, address, self._key)
            self._keepers[number] = threading.Thread(target=self._await_end, args=(number,), daemon=True)
            self._keepers[number].start()
        threading.Thread(target=self._accept, daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()
        joined: dict[int, str] = {}
        limit = None if self._may_wait else max(START_SECONDS, self._supervision.silent_seconds)
        for number, message in self._messages(limit, lambda: None, joined):
            self._connections[number], joined[number] = message
        self._joined.set()
        addresses = [f"{self._host}:{free_port()}", *(joined[number] for number in self._numbers)]
        for connection in self._connections.values():
            connection.send(addresses)
        return addresses

    def begin(self) -> None:
        """Sends each learner the state with which its source begins, if there is one."""
        for number, connection in self._connections.items():
            with contextlib.suppress(OSError):  # the first wait reports that it is gone
                connection.send(self.states.get(str(number)))

    def wait(self, check: Callable[[], None]) -> list[Ready]:
        """Waits until all are ready for the next update.

        Args:
            check: called again and again meanwhile; an error that it raises ends the wait.

        Raises:
            LearnerLostError: one is gone, or has no share of the batch within `silent_seconds` and a minute. The first
                batch has no limit if actors may have to wait for cores.
            ActorPoolError: one cannot go on; the message says why.
        """
        ready: dict[int, Ready] = {}
        limit = None if self._may_wait and not self._updates else self._limit
        for number, message in self._messages(limit, check, ready):
            ready[number] = message
            self._restarts[number], self.states[str(number)] = message.restarts, message.state
        self._updates += 1
        self._updating = True
        return [ready[number] for number in self._numbers]

    def end_update(self) -> None:
        """Notes that the update has ended for which all were ready; the time until the next one is not limited."""
        self._updating = False

    def lost(self, error: tf.errors.OpError) -> LearnerLostError:
        """Returns the reason why an update failed, given the error of its exchange of gradients."""
        if self._hangs:
            return LearnerLostError(f"A learner hangs: an update took longer than {self._limit:g} seconds.")
        with contextlib.suppress(queue.Empty):
            while True:
                number, message = self._inbox.get(timeout=REASON_SECONDS)
                if isinstance(message, (_Gone, _Failed)):
                    return LearnerLostError(f"Learner {number} is gone: {message.reason}.")
        first = (error.message or type(error).__name__).strip().splitlines()[-1]
        return LearnerLostError(f"A learner does not answer ({first}).")

    def close(self) -> None:
        """Ends the learners, which end their actors, by force if they do not end by themselves."""
        self._closed.set()
        for connection in self._connections.values():
            _hang_up(connection)
        self._listener.close()
        for end in (lambda process: None, lambda process: process.kill()):
            for process in self._processes.values():
                with contextlib.suppress(Exception):  # the others are to end in any case
                    end(process)
            deadline = time.monotonic() + JOIN_SECONDS
            for keeper in self._keepers.values():
                keeper.join(timeout=max(0.0, deadline - time.monotonic()))
            if not any(keeper.is_alive() for keeper in self._keepers.values()):
                return

    @property
    def _may_wait(self) -> bool:
        """Whether learners, and their actors, may have to wait for free cores."""
        return any(process.may_wait for process in self._processes.values())

    @property
    def _limit(self) -> float:
        """Seconds without a share of the batch after which a learner counts as hanging; actors are replaced sooner."""
        return self._supervision.silent_seconds + START_SECONDS

    def _messages(
        self, limit: float | None, check: Callable[[], None], found: dict[int, Any]
    ) -> Iterator[tuple[int, Any]]:
        """Yields each learner's number and next message until all are in `found`; errors as for `wait`."""
        clock, heard = PatientClock(limit or START_SECONDS), 0.0
        while len(found) < len(self._numbers):
            check()
            try:
                number, message = self._inbox.get(timeout=POLL_SECONDS)
                heard = clock.look()
            except queue.Empty:
                if limit is not None and clock.look() - heard > limit:
                    silent = min(set(self._numbers) - set(found))
                    raise LearnerLostError(f"Learner {silent} reported nothing for {limit:g} seconds.") from None
                continue
            if isinstance(message, str):
                self._supervision.warn(message)
            elif isinstance(message, _Failed):
                raise ActorPoolError(message.reason)
            elif isinstance(message, _Gone):
                raise LearnerLostError(f"Learner {number} is gone: {message.reason}.")
            else:
                yield number, message

    def _accept(self) -> None:
        """Accepts connections, each in a thread of its own, so that a silent stranger keeps no learner waiting."""
        while not (self._joined.is_set() or self._closed.is_set()):
            try:
                client, _ = self._listener.accept()
            except OSError:  # nobody came, or the listener was closed
                continue
            client.setblocking(True)
            threading.Thread(target=self._read, args=(Connection(client.detach()),), daemon=True).start()

    def _read(self, connection: Connection) -> None:
        """Reads the messages of a learner, if it knows the key."""
        try:
            deliver_challenge(connection, self._key.encode())
            answer_challenge(connection, self._key.encode())
            number, address = connection.recv()
        except (AuthenticationError, EOFError, OSError):  # somebody else, or one that ended at once
            connection.close()
            return
        self._heard_out[number] = threading.Event()
        self._seen[number] = self._clock.seconds
        self._inbox.put((number, _Joined(connection, address)))
        with contextlib.suppress(EOFError, OSError):
            while True:
                message = connection.recv()
                self._seen[number] = self._clock.seconds
                if not isinstance(message, _Beat):
                    self._inbox.put((number, message))
        self._heard_out[number].set()
        self._keepers[number].join(timeout=REASON_SECONDS)  # it knows the reason
        self._inbox.put((number, _Gone("its connection ended")))

    def _await_end(self, number: int) -> None:
        reason = self._processes[number].wait()
        if number in self._heard_out:
            self._heard_out[number].wait(timeout=REASON_SECONDS)  # it may have said more
        self._inbox.put((number, _Gone(reason)))

    def _watch(self) -> None:
        """Breaks off an update that does not end, or any exchange with a learner that gives no sign of life."""
        updates, began = 0, 0.0
        while not self._closed.wait(LOOK_SECONDS):
            now = self._clock.look()
            for number, seen in tuple(self._seen.items()):
                if now - seen > NO_BEAT_SECONDS:
                    self._inbox.put((number, _Gone(f"it gave no sign of life for {NO_BEAT_SECONDS:g} seconds")))
                    self._break_off("a learner gives no sign of life")
                    return
            if not self._updating or updates != self._updates:
                updates, began = self._updates, now
            elif now - began > self._limit:
                self._hangs = True
                self._break_off("an update does not end")
                return

    def _break_off(self, reason: str) -> None:
        """Ends the exchange that is in progress, if any, and all later ones."""
        if self._joined.is_set():  # TensorFlow must not start before that
            context.context().abort_collective_ops(tf.errors.UNAVAILABLE, reason)


class ChiefLink:
    """The chief, as another learner sees it. Once joined, the process ends when the chief is gone, whatever it does.

    Args:
        address: address of the chief, host and port.
        key: key of the run.
        learner: number of this learner, from 1.

    Attributes:
        learner: see above.
    """

    def __init__(self, address: str, key: str, learner: int) -> None:
        self.learner = learner
        self._address = address
        self._key = key
        self._sending = threading.Lock()
        self._inbox: queue.Queue[Any] = queue.Queue()
        self._close: Callable[[], None] = lambda: None

    def join(self) -> list[str]:
        """Joins the run, once this process can meet the other learners; returns what `LearnerGroup.connect` does."""
        host, port = self._address.rsplit(":", 1)
        try:
            self._connection = Client((host, int(port)), authkey=self._key.encode())
            _end_without_answers(self._connection)
            home = LOCAL if host == LOCAL else own_address(self._address)
            self._connection.send((self.learner, f"{home}:{free_port()}"))
        except (AuthenticationError, EOFError, OSError) as error:
            print(f"The chief at {self._address} does not answer: {one_line(error)}", file=sys.stderr, flush=True)
            os._exit(1)
        for work in (self._read, self._beat):
            threading.Thread(target=work, daemon=True).start()
        return self._inbox.get()

    def begin(self, close: Callable[[], None]) -> dict[str, Any] | None:
        """Returns the state with which this learner's source begins, if there is one.

        Args:
            close: called, in another thread, before the process ends because the chief is gone.
        """
        self._close = close
        return self._inbox.get()

    def send(self, message: Ready | str) -> None:
        """Sends that this learner is ready, or a line for the user."""
        self._send(message)

    def fail(self, reason: object) -> NoReturn:
        """Reports why this learner cannot go on, and ends the process."""
        self._send(_Failed(str(reason)))
        os._exit(1)

    def _send(self, message: object) -> None:
        with contextlib.suppress(OSError), self._sending:  # the chief is gone, and this process ends soon
            self._connection.send(message)

    def _beat(self) -> None:
        """Gives signs of life as long as the process lives."""
        while True:
            self._send(_Beat())
            time.sleep(BEAT_SECONDS)

    def _read(self) -> None:
        """Reads the messages of the chief; once it is gone, ends the process."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._inbox.put(self._connection.recv())
        threading.Timer(JOIN_SECONDS, os._exit, (0,)).start()
        with contextlib.suppress(Exception):
            self._close()
        os._exit(0)


def _hang_up(connection: Connection) -> None:
    """Ends a connection at both ends at once, also where a thread reads from it."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)
    connection.close()


def _end_without_answers(connection: Connection) -> None:
    """Makes a connection end if nothing that is sent arrives for `NO_BEAT_SECONDS`, as when a machine is gone."""
    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * NO_BEAT_SECONDS))


def free_port() -> int:
    """Returns a port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
