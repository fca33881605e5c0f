"""R2D2 with actors in processes of their own: one that is killed, a learner that is killed, one that cannot start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from repro.acting.actor_processes import ActorProcesses, LocalProcess
from repro.acting.supervision import MAX_FAILURES, ActorPoolError, Supervision
from repro.training.run_directory import read_progress
from tests.support.commanded_run import R2D2, check_lost
from tests.support.forked_run import ForkedRun

CHECKPOINT_SECONDS = 1.0
STEPS = 12_000
FIELDS = (
    "runtime.num_actors=2",
    f"runtime.checkpoint_seconds={CHECKPOINT_SECONDS}",
    "replay.first_frames=500",
)
AGENT = (
    *R2D2,
    *(f"--config.variants.r2d2_ctrace.{field}" for field in FIELDS),
    "--config.runtime.schedule=processes",
    f"--config.num_env_steps={STEPS}",
)


def test_run_survives_the_death_of_an_actor_and_of_its_learner(tmp_path):
    run = ForkedRun(tmp_path, agent=AGENT)
    try:
        learner = run.start()
        run.wait_for_more_rows(1)
        first = _actors(run)
        assert len(first) == 2
        os.kill(first[0], signal.SIGKILL)
        run.wait(lambda: set(_actors(run)) - set(first), "no other actor starts")
        second = _actors(run)
        run.wait_for_more_rows(5)
        run.wait(lambda: run.saved_updates, "nothing is saved")
        learner.kill()
        learner.wait()
        assert "was restarted (restart 1 of this process): it ended with code -9; see" in run.stderr.read_text()
        rows = read_progress(run.progress)
        run.wait(lambda: not set(second) & set(_actors(run)), "actors do not end")

        code, said = run.end(run.start())
    finally:
        run.kill()
    assert code == 0, said
    resumed, _ = check_lost(said, rows, CHECKPOINT_SECONDS)
    assert resumed > 0
    assert read_progress(run.progress)[-1]["num_env_steps"] >= STEPS
    assert run.totals
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


def _actors(run: ForkedRun) -> list[int]:
    """Process numbers of the run's actors."""
    found = subprocess.run(["pgrep", "-f", f"repro.actor --run_dir={run.run_dir}"], capture_output=True, text=True)
    return [int(line) for line in found.stdout.split()]
