"""Order, wide jobs, pause, end and failures of jobs side by side; tests let fake jobs end."""

import errno
import io
import os
import signal
import threading
import time

import pytest
from rich.console import Console

from repro.launch import scheduler
from repro.launch.recorded_job import InUseError, JobError
from repro.launch.scheduler import Follower, NoMoreError, Scheduler, run_jobs
from repro.training.run_directory import RunDirectoryError
from tests.launch.fake_jobs import FakeJob, wait_for


class Notes(Follower):
    """Takes note of what it is told, and can pause, refuse and widen."""

    def __init__(self, wide=(), refused=(), last=None):
        self.paused, self.wide, self.refused, self.last = False, wide, refused, last
        self.seen = []

    def num_slots(self, job):
        return 2 if job.label in self.wide else 1

    def is_paused(self):
        return self.paused

    def refusal(self, job):
        if self.last is not None and len(self.seen) >= self.last:
            raise NoMoreError("enough")
        return "not this one" if job.label in self.refused else None

    def ended(self, job, failure, retry):
        self.seen.append((job.label, failure, retry))


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(scheduler, "TICK_SECONDS", 0.01)


def during(jobs, test, follower=None, slots=([0], [1])):
    """Runs a test in a thread beside a scheduler, which needs the main one for its signals; returns the failures."""
    errors = []

    def act():
        try:
            test()
        except BaseException as error:  # shown by the main thread
            errors.append(error)
        finally:
            if errors:
                os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=act)
    thread.start()
    failures = Scheduler(jobs, slots, Console(quiet=True), follower).run()
    thread.join()
    assert not errors, errors
    return failures


def test_jobs_begin_in_order_and_one_that_ends_makes_room_for_the_next():
    jobs = [FakeJob(name) for name in "abc"]

    def test():
        wait_for(lambda: jobs[0].begun and jobs[1].begun)
        assert not jobs[2].begun
        jobs[1].finish.set()
        wait_for(lambda: jobs[2].begun)
        assert jobs[2].cores == jobs[1].cores == [[1]]
        jobs[0].finish.set()
        jobs[2].finish.set()

    assert during(jobs, test) == {}
    assert [job.begun for job in jobs] == [1, 1, 1]


def test_a_wide_job_lets_later_ones_pass_and_takes_their_cores_when_they_are_enough():
    first, wide, later = jobs = [FakeJob("first"), FakeJob("wide"), FakeJob("later")]

    def test():
        wait_for(lambda: first.begun and later.begun)
        assert not wide.begun
        first.finish.set()  # now one core is free, and the later job has the other
        wait_for(lambda: wide.begun)
        assert wide.cores == [[0, 1]]
        assert later.begun == 1
        wide.finish.set()
        wait_for(lambda: later.begun == 2)
        later.finish.set()

    assert during(jobs, test, Notes(wide=["wide"])) == {}
    assert first.begun == wide.begun == 1


def test_a_wide_job_does_not_wait_for_more_cores_than_there_are():
    wide = FakeJob("wide", finished=True)
    assert during([wide], lambda: None, Notes(wide=["wide"]), slots=[[3]]) == {}
    assert wide.cores == [[3]]


def test_a_pause_saves_all_and_begins_nothing_until_its_end():
    jobs, notes = [FakeJob(name) for name in "abc"], Notes()

    def test():
        wait_for(lambda: jobs[0].begun and jobs[1].begun)
        notes.paused = True
        wait_for(lambda: jobs[0]._stop.is_set() and jobs[1]._stop.is_set())
        jobs[0].finish.set()
        time.sleep(20 * scheduler.TICK_SECONDS)
        assert jobs[2].begun == 0
        notes.paused = False
        wait_for(lambda: jobs[1].begun == 2)
        for job in jobs:
            job.finish.set()

    assert during(jobs, test, notes) == {}
    assert jobs[1].begun == 2
    assert jobs[2].begun == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_all_and_ends_without_failures(number):
    jobs = [FakeJob(name) for name in "abc"]

    def test():
        wait_for(lambda: jobs[0].begun and jobs[1].begun)
        os.kill(os.getpid(), number)

    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    notes = Notes()
    assert during(jobs, test, notes) == {}
    assert notes.seen == []
    assert jobs[2].begun == 0
    assert handlers == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))


def test_what_does_not_end_when_asked_is_killed(monkeypatch):
    monkeypatch.setattr(scheduler, "END_SECONDS", 0.05)
    deaf = FakeJob("deaf", obeys=False)

    def test():
        wait_for(lambda: deaf.begun)
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            wait_for(lambda: deaf.killed, 5)
        finally:
            deaf.finish.set()

    assert during([deaf], test) == {}


def test_what_does_not_end_when_it_is_killed_is_left_behind(monkeypatch):
    """As a job in this process whose environment hangs."""
    monkeypatch.setattr(scheduler, "END_SECONDS", 0.05)
    monkeypatch.setattr(scheduler, "GIVE_UP_SECONDS", 0.2)
    hung, good, notes = FakeJob("hung", obeys=False), FakeJob("good"), Notes()
    monkeypatch.setattr(hung, "kill", lambda: None)

    def test():
        wait_for(lambda: hung.begun and good.begun)
        os.kill(os.getpid(), signal.SIGTERM)

    began = time.monotonic()
    assert during([hung, good], test, notes) == {}
    assert time.monotonic() - began > 0.2
    assert notes.seen == []
    hung.finish.set()


def test_what_cannot_be_killed_is_waited_for_in_a_pause(monkeypatch):
    """It would be begun a second time at its end."""
    monkeypatch.setattr(scheduler, "PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(scheduler, "GIVE_UP_SECONDS", 0.05)
    hung, notes = FakeJob("hung", obeys=False), Notes()
    monkeypatch.setattr(hung, "kill", lambda: None)

    def test():
        wait_for(lambda: hung.begun)
        notes.paused = True
        time.sleep(0.5)
        notes.paused = False
        time.sleep(0.1)
        hung.finish.set()

    assert during([hung], test, notes) == {}
    assert hung.begun == 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.EROFS, "Read-only file system", "x"), "[Errno 30] Read-only file system: 'x'"),
        (RunDirectoryError("Could not write x (No space left)."), "Could not write x (No space left)."),
        (ValueError("no such game"), "ValueError: no such game"),
    ],
)
@pytest.mark.parametrize("at_once", [1, 2])
def test_what_a_job_raises_fails_it_alone_whether_it_is_beside_others_or_before_them(error, reason, at_once):
    jobs = [FakeJob("bad", error), FakeJob("good", finished=True)]
    assert run_jobs(jobs, at_once, Console(file=io.StringIO())) == {jobs[0]: reason}
    assert jobs[1].begun == 1


def test_a_job_that_fails_is_set_aside_and_the_others_go_on():
    errors = {"bad": JobError("NaN"), "busy": InUseError("in use"), "wrong": KeyError("mistake")}
    jobs = [FakeJob(name, errors.get(name), finished=True) for name in ("bad", "busy", "wrong", "good")]
    notes = Notes()
    failures = during(jobs, lambda: None, notes)
    assert {job.label: reason for job, reason in failures.items()} == {
        "bad": "NaN",
        "busy": "in use",
        "wrong": "KeyError: 'mistake'",
    }
    assert sorted(notes.seen) == [
        ("bad", "NaN", False),
        ("busy", "in use", True),
        ("good", None, False),
        ("wrong", "KeyError: 'mistake'", False),
    ]


def test_a_refused_job_never_begins():
    jobs = [FakeJob(name, finished=True) for name in ("stale", "good")]
    failures = during(jobs, lambda: None, Notes(refused=["stale"]))
    assert {job.label: reason for job, reason in failures.items()} == {"stale": "not this one"}
    assert [job.begun for job in jobs] == [0, 1]


def test_when_no_more_may_begin_those_at_work_go_on():
    jobs = [FakeJob(name) for name in "abc"]

    def test():
        wait_for(lambda: jobs[0].begun and jobs[1].begun)
        jobs[0].finish.set()
        time.sleep(20 * scheduler.TICK_SECONDS)
        jobs[1].finish.set()

    notes = Notes(last=1)
    assert during(jobs, test, notes) == {}
    assert sorted(notes.seen) == [("a", None, False), ("b", None, False)]
    assert jobs[2].begun == 0
