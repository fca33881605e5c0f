"""What the process of a replay does: take what was saved, have a server with it, save, until the learner is gone."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, NoReturn, Protocol

from repro.acting.replay_link import Kind, Link, LinkEndedError, Message, connect

LIFE_SECONDS = 1.0
"""Between two signs of life, with what it holds."""
PREFIX, LOCK = "repro-replay-", "lock"
"""What names of folders for saving and restoring begin with, and the file in them that their process locks."""
FRESH_SECONDS = 60.0
"""A folder may have no lock yet for so long."""


class Stored(Protocol):
    """A `SequenceReplay`."""

    @property
    def address(self) -> str: ...
    @property
    def num_written(self) -> int: ...
    def start(self, saved: Path | None = None) -> None: ...
    def save(self, folder: Path) -> None: ...


def run_replay(make_replay: Callable[[Path], Stored], start: int, address: str, key: str) -> NoReturn:
    """Has the replay; the process ends when the learner is gone.

    Args:
        make_replay: makes it, given a folder for what it saves.
        start: how often it was started before.
        address: that the learner waits for it at.
        key: that it was given.

    Raises:
        OSError: nobody is at the address, or what was saved cannot be written to this machine's disk.
        ValueError: what was saved cannot be read.
    """
    link = connect(address)
    working, _lock = make_folder()
    try:
        serve(link, make_replay(working / "working"), working / "saved", start, key)
    except LinkEndedError:
        os._exit(0)


def serve(link: Link, replay: Stored, saved: Path, start: int, key: str) -> NoReturn:
    """Answers the learner.

    Args:
        link: to it.
        replay: not yet started.
        saved: folder for files that come and go.
        start, key: see `run_replay`.

    Raises:
        LinkEndedError: the learner is gone.
        OSError, ValueError: see `run_replay`.
    """
    link.send(Message(Kind.BEGIN, start, key))
    holds = _Holds(link)
    while (message := link.receive()).kind == Kind.FILE:
        link.receive_file(message, saved)
    replay.start(saved if saved.exists() else None)
    shutil.rmtree(saved, ignore_errors=True)
    before = replay.num_written
    holds.count = lambda: replay.num_written - before
    link.send(Message(Kind.SERVES, int(replay.address.rsplit(":", 1)[1])))
    while True:
        link.receive()  # SAVE
        number, holds.count = holds.count(), None  # at least so many are saved
        try:
            replay.save(saved)
        except OSError as error:
            link.send(Message(Kind.FAILED, text=str(error)))
        else:
            link.send_files(saved, number)
        shutil.rmtree(saved, ignore_errors=True)
        holds.count = lambda: replay.num_written - before


class _Holds:
    """Gives signs of life, whatever the process does; without them the learner may be gone, and the process ends.

    Attributes:
        count: returns the sequences that were written; None where it cannot, while the replay is restored or saved.
    """

    def __init__(self, link: Link) -> None:
        self.count: Callable[[], int] | None = None
        self._link = link
        self._number = 0
        threading.Thread(target=self._run, daemon=True, name="signs of life").start()

    def _run(self) -> None:
        with contextlib.suppress(LinkEndedError):  # the other thread hears of it as well
            while True:
                count = self.count
                self._number = count() if count is not None else self._number
                self._link.send(Message(Kind.HOLDS, self._number))
                time.sleep(LIFE_SECONDS)


def make_folder() -> tuple[Path, IO[bytes]]:
    """Returns a temporary folder, and its lock, which is held as long as it is open.

    Those of processes that have ended are removed, which cannot do so themselves: they are killed.
    """
    for old in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # it has a process, or is another user's
            if time.time() - old.stat().st_mtime > FRESH_SECONDS:
                with (old / LOCK).open("wb") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(old)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = (folder / LOCK).open("wb")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return folder, lock
