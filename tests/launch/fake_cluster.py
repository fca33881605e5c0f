"""A cluster without Ray, and a training whose checkpoints, end and loss are controlled by a test."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import psutil

from repro.evidence.commands import Run
from repro.launch import gate
from repro.launch.cluster_job import LostError
from repro.launch.jobs import make_job
from repro.launch.machine_run import MachineRun
from repro.launch.recorded_job import Stopped
from repro.launch.training_job import TrainingJob
from repro.training.manifest import write_manifest
from repro.training.run_directory import read_progress
from tests.support.waiting import wait

RUN = Run("refer", "figure_4_vracer", "vracer_refer", "Hopper", "smoke", 1)


class Script(TrainingJob):
    """A training that does what a test says.

    Args:
        job: the one that it takes the place of.
        act: called with this, in place of training.
    """

    def __init__(self, job: TrainingJob, act: Callable[[Script], None]) -> None:
        self.__dict__ = dict(job.__dict__)
        self._act = act

    def run(self, cores, quiet):
        self.cores = cores
        self._act(self)

    def stop(self):
        self._stopped = True

    def share_done(self):
        rows = read_progress(self.run_dir / "progress.csv")
        return rows[-1]["updates"] / 100 if rows else 0.0

    def log(self, updates):
        with (self.run_dir / "progress.csv").open("a") as file:
            file.write(f"{updates}\n" if file.tell() else f"updates\n{updates}\n")

    def save(self, updates, content=b"weights"):
        """Writes a checkpoint as `checkpoint.save` does."""
        partial = self.run_dir / f"checkpoints/partial_checkpoint_{updates:09d}"
        (partial / "large").mkdir(parents=True)
        (partial / "state.npz").write_bytes(content)
        (partial / "large/replay.npy").write_bytes(3 * content)
        write_manifest(partial)
        partial.rename(partial.with_name(partial.name.removeprefix("partial_")))

    def saved(self):
        """The updates of its checkpoints, in order."""
        return sorted(int(path.name[11:]) for path in (self.run_dir / "checkpoints").glob("checkpoint_*"))

    def wait_for_stop(self):
        wait(lambda: self._stopped)

    def end_when_asked(self):
        self.wait_for_stop()
        raise Stopped


class FakeRun:
    """A `RemoteRun` in this process, whose arguments and answers are copies.

    Attributes:
        calls: names and arguments, in order.
        is_lost: whether it is gone.
        before: called with each of them; may raise LostError.
    """

    def __init__(self, machine: MachineRun, is_placed: bool, before: Callable[..., None]) -> None:
        self.machine, self.before, self._is_placed = machine, before, is_placed
        self.calls, self.is_lost, self.is_ended = [], False, False

    def is_placed(self):
        time.sleep(0.005)
        return self._is_placed

    def call(self, method, *arguments):
        self.before(self, method, *arguments)
        if self.is_lost:
            raise LostError("it died")
        self.calls.append((method, arguments))
        return pickle.loads(pickle.dumps(getattr(self.machine, method)(*pickle.loads(pickle.dumps(arguments)))))

    def end(self):
        self.is_lost = self.is_ended = True
        if hasattr(self.machine, "_job"):
            self.machine.stop()  # as the end of its process does


class FakeCluster:
    """Machines `m0`, `m1`, ..., a new one for each start.

    Args:
        before: as for `FakeRun`.
    """

    version = "code"

    def __init__(self, is_placed: bool = True, before: Callable[..., None] = lambda *_: None) -> None:
        self.runs: list[FakeRun] = []
        self._is_placed, self._before = is_placed, before

    def start(self, cores):
        self.runs.append(FakeRun(MachineRun(cores, f"m{len(self.runs)}"), self._is_placed, self._before))
        return self.runs[-1]


def script_machines(monkeypatch, *acts):
    """Lets the n-th machine do the n-th act, and the last one all further ones; returns the jobs that were made."""
    made = []

    def make(run, results_dir, runs_dir):
        made.append(Script(make_job(run, results_dir, runs_dir), acts[min(len(made), len(acts) - 1)]))
        return made[-1]

    monkeypatch.setattr("repro.launch.machine_run.make_job", make)
    return made


def has_ended(process):
    """Whether a process is gone, or nobody has taken note of its end."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class ProcessRun:
    """A `RemoteRun` in a process of its own."""

    def __init__(self, cores: int, machine: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._lock, (self._connection, other) = threading.Lock(), context.Pipe()
        self.process = context.Process(target=_serve, args=(other, cores, machine), daemon=True)
        self.process.start()
        other.close()

    def is_placed(self):
        return True

    def call(self, method, *arguments):
        with self._lock:
            try:
                self._connection.send((method, arguments))
                is_error, found = self._connection.recv()
            except (EOFError, OSError) as error:
                raise LostError(f"{type(error).__name__}") from None
        if is_error:
            raise LostError(found)
        return found

    def end(self):
        self.process.kill()


class ProcessCluster:
    """Machines `m0`, `m1`, ..., a new process for each start."""

    def __init__(self) -> None:
        self.version = gate.fingerprint()
        self.runs: list[ProcessRun] = []

    def start(self, cores):
        self.runs.append(ProcessRun(cores, f"m{len(self.runs)}"))
        return self.runs[-1]


def _serve(connection: Connection, cores: int, machine: str) -> None:
    run = MachineRun(cores, machine)
    while True:
        method, arguments = connection.recv()
        try:
            connection.send((False, getattr(run, method)(*arguments)))
        except Exception as error:
            connection.send((True, str(error)))
