"""What the process of a replay does: take what was saved, have a server with it, save, until the learner is gone."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
import time
from pathlib import Path
from typing import IO, NoReturn

import reverb
from tf_agents.trajectories import Trajectory

from repro.acting.machines import own_address
from repro.acting.replay_messages import (
    FROM_REPLAY,
    TO_REPLAY,
    Kind,
    Message,
    file_messages,
    find_replay,
    receive,
    send,
    write_file,
)
from repro.replay.sequences import SequenceReplay, SequenceSettings

POLL_SECONDS = 0.05
LIFE_SECONDS = 1.0
"""Between two reports of what it holds."""
PREFIX, LOCK = "repro-replay-", "lock"
"""What names of folders for saving and restoring begin with, and the file in them that their process locks."""
FRESH_SECONDS = 60.0
"""A folder may have no lock yet for so long."""


def run_replay(spec: Trajectory, settings: SequenceSettings, start: int, address: str) -> NoReturn:
    """Has the replay; `end_with` was called, so that the process ends with the learner's server.

    Args:
        spec, settings: see `SequenceReplay`.
        start: how often it was started before.
        address: of the learner's server.
    """
    client = reverb.Client(address)
    _, token = find_replay(client)
    working, _lock = make_folder()
    own = Message(token, start, Kind.BEGIN)
    saved = working / "saved"
    send(client, FROM_REPLAY, own)
    _receive_files(client, own, saved)
    replay = SequenceReplay(spec, settings, working / "working")
    replay.start(saved if saved.exists() else None)
    shutil.rmtree(saved, ignore_errors=True)
    port = replay.address.rsplit(":", 1)[1]
    send(client, FROM_REPLAY, own._replace(kind=Kind.SERVES, text=f"{own_address(address)}:{port}"))
    before, next_report = replay.num_written, 0.0
    while True:
        if time.monotonic() > next_report:
            send(client, FROM_REPLAY, own._replace(kind=Kind.HOLDS, number=replay.num_written - before))
            next_report = time.monotonic() + LIFE_SECONDS
        message = receive(client, TO_REPLAY)
        if message is None:
            time.sleep(POLL_SECONDS)
        elif message[:3] == (token, start, Kind.SAVE):
            number = replay.num_written - before  # at least so many are saved
            replay.save(saved)
            for part in file_messages(token, start, saved, number):
                send(client, FROM_REPLAY, part)
            shutil.rmtree(saved)


def make_folder() -> tuple[Path, IO[bytes]]:
    """A temporary folder, and its lock, which is held as long as it is open.

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


def _receive_files(client: reverb.Client, own: Message, folder: Path) -> None:
    """Waits for the files of the learner's checkpoint."""
    while True:
        message = receive(client, TO_REPLAY)
        if message is None:
            time.sleep(POLL_SECONDS)
        elif message[:2] == own[:2]:  # others are for one that has ended
            if message.kind == Kind.END:
                return
            write_file(folder, message)
