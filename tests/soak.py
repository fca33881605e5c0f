"""Trains for hours and looks for what grows: `python -m tests.soak --seconds=43200 [--what=impala_async,dqn]`.

Small trainings of several agents run one after the other, each for its share of the time, with frequent checkpoints.
Memory, file descriptors, threads, processes and the run directory are sampled for the whole process tree. If one of
them grows after a warm-up, or a process is left over, the command ends with one sentence and exit code 1. The work of
each run in its time is counted, so that machines and dates can be compared.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

from repro.training.run_directory import CHECKPOINT_PREFIX, read_progress

START_SECONDS = 300.0
"""Longest wait for a run's second checkpoint and full replay, and for its end after SIGTERM."""
SAMPLES = 400
"""Samples of a run, at most four a second."""
WARM_UP = 1 / 3
"""Share of a run's samples that are left out: replays fill, allocators reach their size, compiled calls are traced."""
LEAST_SECONDS = 15.0
"""Shortest time of a run, for two samples a block on a busy machine."""
BLOCKS = 20
"""Pieces of what remains; each counts as its smallest sample. So memory that is freed again does not count, whenever
glibc gives it back, nor do files of a checkpoint that is being written."""
MIB = 2**20


class Sample(NamedTuple):
    """A run at a moment.

    seconds: since its replay was full.
    memory: anonymous and shared memory of all its processes, MiB; pages of files are the kernel's to take back.
    descriptors, threads: of all its processes.
    processes: how many there are.
    disk: size of the run directory, MiB; checkpoints, `progress.csv` and logs of actors.
    tensorboard: size of its TensorBoard files, MiB, which have at most some thousand rows in a run's whole budget.
    """

    seconds: float
    memory: float
    descriptors: float
    threads: float
    processes: float
    disk: float
    tensorboard: float


class Run(NamedTuple):
    """What is trained.

    command: configuration and settings.
    fill: frames or steps after which its replay is full, whatever the machine; what fills up is no leak.
    """

    command: tuple[str, ...]
    fill: int = 0


class Work(NamedTuple):
    """What a run did up to its end, its start included.

    updates, games: of the learner and of all actors, at the last row of `progress.csv`.
    checkpoints: that were seen.
    """

    updates: int
    games: int
    checkpoints: int


BOUNDS: Mapping[str, tuple[float, float]] = {
    "memory": (48.0, 0.05),
    "descriptors": (3.0, 0.0),
    "threads": (3.0, 0.0),
    "processes": (0.5, 0.0),
    "disk": (2.0, 0.05),
    "tensorboard": (2.0, 0.0),
}
"""Largest growth after the warm-up, and as a share of the median; the larger counts. What is counted in whole numbers
has no noise once blocks are their smallest samples, but a pool may reach its size late. Memory has the arenas that
glibc makes for threads that meet, tens of MiB; checkpoints differ by their games. The bounds do not depend on the
time, so that hours find leaks that a minute cannot: 48 MiB are 10 kB a second in 80 minutes, and 2.4 MB in 20 seconds.
"""

ATARI = ("--config.env.task=pong", "--config.runtime.env_threads=1")
FILL = 4_000
"""Frames that a replay of Atari holds."""
GAMES = ("--config.runtime.num_actors=2", "--config.runtime.envs_per_actor=4", "--config.learner.batch_size=4")
IMPALA = ("paper_configs/impala/atari_shallow.py", *ATARI, *GAMES)
RUNS: Mapping[str, Run] = {
    "impala_async": Run(IMPALA),
    "impala_processes": Run((*IMPALA, "--config.runtime.schedule=processes")),
    "acer": Run(("paper_configs/acer/atari.py", *ATARI, f"--config.replay.frames={FILL}"), FILL),
    "dqn": Run(
        (
            "paper_configs/ctrace/dqn.py",
            *ATARI,
            f"--config.replay.frames={FILL}",
            f"--config.replay.first_frames={FILL // 2}",
        ),
        FILL,
    ),
    "vracer": Run(
        (
            "paper_configs/refer/figure_4_vracer.py",
            f"--config.memory.capacity={FILL // 2}",
            f"--config.memory.start_steps={FILL // 4}",
        ),
        FILL // 2,
    ),
    "stac": Run(("paper_configs/stac/atari.py", *ATARI, *GAMES)),
}
UNITS_PER_SECOND = 50_000
"""Of the budget, more than any of these runs learns from, so that none is complete before its time."""


class SoakError(RuntimeError):
    """Something grew, or a run did not live or end as it should; the message is one sentence."""


class Process:
    """A training in a process group of its own, ended with the block.

    Args:
        command: arguments of `repro.train`, without the run directory.
        folder: of the run.
    """

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self.run_dir = folder / "run"
        self._log = folder / "log.txt"
        arguments = [sys.executable, "-m", "repro.train", f"--run_dir={self.run_dir}", *command]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(arguments, stdout=log, stderr=log, start_new_session=True)
        self._tree = psutil.Process(self._process.pid)
        self._seen: set[psutil.Process] = set()
        self._checkpoints: set[str] = set()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for process in self._seen:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def wait_until_full(self, fill: int) -> None:
        """Waits for its second checkpoint and the last frame or step that makes its replay full.

        Raises:
            SoakError: `START_SECONDS` are not enough.
        """
        deadline = time.monotonic() + START_SECONDS
        while len(list((self.run_dir / "checkpoints").glob("checkpoint_*"))) < 2 or self._units() < fill:
            self.check_alive()
            if time.monotonic() > deadline:
                raise SoakError(f"no two checkpoints and {fill:,} of its budget in {START_SECONDS:.0f} seconds")
            time.sleep(0.2)

    def _units(self) -> float:
        rows = read_progress(self.run_dir / "progress.csv")
        return next(value for name, value in rows[-1].items() if name.startswith("num_env_")) if rows else 0.0

    def check_alive(self) -> None:
        """Raises SoakError where the run has ended."""
        if (code := self._process.poll()) is not None:
            last = self._log.read_text().strip().splitlines()[-1:]
            raise SoakError(f"it ended with code {code} before its time: {''.join(last)}")

    def sample(self, began: float) -> Sample:
        """Measures now; `began` is what `time.monotonic` was when its replay was full."""
        processes = [self._tree, *self._tree.children(recursive=True)]
        self._seen.update(processes[1:])
        self._see_checkpoints()
        memory = descriptors = threads = count = 0.0
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
                measured = _memory(process.pid), process.num_fds(), process.num_threads()
                memory, descriptors, threads = memory + measured[0], descriptors + measured[1], threads + measured[2]
                count += 1
        board = _size(self.run_dir / "tensorboard")
        disk = _size(self.run_dir) - board
        return Sample(time.monotonic() - began, memory, descriptors, threads, count, disk, board)

    def count_work(self) -> Work:
        """What the run did; to be called once it has ended."""
        self._see_checkpoints()
        rows = read_progress(self.run_dir / "progress.csv")
        updates, games = (int(rows[-1][name]) if rows else 0 for name in ("updates", "games"))
        return Work(updates, games, len(self._checkpoints))

    def _see_checkpoints(self) -> None:
        self._checkpoints.update(path.name for path in (self.run_dir / "checkpoints").glob(f"{CHECKPOINT_PREFIX}*"))

    def stop(self) -> None:
        """Ends the run with SIGTERM.

        Raises:
            SoakError: it does not save and end, or leaves a process behind.
        """
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            raise SoakError(f"it did not end {START_SECONDS:.0f} seconds after SIGTERM") from None
        if code:
            raise SoakError(f"it ended with code {code} after SIGTERM")
        _, alive = psutil.wait_procs(self._seen, timeout=30.0)
        if alive:
            raise SoakError(f"it left {len(alive)} processes behind")


def soak(run: Run, folder: Path, seconds: float) -> tuple[list[Sample], Work]:
    """Samples a training for some seconds after its start, and ends it.

    It has started with its second checkpoint, since the first comes after the first update, and with a full replay.

    Raises:
        SoakError: it does not live so long, or does not end well.
    """
    samples: list[Sample] = []
    with Process(run.command, folder) as process:
        process.wait_until_full(run.fill)
        began = time.monotonic()
        while len(samples) < 2 * BLOCKS or samples[-1].seconds < seconds:  # few samples where the machine is busy
            process.check_alive()
            samples.append(process.sample(began))
            time.sleep(max(0.25, seconds / SAMPLES))
        process.stop()
        return samples, process.count_work()


def growth(seconds: Sequence[float], values: Sequence[float]) -> float:
    """How much a measure grows from the end of the warm-up to the last sample, beyond a step or a curve that bends.

    Each half has the Theil-Sen slope, the median of the slopes between all pairs of blocks; the smaller one counts, for
    the whole time. So a step, which only one half can have, is no growth, nor is what comes near its limit, while a
    steady leak is in both halves.

    Args:
        seconds: of the samples, rising.
        values: of the measure at them, at least `BLOCKS` after the warm-up.
    """
    first = int(len(values) * WARM_UP)
    if len(values) - first < BLOCKS:
        raise ValueError(f"growth: {len(values)} samples are too few for {BLOCKS} blocks.")
    moments = np.array([np.mean(block) for block in np.array_split(np.asarray(seconds[first:]), BLOCKS)])
    lowest = np.array([np.min(block) for block in np.array_split(np.asarray(values[first:]), BLOCKS)])
    halves = (slice(None, BLOCKS // 2), slice(BLOCKS // 2, None))
    slope = min(_theil_sen(moments[half], lowest[half]) for half in halves)
    return slope * (seconds[-1] - seconds[first])


def find_growth(samples: Sequence[Sample]) -> dict[str, str]:
    """Says of each measure that grows beyond its bound by how much."""
    seconds = [sample.seconds for sample in samples]
    found = {}
    for name, (floor, share) in BOUNDS.items():
        values = [getattr(sample, name) for sample in samples]
        bound, grown = max(floor, share * float(np.median(values))), growth(seconds, values)
        if grown > bound:
            found[name] = f"{name} grew by {grown:.1f} where {bound:.1f} is the bound"
    return found


def describe(name: str, samples: Sequence[Sample], work: Work) -> str:
    """A run in one row of the table: its work, and each measure after the warm-up and at the end, and its growth."""
    seconds, begin = [sample.seconds for sample in samples], samples[int(len(samples) * WARM_UP)]
    cells = [f"{name:<17}", f"{seconds[-1]:>8.0f}", *(f"{count:>12,}" for count in work)]
    for measure in BOUNDS:
        grown = growth(seconds, [getattr(sample, measure) for sample in samples])
        first, last = getattr(begin, measure), getattr(samples[-1], measure)
        cells.append(f"{f'{first:.0f} {last:.0f} {grown:+.1f}':>18}")
    return " ".join(cells)


def _theil_sen(x: np.ndarray, y: np.ndarray) -> float:
    first, second = np.triu_indices(len(x), 1)
    return float(np.median((y[second] - y[first]) / (x[second] - x[first])))


def _memory(pid: int) -> float:
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return sum(int(fields.get(name, "0 kB").split()[0]) for name in ("RssAnon", "RssShmem")) * 1024 / MIB


def _size(folder: Path) -> float:
    total = 0
    for path, _, files in os.walk(folder):
        for file in files:
            with contextlib.suppress(FileNotFoundError):
                total += os.stat(os.path.join(path, file)).st_size
    return total / MIB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=12.0, help="of all runs together")
    parser.add_argument("--seconds", type=float, help="in place of --hours")
    parser.add_argument("--what", default=",".join(RUNS), help="runs, separated by commas (default: %(default)s)")
    options = parser.parse_args()
    names = options.what.split(",")
    if unknown := sorted(set(names) - RUNS.keys()):
        parser.error(f"--what={','.join(unknown)}: choose from {','.join(RUNS)}.")
    seconds = (options.seconds or 3600 * options.hours) / len(names)
    if seconds < LEAST_SECONDS:
        parser.error(f"{seconds:.0f} seconds for each run are less than {LEAST_SECONDS:.0f}: too few to see growth.")
    print("After the warm-up, at the end, and growth; sizes in MiB.")
    header = [f"{'run':<17}", f"{'seconds':>8}", *(f"{name:>12}" for name in Work._fields)]
    print(*header, *(f"{name:>18}" for name in BOUNDS))
    failures = []
    for name in names:
        config, *settings = RUNS[name].command
        with tempfile.TemporaryDirectory(prefix="soak_") as folder:
            unit = "steps" if name == "vracer" else "frames"
            command = [f"--config={config}:smoke", f"--config.num_env_{unit}={int(UNITS_PER_SECOND * seconds) + 10**6}"]
            interval = f"--config.runtime.checkpoint_seconds={max(2.0, seconds / 100):.0f}"
            try:
                run = Run((*command, interval, *settings), RUNS[name].fill)
                samples, work = soak(run, Path(folder), seconds)
            except SoakError as error:
                failures.append(f"{name}: {error}")
                continue
        print(describe(name, samples, work), flush=True)
        failures += [f"{name}: {growth}" for growth in find_growth(samples).values()]
    if failures:
        sys.exit(f"tests.soak: {'; '.join(failures)}.")


if __name__ == "__main__":
    main()
