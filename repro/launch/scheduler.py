"""Runs jobs one after the other or in parallel."""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.progress import TaskID

from repro.launch.bars import make_bars
from repro.launch.recorded_job import Outcome, RecordedJob, try_run

Slot = list[int]
"""Numbers of the processor cores for one job."""
TICK_SECONDS = 0.5
"""Seconds between two rounds of the scheduler."""
END_SECONDS = 60.0
"""Seconds from asking a job to stop, at Ctrl-C or SIGTERM, to killing it."""
PAUSE_SECONDS = 120.0
"""Seconds to save where there is more time: before a pause, to make room for a wider job, and for runs on a cluster."""
GIVE_UP_SECONDS = 15.0
"""Seconds from killing a job, at Ctrl-C or SIGTERM, to abandoning it: a job stuck in this process cannot be killed."""


def run_jobs(jobs: Sequence[RecordedJob], at_once: int, console: Console) -> dict[RecordedJob, str]:
    """Runs jobs, `at_once` of them in parallel; returns the failed ones with the reason.

    A single job at a time shows its own progress line; parallel jobs write to `log.txt` in their run folders and share
    a display of progress bars.
    """
    at_once = min(at_once, len(jobs))
    if at_once <= 1:
        return _run_in_turn(jobs, console)
    cores = sorted(os.sched_getaffinity(0))
    slots = [cores[i::at_once] or [cores[i % len(cores)]] for i in range(at_once)]
    return Scheduler(jobs, slots, console).run()


def run_on_cluster(jobs: Sequence[RecordedJob], at_once: int, cores: int, console: Console) -> dict[RecordedJob, str]:
    """Runs jobs on a cluster; returns the failed ones with the reason.

    Args:
        jobs: jobs in order.
        at_once: number of jobs in parallel.
        cores: number of cores that each job requests; it waits until the cluster has them.
        console: console for the progress bars.
    """
    slots = [list(range(i * cores, (i + 1) * cores)) for i in range(min(at_once, len(jobs)))]
    return Scheduler(jobs, slots, console, end_seconds=PAUSE_SECONDS).run()


def _run_in_turn(jobs: Sequence[RecordedJob], console: Console) -> dict[RecordedJob, str]:
    failures: dict[RecordedJob, str] = {}
    cores = sorted(os.sched_getaffinity(0))
    for job in jobs:
        outcome = try_run(job, cores, quiet=False)
        if outcome.stopped:
            break
        if outcome.failure is not None:
            failures[job] = outcome.failure
    return failures


class NoMoreError(Exception):
    """No further job may begin; the message gives the reason."""


class Follower:
    """Decides on behalf of a scheduler, and is told about its jobs.

    This base class gives each job one slot, never pauses and refuses nothing.
    """

    def num_slots(self, job: RecordedJob) -> int:
        """Returns the number of slots that a job needs; more than exist means all."""
        return 1

    def is_paused(self) -> bool:
        """Returns whether jobs are paused."""
        return False

    def refusal(self, job: RecordedJob) -> str | None:
        """Returns why a job must not begin, or None.

        Raises:
            NoMoreError: no further job may begin; running ones continue.
        """
        return None

    def ended(self, job: RecordedJob, failure: str | None, retry: bool) -> None:
        """Is called when a job has ended.

        Args:
            job: the job.
            failure: why it failed; None if it is done.
            retry: whether the failure has a cause outside the job.
        """

    def tick(self, running: Sequence[RecordedJob], waiting: Sequence[RecordedJob]) -> None:
        """Is called every `TICK_SECONDS` with the running and the waiting jobs."""


@dataclasses.dataclass
class _Running:
    """State of a running job.

    Attributes:
        slots: slots of the job.
        bar: progress bar of the job.
        thread: thread that runs the job.
        outcome: outcome of the job once its thread has ended.
        deadline: time of the monotonic clock at which the job is killed; None if it has not been asked to stop.
    """

    slots: list[Slot]
    bar: TaskID
    thread: threading.Thread | None = None
    outcome: Outcome = Outcome()
    deadline: float | None = None

    def is_given_up(self) -> bool:
        """Returns whether the job was killed more than `GIVE_UP_SECONDS` ago."""
        return self.deadline is not None and time.monotonic() > self.deadline + GIVE_UP_SECONDS


class Scheduler:
    """Runs jobs in parallel on slots of cores, in their order, and keeps the slots busy.

    While a job needs more slots than are free, later jobs may run first. As soon as the slots of later jobs would be
    enough for it, those jobs are stopped and saved, and wait until it has started.

    Args:
        jobs: jobs in order.
        slots: slots of cores; a job takes one or several.
        console: console for the progress bars.
        follower: makes decisions for the scheduler; None for the defaults of `Follower`.
        end_seconds: seconds from asking a job to stop to killing it; None for `END_SECONDS`.
    """

    def __init__(
        self,
        jobs: Sequence[RecordedJob],
        slots: Sequence[Slot],
        console: Console,
        follower: Follower | None = None,
        end_seconds: float | None = None,
    ) -> None:
        self._end_seconds = end_seconds or END_SECONDS
        self._place = {job: place for place, job in enumerate(jobs)}
        self._waiting = list(jobs)
        self._running: dict[RecordedJob, _Running] = {}
        self._free = list(slots)
        self._total = len(slots)
        self._console = console
        self._follower = follower or Follower()
        self._bars = make_bars(console)
        self._failures: dict[RecordedJob, str] = {}
        self._no_more = False

    def run(self) -> dict[RecordedJob, str]:
        """Runs the jobs; returns the failed ones with the reason.

        It returns when all jobs have ended, or after Ctrl-C or SIGTERM when all are saved. A job that does not end even
        when killed is then abandoned.
        """
        with _ending() as end, self._bars:
            while True:
                self._collect(end)
                if end.asked:
                    self._stop(self._running, self._end_seconds)
                elif self._follower.is_paused():
                    self._stop(self._running, PAUSE_SECONDS)
                elif not self._no_more:
                    self._fill()
                self._follower.tick(list(self._running), self._waiting)
                if not self._running and (end.asked or self._no_more or not self._waiting):
                    return self._failures
                for job, state in self._running.items():
                    self._bars.update(state.bar, completed=job.share_done(), description=job.label + job.where())
                time.sleep(TICK_SECONDS)

    def _fill(self) -> None:
        """Begins the jobs for which there are free slots."""
        for job in list(self._waiting):
            need = min(self._follower.num_slots(job), self._total)
            if need <= len(self._free):
                try:
                    self._begin(job, need)
                except NoMoreError:
                    self._no_more = True
                    return
            elif need > 1 and self._make_room(job, need) or not self._free:
                return

    def _make_room(self, job: RecordedJob, need: int) -> bool:
        """Stops jobs after this one, the last first, if their slots are enough for it; returns whether they are."""
        behind = sorted((self._place[other], other) for other in self._running if self._place[other] > self._place[job])
        missing, chosen = need - len(self._free), {}
        while behind and missing > 0:
            _, other = behind.pop()
            chosen[other] = self._running[other]
            missing -= len(chosen[other].slots)
        if missing > 0:
            return False
        self._stop(chosen, PAUSE_SECONDS)
        return True

    def _begin(self, job: RecordedJob, need: int) -> None:
        reason = self._follower.refusal(job)
        self._waiting.remove(job)
        if reason is not None:
            self._failures[job] = reason
            return
        slots, self._free = self._free[:need], self._free[need:]
        state = self._running[job] = _Running(slots, self._bars.add_task(job.label, total=1.0))
        job.take_back_stop()
        state.thread = threading.Thread(target=_work, args=(job, state), daemon=True)
        state.thread.start()

    def _stop(self, chosen: Mapping[RecordedJob, _Running], seconds: float) -> None:
        """Asks jobs to stop, and kills them after some seconds.

        It is called repeatedly, because a job between two of its processes would miss a single request.
        """
        now = time.monotonic()
        for job, state in chosen.items():
            state.deadline = min(now + seconds, state.deadline or now + seconds)
            if now < state.deadline:
                job.stop()
            else:
                job.kill()

    def _collect(self, end: _End) -> None:
        """Frees the slots of jobs whose threads have ended or have been abandoned."""
        for job, state in list(self._running.items()):
            at_work = state.thread is not None and state.thread.is_alive()
            if at_work and not (end.asked and state.is_given_up()):
                continue
            outcome = Outcome(stopped=True) if at_work else state.outcome
            del self._running[job]
            self._free = sorted(self._free + state.slots)
            self._bars.remove_task(state.bar)
            asked = state.deadline is not None
            if outcome.stopped or (asked and outcome.failure is not None):  # a failure while stopping may be retried
                bisect.insort(self._waiting, job, key=self._place.__getitem__)
                if not asked:  # for example by Ctrl-C, which reaches all processes of a terminal
                    end.ask()
                continue
            if outcome.failure is not None:
                self._failures[job] = outcome.failure
            self._follower.ended(job, outcome.failure, outcome.retry)


def _work(job: RecordedJob, state: _Running) -> None:
    """Runs a job and stores its outcome; the target of the job's thread."""
    cores = sorted({core for slot in state.slots for core in slot})
    state.outcome = try_run(job, cores, quiet=True)


class _End:
    """Flag that all jobs are to end; not an event, which could deadlock if a second signal arrives while it is set."""

    asked = False

    def ask(self, *_: object) -> None:
        self.asked = True


@contextlib.contextmanager
def _ending() -> Iterator[_End]:
    """Yields a flag that Ctrl-C and SIGTERM set instead of ending the process."""
    end = _End()
    before = {number: signal.signal(number, end.ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield end
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
