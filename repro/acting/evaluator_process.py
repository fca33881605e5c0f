"""The learner's side of an evaluator beside training: a process that plays with the weights now and then.

A table of the learner's server holds the weights to play with next. Newer weights replace them until the evaluator
takes them, so that a slow evaluator skips some and does not fall behind. Its results come back through a queue.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import reverb
import tensorflow as tf

from repro.acting.actor_processes import ActorProcess, ActorProcesses, Launcher
from repro.acting.supervision import ActorPoolError, PatientClock, Supervision
from repro.quiet import suppress_stderr

OFFERED, PLAYED = "offered", "played"
"""Names of the table of weights and of the queue of results."""
HEADER_SPEC = tf.TensorSpec([3], tf.int64)
"""Number of updates behind the weights, units of the budget that they learned from, and a random number of the
learner's process, since another process may get its address."""
RETURNS_SPEC = tf.TensorSpec([None, None], tf.float64)
"""Returns by task and episode; an empty array is a sign of life."""
MAX_REPORTS = 1000
"""Largest number of reports that wait for the learner to read them."""
OFFERS = 100
"""Number of times that weights are offered in a whole run, at equal intervals."""
LOOK_SECONDS = 1.0
"""Time between two reads of the results."""
STILL_SECONDS = 120.0
"""Time without an update after which an actor may be waiting for the evaluator's core."""


class Evaluated(NamedTuple):
    """Result of an evaluation beside training.

    updates: number of updates behind the weights.
    frames: units of the budget that they learned from.
    returns: float64 [tasks, episodes].
    tasks: names of the tasks; () if there is only one.
    """

    updates: int
    frames: int
    returns: np.ndarray
    tasks: tuple[str, ...] = ()


class Evaluator:
    """An evaluator in a process of its own, which no update waits for and which never ends the run.

    It starts after the first update, so that actors get their cores first. One that ends or hangs is replaced by
    another, which goes on with the next weights; the evaluation in progress is lost. After `MAX_FAILURES` failures in a
    row without a finished evaluation, the run goes on without an evaluator.

    Public methods are to be called in the learner's thread.

    Args:
        launcher: starts the process.
        variables: the learner's variables of the policy.
        tasks: names of the tasks that it plays one after the other; () if there is only one.
        supervision: how the process is watched.
    """

    def __init__(
        self, launcher: Launcher, variables: Sequence[tf.Variable], tasks: tuple[str, ...], supervision: Supervision
    ) -> None:
        self._variables = variables
        self._tasks = tasks
        self._warn = supervision.warn
        self._process = _EvaluatorProcess(launcher, supervision, self._read)
        self._token = secrets.randbits(63)
        self._clock = PatientClock(supervision.silent_seconds)
        self._looked = self._updated = 0.0  # times on the clock
        self._last = 0  # updates behind the weights of the last evaluation
        self._evaluated: list[Evaluated] = []
        self._lock = threading.Lock()  # guards what was read
        self._begun = self._given_up = False

    @property
    def restarts(self) -> int:
        """Number of evaluators that were replaced so far, in this process."""
        return self._process.restarts

    def make_tables(self) -> list[reverb.Table]:
        """Returns the table and the queue, for the learner's server."""
        weights = [HEADER_SPEC, *(tf.TensorSpec(v.shape, v.dtype) for v in self._variables)]
        offered = reverb.Table(
            OFFERED,
            sampler=reverb.selectors.Fifo(),
            remover=reverb.selectors.Fifo(),
            max_size=1,
            max_times_sampled=1,
            rate_limiter=reverb.rate_limiters.MinSize(1),
            signature=weights,
        )
        return [offered, reverb.Table.queue(PLAYED, MAX_REPORTS, signature=[HEADER_SPEC, RETURNS_SPEC])]

    def start(self, address: str) -> None:
        """Connects to the server with the tables; the process begins with the first offer."""
        self._client = reverb.Client(address)
        self._process.start(address)

    def follow(self, updates: int, frames: int, total_updates: int) -> list[Evaluated]:
        """Offers the present weights if they are due; returns the evaluations that came since the last call.

        Args:
            updates: number of updates so far; this is called after each.
            frames: units of the budget learned from so far.
            total_updates: number of updates of the whole run.
        """
        self._updated = self._clock.seconds
        is_due = not self._begun or updates % max(1, total_updates // OFFERS) == 0
        if is_due and not self._given_up:
            header = np.array([updates, frames, self._token], np.int64)
            values = [variable.read_value().numpy() for variable in self._variables]
            self._client.insert([header, *values], {OFFERED: 1.0})
        self._begun = True
        self._process.go_on()
        self.look()
        with self._lock:
            found, self._evaluated = self._evaluated, []
        return found

    def look(self) -> None:
        """Reads results, kills an evaluator that hangs, and reports what happened; also called while the learner waits.

        If there is no update for `STILL_SECONDS`, the evaluator gives up its core until the next one.
        """
        now = self._clock.look()
        if now < self._looked + LOOK_SECONDS or self._given_up:
            return
        self._looked = now
        self._read()
        try:
            if now > self._updated + STILL_SECONDS:
                self._process.pause()
            self._process.look()
            self._process.check()
        except ActorPoolError as error:
            self._given_up = True
            self._warn(f"{str(error).rstrip('.')}. The run goes on without it.")

    def close(self) -> None:
        """Ends the process."""
        self._process.close()

    def _read(self) -> None:
        with self._lock:
            count = int(self._client.server_info()[PLAYED].current_size)
            if not count:
                return
            self._process.report(0)
            with suppress_stderr():
                reports = [sample.data for sample in self._client.sample(PLAYED, count, emit_timesteps=False)]
            for ((updates, frames, token),), (returns,) in reports:
                if returns.size and token == self._token and updates > self._last:  # one may come twice
                    self._process.has_finished = True
                    self._last = int(updates)
                    self._evaluated.append(Evaluated(int(updates), int(frames), returns, self._tasks))


class _EvaluatorProcess(ActorProcesses):
    """The evaluator's process, which runs only between a call of `go_on` and the next `pause`.

    Args:
        launcher, supervision: as for `ActorProcesses`.
        read: reads the results; called in the thread that waits for the process to end.

    Attributes:
        has_finished: whether an evaluation has come since the last failure; failures without one in between are in a
            row.
    """

    _failing = "in a row without a finished evaluation"

    def __init__(self, launcher: Launcher, supervision: Supervision, read: Callable[[], None]) -> None:
        super().__init__(launcher, 1, supervision)
        self.has_finished = False
        self._read = read
        self._may_run = threading.Event()

    def go_on(self) -> None:
        self._may_run.set()

    def pause(self) -> None:
        """Ends a process that has a core for which others may be waiting."""
        process = self._processes.get(0)
        if self._may_run.is_set() and process is not None and process.may_wait and 0 in self._reported:
            self._may_run.clear()
            self._lines.append(
                f"{self._name(0)} frees its core until the next update: there was none for {STILL_SECONDS:g} seconds."
            )
            process = self._processes.pop(0)  # its silence and end no longer count
            self._kill(0, process)

    def close(self) -> None:
        self._stop.set()
        self._may_run.set()
        super().close()

    def _name(self, i: int) -> str:
        return "The evaluator"

    def _launch(self, i: int, address: str) -> ActorProcess:
        return self.launcher.start_evaluator(address)

    def _failures(self, i: int, before: int, seconds: float) -> int:
        with contextlib.suppress(RuntimeError):  # the server may have ended
            self._read()
        count = 1 if self.has_finished else before + 1
        self.has_finished = False
        return count

    def _goes_on(self) -> bool:
        self._may_run.wait()
        return super()._goes_on()
