"""The common base of jobs that make records."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ml_collections

from repro.evidence import records
from repro.evidence.staleness import stale_reason
from repro.training.run_directory import RunDirectoryError, wait_until_free


class JobError(RuntimeError):
    """A run failed; the message says where to look."""


class InUseError(JobError):
    """Another process works on the run; the run itself has not failed."""


FAILURES = (JobError, records.RecordError, RunDirectoryError, OSError)
"""Errors of jobs that are no mistakes in the code; their messages are sufficient."""


class Stopped(Exception):
    """A run was interrupted and saved; it is neither complete nor failed."""


class Outcome(NamedTuple):
    """Outcome of a job.

    Attributes:
        stopped: whether the job was interrupted and saved.
        failure: why the job failed; None if it did not.
        retry: whether the failure has a cause outside the job, so that it may be tried again.
    """

    stopped: bool = False
    failure: str | None = None
    retry: bool = False


class RecordedJob(abc.ABC):
    """A job with a configuration, a seed, and the paths of its records.

    Args:
        config: configuration of the experiment at its scale.
        seed: seed of the run.
        paths: paths of the records without regard to other scales; see `record_paths`.

    Attributes:
        label: description of the job in one line.
        commit: commit of the code for the records; None for that of this checkout.
        config, seed, paths: the arguments.
    """

    label: str
    commit: str | None = None

    def __init__(self, config: ml_collections.ConfigDict, seed: int, paths: Sequence[Path]) -> None:
        self.config = config
        self.seed = seed
        self.paths = paths
        self._stopped = False

    @property
    def record_paths(self) -> list[Path]:
        """Paths of the records of this scale: one per task of a run, or one per answer of a study."""
        return [records.path_of_scale(path, self.config.scale) for path in self.paths]

    @abc.abstractmethod
    def run(self, cores: list[int], quiet: bool) -> None:
        """Runs what is left of the job on the given cores.

        Args:
            cores: numbers of the processor cores to use.
            quiet: whether to show no progress.

        Raises:
            JobError: the job failed.
            Stopped: the job was interrupted.
        """

    def stop(self) -> None:
        """Asks the job to stop early, from another thread; further calls have no effect."""
        self._stopped = True

    def _check_stop(self) -> None:
        """Raises Stopped if the job was asked to stop."""
        if self._stopped:
            raise Stopped

    def _wait_until_free(self, run_dir: Path) -> None:
        """Waits for a process that a killed command left behind and that is still saving the run in a folder.

        Raises:
            InUseError: another process uses the folder for longer than that.
            Stopped: the job was asked to stop.
        """
        if not wait_until_free(run_dir, stop=lambda: self._stopped):
            self._check_stop()
            raise InUseError(f"another process is running in {run_dir}.")

    def take_back_stop(self) -> None:
        """Withdraws a request to stop, so that the job can be run again."""
        self._stopped = False

    def kill(self) -> None:  # noqa: B027 - a job without processes of its own ends when asked
        """Ends a job at once that did not stop when asked, from another thread; what was saved before is kept."""

    @abc.abstractmethod
    def share_done(self) -> float:
        """Returns the share of the work that is done, from 0 to 1."""

    def seconds_done(self) -> float:
        """Returns the seconds that the finished share has taken, without interruptions; 0 if they are not known."""
        return 0.0

    def refusal(self) -> str | None:
        """Returns why a run that was begun must not be continued; None if it may be, or if it was not begun."""
        return None

    def where(self) -> str:
        """Returns text for the progress bar: the job's machine, or that it waits for one; empty for this machine."""
        return ""

    def figure_dir(self) -> Path | None:
        """Returns the folder for a figure beside the records; None without a figure, or if a larger scale has one."""
        return None

    def find_commit(self) -> str | None:
        """Returns the commit that makes the records."""
        return self.commit or records.git_commit()

    def find_records(self) -> list[dict[str, Any]] | None:
        """Returns the records of this scale if all exist, are valid and match the current configuration, else None."""
        found = []
        for path in self.paths:
            record = records.find_record(path, self.config.scale)
            if record is None or stale_reason(record) is not None:
                return None
            found.append(record)
        return found

    def recorded(self) -> bool:
        """Returns whether all records of this scale exist, are valid and match the current configuration."""
        return self.find_records() is not None


def try_run(job: RecordedJob, cores: list[int], quiet: bool) -> Outcome:
    """Runs a job and returns its outcome, whatever it raises, so that others can continue; arguments as for `run`."""
    try:
        job.run(cores, quiet=quiet)
    except Stopped:
        return Outcome(stopped=True)
    except InUseError as error:
        return Outcome(failure=str(error), retry=True)
    except FAILURES as error:
        return Outcome(failure=str(error))
    except Exception as error:  # a mistake in the code or in an environment
        return Outcome(failure=f"{type(error).__name__}: {error}")
    return Outcome()
