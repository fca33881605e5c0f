"""Actors in processes of their own, each of which is started again when it ends or hangs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from repro.acting.supervision import MAX_FAILURES, ActorPoolError, PatientClock, Supervision
from repro.environments.batched import one_line

QUICK_SECONDS = 20.0
"""An actor that ends within this time, or before its first report, counts as failed at its start."""
START_SECONDS = 60.0
"""Minimum time limit for an actor's first report, before which it loads TensorFlow and traces its policy."""
KEY_VARIABLE = "REPRO_LEARNERS_KEY"
"""Environment variable with the key by which a learner's or replay's process proves that it belongs to the run."""
JOIN_SECONDS = 8.0
"""Longest wait for processes that were told to end, before they are killed, and once more after that."""


class ActorProcess(Protocol):
    """A process of an actor, an evaluator, a learner or a replay, on this machine or another.

    may_wait: whether it may have to wait for a free core or for memory, so that silence before its first report is no
        fault.
    """

    may_wait: bool

    def wait(self) -> str:
        """Waits until it ends; returns how it ended."""

    def kill(self) -> None:
        """Ends it at once, from another thread."""

    def terminate(self) -> None:
        """Ends it at the end of the run, from another thread."""


class LocalProcess:
    """A command on this machine.

    Args:
        command: the command and its arguments.
        log: file that its output is appended to.
        variables: environment variables, in addition to those of this process.
    """

    may_wait = False

    def __init__(self, command: Sequence[str], log: Path, variables: Mapping[str, str] | None = None) -> None:
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as output:
            # A session of its own keeps Ctrl-C away: the learner saves first, and then ends it.
            self._process = subprocess.Popen(
                command, stdout=output, stderr=output, start_new_session=True, env={**os.environ, **(variables or {})}
            )

    def wait(self) -> str:
        return f"it ended with code {self._process.wait()}; see {self._log}"

    def kill(self) -> None:
        self._process.kill()

    def terminate(self) -> None:
        self._process.terminate()


class Launcher(Protocol):
    """Starts the processes of actors, learners, an evaluator and a replay, on this machine or others.

    Attributes:
        home: address at which the actors' machines reach this one; None if all are on this machine.
        port: port of the learner's server; None for a free one.
    """

    home: str | None
    port: int | None

    def __call__(self, actor: int, start: int, address: str) -> ActorProcess:
        """Starts an actor, given its number, how often it was started before, and the server's address on this machine.

        Raises:
            ActorPoolError: it cannot be started.
        """

    def start_learner(self, learner: int, address: str, key: str) -> ActorProcess:
        """Starts a learner, given its number, from 1, and the chief's address and the key for its `ChiefLink`."""

    def start_evaluator(self, address: str) -> ActorProcess:
        """Starts an evaluator, given the server's address on this machine."""

    def start_replay(self, address: str, key: str) -> ActorProcess:
        """Starts a replay, given the address on this machine that it connects to, and the key for that."""


class LocalLauncher:
    """Starts `repro.actor`, which also evaluates or serves the replay, and `repro.learner` on this machine.

    Args:
        run_dir: folder of the run, whose settings the processes read.
        logs: folder for their output.
    """

    home: str | None = None
    port: int | None = None

    def __init__(self, run_dir: Path, logs: Path) -> None:
        self._run_dir = run_dir
        self._logs = logs

    def __call__(self, actor: int, start: int, address: str) -> LocalProcess:
        flags = {"run_dir": self._run_dir, "address": address, "actor": actor, "start": start}
        return self._start("repro.actor", flags, f"actor_{actor}.txt")

    def start_learner(self, learner: int, address: str, key: str) -> LocalProcess:
        flags = {"run_dir": self._run_dir, "address": address, "learner": learner}
        return self._start("repro.learner", flags, f"learner_{learner}.txt", {KEY_VARIABLE: key})

    def start_evaluator(self, address: str) -> LocalProcess:
        flags = {"run_dir": self._run_dir, "address": address, "evaluates": True}
        return self._start("repro.actor", flags, "evaluator.txt")

    def start_replay(self, address: str, key: str) -> LocalProcess:
        flags = {"run_dir": self._run_dir, "address": address, "stores": True}
        return self._start("repro.actor", flags, "replay.txt", {KEY_VARIABLE: key})

    def _start(
        self, module: str, flags: Mapping[str, Any], log: str, variables: Mapping[str, str] | None = None
    ) -> LocalProcess:
        command = [sys.executable, "-m", module, *(f"--{name}={value}" for name, value in flags.items())]
        return LocalProcess(command, self._logs / log, variables)


class ActorProcesses:
    """The processes of a run's actors. One that ends or hangs is replaced by another, which begins new games.

    Args:
        launcher: starts the processes.
        count: number of actors.
        supervision: how they are watched.
        first: number of the first actor; lower numbers belong to other learners.

    Attributes:
        launcher: see above.
        restarts: number of actors that were replaced so far, in this process.
        broken_off: number of processes that ended in the middle of games, in the whole run.
    """

    _failing = "at its start"  # what failures in a row have in common

    def __init__(self, launcher: Launcher, count: int, supervision: Supervision, first: int = 0) -> None:
        self.launcher = launcher
        self.restarts = self.broken_off = 0
        self._first = first
        self._supervision = supervision
        self._clock = PatientClock(supervision.silent_seconds)  # looked at by the learner, when it reads reports
        self._seen: dict[int, float] = {}  # time on the clock of each actor's last report or start
        self._reported: set[int] = set()  # actors that have reported since their start
        self._starts = [0] * count
        self._starts_before = [0] * count  # in earlier processes of the learner
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._error: ActorPoolError | None = None
        self._lines: deque[str] = deque()  # from the keepers, for the learner's thread to report
        self._processes: dict[int, ActorProcess] = {}
        self._keepers: list[threading.Thread] = []

    def __len__(self) -> int:
        return len(self._starts)

    def start(self, address: str) -> None:
        """Starts the actors, given the server's address."""
        self._clock.look()
        for i in range(len(self._starts)):
            self._keepers.append(threading.Thread(target=self._supervise, args=(i, address), daemon=True))
            self._keepers[i].start()

    def is_known(self, actor: int, start: int) -> bool:
        """Returns whether this process started an actor, given its number and how often it was started before.

        Actors of another learner that had the same address are not known.
        """
        i = actor - self._first
        return 0 <= i < len(self._starts) and self._starts_before[i] <= start < self._starts[i]

    def report(self, actor: int, start: int | None = None) -> None:
        """Notes that an actor reported something; ignored if the actor has been replaced since.

        Args:
            actor: number of the actor.
            start: how often it was started before; None if that is unknown, as for an evaluator.
        """
        i = actor - self._first
        with self._lock:
            if start is None or start == self._starts[i] - 1:
                self._seen[i] = self._clock.seconds
                self._reported.add(i)

    def look(self) -> None:
        """Kills actors that hang, which are then started again; the learner's thread calls this while it waits.

        Raises:
            ActorPoolError: one could not be killed.
        """
        now = self._clock.look()
        for i, process in tuple(self._processes.items()):
            limit = self._limit(i)
            if now - self._seen[i] > limit and (i in self._reported or not process.may_wait):
                self._seen[i] = now
                self._lines.append(f"{self._name(i)} reported nothing for {limit:g} seconds.")
                self._kill(i, process)

    def excuse(self) -> None:
        """Ignores the silence of actors so far, since they had to wait; to be called in place of `look`."""
        now = self._clock.look()
        for i in tuple(self._seen):
            self._seen[i] = now

    def check(self) -> None:
        """Reports what happened since the last call, in the learner's thread.

        Raises:
            ActorPoolError: an actor cannot be started.
        """
        self._supervision.report(self._lines)
        if self._error is not None:
            raise self._error

    def get_state(self) -> dict[str, Any]:
        """Returns how often each actor was started, so that a resumed run plays other games, and `broken_off`."""
        return {"starts": np.array(self._starts), "broken_off": self.broken_off}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continues where `get_state` was taken."""
        self._starts = [int(starts) for starts in state["starts"]]
        self._starts_before = list(self._starts)
        self.broken_off = int(state["broken_off"])

    def close(self) -> None:
        """Ends all processes, by force if they do not end when asked, and reports what `check` did not yet report."""
        self._stop.set()
        for end in (lambda process: process.terminate(), lambda process: process.kill()):
            for process in tuple(self._processes.values()):
                with contextlib.suppress(Exception):  # the others are to end in any case
                    end(process)
            deadline = time.monotonic() + JOIN_SECONDS
            for keeper in self._keepers:
                keeper.join(timeout=max(0.0, deadline - time.monotonic()))
            if not any(keeper.is_alive() for keeper in self._keepers):
                break
        self._supervision.report(self._lines)

    def _supervise(self, i: int, address: str) -> None:
        """Runs actor i until the run ends, or until it cannot be started."""
        try:
            self._keep_alive(i, address)
        except ActorPoolError as error:
            self._error = error
        except Exception as error:  # a full disk, no memory for a process
            reason = f"{type(error).__name__}: {one_line(error)}"
            self._error = ActorPoolError(f"{self._name(i)} could not be started ({reason}).")

    def _name(self, i: int) -> str:
        return f"Actor {self._first + i}"

    def _launch(self, i: int, address: str) -> ActorProcess:
        return self.launcher(self._first + i, self._starts[i] - 1, address)

    def _limit(self, i: int) -> float:
        """Seconds of silence after which an actor counts as hanging."""
        silent_seconds = self._supervision.silent_seconds
        return silent_seconds if i in self._reported else max(silent_seconds, START_SECONDS)

    def _failures(self, i: int, before: int, seconds: float) -> int:
        """Failures in a row after a process that ran for `seconds`, given those before it; 0 if it did not fail."""
        return before + 1 if seconds < QUICK_SECONDS or i not in self._reported else 0

    def _goes_on(self) -> bool:
        """Whether a missing process is to be started."""
        return not self._stop.is_set()

    def _kill(self, i: int, process: ActorProcess) -> None:
        """Kills a process, which is then started again; raises ActorPoolError if it cannot be reached."""
        try:
            process.kill()
        except Exception as error:  # the cluster may be gone
            raise ActorPoolError(f"{self._name(i)} could not be ended ({one_line(error)}).") from error

    def _keep_alive(self, i: int, address: str) -> None:
        failed, end = 0, ""
        while self._goes_on():
            if end:
                with self._lock:
                    self.restarts += 1
                    line = f"{self._name(i)} was restarted (restart {self.restarts} by this process): {end}."
                self._lines.append(line)
            began = time.monotonic()
            with self._lock:
                self._starts[i] += 1  # first: the process may report at once
                self._reported.discard(i)
                self._seen[i] = self._clock.seconds
            process = self._processes[i] = self._launch(i, address)
            if self._stop.is_set():
                process.terminate()
            end = process.wait()
            if self._stop.is_set():
                return
            if i not in self._processes:  # it was paused: no failure
                end = ""
                continue
            failed = self._failures(i, failed, time.monotonic() - began)
            with self._lock:
                self.broken_off += i in self._reported
            if failed == MAX_FAILURES:
                raise ActorPoolError(f"{self._name(i)} failed {failed} times {self._failing}, the last time: {end}.")
