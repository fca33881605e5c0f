"""The learner's access to a replay in a process of its own."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import reverb
import tensorflow as tf
from tf_agents.trajectories import Trajectory

from repro.acting.relay import Relay
from repro.acting.remote import make_replay_table, publish_replay, start_server
from repro.acting.replay_keeper import ReplayKeeper
from repro.acting.supervision import ActorPoolError, Interrupted
from repro.environments.batched import one_line
from repro.quiet import suppress_stderr
from repro.replay.sequences import EmptyReplayError, Sample, StoredSequences, check_priorities
from repro.replay.step_layout import StepLayout

LOCAL, EVERYWHERE = "127.0.0.1", "0.0.0.0"  # noqa: S104 - as Reverb's servers
POLL_SECONDS = 0.02
RETRY_SECONDS = 0.2
"""Time between two calls of Reverb if the connection of the first one ended."""
MAX_BROKEN = 10
"""Number of calls in a row whose connection ends, although the process does not, that ends the run."""
PRIORITIES_SECONDS = 10.0
"""Longest wait until sampled sequences have their new priorities."""
EMPTY_SECONDS = 1.0
"""Longest wait for samples of a replay that has just become empty: actors wait until the learner goes on."""
END_SECONDS = 10.0
"""Longest wait, at the end, for a call of Reverb whose result is no longer needed."""

Result = TypeVar("Result")


class RemoteReplay:
    """A `Replay` in a process of its own, whose server actors and this learner reach by a port of this machine.

    A process that ends or hangs is replaced by another with what the last checkpoint has; sequences that were written
    since are lost and counted. Meanwhile updates and actors wait. Everything else is as with `SequenceReplay`, also
    checkpoints.

    Args:
        keeper: starts the process.
        spec: see `SequenceReplay`.
        tables: tables of the learner's server, which is in this process.
    """

    def __init__(self, keeper: ReplayKeeper, spec: Trajectory, tables: Sequence[reverb.Table]) -> None:
        self._keeper = keeper
        self._layout = StepLayout(spec)
        self._tables = list(tables)
        self._call_under_way: _Call | None = None
        self._filled_restarts = -1  # restarts before the process that had enough to learn from
        self._min_size: int | None = None  # sequences that this takes; None: not known yet
        self._closing = contextlib.ExitStack()

    @property
    def restarts(self) -> int:
        """How often the process was started again, in the whole run."""
        return self._keeper.totals.restarts

    @property
    def lost(self) -> int:
        """Number of sequences that were lost with a process, in the whole run."""
        return self._keeper.totals.lost

    def start(self, saved: Path | None = None) -> None:
        """Starts the server and the process, which begins empty or with what `save` wrote to a folder."""
        launcher = self._keeper.launcher
        host = LOCAL if launcher.home is None else EVERYWHERE
        self._server = start_server([*self._tables, make_replay_table()], launcher.port)
        self._closing.callback(self._stop_server)
        self.address = f"localhost:{self._server.port}"
        self._relay = Relay(host)
        self._closing.callback(self._relay.close)
        publish_replay(self.address, self._relay.port)
        self._stored = StoredSequences(self._layout, f"{LOCAL}:{self._relay.port}", EMPTY_SECONDS, is_here=False)
        self._closing.callback(self._stored.close)
        self._closing.callback(self._end_call)
        self._closing.callback(self._keeper.close)
        self._keeper.begin(host, saved, self._relay.forward_to)

    def __len__(self) -> int:
        return self._call(lambda: len(self._stored))

    def sample(self, size: int) -> Sample | None:
        """See `Replay`; a process that was started again needs as many sequences as the first one had at this call.

        Raises:
            ActorPoolError: the replay cannot be started again.
            Interrupted: the run is to end, and no process serves.
        """
        restarts = self._keeper.restarts
        if restarts != self._filled_restarts:
            if (count := len(self)) < (self._min_size or 1):
                return None
            self._min_size, self._filled_restarts = self._min_size or count, restarts
        try:
            return self._call(lambda: self._stored.sample(size))
        except EmptyReplayError:
            return None

    def set_priorities(self, keys: np.ndarray, priorities: np.ndarray) -> None:
        """Gives sampled sequences new priorities; they keep theirs where the replay ends or does not answer in time.

        Raises:
            ActorPoolError: the replay serves, but the connection of every call ends.
            ValueError: a priority is negative or not finite.
        """
        check_priorities(priorities)
        deadline, broken = time.monotonic() + PRIORITIES_SECONDS, 0

        def goes_on() -> bool:
            return self._keeper.serves and time.monotonic() < deadline

        while goes_on():
            call = _Call(lambda: self._stored.set_priorities(keys, priorities))
            while call.is_alive() and goes_on():
                call.join(POLL_SECONDS)
            if call.error is None:
                return
            if not _has_ended(call.error):
                raise call.error
            broken = self._count_broken(broken, call.error)

    def save(self, folder: Path) -> None:
        """See `ReplayKeeper.save`."""
        self._keeper.save(folder)

    def confirm_saved(self, folder: Path) -> None:
        """See `Replay`."""
        self._keeper.confirm_saved(folder)

    def get_state(self) -> dict[str, Any]:
        """Returns how many sequences updates need, once that is known; `save` writes everything else."""
        return {} if self._min_size is None else {"min_size": self._min_size}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continues where `get_state` was taken; the state of a replay in the learner's process has nothing for it."""
        self._min_size = state.get("min_size")

    def close(self) -> None:
        self._closing.close()

    def _end_call(self) -> None:
        if self._call_under_way is not None and self._call_under_way.is_alive():
            self._relay.forward_to(self.address)  # its server has no such table, which ends the call
            self._call_under_way.join(END_SECONDS)

    def _stop_server(self) -> None:
        with suppress_stderr():
            self._server.stop()

    def _call(self, call: Callable[[], Result]) -> Result:
        """Returns the result of a call of Reverb, once a process serves; errors as for `sample`."""
        broken = 0
        while True:
            self._wait_until(lambda: self._keeper.serves, time.sleep)
            made = self._make(call)
            if made.error is None:
                return made.results[0]
            if not _has_ended(made.error) or isinstance(made.error, EmptyReplayError):
                raise made.error
            broken = self._count_broken(broken, made.error)

    def _count_broken(self, before: int, error: Exception) -> int:
        """Calls in a row that were broken off, with this one, after a pause; raises ActorPoolError at `MAX_BROKEN`."""
        broken = before + 1 if self._keeper.serves else 0  # its process's end may be noticed a moment later
        if broken == MAX_BROKEN:
            raise ActorPoolError(f"The replay does not answer ({one_line(error)}).") from error
        time.sleep(RETRY_SECONDS)
        return broken

    def _make(self, call: Callable[[], Result]) -> _Call[Result]:
        """Makes a call and waits for its end; errors as for `sample`."""
        made = self._call_under_way = _Call(call)
        self._wait_until(lambda: not made.is_alive(), made.join)
        return made

    def _wait_until(self, condition: Callable[[], bool], wait: Callable[[float], object]) -> None:
        """Waits for a condition; errors as for `sample`."""
        while not condition():
            if self._keeper.interrupted.is_set() and not self._keeper.serves:  # else the call is waited for
                raise Interrupted
            self._keeper.look()
            wait(POLL_SECONDS)


class _Call(threading.Thread, Generic[Result]):
    """A call of Reverb, which may wait forever, in a thread of its own.

    Attributes:
        results: its result, once it has returned.
        error: error that it raised, if any.
    """

    def __init__(self, call: Callable[[], Result]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self.results: list[Result] = []
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self.results.append(self._call())
        except Exception as error:  # noqa: BLE001 - raised in the learner's thread
            self.error = error


def _has_ended(error: Exception) -> bool:
    """Whether Reverb raised an error because a connection has ended."""
    return isinstance(error, (RuntimeError, tf.errors.OpError))
