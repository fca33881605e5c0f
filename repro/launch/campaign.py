"""What a campaign keeps beside the runs, what it estimates, and how it follows the scheduler."""

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
"""So many runs that fail one after the other, none being done in between, speak of a full disk or the like."""
SUMMARY_SECONDS = 600.0
MIN_SHARE = 0.02
"""Share of a run from which its own speed is taken."""
KIND = ("paper", "experiment", "agent", "scale")


class Planned(NamedTuple):
    """A run of the plan, its job, and the block that it is of."""

    run: Run
    job: RecordedJob
    block: Block


def name_of(run: Run) -> str:
    """Returns the name of a run in lists of failures."""
    return f"{run.paper}/{run.experiment}/{run.task}/{run.agent}/{run.scale}/seed_{run.seed}"


class CampaignFolder:
    """The little that a campaign keeps beside its runs: its lock, whether it is paused, and which runs failed.

    What is done it sees from the records, and how far a run is from the run's folder.

    Args:
        path: made when something is written.
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
        """Keeps another campaign out until this process ends; returns whether there is none."""
        self._make()
        handle = try_lock(self._lock_path)
        if handle is not None:
            self._lock = handle
        return handle is not None

    @property
    def is_paused(self) -> bool:
        """Whether a pause was asked for, and no end of it."""
        return self._pause.exists()

    def pause(self) -> None:
        """Asks for a pause, which lasts until `resume`, whatever is started and ended meanwhile."""
        self._make()
        self._pause.touch()

    def resume(self) -> None:
        """Ends the pause, if there is one."""
        self._pause.unlink(missing_ok=True)

    def write_state(self, word: str, runs: Sequence[str]) -> None:
        """Says what goes on, for other processes: running, pausing, paused or ended, and the labels of runs at work."""
        self._make()
        write_whole(self._state, json.dumps({"state": word, "runs": runs}))

    def read_state(self) -> str:
        """Returns the word that was written last; ended before any."""
        return json.loads(self._state.read_text())["state"] if self._state.exists() else "ended"

    def failures(self) -> dict[str, dict[str, str]]:
        """Returns the failed runs by `name_of`, each with `reason` and `when`."""
        return json.loads(self._failures.read_text()) if self._failures.exists() else {}

    def add_failure(self, run: Run, reason: str) -> None:
        """Sets a run aside until it is asked for again."""
        self._write_failures(self.failures() | {name_of(run): {"reason": reason, "when": utc_now()}})

    def clear_failures(self, runs: Iterable[Run]) -> None:
        """Takes up runs again that were set aside."""
        names = {name_of(run) for run in runs}
        self._write_failures({name: found for name, found in self.failures().items() if name not in names})

    def _write_failures(self, failures: Mapping[str, Mapping[str, str]]) -> None:
        self._make()
        write_whole(self._failures, json.dumps(failures, indent=1) + "\n")

    def _make(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)


class Estimates:
    """Core-hours of runs: measured ones of the same task or agent where there are some, else the plan's.

    What else a machine does makes a run longer and never shorter, so that of an agent's runs on one task the quickest
    counts. The plan's are corrected by the median ratio of measured ones to their estimates, over agents and tasks but
    random players, whose time is that of the games that they happen to play.

    Args:
        planned: all runs.
    """

    def __init__(self, planned: Sequence[Planned]) -> None:
        self._measured: dict[tuple[tuple[str, ...], str], float] = {}  # by kind and task
        self._estimated: dict[tuple[tuple[str, ...], str], float] = {}
        self._planned = {item.job: item for item in planned}

    def add_record(self, job: RecordedJob, record: Mapping[str, Any]) -> None:
        """Takes note of what a run that is done has taken, by its first record, unless it diverged before its end."""
        if "diverged" in record:
            return
        hours = record["wall_seconds"] / 3600 * record["hardware"]["cores"]
        run, block = self._planned[job].run, self._planned[job].block
        key = _kind(run), run.task
        self._measured[key] = min(hours, self._measured.get(key, hours))
        self._estimated[key] = block.core_hours

    def core_hours(self, job: RecordedJob) -> float:
        """Returns those of a whole run."""
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
        """Returns the core-hours that a run still needs, by its own speed where it has one."""
        share = min(job.share_done(), 1.0)
        whole = self.core_hours(job)
        if share >= MIN_SHARE and (seconds := job.seconds_done()):
            whole = seconds / share / 3600 * self._planned[job].block.cores
        return (1 - share) * whole


def _kind(run: Run) -> tuple[str, ...]:
    """What the speeds of runs are alike in, besides their tasks."""
    return tuple(getattr(run, name) for name in KIND)


class CampaignFollower(Follower):
    """Refuses what would be stale, sets aside what failed, and says how far the campaign is.

    Args:
        planned: the runs that are to be made.
        folder: of the campaign.
        estimates: with the runs that are done.
        refused: behaviour to why its runs must not begin.
        console: to print to.
        num_cores: in use.
        done: runs of the campaign that are done already.
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
                f"{self._in_a_row} runs failed one after the other; what they share must be put right first."
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
                self._say(f"Paused, all runs are saved; {cli.command('repro.campaign', '--resume')} goes on.")
            self._state = state
        if self._clock() >= self._next_summary:
            self._next_summary = self._clock() + SUMMARY_SECONDS
            self._say(self.summary([*running, *waiting]))

    def summary(self, left: Sequence[RecordedJob]) -> str:
        """Returns how many runs are done, and what is left, in a line."""
        hours = sum(map(self._estimates.left, left))
        total = self._done + self._failed + self._num_refused + len(left)
        failed = f", {self._failed} failed" if self._failed else ""
        refused = f", {self._num_refused} refused" if self._num_refused else ""
        return f"{self._done} of {total} runs done{failed}{refused}; {describe_rest(hours, self._num_cores)}"

    def _say(self, text: str) -> None:
        self._console.print(
            f"{datetime.datetime.now():%m-%d %H:%M} {text}", highlight=False, soft_wrap=True, markup=False
        )


def describe_rest(core_hours: float, num_cores: int) -> str:
    """Returns core-hours and the time that they take, in words."""
    hours = core_hours / num_cores
    time_left = (
        f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.0f} minutes"
    )
    return f"{core_hours:.1f} core-hours left, some {time_left} on {num_cores} core{'s' if num_cores > 1 else ''}"
