"""What the jobs of the reproduce command share: a configuration, a seed, and the places of their records."""

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
    """Another process works on the run, which says nothing of the run itself."""


FAILURES = (JobError, records.RecordError, RunDirectoryError, OSError)
"""What a job raises where no mistake of the code is the reason: its message says all."""


class Stopped(Exception):
    """A run was interrupted and saved; it is neither complete nor failed."""


class Outcome(NamedTuple):
    """What became of a job.

    stopped: whether it was interrupted and saved.
    failure: why it failed; None where it did not.
    retry: whether that says nothing of the job itself.
    """

    stopped: bool = False
    failure: str | None = None
    retry: bool = False


class RecordedJob(abc.ABC):
    """What all jobs share: a configuration, a seed, and the places of their records.

    Attributes:
        label: what it is, in one line.
        commit: of the code; None: that of this checkout.
        paths: of the records, were this scale the first that is recorded.

    Args:
        config: of the experiment, at its scale.
        seed: of the run.
        paths: see above.
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
        """Where the records of this scale lie or are to lie: one of a run, one for each answer of a study."""
        return [records.path_of_scale(path, self.config.scale) for path in self.paths]

    @abc.abstractmethod
    def run(self, cores: list[int], quiet: bool) -> None:
        """Does what is left to do on the given cores.

        Args:
            cores: numbers of the processor cores to use.
            quiet: shows no bar.

        Raises:
            JobError: it failed.
            Stopped: it was interrupted.
        """

    def stop(self) -> None:
        """Asks for an end before its own, from another thread; asking again does no harm."""
        self._stopped = True

    def _check_stop(self) -> None:
        """Raises Stopped where an end was asked for."""
        if self._stopped:
            raise Stopped

    def _wait_until_free(self, run_dir: Path) -> None:
        """Waits for a process that a killed command left behind, and that saves the run in a folder.

        Raises:
            InUseError: another process uses the folder for longer.
            Stopped: asked to.
        """
        if not wait_until_free(run_dir, stop=lambda: self._stopped):
            self._check_stop()
            raise InUseError(f"another process is running in {run_dir}.")

    def take_back_stop(self) -> None:
        """Lets a job that was asked to end be run again."""
        self._stopped = False

    def kill(self) -> None:  # noqa: B027 - a job without processes of its own ends when asked
        """Ends at once what did not end when asked, from another thread; what was saved before stays."""

    @abc.abstractmethod
    def share_done(self) -> float:
        """Returns the share of the work that is done, from 0 to 1."""

    def seconds_done(self) -> float:
        """Returns the time that the share done has taken, interruptions left out; 0 where that is not known."""
        return 0.0

    def refusal(self) -> str | None:
        """Says why what is left of a run that was begun must not be continued; None where it may, or was not begun."""
        return None

    def where(self) -> str:
        """Says for its bar on which machine a job is, or that it waits for one; empty where it is on this one."""
        return ""

    def figure_dir(self) -> Path | None:
        """Returns the folder for a figure beside the records; None where there is none, or one of a larger scale."""
        return None

    def find_commit(self) -> str | None:
        """Returns the commit that makes the records."""
        return self.commit or records.git_commit()

    def find_records(self) -> list[dict[str, Any]] | None:
        """Returns the records of this scale where all are there, valid and of the current configuration, else None."""
        found = []
        for path in self.paths:
            record = records.find_record(path, self.config.scale)
            if record is None or stale_reason(record) is not None:
                return None
            found.append(record)
        return found

    def recorded(self) -> bool:
        """Whether they are there, valid, of this scale and of the current configuration."""
        return self.find_records() is not None


def try_run(job: RecordedJob, cores: list[int], quiet: bool) -> Outcome:
    """Runs a job; returns what became of it, whatever it raises, so that others can go on. Arguments as for `run`."""
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
