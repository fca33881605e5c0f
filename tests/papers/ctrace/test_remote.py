"""R2D2 with actors in processes of their own: one that is killed, a learner that is killed, one that cannot start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from repro.acting.remote_actor_pool import MOST_FAILED_STARTS, RemoteActorPool
from repro.acting.supervision import ActorPoolError, Supervision
from repro.training.run_directory import read_progress

LONGEST_SECONDS = 240.0
FRAMES = 16_000


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
    assert "ended with code -9 and was started again" in learner.communicate()[1]
    _wait(lambda: not set(second) & set(_actors(run)))

    learner = _train(run)
    shown = learner.communicate(timeout=LONGEST_SECONDS)[1]
    assert learner.returncode == 0, shown
    assert "Resuming" in shown
    assert _frames(run) >= FRAMES
    assert (run / "complete.json").exists()
    assert not _actors(run)


def test_actor_that_cannot_start_ends_the_run_with_its_log(tmp_path):
    class Replay:
        address = "localhost:1"

    class Weights:
        def connect(self, address):
            assert address == "localhost:1"

    warnings = []
    failing = [sys.executable, "-c", "import sys; sys.exit('no such game')"]
    actor_pool = RemoteActorPool(
        Replay(),
        Weights(),
        lambda index, start, address: failing,
        1,
        print,
        Supervision(warnings.append, tmp_path),
        frames_per_step=1,
    )
    actor_pool._supervise(0)
    with pytest.raises(
        ActorPoolError, match=f"Actor 0 ended {MOST_FAILED_STARTS} times at its start; see .*actor_0.txt"
    ):
        actor_pool.check()
    assert (tmp_path / "actor_0.txt").read_text().splitlines() == ["no such game"] * MOST_FAILED_STARTS
    assert len(warnings) == MOST_FAILED_STARTS - 1


def _train(run: Path) -> subprocess.Popen:
    command = [
        *(sys.executable, "-m", "repro.train", f"--run_dir={run}", "--config=paper_configs/ctrace/r2d2.py:smoke"),
        *("--config.runtime.schedule=processes", "--config.runtime.num_actors=2", "--config.runtime.envs_per_actor=2"),
        *(
            f"--config.num_env_frames={FRAMES}",
            "--config.replay.first_frames=2000",
            "--config.runtime.checkpoint_seconds=1",
        ),
    ]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def _actors(run: Path) -> list[int]:
    """Process numbers of the run's actors."""
    found = subprocess.run(["pgrep", "-f", f"repro.actor --run_dir={run}"], capture_output=True, text=True)
    return [int(line) for line in found.stdout.split()]


def _frames(run: Path) -> int:
    rows = read_progress(run / "progress.csv") if (run / "progress.csv").exists() else []
    return int(rows[-1]["num_env_frames"]) if rows else 0


def _wait(condition: Callable[[], object]) -> object:
    """The first true value of a condition."""
    end = time.monotonic() + LONGEST_SECONDS
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.2)
    raise AssertionError("waited too long")
