"""Jobs in turn, or several of them side by side."""

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
"""Numbers of the processor cores of one place for a job."""
TICK_SECONDS = 0.5
END_SECONDS = 60.0
"""From asking a job to end to killing it, at Ctrl-C and SIGTERM."""
PAUSE_SECONDS = 120.0
"""The same for a pause and for room for a wider job, where there is more time to save, and for runs on a cluster."""
GIVE_UP_SECONDS = 15.0
"""From killing a job at Ctrl-C and SIGTERM to going on without it: one that hangs in this process cannot be killed."""


def run_jobs(jobs: Sequence[RecordedJob], at_once: int, console: Console) -> dict[RecordedJob, str]:
    """Runs jobs, `at_once` side by side; returns the failed ones with the reason.

    One at a time shows its own progress line; several write to `log.txt` in their run folders and share a
    display of bars.
    """
    at_once = min(at_once, len(jobs))
    if at_once <= 1:
        return _run_in_turn(jobs, console)
    cores = sorted(os.sched_getaffinity(0))
    slots = [cores[i::at_once] or [cores[i % len(cores)]] for i in range(at_once)]
    return Scheduler(jobs, slots, console).run()


def run_on_cluster(jobs: Sequence[RecordedJob], at_once: int, cores: int, console: Console) -> dict[RecordedJob, str]:
    """As `run_jobs`, for jobs that a cluster does: each asks it for so many cores, and may wait for them there."""
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
    """No further job is to begin; the message says why."""


class Follower:
    """What a scheduler asks and tells. This one gives each job one slot, is never paused and takes note of nothing."""

    def num_slots(self, job: RecordedJob) -> int:
        """Returns how many slots a job is to have; more than there are count as all."""
        return 1

    def is_paused(self) -> bool:
        """Returns whether no job is to run for now."""
        return False

    def refusal(self, job: RecordedJob) -> str | None:
        """Says why a job must not begin, or None.

        Raises:
            NoMoreError: no other may, either. Those at work go on.
        """
        return None

    def ended(self, job: RecordedJob, failure: str | None, retry: bool) -> None:
        """Takes note of a job that is done, or failed for a reason that may be another one's (`retry`) or its own."""

    def tick(self, running: Sequence[RecordedJob], waiting: Sequence[RecordedJob]) -> None:
        """Looks at what goes on, every `TICK_SECONDS`."""


@dataclasses.dataclass
class _Running:
    """A job at work, and what became of it once its thread has ended.

    Attributes:
        slots: that it has.
        bar: that shows it.
        thread: that runs it.
        outcome: see above.
        deadline: when it is killed; None while nobody asked it to end.
    """

    slots: list[Slot]
    bar: TaskID
    thread: threading.Thread | None = None
    outcome: Outcome = Outcome()
    deadline: float | None = None

    def is_given_up(self) -> bool:
        """Returns whether it was killed long ago."""
        return self.deadline is not None and time.monotonic() > self.deadline + GIVE_UP_SECONDS


class Scheduler:
    """Runs jobs side by side on slots of cores, in their order, and keeps the slots busy.

    A job that needs more slots than are free lets later ones pass. As soon as the slots of later ones would do, these
    are saved and wait until it has had its turn.

    Args:
        jobs: in order.
        slots: each for one job at a time, or several for one.
        console: for the bars and a line for each job that ends.
        follower: see there.
        end_seconds: in place of `END_SECONDS`.
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
        """Returns the failed jobs with the reason, once all have ended, or at Ctrl-C or SIGTERM, when all are saved.

        Then one that does not even end when it is killed is left behind.
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
        """Begins what there are free slots for."""
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
        """Stops the last ones of the jobs behind this one, if their slots are enough for it; returns whether."""
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
        """Asks jobs to end, again and again, since one between two processes misses it, and at last kills them."""
        now = time.monotonic()
        for job, state in chosen.items():
            state.deadline = min(now + seconds, state.deadline or now + seconds)
            if now < state.deadline:
                job.stop()
            else:
                job.kill()

    def _collect(self, end: _End) -> None:
        """Takes back the slots of jobs whose threads have ended, or are not waited for any more."""
        for job, state in list(self._running.items()):
            at_work = state.thread is not None and state.thread.is_alive()
            if at_work and not (end.asked and state.is_given_up()):
                continue
            outcome = Outcome(stopped=True) if at_work else state.outcome
            del self._running[job]
            self._free = sorted(self._free + state.slots)
            self._bars.remove_task(state.bar)
            asked = state.deadline is not None
            if outcome.stopped or (asked and outcome.failure is not None):  # one that fails in haste may try again
                bisect.insort(self._waiting, job, key=self._place.__getitem__)
                if not asked:  # as by Ctrl-C, which reaches all processes of a terminal
                    end.ask()
                continue
            if outcome.failure is not None:
                self._failures[job] = outcome.failure
            self._follower.ended(job, outcome.failure, outcome.retry)


def _work(job: RecordedJob, state: _Running) -> None:
    """Runs a job, in a thread of its own."""
    cores = sorted({core for slot in state.slots for core in slot})
    state.outcome = try_run(job, cores, quiet=True)


class _End:
    """Whether all jobs are to end; no event, which a second signal would set while the first sets it."""

    asked = False

    def ask(self, *_: object) -> None:
        self.asked = True


@contextlib.contextmanager
def _ending() -> Iterator[_End]:
    """Yields what Ctrl-C and SIGTERM set, in place of ending the process."""
    end = _End()
    before = {number: signal.signal(number, end.ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield end
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
