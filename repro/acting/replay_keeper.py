"""The learner's side of a replay in a process of its own, which is replaced when it ends or hangs."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from repro.acting.actor_processes import JOIN_SECONDS, START_SECONDS, ActorProcess, ActorProcesses, Launcher
from repro.acting.machines import check_reached
from repro.acting.replay_link import Kind, Link, LinkEndedError, Message
from repro.acting.supervision import AWAY_SECONDS, ActorPoolError, Supervision
from repro.environments.batched import one_line
from repro.replay.saved_replay import TOTALS, Totals, read_totals, write_totals

POLL_SECONDS = 0.02
REASON_SECONDS = 3.0
"""Longest wait until it is known how a process ended, once its connection has ended."""
RESTORE_SECONDS = 3600.0
"""Longest silence of a process that reads a checkpoint: the learner sends and Reverb reads without a pause."""
ANSWER_SECONDS = 3.0
"""Longest time since the last sign of life of a process that answers; it gives one each second."""
STOP_SECONDS = 1.5 * AWAY_SECONDS
"""Silence after which a process counts as hanging once the run is to end: less than `stopping.STOP_SECONDS`, and more
than one absence of the learner can count."""


class _Store:
    """A process of the replay that has connected.

    Attributes:
        link: connection to it.
        start: how often a process was started before it.
        restores: whether it is still reading what it begins with.
        serves: whether it has a server.
        last_sign: time of its last sign of life.
        num_written: number of sequences that were written to it.
        num_saved, num_kept: number of these in its last save, and in the last checkpoint.
        folder: folder that it is saving to; None while it is not.
        waits: whether a disk of this machine is being waited for, while nothing that the process sends is read.
        failure: error for which it could not save.
    """

    def __init__(self, link: Link, start: int) -> None:
        self.link, self.start = link, start
        self.restores, self.serves = True, False
        self.last_sign = time.monotonic()
        self.num_written = self.num_saved = self.num_kept = 0
        self.folder: Path | None = None
        self.waits = False
        self.failure: OSError | None = None


class ReplayKeeper(ActorProcesses):
    """Starts a replay's process, and replaces one that ends or hangs by another with what the last checkpoint has.

    Each process has a key and a connection of its own; only the newest one counts.

    Args:
        launcher: starts the processes.
        supervision: how they are watched.
        capacity: largest number of sequences in the replay.

    Attributes:
        interrupted: event that is set when the run is to be saved and to end.
    """

    _failing = "without a checkpoint between them"

    def __init__(self, launcher: Launcher, supervision: Supervision, capacity: int) -> None:
        super().__init__(launcher, 1, supervision)
        self.interrupted = threading.Event()
        self._capacity = capacity
        self._key = -1, secrets.token_hex()  # number and key of the newest process; no process has this one
        self._store: _Store | None = None  # the newest; `_lock` guards its fields, too, and what follows
        self._saved: Path | None = None  # what the next process begins with
        self._has_saved = False  # whether one has saved since a process ended
        self._before = Totals()  # of earlier processes of the learner
        self._lost = 0
        self._warns_at = math.inf  # time of a warning if a start takes long
        self._forward: Callable[[str | None], None] = lambda address: None
        self._listener: socket.socket | None = None

    @property
    def totals(self) -> Totals:
        """Totals of the whole run."""
        with self._lock:
            lost = self._before.lost + self._lost + self._count_lost()
            return Totals(lost, self._before.restarts + self.restarts)

    @property
    def serves(self) -> bool:
        """Whether the newest process has a server."""
        store = self._store
        return store is not None and store.serves

    @property
    def answers(self) -> bool:
        """Whether the newest process has a server and gave a sign of life within `ANSWER_SECONDS`."""
        store = self._store
        return store is not None and store.serves and time.monotonic() - store.last_sign < ANSWER_SECONDS

    def begin(self, host: str, saved: Path | None, forward: Callable[[str | None], None]) -> None:
        """Starts the first process.

        Args:
            host: address of this machine at which processes connect.
            saved: folder with what the first process begins with; None for an empty replay.
            forward: called with the address of the server, and with None when it is gone.
        """
        self._forward = forward
        if saved is not None:
            self._saved, self._before = saved, read_totals(saved)
        self._listener = socket.create_server((host, 0))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True, name="replay").start()
        self.start(f"localhost:{self._listener.getsockname()[1]}")

    def save(self, folder: Path) -> None:
        """Writes all sequences to a folder, which must not exist yet; if no process serves, those saved last.

        Raises:
            OSError: the disk of this machine or of the process is full or not writable.
        """
        totals = self.totals
        if not self._save(folder):
            shutil.rmtree(folder, ignore_errors=True)  # its process has ended
            folder.mkdir()
            if self._saved is not None:
                _link_files(self._saved, folder)
            totals = self.totals
            what = "the sequences of the last one" if self._saved is not None else "no sequences"
            self._lines.append(f"The replay is not available: this checkpoint has {what}.")
        self._supervision.report(self._lines)  # the run may end with it
        write_totals(folder, totals)

    def confirm_saved(self, folder: Path) -> None:
        """Notes that the last checkpoint has, in this folder, what `save` wrote."""
        with self._lock:
            self._saved = folder
            if self._store is not None:
                self._store.num_kept = self._store.num_saved

    def look(self) -> None:
        """Reports what happened, and kills a process that hangs; the learner's thread calls this again and again.

        Raises:
            ActorPoolError: the replay cannot be started again.
        """
        super().look()
        if time.monotonic() > self._warns_at:
            self._warns_at = math.inf
            process = self._processes.get(0)
            if process is not None and process.may_wait and 0 not in self._reported:
                self._lines.append(
                    f"The replay has not started for {START_SECONDS:g} seconds: it waits for a machine with enough "
                    "memory (runtime.replay_gb)."
                )
        self.check()

    def interrupt(self) -> None:
        """Shortens the limit of a process's silence, from another thread, since the run is to be saved and to end."""
        silent_seconds = min(STOP_SECONDS, self._supervision.silent_seconds)
        self._supervision = self._supervision._replace(silent_seconds=silent_seconds)
        self.interrupted.set()

    def close(self) -> None:
        self._stop.set()
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        if self._store is not None and self._store.start == self._starts[0] - 1:
            self._close_link()
            self._keepers[0].join(JOIN_SECONDS)  # the process ends with its connection, after it has removed its files
        super().close()

    def _save(self, folder: Path) -> bool:
        """Makes the newest process save; returns whether it did."""
        with self._lock:
            store = self._store
            if store is None or not store.serves:
                return False
            store.folder, store.failure = folder, None
        folder.mkdir()
        with contextlib.suppress(LinkEndedError):
            store.link.send(Message(Kind.SAVE))
        while store.folder is not None and store.serves:
            if store.waits:
                self.excuse()
            else:
                with contextlib.suppress(ActorPoolError):  # the run can be saved all the same
                    super().look()
            time.sleep(POLL_SECONDS)
        if store.failure is not None:
            raise store.failure
        return store.folder is None

    def _accept(self, listener: socket.socket) -> None:
        """Accepts connections, each in a thread of its own, so that a silent stranger keeps no process waiting."""
        while not self._stop.is_set():
            try:
                connected, _ = listener.accept()
            except OSError:  # the client is gone, or the listener was closed
                self._stop.wait(POLL_SECONDS)
            else:
                threading.Thread(target=self._answer, args=(connected,), daemon=True, name="replay's process").start()

    def _answer(self, connected: socket.socket) -> None:
        """Answers a process until its connection ends; only the newest process has the key."""
        start, key = self._key
        try:
            store = _Store(Link(connected, key, is_learner=True), start)
        except LinkEndedError:
            return
        try:
            self._replace(store)
            self._note_life(store)
            self._restore(store)
            while True:
                self._handle(store, store.link.receive())
        except LinkEndedError:
            pass
        except OSError as error:  # a file of this machine failed, or its server cannot be reached
            store.failure = error
            self._lines.append(f"The replay's process cannot be used: {one_line(error)}.")
        finally:
            self._end(store)

    def _replace(self, store: _Store) -> None:
        """Replaces the process before and counts what it lost; raises LinkEndedError if this one is not the newest."""
        with self._lock:
            before = self._store
            if store.start != self._starts[0] - 1 or self._stop.is_set():
                raise LinkEndedError("another one has its place")
            if before is not None:
                before.serves = False
                lost = self._count_lost()
                self._lost += lost
                self._lines.append(f"The replay starts again from the last checkpoint; {lost} sequences are lost.")
            self._store = store

    def _restore(self, store: _Store) -> None:
        saved = self._saved
        if saved is not None and not saved.is_dir():
            raise FileNotFoundError(f"{saved} no longer exists")
        store.link.send_files(saved)

    def _handle(self, store: _Store, message: Message) -> None:
        """Handles a message of a process."""
        self._note_life(store)
        if message.kind == Kind.FILE:
            if store.folder is None or not store.serves:
                raise LinkEndedError("it was not asked for files, or another one has its place")
            store.link.receive_file(message, store.folder, lambda: self._waiting(store))
            return
        if message.kind == Kind.SERVES:
            check_reached(store.link.other_host, message.number)
        with self._lock:
            if message.kind == Kind.SERVES and self._store is store:
                store.restores, store.serves = False, True
                self._forward(f"{store.link.other_host}:{message.number}")
            elif message.kind in (Kind.WRITTEN, Kind.END):
                store.num_written = max(store.num_written, message.number)
            if message.kind == Kind.END:
                store.num_saved, self._has_saved = message.number, True
            elif message.kind == Kind.FAILED:
                store.failure = OSError(f"{message.text}, on the replay's machine")
            if message.kind in (Kind.END, Kind.FAILED):
                store.folder = None

    def _end(self, store: _Store) -> None:
        """Cleans up after a process's connection has ended, and kills the process if it does not end by itself."""
        with self._lock:
            store.restores = store.serves = False
            if self._store is store:
                self._forward(None)
        store.link.close()
        if not self._stop.wait(REASON_SECONDS):
            process = self._processes.get(0)
            if store.start == self._starts[0] - 1 and process is not None:
                with contextlib.suppress(Exception):  # if it cannot be reached, its silence ends it or the run
                    process.kill()

    @contextlib.contextmanager
    def _waiting(self, store: _Store) -> Iterator[None]:
        """Marks the silence of a process as caused by this machine."""
        store.waits = True
        try:
            yield
        finally:
            self._note_life(store)
            store.waits = False

    def _note_life(self, store: _Store) -> None:
        store.last_sign = time.monotonic()
        self.report(0, store.start)

    def _count_lost(self) -> int:
        """Approximate number of sequences that were lost with the newest process; 0 while it serves."""
        store = self._store
        return 0 if store is None or store.serves else min(store.num_written - store.num_kept, self._capacity)

    def _close_link(self) -> None:
        """Ends the connection to the newest process, whose machine may not answer."""
        with self._lock:
            if self._store is not None:
                self._store.link.close()

    def _name(self, i: int) -> str:
        return "The replay"

    def _launch(self, i: int, address: str) -> ActorProcess:
        self._key = self._starts[0] - 1, secrets.token_hex()
        self._warns_at = time.monotonic() + START_SECONDS
        return self.launcher.start_replay(address, self._key[1])

    def _limit(self, i: int) -> float:
        return RESTORE_SECONDS if self._store is not None and self._store.restores else super()._limit(i)

    def _failures(self, i: int, before: int, seconds: float) -> int:
        self._close_link()
        count = 1 if self._has_saved else before + 1
        self._has_saved = False
        return count

    def _kill(self, i: int, process: ActorProcess) -> None:
        self._close_link()
        super()._kill(i, process)


def _link_files(saved: Path, folder: Path) -> None:
    """Links all files but the totals into a folder, or copies those that cannot be linked."""
    for path in sorted(saved.rglob("*")):
        if path.is_dir() or path.name == TOTALS:
            continue
        target = folder / path.relative_to(saved)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, target)
        except OSError:
            shutil.copyfile(path, target)
