"""The loop of a replay's process: take what was saved, serve it, save, until the learner is gone."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, Protocol

from repro.acting.replay_link import Kind, Link, LinkEndedError, Message, connect
from repro.files import join_folder, remove_unused_folders

FOLDER = ".replay_process_"
"""Prefix of the name of its folder in a run's folder; hidden, since its files are of no use to anybody else."""
LIFE_SECONDS = 1.0
"""Time between two signs of life, which carry the number of sequences."""


class Stored(Protocol):
    """What the process needs of a `SequenceReplay`."""

    @property
    def address(self) -> str: ...
    @property
    def num_written(self) -> int: ...
    def start(self, saved: Path | None = None) -> None: ...
    def save(self, folder: Path) -> None: ...


def run_replay(make_replay: Callable[[Path], Stored], folder: Path, address: str, key: str) -> NoReturn:
    """Serves the replay; the process ends when the learner is gone.

    Args:
        make_replay: makes the replay, given a folder for its files.
        folder: folder for temporary files of this process alone, removed at the end.
        address, key: see `connect`.

    Raises:
        OSError: nobody listens at the address, or what was saved cannot be written to this machine's disk.
        tf.errors.OpError: what was saved cannot be read.
    """
    try:
        serve(connect(address, key), make_replay(folder / "working"), folder / "saved")
    except LinkEndedError as error:
        print(f"The connection to the learner ended: {error}.", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def make_folder_in(run_dir: Path) -> Path:
    """Returns a new folder for `run_replay` in a run's folder, after removing all others."""
    remove_folders_in(run_dir)
    return Path(tempfile.mkdtemp(prefix=FOLDER, dir=run_dir))


def remove_folders_in(run_dir: Path) -> None:
    """Removes the folders of other processes from a run's folder; they were killed, or end as their learner has."""
    for left in run_dir.glob(f"{FOLDER}*"):
        shutil.rmtree(left, ignore_errors=True)


def make_temporary_folder() -> Path:
    """Returns a folder for `run_replay` among temporary files.

    It stays in use until the process ends. Folders of processes that were killed are removed.
    """
    parent, prefix = Path(tempfile.gettempdir()), f"repro-replay-{os.geteuid()}-"
    remove_unused_folders(parent, prefix)
    folder = parent / f"{prefix}{secrets.token_hex(8)}"
    join_folder(folder)
    return folder


def serve(link: Link, replay: Stored, saved: Path) -> NoReturn:
    """Serves the replay and answers the learner.

    Args:
        link: connection to the learner.
        replay: the replay, not yet started.
        saved: folder for the files that are received and sent, removed after each use.

    Raises:
        LinkEndedError: the learner is gone.
        OSError, tf.errors.OpError: see `run_replay`.
    """
    signs = _SignsOfLife(link)
    while (message := link.receive()).kind == Kind.FILE:
        link.receive_file(message, saved)
    replay.start(saved if saved.exists() else None)
    shutil.rmtree(saved, ignore_errors=True)
    before = replay.num_written
    signs.begin(lambda: replay.num_written - before)
    link.send(Message(Kind.SERVES, int(replay.address.rsplit(":", 1)[1])))
    while True:
        link.receive()  # SAVE
        number = signs.pause()  # at least this many are saved
        try:
            replay.save(saved)
        except OSError as error:
            link.send(Message(Kind.FAILED, text=str(error)))
        else:
            link.send_files(saved, number)
        shutil.rmtree(saved, ignore_errors=True)
        signs.begin(lambda: replay.num_written - before)


class _SignsOfLife:
    """Sends how many sequences were written, at regular intervals, whatever the process does."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._number = 0
        self._count: Callable[[], int] | None = None
        self._counting = threading.Lock()
        threading.Thread(target=self._run, daemon=True, name="signs of life").start()

    def begin(self, count: Callable[[], int]) -> None:
        """Takes the number from `count` from now on."""
        with self._counting:
            self._count = count

    def pause(self) -> int:
        """Counts once more; this number is sent until `begin`, since a count during a save would wait for its end."""
        with self._counting:
            self._number, self._count = self._newest(), None
            return self._number

    def _run(self) -> None:
        try:
            with contextlib.suppress(LinkEndedError):  # the other thread notices as well
                while True:
                    with self._counting:
                        number = self._number = self._newest()
                    self._link.send(Message(Kind.WRITTEN, number))
                    time.sleep(LIFE_SECONDS)
        finally:
            self._link.close()  # without signs of life the process would count as hanging

    def _newest(self) -> int:
        return self._number if self._count is None else self._count()
