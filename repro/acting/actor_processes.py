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
"""An actor that ends sooner than this failed to start, and so did one that ends before its first report."""
START_SECONDS = 60.0
"""An actor has at least so long for its first report: it loads TensorFlow and traces its policy."""
KEY_VARIABLE = "REPRO_LEARNERS_KEY"
"""Environment variable of a learner's or a replay's process, by which it proves that it belongs to the run."""
JOIN_SECONDS = 8.0
"""Longest wait for processes that were told to end, before they are killed, and then again."""


class ActorProcess(Protocol):
    """A process in which an actor or an evaluator plays, a learner learns or a replay is served, wherever it is.

    may_wait: whether it may have to wait for a free core or for memory, so that silence before its first report means
        nothing.
    """

    may_wait: bool

    def wait(self) -> str:
        """Returns how it ended, once it has."""

    def kill(self) -> None:
        """Ends it at once, from another thread."""

    def terminate(self) -> None:
        """Ends it with the run, from another thread."""


class LocalProcess:
    """A command on this machine.

    Args:
        command: with its arguments.
        log: gets what it writes on the screen.
        variables: of its environment, in addition to this process's own.
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
    """What starts actors, learners, an evaluator and a replay, here or elsewhere.

    Attributes:
        home: address of this machine as those of the actors reach it; None: they are on this machine alone.
        port: of the learner's server; None: a free one.
    """

    home: str | None
    port: int | None

    def __call__(self, actor: int, start: int, address: str) -> ActorProcess:
        """Starts an actor, given its number, how often it was started before, and the server's address here.

        Raises:
            ActorPoolError: it cannot be started.
        """

    def start_learner(self, learner: int, address: str, key: str) -> ActorProcess:
        """Starts a learner, given its number, from 1, and for its `ChiefLink` the chief's address and the key."""

    def start_evaluator(self, address: str) -> ActorProcess:
        """Starts an evaluator, given the server's address here."""

    def start_replay(self, address: str, key: str) -> ActorProcess:
        """Starts a replay, given where it connects to here with which key."""


class LocalLauncher:
    """Starts `repro.actor`, which also evaluates or serves the replay, and `repro.learner` on this machine.

    Args:
        run_dir: of the run, whose settings they read.
        logs: folder for what they write on the screen.
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
    """The processes of a run's actors. In the place of one that ends or hangs comes another, which begins new games.

    Args:
        launcher: starts them.
        count: actors.
        supervision: how they are watched.
        first: number of the first one, where those before it are another learner's.

    Attributes:
        launcher: see above.
        restarts: actors that were replaced so far, in this process.
        broken_off: processes that ended in the midst of their games, of the whole run.
    """

    _failing = "at its start"  # what failures in a row have in common

    def __init__(self, launcher: Launcher, count: int, supervision: Supervision, first: int = 0) -> None:
        self.launcher = launcher
        self.restarts = self.broken_off = 0
        self._first = first
        self._supervision = supervision
        self._clock = PatientClock(supervision.silent_seconds)  # of the learner, near the reports
        self._seen: dict[int, float] = {}  # actor to the clock at its last report or start
        self._reported: set[int] = set()  # actors that did so since their start
        self._starts = [0] * count
        self._starts_before = [0] * count  # in processes of the learner before this one
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._error: ActorPoolError | None = None
        self._lines: deque[str] = deque()  # of the keepers, for the learner's thread to say
        self._processes: dict[int, ActorProcess] = {}
        self._keepers: list[threading.Thread] = []

    def __len__(self) -> int:
        return len(self._starts)

    def start(self, address: str) -> None:
        """Starts the actors of the server at an address."""
        self._clock.look()
        for i in range(len(self._starts)):
            self._keepers.append(threading.Thread(target=self._supervise, args=(i, address), daemon=True))
            self._keepers[i].start()

    def is_known(self, actor: int, start: int) -> bool:
        """Returns whether this process started an actor so, given its number and how often it was started before.

        One of another learner, which was at the same address, is not known.
        """
        i = actor - self._first
        return 0 <= i < len(self._starts) and self._starts_before[i] <= start < self._starts[i]

    def report(self, actor: int, start: int | None = None) -> None:
        """Notes that an actor brought something; what one brought that was replaced since says nothing of the new one.

        Args:
            actor: its number.
            start: how often it was started before; None where that is not known, as of an evaluator.
        """
        i = actor - self._first
        with self._lock:
            if start is None or start == self._starts[i] - 1:
                self._seen[i] = self._clock.seconds
                self._reported.add(i)

    def look(self) -> None:
        """Kills actors that hang, which are then started again; for the learner's thread to call while it waits.

        Raises:
            ActorPoolError: one could not be reached.
        """
        now = self._clock.look()
        for i, process in tuple(self._processes.items()):
            limit = self._limit(i)
            if now - self._seen[i] > limit and (i in self._reported or not process.may_wait):
                self._seen[i] = now
                self._lines.append(f"{self._name(i)} reported nothing for {limit:g} seconds.")
                self._kill(i, process)

    def excuse(self) -> None:
        """Passes over the silence of actors so far, which had to wait; to be called in place of `look`."""
        now = self._clock.look()
        for i in tuple(self._seen):
            self._seen[i] = now

    def check(self) -> None:
        """Says what happened since the last call, in the learner's thread.

        Raises:
            ActorPoolError: an actor cannot be started.
        """
        self._say()
        if self._error is not None:
            raise self._error

    def get_state(self) -> dict[str, Any]:
        """How often each was started, so that a resumed run begins other games."""
        return {"starts": np.array(self._starts), "broken_off": self.broken_off}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continues where `get_state` was taken."""
        self._starts = [int(starts) for starts in state["starts"]]
        self._starts_before = list(self._starts)
        self.broken_off = int(state["broken_off"])

    def close(self) -> None:
        """Ends all of them, by force where they do not end when asked."""
        self._stop.set()
        for end in (lambda process: process.terminate(), lambda process: process.kill()):
            for process in tuple(self._processes.values()):
                with contextlib.suppress(Exception):  # the others are to end in any case
                    end(process)
            deadline = time.monotonic() + JOIN_SECONDS
            for keeper in self._keepers:
                keeper.join(timeout=max(0.0, deadline - time.monotonic()))
            if not any(keeper.is_alive() for keeper in self._keepers):
                return

    def _say(self) -> None:
        while self._lines:
            self._supervision.warn(self._lines.popleft())

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
        """Seconds after which an actor that is silent hangs."""
        silent_seconds = self._supervision.silent_seconds
        return silent_seconds if i in self._reported else max(silent_seconds, START_SECONDS)

    def _failures(self, i: int, before: int, seconds: float) -> int:
        """Failures in a row with that of a process that ended after so many seconds, given those before it."""
        return before + 1 if seconds < QUICK_SECONDS or i not in self._reported else 0

    def _goes_on(self) -> bool:
        """Whether one that is not there is to be started."""
        return not self._stop.is_set()

    def _kill(self, i: int, process: ActorProcess) -> None:
        """Ends one that is started again then; raises ActorPoolError where it cannot be reached."""
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
                    line = f"{self._name(i)} was restarted (restart {self.restarts} of this process): {end}."
                self._lines.append(line)
            began = time.monotonic()
            with self._lock:
                self._starts[i] += 1  # first: it may bring something at once
                self._reported.discard(i)
                self._seen[i] = self._clock.seconds
            process = self._processes[i] = self._launch(i, address)
            if self._stop.is_set():
                process.terminate()
            end = process.wait()
            if self._stop.is_set():
                return
            if i not in self._processes:  # it was no failure
                end = ""
                continue
            failed = self._failures(i, failed, time.monotonic() - began)
            with self._lock:
                self.broken_off += i in self._reported
            if failed == MAX_FAILURES:
                raise ActorPoolError(f"{self._name(i)} failed {failed} times {self._failing}, the last time: {end}.")
