"""Faults in short runs, and what the command prints, saves and continues with: docs/faults.md."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from repro.training.run_directory import read_progress, read_settings
from tests.support.commanded_run import LONG, CommandedRun
from tests.support.forked_run import ForkedRun


@pytest.fixture
def run(tmp_path):
    run = ForkedRun(tmp_path)
    yield run
    run.kill()


@pytest.fixture
def commanded_run(tmp_path):
    run = CommandedRun(tmp_path)
    yield run
    run.kill()


RARELY = "--config.runtime.checkpoint_seconds=100000"


def test_a_run_goes_on_after_an_error_of_its_environment(run):
    process = run.start("--config.num_env_steps=5000")
    run.cause("raise_once", rows=1)
    code, stderr = run.end(process)
    assert code == 0, stderr
    assert (
        stderr.count("Actor 0 was restarted (restart 1 by this process): OSError: the simulator is gone for once") == 1
    )
    assert "1 restarted actors" in stderr
    assert f"Restarted actors: 1, see {run.run_dir / 'actors'}." in stderr.splitlines()[-1]
    assert run.totals["actor_restarts"] == 1


@pytest.mark.slow
def test_an_environment_that_always_fails_and_one_that_hangs(commanded_run):
    """The run is saved and ends; it goes on with another checkpoint interval, hangs, and is saved again."""
    run = commanded_run
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
    before, rows = run.saved_updates, run.rows
    process = run.start(LONG, "--config.runtime.checkpoint_seconds=90000", "--config.runtime.silent_seconds=90000")
    run.cause("hang", rows + 2)
    time.sleep(1.0)  # until all that was played is learned from
    process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    code, stderr = run.end(process)
    assert code == 0, stderr
    assert re.search(rf"Resuming {run.run_dir} at [0-9,]+ steps\.", stderr)
    assert "Stopped and saved. Resume with: " in stderr
    assert run.saved_updates >= read_progress(run.progress)[-1]["updates"] > before
    assert read_settings(run.run_dir)["config"]["runtime"]["checkpoint_seconds"] == 90000


@pytest.mark.slow
def test_a_hung_environment_in_lockstep_is_replaced_and_a_signal_still_ends_the_run(commanded_run):
    run = commanded_run
    process = run.start(LONG, RARELY, "--config.runtime.schedule=lockstep", "--config.runtime.silent_seconds=8")
    run.cause("hang_once")
    run.wait_for("Actor 0 was restarted (restart 1 by this process): no unroll for 8 seconds.")
    run.cause("hang")
    time.sleep(1.0)
    process.send_signal(signal.SIGTERM)
    code, stderr = run.end(process)
    assert code == 0, stderr
    assert "Stopped and saved" in stderr
    assert run.saved_updates >= read_progress(run.progress)[-1]["updates"]


@pytest.mark.slow
def test_a_learner_that_is_killed_costs_what_came_after_the_last_checkpoint(commanded_run):
    """All learners start again, the chief in its process; a signal to it ends them, and their actors."""
    run = commanded_run
    learners = ("schedule=processes", "num_learners=2", "num_actors=2", "checkpoint_seconds=0")
    process = run.start(LONG, *(f"--config.runtime.{setting}" for setting in learners))
    run.wait(lambda: any((run.run_dir / "checkpoints").glob("checkpoint_*")), "the run saves nothing")
    (other,) = _processes(f"repro.learner --run_dir={run.run_dir}")
    os.kill(other, signal.SIGKILL)
    run.wait_for("Learner 1 is gone: it ended with code -9; see ")
    run.wait_for("All learners start again from the last checkpoint.")
    run.wait_for(f"Resuming {run.run_dir} at ")
    run.wait_for_more_rows()
    process.send_signal(signal.SIGTERM)
    code, stderr = run.end(process)
    assert code == 0, stderr
    assert "Stopped and saved. Resume with: " in stderr
    assert run.saved_updates >= read_progress(run.progress)[-1]["updates"]
    run.wait(lambda: not _processes(f"--run_dir={run.run_dir}"), "learners or actors do not end")


def test_an_actor_in_a_process_that_gets_no_more_memory_is_replaced(run):
    """Its own environment takes all that the system grants the process; the log says so, and its games are counted."""
    process = run.start(LONG, "--config.runtime.schedule=processes")
    run.cause("fill_once", rows=1)
    run.wait_for("Actor 0 was restarted (restart 1 by this process): it ended with code ")
    log = run.run_dir / "actors/actor_0.txt"
    (said,) = (line for line in run.stderr.read_text().splitlines() if "was restarted" in line)
    assert re.search(rf"it ended with code (?!0;)-?\d+; see {log}\.$", said), said
    assert re.search(r"MemoryError|bad_alloc", log.read_text()), log.read_text()
    run.wait_for_more_rows()
    process.send_signal(signal.SIGTERM)
    code, stderr = run.end(process)
    assert code == 0, stderr
    assert "Stopped and saved. Resume with: " in stderr
    assert "1 restarted actors" in stderr


def test_a_wait_that_fails_shows_what_the_run_said_last(tmp_path):
    run = CommandedRun(tmp_path, (sys.executable, "-c", "raise ValueError('no such game')"))
    run.start().wait()
    with pytest.raises(AssertionError, match="(?s)^nothing is logged.*no such game$"):
        run.wait(lambda: run.rows, "nothing is logged", seconds=0.0)


EVALUATED = ("schedule=processes", "evaluator_episodes=4", "checkpoint_seconds=1")


def test_an_evaluator_that_is_killed_is_replaced_and_its_file_goes_on_with_the_run(run):
    settings = ("--config.num_env_steps=320000", *(f"--config.runtime.{setting}" for setting in EVALUATED))
    process, file = run.start(*settings), run.run_dir / "evaluations.csv"
    evaluator = f"repro.actor --run_dir={run.run_dir} .*--evaluates=True"

    def rows():
        return read_progress(file)

    def wait_for_evaluations(count):
        target = len(rows()) + count
        run.wait(lambda: len(rows()) >= target, "nothing is evaluated")

    wait_for_evaluations(2)
    (pid,) = _processes(evaluator)
    os.kill(pid, signal.SIGKILL)
    run.wait_for("The evaluator was restarted (restart 1 by this process): it ended with code -9; see ")
    wait_for_evaluations(1)
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    code, stderr = run.end(process)
    assert time.monotonic() - began < 30.0
    assert code == 0, stderr
    assert "1 restarted evaluators" in stderr
    run.wait(lambda: not _processes(f"--run_dir={run.run_dir}"), "the evaluator or the actor does not end")

    before = [row for row in rows() if row["updates"] <= run.saved_updates]
    run.start(*settings, "--config.runtime.evaluator_episodes=6")
    run.wait(lambda: rows()[-1]["episodes"] == 6, "nothing is evaluated after a resume")
    found = rows()
    assert found[: len(before)] == before
    updates = [row["updates"] for row in found]
    assert updates == sorted(set(updates))
    assert [row["num_env_steps"] for row in found] == [160 * number for number in updates]
    assert {row["episodes"] for row in before} == {4.0}


def _processes(command: str) -> list[int]:
    """Those with these words in their command."""
    found = subprocess.run(["pgrep", "-f", "--", command], capture_output=True, text=True, check=False)
    return [int(number) for number in found.stdout.split()]


def test_durations_are_of_a_clock_that_does_not_jump():
    """`time.time` and `datetime.now` follow the machine's clock, which may be set; only stamps for readers may."""
    calls = [
        f"{path.name}: {line.strip()}"
        for path in sorted(Path("repro").rglob("*.py"))
        for line in path.read_text().splitlines()
        if re.search(r"\btime\.time\(|\bdatetime\.(now|utcnow|today)\(", line)
    ]
    files = [call.split(":")[0] for call in calls]
    assert files == ["campaign.py", "recording.py", "run_directory.py", "scalars_file.py", "scalars_file.py"]
