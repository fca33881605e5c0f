"""A whole run on a machine of a cluster, in a temporary folder of that machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
import threading
import uuid
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from repro import cli
from repro.evidence import records
from repro.evidence.commands import Run
from repro.files import make_private_folder, try_lock
from repro.launch import gate
from repro.launch.jobs import make_job
from repro.launch.recorded_job import RecordedJob, try_run
from repro.launch.run_files import CHUNK_BYTES, Files, add_machine, list_files, list_saved, pin_checkpoint
from repro.launch.training_job import TrainingJob
from repro.training.run_directory import CHECKPOINTS

OTHER_VERSION = "{} has another version of this suite than the head: check out the same commit on all machines."


class State(NamedTuple):
    """State of a run.

    Attributes:
        files: files that can be read, with only the newest checkpoint.
        ended: whether the run has ended.
        stopped: whether it ended because it was asked to.
        failure: why it failed; empty if it did not.
    """

    files: Files
    ended: bool
    stopped: bool
    failure: str


class Results(NamedTuple):
    """Results of a complete run.

    Attributes:
        records: records in the order of the job's `record_paths`.
        figures: contents of the files of its figure, by name.
    """

    records: list[dict[str, Any]]
    figures: dict[str, bytes]


class MachineRun:
    """Methods that the head calls through the cluster; each call is short, while a thread does the work.

    The order of the calls is `describe`, `prepare`, `put` for each file and `begin`; then `share`, `look` and `get`
    until the run has ended; finally `results` and `close`. If this process is killed, so are the processes of the run,
    and the next run on this machine removes the folder.

    Args:
        cores: number of cores of this machine for the run.
        machine: name of this machine; empty for its host name.
    """

    def __init__(self, cores: int, machine: str = "") -> None:
        cli.quiet()
        os.chdir(records.ROOT)  # paths of configurations are relative to it
        os.environ.pop("OMP_NUM_THREADS", None)  # set by Ray; here a process's cores determine its threads
        self._machine = machine or socket.gethostname()
        self._num_cores = cores
        self._job: RecordedJob
        self._thread: threading.Thread | None = None
        self._was_stopped, self._failure = False, ""

    def describe(self) -> tuple[str, str]:
        """Returns the name of this machine and the fingerprint of its code."""
        return self._machine, gate.fingerprint()

    def prepare(self, run: Run, commit: str | None) -> str:
        """Creates the temporary folder, and returns the path of the run's folder in it.

        Args:
            run: the run to make.
            commit: commit of the code, for the records.

        Raises:
            OSError: the folder of this user's runs cannot be created, or other users have access to it.
        """
        place = Path(tempfile.gettempdir()) / f"repro-runs-{os.geteuid()}"
        make_private_folder(place)
        _remove_leftovers(place)
        self._cores, self._locks = _claim_cores(self._num_cores, place)
        self._folder = place / uuid.uuid4().hex
        lock = try_lock(_lock_of(self._folder))
        assert lock is not None, "no other process has a new folder"
        self._locks.append(lock)
        self._folder.mkdir()
        self._job = make_job(run, self._folder / "results", self._folder / "runs")
        self._job.commit = commit
        self._run_dir = self._job.run_dir if isinstance(self._job, TrainingJob) else self._folder / "nothing"
        return str(self._run_dir)

    def put(self, name: str, offset: int, chunk: bytes) -> None:
        """Writes a part of a file of the run's folder; parts must be sent in order."""
        path = self._run_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab" if offset else "wb") as file:
            file.write(chunk)

    def begin(self) -> None:
        """Starts the run, which continues from the files that were sent, if any."""
        if isinstance(self._job, TrainingJob):
            self._run_dir.mkdir(parents=True, exist_ok=True)
            add_machine(self._run_dir, self._machine)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def share(self) -> float:
        """Returns the share of the work that is done."""
        return self._job.share_done()

    def look(self) -> State:
        """Returns the state and the files of the run; before `begin`, these are the files that were sent."""
        if self._thread is not None and self._thread.is_alive():
            files = list_files(self._run_dir, skip=[CHECKPOINTS]) | pin_checkpoint(self._run_dir, self._pins)
            return State(files, ended=False, stopped=False, failure="")
        files = list_saved(self._run_dir)
        return State(files, self._thread is not None, self._was_stopped, self._failure)

    def get(self, name: str, offset: int) -> bytes:
        """Returns up to `CHUNK_BYTES` bytes of a file from an offset on; nothing if the file is gone."""
        pinned = self._pins / name
        with (
            contextlib.suppress(FileNotFoundError),
            (pinned if pinned.exists() else self._run_dir / name).open("rb") as file,
        ):
            file.seek(offset)
            return file.read(CHUNK_BYTES)
        return b""  # for example the log of a run that starts over

    def stop(self) -> None:
        """Asks the run to save and end; further calls have no effect."""
        self._job.stop()

    def results(self) -> Results:
        """Returns the records and figures of a complete run."""
        folder = self._job.figure_dir()
        figures = [path for path in folder.iterdir() if path.is_file()] if folder and folder.exists() else []
        found = [dict(records.read_record(path)) for path in self._job.record_paths]
        return Results(found, {path.name: path.read_bytes() for path in figures})

    def close(self) -> None:
        """Removes the folder; a run that is still working ends with this process."""
        shutil.rmtree(self._folder, ignore_errors=True)
        _lock_of(self._folder).unlink(missing_ok=True)

    @property
    def _pins(self) -> Path:
        return self._folder / "pins"

    def _work(self) -> None:
        os.sched_setaffinity(0, self._cores)  # applies to this thread and the processes that it starts
        outcome = try_run(self._job, self._cores, quiet=True)
        self._was_stopped, self._failure = outcome.stopped, outcome.failure or ""


def _claim_cores(number: int, place: Path) -> tuple[list[int], list[TextIO]]:
    """Returns cores that no other run on this machine uses, filled up with others if there are too few, and locks."""
    allowed = sorted(os.sched_getaffinity(0))
    claimed: dict[int, TextIO] = {}
    for core in allowed:
        if len(claimed) < number and (lock := try_lock(place / f"core_{core}.lock")) is not None:
            claimed[core] = lock
    others = [core for core in allowed if core not in claimed]
    return [*claimed, *others][:number], list(claimed.values())


def _lock_of(folder: Path) -> Path:
    """Returns the path of the lock of a run's folder, which is created before the folder."""
    return folder.with_suffix(".lock")


def _remove_leftovers(place: Path) -> None:
    """Removes the folders of runs whose processes have ended."""
    for folder in [path for path in place.iterdir() if path.is_dir()]:
        if (lock := try_lock(_lock_of(folder))) is not None:
            shutil.rmtree(folder, ignore_errors=True)
            lock.close()
            _lock_of(folder).unlink(missing_ok=True)
