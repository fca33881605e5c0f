"""A replay in a process of its own, as the learner has it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import reverb
import tensorflow as tf
from tf_agents.trajectories import Trajectory

from repro.acting.actor_processes import Launcher
from repro.acting.relay import Relay
from repro.acting.replay_keeper import ReplayKeeper
from repro.acting.replay_link import make_table, publish_port
from repro.acting.supervision import ActorPoolError, Interrupted, Supervision
from repro.environments.batched import one_line
from repro.quiet import suppress_stderr
from repro.replay.sequences import EmptyReplayError, Sample, StoredSequences
from repro.replay.step_layout import StepLayout

POLL_SECONDS = 0.02
RETRY_SECONDS = 0.2
"""Between two calls of Reverb's where the first one's connection ended."""
MAX_BROKEN = 10
"""Calls in a row whose connection ends though the process does not, which end the run."""
PRIORITIES_SECONDS = 10.0
"""Longest wait until sampled sequences have their new priorities."""
EMPTY_SECONDS = 1.0
"""Longest wait for samples of a replay that is empty, as after an end before the first checkpoint that had sequences:
actors wait until the learner goes on."""
END_SECONDS = 10.0
"""Longest wait for the end of a call of Reverb's that was not waited for."""

Result = TypeVar("Result")


class RemoteReplay:
    """A `Replay` in a process of its own, whose server actors and this learner reach by a port of this machine.

    In the place of one that ends or hangs comes another, with what the last checkpoint has; what was written since is
    lost, and counted. Meanwhile updates and actors wait. Everything else is as with `SequenceReplay`, checkpoints too.

    Args:
        launcher: starts the process.
        spec: see `SequenceReplay`.
        tables: of the learner's server, which is in this process.
        supervision: how the process is watched.
    """

    def __init__(
        self, launcher: Launcher, spec: Trajectory, tables: Sequence[reverb.Table], supervision: Supervision
    ) -> None:
        self._launcher = launcher
        self._layout = StepLayout(spec)
        self._tables = list(tables)
        self._keeper = ReplayKeeper(launcher, supervision, self._forward)
        self._server: reverb.Server | None = None
        self._interrupted = threading.Event()
        self._blocked: threading.Thread | None = None  # in a call of Reverb's, which may not be waited for any more

    @property
    def restarts(self) -> int:
        """Times that it was started again, in the whole run."""
        return self._keeper.totals.restarts

    @property
    def lost(self) -> int:
        """Sequences that were lost with a process, of the whole run."""
        return self._keeper.totals.lost

    @property
    def serves(self) -> bool:
        """Whether it can be written to and sampled from now."""
        return self._keeper.serves

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
        host = self._launcher.home or "127.0.0.1"
        with suppress_stderr():
            self._server = reverb.Server([*self._tables, make_table()], self._launcher.port)
        self._relay = Relay(host)
        publish_port(reverb.Client(self.address), int(self._relay.address.rsplit(":", 1)[1]))
        self._stored = StoredSequences(self._layout, self._relay.address, EMPTY_SECONDS)
        self._keeper.start(host, saved)

    def __len__(self) -> int:
        return self._call(lambda: len(self._stored))

    def sample(self, size: int) -> Sample | None:
        """See `Replay`.

        Raises:
            ActorPoolError: the replay cannot be started again.
            Interrupted: see `interrupt`.
        """
        while True:
            try:
                return self._call(lambda: self._stored.sample(size))
            except EmptyReplayError:
                if not len(self):
                    return None

    def set_priorities(self, keys: np.ndarray, priorities: np.ndarray) -> None:
        """Gives sampled sequences new priorities; where the replay ends just then, they keep those that they have."""

        def run() -> None:
            with contextlib.suppress(RuntimeError):
                self._stored.set_priorities(keys, priorities)

        if not self.serves:
            return
        thread, deadline = threading.Thread(target=run, daemon=True), time.monotonic() + PRIORITIES_SECONDS
        thread.start()
        while thread.is_alive() and self.serves and time.monotonic() < deadline:
            thread.join(POLL_SECONDS)

    def save(self, folder: Path) -> None:
        """See `ReplayKeeper.save`."""
        self._keeper.save(folder)

    def keep(self, folder: Path) -> None:
        """See `Replay`."""
        self._keeper.keep(folder)

    def look(self) -> None:
        """See `ReplayKeeper.look`."""
        self._keeper.look()

    def interrupt(self) -> None:
        """Ends a wait for samples, from another thread."""
        self._interrupted.set()

    def get_state(self) -> dict[str, Any]:
        """Nothing: `save` writes it all."""
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """Nothing: `start` reads it all."""

    def close(self) -> None:
        self._keeper.close()
        if self._server is None:
            return
        if self._blocked is not None and self._blocked.is_alive():
            self._relay.forward_to(self.address)  # which has no such table and says so
            self._blocked.join(END_SECONDS)
        self._stored.close()
        self._relay.close()
        with suppress_stderr():
            self._server.stop()
        self._server = None

    def _forward(self, address: str | None) -> None:
        self._relay.forward_to(address)

    def _call(self, call: Callable[[], Result]) -> Result:
        """Returns what a call of Reverb's does, once there is a process; errors as for `sample`."""
        broken = 0
        while True:
            self._wait_until(lambda: self.serves, time.sleep)
            try:
                return self._call_once(call)
            except EmptyReplayError:
                raise
            except (RuntimeError, tf.errors.OpError) as error:  # of a connection that ended
                broken = broken + 1 if self.serves else 0  # its process's end may be noticed a moment later
                if broken == MAX_BROKEN:
                    raise ActorPoolError(f"The replay does not answer ({one_line(error)}).") from error
            time.sleep(RETRY_SECONDS)

    def _call_once(self, call: Callable[[], Result]) -> Result:
        """Returns what a call does, or raises what it raises; errors as for `sample` besides."""
        results: list[Result] = []
        errors: list[Exception] = []

        def run() -> None:
            try:
                results.append(call())
            except Exception as error:  # noqa: BLE001 - raised in the learner's thread
                errors.append(error)

        thread = self._blocked = threading.Thread(target=run, daemon=True)
        thread.start()
        self._wait_until(lambda: not thread.is_alive(), thread.join)
        if errors:
            raise errors[0]
        return results[0]

    def _wait_until(self, condition: Callable[[], bool], wait: Callable[[float], object]) -> None:
        """Waits for a condition; errors as for `sample`."""
        while not condition():
            if self._interrupted.is_set() and not self.serves:  # what answers is not broken off
                raise Interrupted
            self.look()
            wait(POLL_SECONDS)
