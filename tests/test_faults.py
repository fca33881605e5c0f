"""Faults that short runs are brought into, and what the command says, saves and goes on with: docs/guide.md."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from repro.training.run_directory import read_progress, read_settings
from tests.support.faulty_environments import FOLDER_VARIABLE, TASK

SECONDS = 120.0
"""Longest wait in a test, for a machine that is busy."""


def _wait(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)


class Run:
    """A training of the environment with faults."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.run_dir = folder, folder / "run"
        monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
        monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))

    def start(self, *settings: str) -> subprocess.Popen:
        arguments = ["--config=paper_configs/impala/gymnasium.py:smoke", f"--config.env.task={TASK}", *settings]
        command = [sys.executable, "-m", "repro.train", f"--run_dir={self.run_dir}", *arguments]
        with self.stderr.open("w") as file:
            return subprocess.Popen(command, stderr=file)

    def wait_for(self, line: str) -> None:
        """Waits until the run has said it."""
        _wait(lambda: line in self.stderr.read_text(), f"the run does not say {line!r}")

    def end(self, process: subprocess.Popen) -> tuple[int, str]:
        """Waits for the end of the process; its exit code and what it said."""
        try:
            return process.wait(timeout=SECONDS), self.stderr.read_text()
        finally:
            process.kill()

    def cause(self, fault: str, rows: int = 3) -> None:
        """Brings the environment into a fault once the run has logged some rows."""
        _wait(lambda: self.progress.exists() and len(read_progress(self.progress)) >= rows, "the run logs nothing")
        (self.folder / fault).touch()

    @property
    def stderr(self) -> Path:
        return self.folder / "stderr.txt"

    @property
    def progress(self) -> Path:
        return self.run_dir / "progress.csv"

    @property
    def saved_updates(self) -> int:
        names = [path.name for path in (self.run_dir / "checkpoints").glob("checkpoint_*")]
        return max(int(name.removeprefix("checkpoint_")) for name in names)


@pytest.fixture
def run(tmp_path, monkeypatch):
    return Run(tmp_path, monkeypatch)


LONG = "--config.num_env_steps=4000000"
RARELY = "--config.runtime.checkpoint_seconds=100000"


def test_a_run_goes_on_after_an_error_of_its_environment(run):
    process = run.start()
    run.cause("raise_once", rows=1)
    code, stderr = run.end(process)
    assert code == 0, stderr
    assert (
        stderr.count("Actor 0 was restarted (restart 1 of this process): OSError: the simulator is gone for once") == 1
    )
    assert "1 restarted actors" in stderr
    assert json.loads((run.run_dir / "complete.json").read_text())["actor_restarts"] == 1


def test_an_environment_that_always_fails_and_one_that_hangs(run):
    """The run is saved and ends; it goes on with another checkpoint interval, hangs, and is saved again."""
    process = run.start(LONG, RARELY)
    run.cause("raise")
    code, stderr = run.end(process)
    assert code == 1, stderr
    sentence = stderr.splitlines()[-1]
    assert sentence.startswith(
        "repro.train: Actor 0 failed 3 times in a row, the last time with OSError: the simulator"
    )
    assert sentence.endswith(f"actor_0.txt. The last good checkpoint is in {run.run_dir / 'checkpoints'}.")
    assert "Traceback" not in stderr
    assert run.saved_updates >= read_progress(run.progress)[-1]["updates"]

    (run.folder / "raise").unlink()
    before, rows = run.saved_updates, len(read_progress(run.progress))
    process = run.start(LONG, "--config.runtime.checkpoint_seconds=90000", "--config.runtime.silent_seconds=90000")
    run.cause("hang", rows + 2)
    time.sleep(1.0)  # until all that was played is learned from
    process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    code, stderr = run.end(process)
    assert code == 0, stderr
    assert re.search(rf"Resuming {run.run_dir} at [0-9,]+ steps\.", stderr)
    assert "Stopped and saved. Resume with: python -m repro.train" in stderr
    assert run.saved_updates >= read_progress(run.progress)[-1]["updates"] > before
    assert read_settings(run.run_dir)["config"]["runtime"]["checkpoint_seconds"] == 90000


def test_a_hung_environment_in_lockstep_is_replaced_and_a_signal_still_ends_the_run(run):
    process = run.start(LONG, RARELY, "--config.runtime.schedule=lockstep", "--config.runtime.silent_seconds=8")
    run.cause("hang_once")
    run.wait_for("Actor 0 was restarted (restart 1 of this process): no unroll for 8 seconds.")
    run.cause("hang")
    time.sleep(1.0)
    process.send_signal(signal.SIGTERM)
    code, stderr = run.end(process)
    assert code == 0, stderr
    assert "Stopped and saved" in stderr
    assert run.saved_updates >= read_progress(run.progress)[-1]["updates"]


def test_durations_are_of_a_clock_that_does_not_jump():
    """`time.time` and `datetime.now` follow the machine's clock, which may be set; only stamps for readers may."""
    calls = [
        f"{path.name}: {line.strip()}"
        for path in sorted(Path("repro").rglob("*.py"))
        for line in path.read_text().splitlines()
        if re.search(r"\btime\.time\(|\bdatetime\.(now|utcnow|today)\(", line)
    ]
    assert [call.split(":")[0] for call in calls] == ["campaign.py", "recording.py", "run_directory.py"]
