"""R2D2 with actors in separate processes: an actor that is killed, a learner that is killed, one that cannot start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from repro.acting.actor_processes import ActorProcesses, LocalProcess
from repro.acting.supervision import MAX_FAILURES, ActorPoolError, Supervision
from repro.training.run_directory import read_progress
from tests.support.commanded_run import check_lost

LONGEST_SECONDS = 240.0
FRAMES = 16_000
CHECKPOINT_SECONDS = 1.0


@pytest.mark.slow
def test_run_survives_the_death_of_an_actor_and_of_its_learner(tmp_path):
    run = tmp_path / "run"
    learner = _train(run)
    first = _wait(lambda: _actors(run))
    assert len(first) == 2
    _wait(lambda: _frames(run) > 0)
    os.kill(first[0], signal.SIGKILL)
    second = _wait(lambda: set(_actors(run)) - set(first) and _actors(run))
    frames = _frames(run)
    _wait(lambda: _frames(run) > frames + 1000 and list((run / "checkpoints").glob("checkpoint_*/manifest.json")))
    learner.kill()
    assert "was restarted (restart 1 by this process): it ended with code -9; see" in learner.communicate()[1]
    rows = read_progress(run / "progress.csv")
    _wait(lambda: not set(second) & set(_actors(run)))

    learner = _train(run)
    shown = learner.communicate(timeout=LONGEST_SECONDS)[1]
    assert learner.returncode == 0, shown
    resumed, _ = check_lost(shown, rows, CHECKPOINT_SECONDS)
    assert resumed > 0
    assert _frames(run) >= FRAMES
    assert (run / "complete.json").exists()
    assert not _actors(run)


def test_actor_that_cannot_start_ends_the_run_with_its_log(tmp_path):
    warnings, log = [], tmp_path / "actor_0.txt"
    failing = [sys.executable, "-c", "import sys; sys.exit('no such game')"]
    actors = ActorProcesses(lambda *_: LocalProcess(failing, log), 1, Supervision(warnings.append, tmp_path))
    actors._supervise(0, "localhost:1")
    with pytest.raises(ActorPoolError, match=f"Actor 0 failed {MAX_FAILURES} times at its start.* see .*actor_0.txt"):
        actors.check()
    assert log.read_text().splitlines() == ["no such game"] * MAX_FAILURES
    assert len(warnings) == MAX_FAILURES - 1


def _train(run: Path) -> subprocess.Popen:
    command = [
        *(sys.executable, "-m", "repro.train", f"--run_dir={run}", "--config=paper_configs/ctrace/r2d2.py:smoke"),
        *("--config.runtime.schedule=processes", "--config.runtime.num_actors=2", "--config.runtime.envs_per_actor=2"),
        *(
            f"--config.num_env_frames={FRAMES}",
            "--config.replay.first_frames=2000",
            f"--config.runtime.checkpoint_seconds={CHECKPOINT_SECONDS}",
        ),
    ]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def _actors(run: Path) -> list[int]:
    """Process numbers of the run's actors."""
    found = subprocess.run(["pgrep", "-f", f"repro.actor --run_dir={run}"], capture_output=True, text=True)
    return [int(line) for line in found.stdout.split()]


def _frames(run: Path) -> int:
    rows = read_progress(run / "progress.csv")
    return int(rows[-1]["num_env_frames"]) if rows else 0


def _wait(condition: Callable[[], object]) -> object:
    """The first true value of a condition."""
    end = time.monotonic() + LONGEST_SECONDS
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.2)
    raise AssertionError("waited too long")
