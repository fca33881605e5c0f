"""One run on a machine of a cluster, which does all the work of its job in a temporary folder of this machine."""

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

OTHER_VERSION = "{} has another version of this suite than the head: bring all machines to one commit."


class State(NamedTuple):
    """What there is of a run.

    files: that can be read, of the newest checkpoint alone.
    ended: whether it works no more.
    stopped: whether it ended because it was asked to.
    failure: why it failed; empty where it did not.
    """

    files: Files
    ended: bool
    stopped: bool
    failure: str


class Results(NamedTuple):
    """What a run that is complete has found: `records` in the order of the job's, and the files of its figure."""

    records: list[dict[str, Any]]
    figures: dict[str, bytes]


class MachineRun:
    """What the head calls, by way of the cluster; each call is short, and the work is done in a thread beside them.

    The order is `describe`, `prepare`, `put` for each file, `begin`; then `share`, `look` and `get` until the run has
    ended, `results` and `close`. When this process is killed, so is what works on the run; the next run on this machine
    removes its folder.

    Args:
        cores: of this machine that the run has.
        machine: its name.
    """

    def __init__(self, cores: int, machine: str = "") -> None:
        cli.quiet()
        os.chdir(records.ROOT)  # configurations are found from there
        os.environ.pop("OMP_NUM_THREADS", None)  # Ray's; the cores of a process say it
        self._machine = machine or socket.gethostname()
        self._num_cores = cores
        self._job: RecordedJob
        self._thread: threading.Thread | None = None
        self._was_stopped, self._failure = False, ""

    def describe(self) -> tuple[str, str]:
        """Returns the name of this machine and the fingerprint of its code."""
        return self._machine, gate.fingerprint()

    def prepare(self, run: Run, commit: str | None) -> str:
        """Makes the folder, and returns the path of the run's.

        Args:
            run: to be done.
            commit: of the code, for the records.

        Raises:
            OSError: the folder of this user's runs cannot be made, or others can write to it.
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
        """Writes a part of a file of the run's folder; parts come in order."""
        path = self._run_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab" if offset else "wb") as file:
            file.write(chunk)

    def begin(self) -> None:
        """Lets the run go on from the files that were put, or begin."""
        if isinstance(self._job, TrainingJob):
            self._run_dir.mkdir(parents=True, exist_ok=True)
            add_machine(self._run_dir, self._machine)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def share(self) -> float:
        """Returns the share of the work that is done."""
        return self._job.share_done()

    def look(self) -> State:
        """Returns whether the run is at work and which files there are; before `begin`, those that were put."""
        if self._thread is not None and self._thread.is_alive():
            files = list_files(self._run_dir, skip=[CHECKPOINTS]) | pin_checkpoint(self._run_dir, self._pins)
            return State(files, ended=False, stopped=False, failure="")
        files = list_saved(self._run_dir)
        return State(files, self._thread is not None, self._was_stopped, self._failure)

    def get(self, name: str, offset: int) -> bytes:
        """Returns the part of a file that begins at an offset; less than `CHUNK_BYTES` at its end, or if it is gone."""
        pinned = self._pins / name
        with (
            contextlib.suppress(FileNotFoundError),
            (pinned if pinned.exists() else self._run_dir / name).open("rb") as file,
        ):
            file.seek(offset)
            return file.read(CHUNK_BYTES)
        return b""  # as the log of a run that begins again

    def stop(self) -> None:
        """Asks the run to save and end; asking again does no harm."""
        self._job.stop()

    def results(self) -> Results:
        """Returns what a run that is complete has found."""
        folder = self._job.figure_dir()
        figures = [path for path in folder.iterdir() if path.is_file()] if folder and folder.exists() else []
        found = [dict(records.read_record(path)) for path in self._job.record_paths]
        return Results(found, {path.name: path.read_bytes() for path in figures})

    def close(self) -> None:
        """Removes the folder; a run at work there is of no use to anybody, and ends with this process."""
        shutil.rmtree(self._folder, ignore_errors=True)
        _lock_of(self._folder).unlink(missing_ok=True)

    @property
    def _pins(self) -> Path:
        return self._folder / "pins"

    def _work(self) -> None:
        os.sched_setaffinity(0, self._cores)  # of this thread, and of what it begins
        outcome = try_run(self._job, self._cores, quiet=True)
        self._was_stopped, self._failure = outcome.stopped, outcome.failure or ""


def _claim_cores(number: int, place: Path) -> tuple[list[int], list[TextIO]]:
    """Returns cores that no other run on this machine has, or any where there are too few, and what keeps them."""
    allowed = sorted(os.sched_getaffinity(0))
    claimed: dict[int, TextIO] = {}
    for core in allowed:
        if len(claimed) < number and (lock := try_lock(place / f"core_{core}.lock")) is not None:
            claimed[core] = lock
    others = [core for core in allowed if core not in claimed]
    return [*claimed, *others][:number], list(claimed.values())


def _lock_of(folder: Path) -> Path:
    """The lock of a run's folder, made before it."""
    return folder.with_suffix(".lock")


def _remove_leftovers(place: Path) -> None:
    """Removes the folders of runs whose process is gone."""
    for folder in [path for path in place.iterdir() if path.is_dir()]:
        if (lock := try_lock(_lock_of(folder))) is not None:
            shutil.rmtree(folder, ignore_errors=True)
            lock.close()
            _lock_of(folder).unlink(missing_ok=True)
