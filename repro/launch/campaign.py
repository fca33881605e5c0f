"""A campaign's folder, its estimates of core-hours, and its reactions to the scheduler."""

from __future__ import annotations

import datetime
import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from rich.console import Console

from repro import cli
from repro.evidence import random_player, records
from repro.evidence.commands import Run
from repro.files import try_lock, write_whole
from repro.launch import gate
from repro.launch.plan import Block
from repro.launch.recorded_job import RecordedJob
from repro.launch.recording import utc_now
from repro.launch.scheduler import Follower, NoMoreError

FAILURES_IN_A_ROW = 5
"""Number of consecutive failed runs, without a completed one between them, after which the campaign stops.

So many failures suggest a common cause, such as a full disk.
"""
SUMMARY_SECONDS = 600.0
"""Seconds between two summaries."""
MIN_SHARE = 0.02
"""Share of a run that must be done before its own speed is used for estimates."""
KIND = ("paper", "experiment", "agent", "scale")
"""Fields of a run that, apart from the task, determine its speed."""


class Planned(NamedTuple):
    """A run of the plan.

    Attributes:
        run: name of the run.
        job: job that makes the run.
        block: block of the plan to which the run belongs.
    """

    run: Run
    job: RecordedJob
    block: Block


def name_of(run: Run) -> str:
    """Returns the name of a run in lists of failures."""
    return f"{run.paper}/{run.experiment}/{run.task}/{run.agent}/{run.scale}/seed_{run.seed}"


class CampaignFolder:
    """The state that a campaign stores besides its runs: its lock, its pause and the failed runs.

    Completed runs are recognized by their records, and the progress of a run is read from the run's folder.

    Args:
        path: the folder, created when something is written.

    Attributes:
        golden_json: file with the results of `gate.find_other_behaviour`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.golden_json = path / "golden.json"
        self._pause = path / "paused"
        self._state = path / "state.json"
        self._failures = path / "failures.json"
        self._lock_path = path / ".lock"
        self._lock: TextIO | None = None

    def lock(self) -> bool:
        """Takes the campaign's lock until this process ends; returns False if another campaign holds it."""
        self._make()
        handle = try_lock(self._lock_path)
        if handle is not None:
            self._lock = handle
        return handle is not None

    @property
    def is_paused(self) -> bool:
        """Whether a pause was requested and has not been ended."""
        return self._pause.exists()

    def pause(self) -> None:
        """Requests a pause, which lasts until `resume`, even if campaigns are started or ended meanwhile."""
        self._make()
        self._pause.touch()

    def resume(self) -> None:
        """Ends the pause, if there is one."""
        self._pause.unlink(missing_ok=True)

    def write_state(self, word: str, runs: Sequence[str]) -> None:
        """Writes the state of the campaign for other processes.

        Args:
            word: `running`, `pausing`, `paused` or `ended`.
            runs: labels of the running runs.
        """
        self._make()
        write_whole(self._state, json.dumps({"state": word, "runs": runs}))

    def read_state(self) -> str:
        """Returns the last word that `write_state` wrote; `ended` if there is none."""
        return json.loads(self._state.read_text())["state"] if self._state.exists() else "ended"

    def failures(self) -> dict[str, dict[str, str]]:
        """Returns the failed runs by `name_of`, each with its `reason` and the time `when` it failed."""
        return json.loads(self._failures.read_text()) if self._failures.exists() else {}

    def add_failure(self, run: Run, reason: str) -> None:
        """Sets a failed run aside until `clear_failures`."""
        self._write_failures(self.failures() | {name_of(run): {"reason": reason, "when": utc_now()}})

    def clear_failures(self, runs: Iterable[Run]) -> None:
        """Removes runs from the failed ones, so that they are tried again."""
        names = {name_of(run) for run in runs}
        self._write_failures({name: found for name, found in self.failures().items() if name not in names})

    def _write_failures(self, failures: Mapping[str, Mapping[str, str]]) -> None:
        self._make()
        write_whole(self._failures, json.dumps(failures, indent=1) + "\n")

    def _make(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)


class Estimates:
    """Estimated core-hours of runs: measurements of the same agent and task if there are any, else the plan's numbers.

    Other load on a machine can only make a run longer, so the fastest of an agent's runs on a task counts. If the agent
    has been measured on other tasks only, their mean counts. The plan's numbers are corrected by the median ratio of
    measurements to their estimates over all agents and tasks. Random players are excluded from it, because their time
    depends on the lengths of the games that they happen to play.

    Args:
        planned: all runs.
    """

    def __init__(self, planned: Sequence[Planned]) -> None:
        self._measured: dict[tuple[tuple[str, ...], str], float] = {}  # by kind and task
        self._estimated: dict[tuple[tuple[str, ...], str], float] = {}
        self._planned = {item.job: item for item in planned}

    def add_record(self, job: RecordedJob, record: Mapping[str, Any]) -> None:
        """Adds the measured core-hours of a completed run, given its first record, unless the run diverged."""
        if "diverged" in record:
            return
        hours = record["wall_seconds"] / 3600 * record["hardware"]["cores"]
        run, block = self._planned[job].run, self._planned[job].block
        key = _kind(run), run.task
        self._measured[key] = min(hours, self._measured.get(key, hours))
        self._estimated[key] = block.core_hours

    def core_hours(self, job: RecordedJob) -> float:
        """Returns the estimated core-hours of a whole run."""
        run, block = self._planned[job].run, self._planned[job].block
        if (known := self._measured.get((_kind(run), run.task))) is not None:
            return known
        if of_tasks := [hours for (kind, _), hours in self._measured.items() if kind == _kind(run)]:
            return sum(of_tasks) / len(of_tasks)
        ratios = [
            hours / self._estimated[key] for key, hours in self._measured.items() if random_player.AGENT not in key[0]
        ]
        return block.core_hours * (statistics.median(ratios) if ratios else 1.0)

    def left(self, job: RecordedJob) -> float:
        """Returns the core-hours that a run still needs, by its own speed once `MIN_SHARE` of it is done."""
        share = min(job.share_done(), 1.0)
        whole = self.core_hours(job)
        if share >= MIN_SHARE and (seconds := job.seconds_done()):
            whole = seconds / share / 3600 * self._planned[job].block.cores
        return (1 - share) * whole


def _kind(run: Run) -> tuple[str, ...]:
    """Returns the fields `KIND` of a run."""
    return tuple(getattr(run, name) for name in KIND)


class CampaignFollower(Follower):
    """Refuses runs that would be stale, sets failed runs aside, and reports the progress of the campaign.

    Args:
        planned: the runs to make.
        folder: folder of the campaign.
        estimates: estimates that include the measurements of completed runs.
        refused: for each behaviour whose runs must not begin, the reason.
        console: console to print to.
        num_cores: number of cores in use.
        done: number of the campaign's runs that are already done.
        clock: monotonic clock in seconds.

    Attributes:
        stop_reason: why no further run begins; empty while runs may begin.
    """

    def __init__(
        self,
        planned: Sequence[Planned],
        folder: CampaignFolder,
        estimates: Estimates,
        refused: Mapping[str, str],
        console: Console,
        num_cores: int,
        done: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stop_reason = ""
        self._planned = {item.job: item for item in planned}
        self._folder = folder
        self._estimates = estimates
        self._refused = refused
        self._console = console
        self._num_cores = num_cores
        self._done, self._failed, self._num_refused, self._in_a_row = done, 0, 0, 0
        self._code = gate.fingerprint()
        self._clock = clock
        self._next_summary = clock() + SUMMARY_SECONDS
        self._state: tuple[str, list[str]] | None = None

    def num_slots(self, job: RecordedJob) -> int:
        return self._planned[job].block.cores

    def is_paused(self) -> bool:
        return self._folder.is_paused

    def refusal(self, job: RecordedJob) -> str | None:
        if self._in_a_row >= FAILURES_IN_A_ROW:
            self.stop_reason = (
                f"{self._in_a_row} runs failed in a row, perhaps for the same reason; find it and fix it first."
            )
        elif gate.fingerprint() != self._code:
            self.stop_reason = "the code or a config changed since the campaign began; start it again."
        if self.stop_reason:
            raise NoMoreError(self.stop_reason)
        names = gate.behaviours(self._planned[job].run)
        reason = next((self._refused[name] for name in names if name in self._refused), None) or job.refusal()
        self._num_refused += reason is not None
        self._say(f"{job.label}: " + ("begins" if reason is None else f"refused, {reason}"))
        return reason

    def ended(self, job: RecordedJob, failure: str | None, retry: bool) -> None:
        if failure is None:
            self._done, self._in_a_row = self._done + 1, 0
            self._estimates.add_record(job, records.read_record(job.record_paths[0]))
            self._say(f"{job.label}: done, {job.record_paths[0]}")
            return
        self._failed += 1
        self._in_a_row += 1
        if not retry:
            self._folder.add_failure(self._planned[job].run, failure)
        self._say(f"{job.label}: failed, {failure}")

    def tick(self, running: Sequence[RecordedJob], waiting: Sequence[RecordedJob]) -> None:
        word = "running"
        if self.is_paused():
            word = "pausing" if running else "paused"
        state = word, [job.label for job in running]
        if state != self._state:
            self._folder.write_state(*state)
            if word == "paused" and (self._state is None or self._state[0] != word):
                self._say(f"Paused: all runs are saved. Continue with: {cli.command('repro.campaign', '--resume')}")
            self._state = state
        if self._clock() >= self._next_summary:
            self._next_summary = self._clock() + SUMMARY_SECONDS
            self._say(self.summary([*running, *waiting]))

    def summary(self, left: Sequence[RecordedJob]) -> str:
        """Returns a line with the number of completed runs and the time left.

        Args:
            left: running and waiting jobs.
        """
        hours = sum(map(self._estimates.left, left))
        total = self._done + self._failed + self._num_refused + len(left)
        failed = f", {self._failed} failed" if self._failed else ""
        refused = f", {self._num_refused} refused" if self._num_refused else ""
        return f"{self._done} of {total} runs done{failed}{refused}; {describe_rest(hours, self._num_cores)}"

    def _say(self, text: str) -> None:
        cli.say(self._console, f"{datetime.datetime.now():%m-%d %H:%M} {text}")


def describe_rest(core_hours: float, num_cores: int) -> str:
    """Returns core-hours and the time that they take on some cores, in words."""
    hours = core_hours / num_cores
    time_left = (
        f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.0f} minutes"
    )
    return f"{core_hours:.1f} core-hours left, about {time_left} on {num_cores} core{'s' if num_cores > 1 else ''}"
