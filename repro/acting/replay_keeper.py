"""The processes of a replay at the learner's end, one after the other: what each was sent, said and lost."""

from __future__ import annotations

import contextlib
import enum
import secrets
import shutil
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from repro.acting.actor_processes import QUICK_SECONDS, ActorProcess, ActorProcesses, Launcher
from repro.acting.replay_link import Kind, Link, LinkEndedError, Message
from repro.acting.supervision import Supervision
from repro.environments.batched import one_line
from repro.replay.saved_replay import Totals, read_totals, write_totals

POLL_SECONDS = 0.02
LOOK_SECONDS = 1.0
"""Between two looks whether processes need not be let in any more."""
BEGIN_SECONDS = 10.0
"""Longest wait for what somebody has to say who connected, and for the way to a server."""
REASON_SECONDS = 3.0
"""Longest wait for how a process ended, once its connection has."""
RESTORED_BYTES = 1 << 20
"""Bytes of a checkpoint for which a process may be silent for a second more: Reverb reads it without a pause."""


class _State(enum.Enum):
    """What a process is at. It is never at anything else, and another process begins with the first."""

    RESTORES = enum.auto()
    SERVES = enum.auto()
    SAVES = enum.auto()


class _Store:
    """A process that has the replay, from its connection on; its fields are under the lock of `ReplayKeeper`.

    Attributes:
        link: to it.
        start: how often it was started before.
        state: see `_State`.
        ended: whether its connection has.
        num_written: sequences that were written to it.
        num_kept: of them, that the last checkpoint has.
        folder: that it saves to.
        failure: why it could not.
        patience: seconds for which it may be silent besides, while it reads what it was sent.
    """

    def __init__(self, link: Link, start: int) -> None:
        self.link, self.start = link, start
        self.state, self.ended = _State.RESTORES, False
        self.num_written = self.num_kept = 0
        self.folder: Path | None = None
        self.failure: OSError | None = None
        self.patience = 0.0

    @property
    def serves(self) -> bool:
        return self.state != _State.RESTORES and not self.ended


class ReplayKeeper:
    """Starts a replay's process, and in the place of one that ends or hangs another, with what the last checkpoint has.

    Each process has a connection of its own, so that nothing that one says or is told is another's. Only what the
    newest one says counts.

    Args:
        launcher: starts them.
        supervision: how they are watched.
        forward: called with the address of the server, and with None when it is gone.
    """

    def __init__(self, launcher: Launcher, supervision: Supervision, forward: Callable[[str | None], None]) -> None:
        self._forward = forward
        self._key = secrets.token_hex()
        self._process = _ReplayProcess(launcher, supervision, self._key, self._rests)
        self._lock = threading.Lock()  # of what follows
        self._store: _Store | None = None  # the newest
        self._saved: Path | None = None  # that the next one begins with
        self._saver: tuple[_Store, int] | None = None  # of the last call of `save`, and the sequences that it saved
        self._before = Totals()  # of processes of the learner before this one
        self._lost = 0
        self._stop = threading.Event()
        self._listener: socket.socket | None = None

    @property
    def totals(self) -> Totals:
        """Totals of the whole run."""
        with self._lock:
            return Totals(self._before.lost + self._lost, self._before.restarts + self._process.restarts)

    @property
    def serves(self) -> bool:
        """Whether the newest process has a server."""
        with self._lock:
            return self._store is not None and self._store.serves

    def start(self, host: str, saved: Path | None) -> None:
        """Starts the first process.

        Args:
            host: address of this machine that it connects to.
            saved: what it begins with; None: it is empty.
        """
        if saved is not None:
            self._saved, self._before = saved, read_totals(saved)
        self._listener = socket.create_server((host, 0))
        self._listener.settimeout(LOOK_SECONDS)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True, name="replay").start()
        self._process.start(f"{host}:{self._listener.getsockname()[1]}")

    def save(self, folder: Path) -> None:
        """Has all sequences sent to `folder`, which must not exist yet; waits while there is no process.

        Raises:
            ActorPoolError: the replay cannot be started again.
            OSError: the disk is full or not writable, here or there.
        """
        while True:
            self._wait_until(lambda: self.serves)
            if self._save(folder):
                write_totals(folder, self.totals)
                return
            shutil.rmtree(folder, ignore_errors=True)  # its process has ended

    def keep(self, folder: Path) -> None:
        """Says that the last checkpoint has what `save` wrote, in this folder."""
        with self._lock:
            self._saved = folder
            if self._saver is not None:
                store, number = self._saver
                store.num_kept = number

    def look(self) -> None:
        """Says what happened, and ends a process that hangs; for the learner's thread to call again and again.

        Raises:
            ActorPoolError: the replay cannot be started again.
        """
        self._process.look()
        self._process.check()

    def close(self) -> None:
        """Ends the process."""
        self._stop.set()
        self._process.close()
        if self._listener is not None:
            self._listener.close()

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.look()
            time.sleep(POLL_SECONDS)

    def _save(self, folder: Path) -> bool:
        """Has the newest process save; returns whether it did, and did not end before."""
        with self._lock:
            store = self._store
            if store is None or not store.serves:
                return False
            store.folder, store.failure, store.state = folder, None, _State.SAVES
        folder.mkdir()
        with contextlib.suppress(LinkEndedError):
            store.link.send(Message(Kind.SAVE))
        self._wait_until(lambda: store.state != _State.SAVES or store.ended)
        if store.failure is not None:
            raise store.failure
        return store.state != _State.SAVES

    def _rests(self, start: int) -> bool:
        """Whether a process, given how often it was started before, neither begins nor saves, and did not fail."""
        with self._lock:
            store = self._store
            return store is not None and store.start == start and store.state == _State.SERVES

    def _accept(self, listener: socket.socket) -> None:
        """Lets processes in; whoever else comes, and maybe says nothing, keeps none of them waiting."""
        while not self._stop.is_set():
            try:
                connected, _ = listener.accept()
            except OSError:  # nobody came, who came is gone, or it was closed
                self._stop.wait(POLL_SECONDS)
                continue
            connected.settimeout(None)
            threading.Thread(target=self._follow, args=(connected,), daemon=True, name="replay's process").start()

    def _follow(self, connected: socket.socket) -> None:
        """Answers a process until its connection ends."""
        with contextlib.closing(connected):
            try:
                link = Link(connected)
                begin = link.receive(BEGIN_SECONDS)
            except (LinkEndedError, OSError):
                return
            if begin.kind != Kind.BEGIN or begin.text != self._key:
                return
            with self._lock:
                if begin.number != self._process.start_number or self._stop.is_set():
                    return  # another one has its place
                store, saved = self._begin(_Store(link, begin.number)), self._saved
            try:
                self._hear(store)
                store.patience = link.send_files(saved) / RESTORED_BYTES
                while True:
                    self._take(store, link.receive())
            except LinkEndedError:
                pass
            except OSError as error:  # of a file on this machine, or of the way to the server
                store.failure = error
                self._process.say(f"The replay's process is of no use: {one_line(error)}.")
            finally:
                self._end(store)

    def _begin(self, store: _Store) -> _Store:
        """Has a process take the place of the one before, and counts what that one had besides what was saved."""
        before, self._store = self._store, store
        if before is not None:
            before.link.close()  # which may be of a machine that does not answer
            lost = before.num_written - before.num_kept
            self._lost += lost
            self._process.say(f"The replay begins again with what the last checkpoint has; {lost} sequences are lost.")
        return store

    def _take(self, store: _Store, message: Message) -> None:
        """Does what a process says."""
        if message.kind == Kind.SERVES:
            store.patience = 0.0
            _check_reached(store.link.other_host, message.number)
        self._hear(store)
        if message.kind == Kind.FILE:
            assert store.folder is not None, "it was asked for files"
            store.link.receive_file(message, store.folder, lambda: self._hear(store))
            return
        with self._lock:
            if message.kind == Kind.SERVES:
                store.state = _State.SERVES
                if self._store is store:
                    self._forward(f"{store.link.other_host}:{message.number}")
            elif message.kind in (Kind.HOLDS, Kind.END):
                store.num_written = max(store.num_written, message.number)
            if message.kind == Kind.END:
                self._saver = store, message.number
            elif message.kind == Kind.FAILED:
                store.failure = OSError(f"{message.text}, on the replay's machine")
            if message.kind in (Kind.END, Kind.FAILED):
                store.state = _State.SERVES

    def _hear(self, store: _Store) -> None:
        """Notes a sign of life."""
        self._process.hear(store.start, store.patience)

    def _end(self, store: _Store) -> None:
        """Its connection has ended: what is left of the process is of no use."""
        with self._lock:
            store.ended = True
            if self._store is store:
                self._forward(None)
        self._process.end(store.start)


class _ReplayProcess(ActorProcesses):
    """The replay's process.

    Args:
        launcher, supervision: as for `ActorProcesses`.
        key: that it is given.
        rests: whether one that ended neither began nor saved, given how often it was started before.
    """

    _failing = "in a row at its start or while it was saved"

    def __init__(self, launcher: Launcher, supervision: Supervision, key: str, rests: Callable[[int], bool]) -> None:
        super().__init__(launcher, 1, supervision)
        self._key = key
        self._rests = rests
        self._newest: tuple[int, ActorProcess | None] = 0, None

    @property
    def start_number(self) -> int:
        """How often one was started before the newest."""
        return self._starts[0] - 1

    def say(self, line: str) -> None:
        """Has the learner's thread say a line."""
        self._lines.append(line)

    def hear(self, start: int, patience: float) -> None:
        """Notes a sign of life of one, given how often it was started before; it may be silent for longer then."""
        self.report(0, start)
        if start == self.start_number:
            self._seen[0] += patience

    def end(self, start: int) -> None:
        """Ends one, given how often it was started before, if it is the newest and does not end by itself."""
        deadline = time.monotonic() + REASON_SECONDS
        while start == self.start_number and time.monotonic() < deadline and not self._stop.wait(POLL_SECONDS):
            pass
        newest, process = self._newest
        if start == newest and process is not None and not self._stop.is_set():
            with contextlib.suppress(Exception):  # where it cannot be reached, its silence ends it or the run
                process.kill()

    def _name(self, i: int) -> str:
        return "The replay"

    def _launch(self, i: int, address: str) -> ActorProcess:
        process = self.launcher.start_replay(self.start_number, address, self._key)
        self._newest = self.start_number, process
        return process

    def _failures(self, i: int, before: int, seconds: float) -> int:
        return 0 if seconds >= QUICK_SECONDS and self._rests(self.start_number) else before + 1


def _check_reached(host: str, port: int) -> None:
    """Raises OSError where nothing leads to a server, for which Reverb's calls would wait for ever."""
    try:
        socket.create_connection((host, port), timeout=BEGIN_SECONDS).close()
    except OSError as error:
        raise OSError(f"this machine does not reach port {port} of {host} ({one_line(error)})") from error
