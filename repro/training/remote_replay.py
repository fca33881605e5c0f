"""A replay in a process of its own, as the learner has it."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import reverb
from tf_agents.trajectories import Trajectory

from repro.acting.actor_processes import ActorProcess, ActorProcesses, Launcher
from repro.acting.relay import Relay
from repro.acting.replay_messages import (
    FROM_REPLAY,
    MAX_WAITING,
    REPLAY,
    TO_REPLAY,
    Kind,
    Message,
    file_messages,
    make_tables,
    receive,
    send,
    write_file,
)
from repro.acting.supervision import Supervision
from repro.quiet import suppress_stderr
from repro.replay.sequences import Sample, StoredSequences
from repro.replay.step_layout import StepLayout
from repro.training.run_directory import newest_first

FOLDER = "replay"
"""Folder of a replay's files in a checkpoint."""
POLL_SECONDS = 0.02

Result = TypeVar("Result")


class RemoteReplay:
    """A `Replay` in a process of its own, whose server actors and this learner reach by a port of this machine.

    In the place of one that ends or hangs comes another, with what the last checkpoint has; what was written since is
    lost, and counted. Meanwhile updates and actors wait. Everything else is as with `SequenceReplay`, checkpoints too.

    Args:
        launcher: starts the process.
        spec: see `SequenceReplay`.
        tables: of the learner's server, which is in this process.
        checkpoints: folder of the run's.
        supervision: how the process is watched.
    """

    def __init__(
        self,
        launcher: Launcher,
        spec: Trajectory,
        tables: Sequence[reverb.Table],
        checkpoints: Path,
        supervision: Supervision,
    ) -> None:
        self._launcher = launcher
        self._layout = StepLayout(spec)
        self._tables = list(tables)
        self._checkpoints = checkpoints
        self._process = _ReplayProcess(launcher, 1, supervision)
        self._token = secrets.randbits(63)
        self._server: reverb.Server | None = None
        self._relay: Relay | None = None
        self._saved: Path | None = None  # that the process begins with
        self._saving: Path | None = None  # that files come to
        self._serves = self._asked = False  # whether the newest process does, and has been asked to save
        self._written = self._written_saved = 0  # since its start; of them, in the last checkpoint
        self._written_saving: int | None = None  # of them, in one that is being written
        self._lost = self._restarts_before = 0
        self._error: Exception | None = None
        self._stop = threading.Event()

    @property
    def restarts(self) -> int:
        """Times that it was started again, in the whole run."""
        return self._restarts_before + self._process.restarts

    @property
    def lost(self) -> int:
        """Sequences that were lost with a process, of the whole run."""
        return self._lost

    @property
    def address(self) -> str:
        """Address of the learner's server.

        Raises:
            RuntimeError: it was not started.
        """
        if self._server is None:
            raise RuntimeError("The replay was not started.")
        return f"localhost:{self._server.port}"

    def start(self, saved: Path | None = None) -> None:
        """Starts the server and the process, which begins empty or with what `save` wrote to a folder."""
        self._saved = saved
        with suppress_stderr():
            self._server = reverb.Server([*self._tables, *make_tables()], self._launcher.port)
        self._client = reverb.Client(self.address)
        self._relay = Relay("127.0.0.1" if self._launcher.home is None else "")
        self._client.insert([np.array([self._relay.port, self._token], np.int64)], {REPLAY: 1.0})
        self._process.start(self.address)
        threading.Thread(target=self._guard, daemon=True, name="replay").start()
        self._stored = StoredSequences(self._layout, f"localhost:{self._relay.port}")

    def __len__(self) -> int:
        return self._wait_for(lambda: len(self._stored))

    def sample(self, size: int) -> Sample:
        return self._wait_for(lambda: self._stored.sample(size))

    def set_priorities(self, keys: np.ndarray, priorities: np.ndarray) -> None:
        """Gives sampled sequences new priorities; where the replay ends just then, they keep those that they have."""
        with contextlib.suppress(RuntimeError):
            self._wait_for(lambda: self._stored.set_priorities(keys, priorities))

    def save(self, folder: Path) -> None:
        """Has all sequences sent to `folder`, which must not exist yet.

        Raises:
            ActorPoolError: the replay cannot be started again.
        """
        self.look()
        self._saving = folder
        self._wait_for(lambda: self._wait_until(lambda: self._saving is None))

    def look(self) -> None:
        """Says what happened, and ends a process that hangs; for the learner's thread to call again and again.

        Raises:
            ActorPoolError: the replay cannot be started again.
        """
        if self._written_saving is not None:  # no call of `save` is under way, so the checkpoint is complete
            self._written_saved, self._written_saving = self._written_saving, None
            self._saved = newest_first(self._checkpoints)[0] / FOLDER
        self._watch()

    def _watch(self) -> None:
        self._process.look()
        self._process.check()
        if self._error is not None:
            raise self._error

    def get_state(self) -> dict[str, Any]:
        """What `save` does not write."""
        return {"lost": self._lost, "restarts": self.restarts}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continues where `get_state` was taken, also that of a replay in the learner's process."""
        self._lost, self._restarts_before = int(state.get("lost", 0)), int(state.get("restarts", 0))

    def close(self) -> None:
        self._stop.set()
        self._process.close()
        if self._relay is not None:
            self._stored.close()
            self._relay.close()
        if self._server is not None:
            with suppress_stderr():
                self._server.stop()
            self._server = None

    def _wait_for(self, call: Callable[[], Result]) -> Result:
        """What a call of Reverb's returns, which waits for ever while there is no server.

        Raises:
            ActorPoolError: the replay cannot be started again.
        """
        results: list[Result] = []
        errors: list[Exception] = []

        def run() -> None:
            try:
                results.append(call())
            except Exception as error:  # noqa: BLE001 - raised in the learner's thread
                errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(POLL_SECONDS)
            self._watch()
        if errors:
            raise errors[0]
        return results[0]

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition() and not self._stop.is_set():
            time.sleep(POLL_SECONDS)

    def _guard(self) -> None:
        """Answers the process until the run ends."""
        try:
            while not self._stop.is_set():
                message = receive(self._client, FROM_REPLAY)
                if message is None:
                    self._ask()
                    time.sleep(POLL_SECONDS)
                elif message.token == self._token and message.start == self._process.start_number:
                    self._process.report(0)
                    self._take(message)
        except Exception as error:  # noqa: BLE001 - raised in the learner's thread, by `look`
            self._error = self._error or error

    def _ask(self) -> None:
        """Asks for the files of a checkpoint that is being written, once of each process."""
        folder = self._saving
        if folder is not None and self._serves and not self._asked:
            shutil.rmtree(folder, ignore_errors=True)  # of a process that has ended meanwhile
            folder.mkdir()
            self._asked = True
            self._send(Message(self._token, self._process.start_number, Kind.SAVE))

    def _take(self, message: Message) -> None:
        if message.kind == Kind.BEGIN:
            self._begin(message.start)
        elif message.kind == Kind.SERVES:
            assert self._relay is not None, "it was started"
            self._relay.forward_to(message.text)
            self._serves = True
        elif message.kind == Kind.HOLDS:
            self._written = message.number
        elif self._saving is not None and message.kind == Kind.FILE:
            write_file(self._saving, message)
        elif self._saving is not None:
            self._written_saving, self._asked, self._saving = message.number, False, None

    def _begin(self, start: int) -> None:
        """Another process has started: sends it what was saved, and counts what the one before had besides."""
        assert self._relay is not None, "it was started"
        self._serves = self._asked = False
        self._relay.forward_to(None)
        if start:
            lost = self._written - self._written_saved
            self._lost += lost
            self._process.say(f"The replay begins again with what the last checkpoint has; {lost} sequences are lost.")
        self._written = self._written_saved = 0
        if self._written_saving is not None:
            self._written_saving = 0  # of the process before
        for part in file_messages(self._token, start, self._saved or self._checkpoints / "none", 0):
            self._send(part)

    def _send(self, message: Message) -> None:
        """Sends a message to the process, unless it has ended."""
        while message.start == self._process.start_number and not self._stop.is_set():
            if self._client.server_info()[TO_REPLAY].current_size < MAX_WAITING:
                send(self._client, TO_REPLAY, message)
                return
            time.sleep(POLL_SECONDS)


class _ReplayProcess(ActorProcesses):
    """The replay's process."""

    @property
    def start_number(self) -> int:
        """How often one was started before the newest."""
        return self._starts[0] - 1

    def say(self, line: str) -> None:
        """Has the learner's thread say a line."""
        self._lines.append(line)

    def _name(self, i: int) -> str:
        return "The replay"

    def _launch(self, i: int, address: str) -> ActorProcess:
        return self.launcher.start_replay(self.start_number, address)
