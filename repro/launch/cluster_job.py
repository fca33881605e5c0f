"""A job that runs on a machine of a cluster, while the head stores its folder and writes its records."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TextIO

from repro.evidence import records
from repro.evidence.commands import Run
from repro.files import try_lock
from repro.launch.machine_run import OTHER_VERSION, Results, State
from repro.launch.recorded_job import JobError, RecordedJob
from repro.launch.run_files import CHUNK_BYTES, OUTPUT, Files, Inbox, checkpoint_of, list_saved
from repro.launch.training_job import TrainingJob
from repro.training.run_directory import PROGRESS

POLL_SECONDS = 2.0
"""Seconds between two polls of a run by the head."""
MAX_LOSSES = 3
"""Number of consecutive losses of a run, without a checkpoint received between them, that count as a failure."""


class LostError(RuntimeError):
    """The process on the cluster or its machine is gone; the message says how this was noticed."""


class RemoteRun(Protocol):
    """A `MachineRun` in a process of the cluster."""

    def is_placed(self) -> bool:
        """Returns whether the process has a machine, after a short wait.

        Raises:
            LostError: it will not get one.
        """

    def call(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the `MachineRun` and returns its result.

        Raises:
            LostError: the process is gone or the method failed.
        """

    def end(self) -> None:
        """Kills the process, also from another thread; unfinished calls raise LostError."""


class Cluster(Protocol):
    """Machines on which this suite is installed.

    Attributes:
        version: fingerprint of the code that they must have.
    """

    version: str

    def start(self, cores: int) -> RemoteRun:
        """Requests a process with some cores; it waits until they are free."""


class ClusterJob(RecordedJob):
    """Runs a whole job on a cluster.

    The machine continues from the files of the run on the head. Changes there are copied back: the progress every few
    seconds, and everything with each new checkpoint and at the end. If the process or its machine is lost, another one
    continues from the files received so far.

    Args:
        job: job with its folders on this machine.
        run: name of the run, from which the machine makes the same job.
        cluster: cluster that runs the job.
        say: called with a line when a run is lost.
    """

    def __init__(self, job: RecordedJob, run: Run, cluster: Cluster, say: Callable[[str], None]) -> None:
        super().__init__(job.config, job.seed, job.paths)
        self.label = job.label
        self._job, self._run, self._cluster, self._say = job, run, cluster, say
        self._run_dir = job.run_dir if isinstance(job, TrainingJob) else None
        self._remote: RemoteRun | None = None
        self._share: float | None = None
        self._where = ""
        self._checkpoints = 0  # number of receptions that included a checkpoint

    def run(self, cores: list[int], quiet: bool) -> None:
        """Runs what is left of the job on the cluster.

        Args:
            cores: list whose length is the number of cores of the run on the cluster.
            quiet: ignored; nothing is shown.

        Raises:
            JobError: the job failed, was lost too often, or another process works on it.
            Stopped: the job was interrupted; what was saved on the machine in time has been received.
        """
        losses = 0
        with self._locked():
            if reason := self._job.refusal():
                raise JobError(reason)
            while True:
                came = self._checkpoints
                try:
                    self._work(len(cores))
                    return
                except LostError as error:
                    self._check_stop()
                    losses = 1 if self._checkpoints > came else losses + 1
                    if losses == MAX_LOSSES:
                        raise JobError(f"it was lost {losses} times in a row, the last time {error}.") from None
                    self._say(f"{self.label} was lost {error}; it continues elsewhere from the files received so far.")

    def stop(self) -> None:
        """Asks the run to save and end on its machine; the saved files are received."""
        self._stopped = True

    def kill(self) -> None:
        """Kills the run on its machine; files not yet received are lost."""
        self._stopped = True
        if self._remote is not None:
            self._remote.end()

    def share_done(self) -> float:
        return self._job.share_done() if self._share is None else self._share

    def seconds_done(self) -> float:
        return self._job.seconds_done()

    def refusal(self) -> str | None:
        return self._job.refusal()

    def where(self) -> str:
        return self._where

    def figure_dir(self) -> Path | None:
        return self._job.figure_dir()

    def _work(self, cores: int) -> None:
        """Runs the job in one process of the cluster; errors as for `run`, and LostError."""
        remote = self._remote = self._cluster.start(cores)
        self._where = ", waits for cores"
        try:
            while not remote.is_placed():
                self._check_stop()
            machine, version = remote.call("describe")
            if version != self._cluster.version:
                raise JobError(OTHER_VERSION.format(machine))
            self._where = f", on {machine}"
            folder = remote.call("prepare", self._run, records.git_commit())
            try:
                self._send(remote)
                state = self._follow(remote)
                results = None if state.stopped or state.failure else remote.call("results")
            finally:
                with contextlib.suppress(LostError):  # the next run on that machine removes the folder
                    remote.call("close")
        except LostError as error:
            raise LostError(f"{self._where.removeprefix(', ')} ({error})") from None
        finally:
            self._where, self._share = "", None
            remote.end()
        if state.failure:
            raise JobError(state.failure.replace(folder, str(self._run_dir)))
        if results is None:
            self._check_stop()
            raise LostError(f"on {machine} (its processes were ended there)")
        self._record(results)

    def _send(self, remote: RemoteRun) -> None:
        """Sends the files from which the run continues."""
        if self._run_dir is None:
            return
        for name in list_saved(self._run_dir, skip=OUTPUT):
            with (self._run_dir / name).open("rb") as file:
                offset, chunk = 0, file.read(CHUNK_BYTES)
                while chunk or not offset:
                    self._check_stop()
                    remote.call("put", name, offset, chunk)
                    offset, chunk = offset + max(1, len(chunk)), file.read(CHUNK_BYTES)

    def _follow(self, remote: RemoteRun) -> State:
        """Starts the run, receives its files, and returns its final state."""
        have: Files = remote.call("look").files
        remote.call("begin")
        while True:
            self._attend(remote)
            state: State = remote.call("look")
            self._receive(remote, state, have)
            if state.ended:
                return state
            time.sleep(POLL_SECONDS)

    def _attend(self, remote: RemoteRun) -> None:
        """Passes a request to stop on and reads the progress; called every `POLL_SECONDS`, also during a large file."""
        if self._stopped:
            remote.call("stop")
        self._share = remote.call("share")

    def _receive(self, remote: RemoteRun, state: State, have: Files) -> None:
        """Receives changed files: all of them with a new checkpoint or at the end, else only the progress."""
        new = [name for name, stamp in state.files.items() if have.get(name) != stamp]
        if not state.ended and not any(map(checkpoint_of, new)):
            new = [name for name in new if name == PROGRESS]
        if self._run_dir is None or not new:
            return
        inbox = Inbox(self._run_dir)
        for name in new:
            inbox.add(name, self._chunks(remote, name))
        published = inbox.publish()
        have.update({name: state.files[name] for name in published})
        self._checkpoints += any(map(checkpoint_of, published))

    def _chunks(self, remote: RemoteRun, name: str) -> Iterator[bytes]:
        offset, attended = 0, time.monotonic()
        while chunk := remote.call("get", name, offset):
            yield chunk
            offset += len(chunk)
            if len(chunk) < CHUNK_BYTES:
                return
            if time.monotonic() - attended > POLL_SECONDS:
                self._attend(remote)
                attended = time.monotonic()

    def _record(self, results: Results) -> None:
        for path, record in zip(self.record_paths, results.records, strict=True):
            records.write_record(path, record)
        if (folder := self.figure_dir()) is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for name, content in results.figures.items():
                (folder / name).write_bytes(content)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Locks the run's folder, if the job has one.

        Raises:
            InUseError: another process uses the folder.
            Stopped: the job was asked to stop while it waited for the folder.
        """
        if self._run_dir is None:
            yield
            return
        self._run_dir.mkdir(parents=True, exist_ok=True)
        lock: TextIO | None
        while (lock := try_lock(self._run_dir / ".lock")) is None:
            self._wait_until_free(self._run_dir)
        with lock:
            yield
