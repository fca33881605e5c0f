"""Small training that a test starts by a command like a user, watches from outside, and in which it causes faults."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from repro.training.run_directory import read_progress
from tests.support import waiting
from tests.support.faulty_environments import FOLDER_VARIABLE, TASK

T = TypeVar("T")
SECONDS = 240.0
"""Longest wait in seconds, long enough for a busy machine."""
LONG = "--config.num_env_steps=1000000"
IMPALA = ("--config=paper_configs/impala/gymnasium.py:smoke",)
R2D2 = ("--config=paper_configs/ctrace/gymnasium.py:smoke", "--config.agent=r2d2_ctrace")
RESUMED = (
    r"Resuming .* at ([0-9,]+) (frames|steps)\.(?: At least ([0-9,]+) \2 that came after this checkpoint are lost\.)?"
)
"""Line that a run prints when it continues from a checkpoint."""
UPDATE_SECONDS = 2.0
"""Longest time of an update in seconds, long enough for a busy machine."""


def check_lost(said: str, rows: Sequence[Mapping[str, float]], interval: float) -> tuple[int, int]:
    """Checks what a run lost at its last resumption: the rows after its last checkpoint, at most an interval's worth.

    Args:
        said: output of the run.
        rows: rows of its log when it was interrupted.
        interval: seconds between checkpoints.

    Returns:
        Number of updates at which it resumed, and number of frames or steps that it lost.
    """
    at_, unit, lost_ = re.findall(RESUMED, said)[-1]
    at, lost = (int((number or "0").replace(",", "")) for number in (at_, lost_))
    budget = [row[f"num_env_{unit}"] for row in rows]
    assert lost == max(0, budget[-1] - at), (lost, at, budget[-1])
    after = [row["seconds"] for row, count in zip(rows, budget, strict=True) if count > at]
    assert not after or after[-1] - after[0] <= interval + UPDATE_SECONDS, after
    return round(at * rows[-1]["updates"] / budget[-1]), lost


def wait(condition: Callable[[], T], otherwise: str, seconds: float = SECONDS) -> T:
    """Waits until a condition returns something true, and returns it; fails with `otherwise` after some seconds."""
    return waiting.wait(condition, seconds, otherwise)


def wait_for_rows(run_dir: Path, rows: int) -> None:
    """Waits until the run in a folder has logged `rows` rows."""
    wait(lambda: len(read_progress(run_dir / "progress.csv")) >= rows, f"the run in {run_dir} logs nothing more")


class CommandedRun:
    """Training of an agent on the environment with faults, `Faulty`.

    Args:
        folder: folder for the run and its output.
        command: command that trains.
        variables: additional environment variables.
        agent: flags that choose the agent.
    """

    def __init__(
        self,
        folder: Path,
        command: Sequence[str] = (sys.executable, "-m", "repro.train"),
        variables: Mapping[str, str] | None = None,
        agent: Sequence[str] = IMPALA,
    ) -> None:
        self.folder, self.run_dir = folder, folder / "run"
        self._agent = agent
        self._command = command
        added = {FOLDER_VARIABLE: str(folder), "PYTHONPATH": str(Path.cwd())}
        self._environment = os.environ | added | (variables or {})
        self._processes: list[subprocess.Popen] = []

    def start(self, *settings: str) -> subprocess.Popen:
        command = [*self._command, f"--run_dir={self.run_dir}", *self._agent, f"--config.env.task={TASK}", *settings]
        self.stderr.write_text("")  # a forked process does this later: until then the output of the run before is there
        self._processes.append(self._open(command))
        return self._processes[-1]

    def kill(self) -> None:
        """Kills processes that have not ended; the processes that they have started end with them."""
        for process in self._processes:
            process.kill()
            process.wait()

    def wait(self, condition: Callable[[], object], otherwise: str, seconds: float = SECONDS) -> None:
        """Waits until a condition is true; the error has the end of the run's output."""
        try:
            wait(condition, otherwise, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.stderr.read_text()[-2000:]}") from None

    def wait_for(self, line: str) -> None:
        """Waits until the run has printed a line."""
        self.wait(lambda: line in self.stderr.read_text(), f"the run does not say {line!r}")

    def count(self, line: str) -> int:
        """Returns how often the run has printed a line, a regular expression."""
        return len(re.findall(line, self.stderr.read_text()))

    def wait_for_more_rows(self, count: int = 2) -> None:
        """Waits until the run has logged `count` more rows."""
        self._wait_for_rows(self.rows + count)

    def end(self, process: subprocess.Popen) -> tuple[int, str]:
        """Waits for the end of a process, and returns its exit code and output."""
        return process.wait(timeout=SECONDS), self.stderr.read_text()

    def cause(self, fault: str, rows: int = 3) -> None:
        """Causes a fault of the environment after the run has logged some rows."""
        self._wait_for_rows(rows)
        (self.folder / fault).touch()

    def _open(self, command: Sequence[str]) -> subprocess.Popen:
        with self.stderr.open("w") as file:
            return subprocess.Popen(command, stderr=file, env=self._environment)

    def _wait_for_rows(self, rows: int) -> None:
        self.wait(lambda: self.rows >= rows, "the run logs nothing more")

    @property
    def stderr(self) -> Path:
        return self.folder / "stderr.txt"

    @property
    def progress(self) -> Path:
        return self.run_dir / "progress.csv"

    @property
    def rows(self) -> int:
        """Number of rows that the run has logged."""
        return len(read_progress(self.progress))

    @property
    def saved_updates(self) -> int:
        names = [path.name for path in (self.run_dir / "checkpoints").glob("checkpoint_*")]
        return max((int(name.removeprefix("checkpoint_")) for name in names), default=0)

    @property
    def totals(self) -> dict[str, Any]:
        """Totals of a run that is complete."""
        return json.loads((self.run_dir / "complete.json").read_text())
