"""Jobs in turn, or several of them side by side."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Sequence

from rich.console import Console
from rich.progress import TaskID

from repro.evidence import records
from repro.launch.bars import make_bars
from repro.launch.recorded_job import JobError, RecordedJob, Stopped


def run_jobs(jobs: Sequence[RecordedJob], at_once: int, console: Console) -> dict[RecordedJob, str]:
    """Runs jobs, `at_once` side by side; returns the failed ones with the reason.

    One at a time shows its own progress line; several write to `log.txt` in their run folders and share a
    display of bars.
    """
    at_once = min(at_once, len(jobs))
    if at_once <= 1:
        return _run_in_turn(jobs, console)
    return _run_side_by_side(jobs, at_once, console)


def _run_in_turn(jobs: Sequence[RecordedJob], console: Console) -> dict[RecordedJob, str]:
    failures: dict[RecordedJob, str] = {}
    cores = sorted(os.sched_getaffinity(0))
    for job in jobs:
        try:
            job.run(cores, quiet=False)
        except (JobError, records.RecordError) as error:
            failures[job] = str(error)
        except Stopped:
            break
    return failures


def _run_side_by_side(jobs: Sequence[RecordedJob], at_once: int, console: Console) -> dict[RecordedJob, str]:
    cores = sorted(os.sched_getaffinity(0))
    shares = [cores[i::at_once] or [cores[i % len(cores)]] for i in range(at_once)]
    waiting = deque(jobs)
    failures: dict[RecordedJob, str] = {}
    stop = threading.Event()
    bars = make_bars(console)
    running: dict[RecordedJob, TaskID] = {}

    def work(share: list[int]) -> None:
        while waiting and not stop.is_set():
            job = waiting.popleft()
            running[job] = bars.add_task(job.label, total=1.0)
            try:
                job.run(share, quiet=True)
            except (JobError, records.RecordError, OSError) as error:
                failures[job] = str(error)
            except Stopped:
                stop.set()

    threads = [threading.Thread(target=work, args=(share,)) for share in shares]
    with bars:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            try:
                for job, bar in list(running.items()):
                    bars.update(bar, completed=job.share_done())
                for thread in threads:
                    thread.join(timeout=0.5)
            except KeyboardInterrupt:
                stop.set()
                for job in running:
                    job.stop()
    return failures
