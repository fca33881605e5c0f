"""An evaluator beside training at the learner's end: a process that plays with the weights of now and then.

A table of the learner's server has the weights that are to be played with next. Newer ones take their place until an
evaluator takes them, so that a slow one leaves some out and never waits for old ones. What it played comes back by a
queue.
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
"""Names of the table and of the queue."""
HEADER_SPEC = tf.TensorSpec([3], tf.int64)
"""Updates behind the weights, what they learned from in units of the budget, and a random number of the learner's
process: another one may come to its address."""
RETURNS_SPEC = tf.TensorSpec([None, None], tf.float64)
"""Return of each episode, by task; without any it is a sign of life."""
MAX_REPORTS = 1000
"""Most reports that wait for the learner to read them."""
OFFERS = 100
"""Weights that are offered in a whole run, at equal distances."""
LOOK_SECONDS = 1.0
"""Between two looks at what came."""
STILL_SECONDS = 120.0
"""Without an update, after which an actor may wait for the evaluator's core."""


class Evaluated(NamedTuple):
    """What an evaluator played with the weights of one moment.

    updates: behind them. frames: that they learned from, in units of the budget. returns: float64 [tasks, episodes].
    tasks: their names; () where there is one.
    """

    updates: int
    frames: int
    returns: np.ndarray
    tasks: tuple[str, ...] = ()


class Evaluator:
    """An evaluator in a process of its own, which no update waits for and which never ends the run.

    It begins after the first update, so that actors have their cores first. In the place of one that ends or hangs
    comes another; after failures in a row without a finished evaluation the run goes on without. What an evaluator was
    at when it ended is lost, and the next one goes on with the next weights.

    Public methods are for the learner's thread.

    Args:
        launcher: starts it.
        variables: of the policy, at the learner.
        tasks: that it plays one after the other; () where there is one.
        supervision: how it is watched.
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
        self._looked = self._updated = 0.0  # by the clock
        self._last = 0  # updates behind the weights of the last evaluation
        self._evaluated: list[Evaluated] = []
        self._lock = threading.Lock()  # of what was read
        self._begun = self._given_up = False

    @property
    def restarts(self) -> int:
        """Evaluators that were replaced so far, in this process."""
        return self._process.restarts

    def make_tables(self) -> list[reverb.Table]:
        """The tables, for the learner's server."""
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
        """Offers the present weights, if it is time and somebody takes them, and returns what came since the last call.

        Args:
            updates: made so far; this is called after each.
            frames: that they learned from.
            total_updates: of the whole run.
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
        """Reads what came, ends an evaluator that hangs, and says what happened; also while the learner waits.

        Where the run stands still, the evaluator gives up its core until there is an update.
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
        """Ends it."""
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
    """The evaluator's process, which is started only while `go_on` was called after the last `pause`.

    Args:
        launcher, supervision: as for `ActorProcesses`.
        read: reads what came, in the thread that waits for the end of a process.

    Attributes:
        has_finished: whether an evaluation came since one failed; without any between them, failures are in a row.
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
        """Ends one that has a core for which others may wait."""
        process = self._processes.get(0)
        if self._may_run.is_set() and process is not None and process.may_wait and 0 in self._reported:
            self._may_run.clear()
            self._lines.append(
                f"{self._name(0)} leaves its core, since there was no update for {STILL_SECONDS:g} seconds."
            )
            process = self._processes.pop(0)  # whose silence and end say nothing from now on
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
        with contextlib.suppress(RuntimeError):  # of a server that has ended
            self._read()
        count = 1 if self.has_finished else before + 1
        self.has_finished = False
        return count

    def _goes_on(self) -> bool:
        self._may_run.wait()
        return super()._goes_on()
