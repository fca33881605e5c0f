"""Faults in every kind of training loop: a signal in the midst of checkpoints, a clock that is set, a full disk, NaN.

What actors do to a loop in threads is in `test_faults.py`, populations in `launch/test_population_command.py`.
"""

from __future__ import annotations

import json
import multiprocessing
import re
import resource
import time
from pathlib import Path

import psutil
import pytest

from repro.training.manifest import find_damage
from repro.training.run_directory import read_progress
from tests.support.faulty_environments import FOLDER_VARIABLE, TASK
from tests.support.forked_train import FORKING, run_train

SECONDS = 180.0
"""Longest wait, for a machine that is busy."""
END_SECONDS = 30.0
"""From a signal to the end, whatever hangs."""

IMPALA = "paper_configs/impala/gymnasium.py:smoke"
CTRACE, REFER = "paper_configs/ctrace/gymnasium.py:smoke", "paper_configs/refer/gymnasium.py:smoke"
GRAPH = "--config.runtime.compile=graph"
LOOPS = {
    "impala": (IMPALA, "--config.learner.batch_size=16"),
    "impala_processes": (IMPALA, "--config.runtime.schedule=processes", f"--config.env.task={TASK}"),
    "acer": ("paper_configs/acer/gymnasium.py:smoke", GRAPH, "--config.replay.frames=4000"),
    "stac": ("paper_configs/stac/gymnasium.py:smoke", GRAPH, "--config.agent=stacx"),
    "dqn": (CTRACE, GRAPH, "--config.replay.first_frames=96"),
    "r2d2": (CTRACE, "--config.agent=r2d2_ctrace", "--config.variants.r2d2_ctrace.replay.first_frames=200"),
    "vracer": (REFER, GRAPH, "--config.memory.start_steps=300"),
    "ppo": ("paper_configs/refer/figure_4_vracer.py:smoke", GRAPH, "--config.agent=ppo"),
}
"""Configuration and settings of each kind of trainer and source that has a loop or a state of its own."""


def start(folder: Path, loop: str, *settings: str, jumping_clock: bool = False) -> multiprocessing.process.BaseProcess:
    config, *own = LOOPS[loop]
    every_update = f"--config{'.variants.r2d2_ctrace' if loop == 'r2d2' else ''}.runtime.checkpoint_seconds=0"
    arguments = [f"--run_dir={folder / 'run'}", f"--config={config}", "--config.num_env_steps=400000", every_update]
    command = [*arguments, *own, *settings]
    environment = {FOLDER_VARIABLE: str(folder), "PYTHONPATH": str(Path.cwd())}
    process = FORKING.Process(target=run_train, args=(command, folder / "stderr.txt", environment, jumping_clock))
    process.start()
    return process


def wait_for_checkpoints(folder: Path, process: multiprocessing.process.BaseProcess, number: int) -> None:
    """Returns once so many checkpoints are there."""
    deadline = time.monotonic() + SECONDS
    while len(list((folder / "run/checkpoints").glob("checkpoint_*"))) < number:
        stderr = (folder / "stderr.txt").read_text() if (folder / "stderr.txt").exists() else ""
        assert process.is_alive(), stderr
        assert time.monotonic() < deadline, f"no checkpoint: {stderr}"
        time.sleep(0.02)


def end(folder: Path, process: multiprocessing.process.BaseProcess, code: int = 0) -> str:
    """Waits for the end of a run, checks what it leaves behind, and returns its standard error."""
    process.join(SECONDS)
    stderr = (folder / "stderr.txt").read_text()
    assert process.exitcode == code, stderr
    assert "Traceback" not in stderr
    checkpoints = folder / "run/checkpoints"
    assert all(find_damage(path) is None for path in checkpoints.glob("checkpoint_*"))
    assert not list(checkpoints.glob("partial_*"))
    return stderr


def saved_updates(folder: Path) -> int:
    newest = max((folder / "run/checkpoints").glob("checkpoint_*"))
    return int(newest.name.removeprefix("checkpoint_"))


def rows(folder: Path) -> list[dict[str, float]]:
    return read_progress(folder / "run/progress.csv")


@pytest.mark.parametrize("loop", LOOPS)
def test_a_signal_ends_every_loop_with_a_whole_checkpoint(tmp_path, loop):
    """Nearly all of the time a checkpoint is being written: each update makes one. Actors in processes hang as well.

    No loop but that with actors in processes has a port open to other machines, and it says so.
    """
    process = start(tmp_path, loop)
    try:
        wait_for_checkpoints(tmp_path, process, 2)
        connections = psutil.Process(process.pid).net_connections()
        is_listening = any(connection.status == psutil.CONN_LISTEN for connection in connections)
        assert is_listening == (loop == "impala_processes")
        (tmp_path / "hang").touch()
        began = time.monotonic()
        process.terminate()
        stderr = end(tmp_path, process)
    finally:
        process.kill()
    assert time.monotonic() - began < END_SECONDS
    assert ("ports of Reverb are open on all of its network interfaces" in stderr) == is_listening
    assert "Stopped and saved. Resume with: " in stderr
    assert saved_updates(tmp_path) >= (rows(tmp_path)[-1]["updates"] if rows(tmp_path) else 2)


def test_a_clock_that_is_set_changes_nothing(tmp_path):
    """It goes back and forth by hours with each look, and yet no actor is silent and no time is of such a size."""
    began = time.monotonic()
    process = start(tmp_path, "impala", jumping_clock=True)
    try:
        wait_for_checkpoints(tmp_path, process, 3)
        process.terminate()
        stderr = end(tmp_path, process)
    finally:
        process.kill()
    assert "Stopped and saved" in stderr
    assert "restarted" not in stderr
    assert rows(tmp_path)
    assert all(0.0 < row["seconds"] < time.monotonic() - began for row in rows(tmp_path))


def test_a_full_disk_a_broken_checkpoint_and_other_threads_at_a_resume(tmp_path):
    """No file may become larger than 100 bytes, as if the disk were full in the midst of a write."""
    process = start(tmp_path, "vracer")
    try:
        wait_for_checkpoints(tmp_path, process, 3)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
        end(tmp_path, process, code=1)
    finally:
        process.kill()
    # stderr is a file as well: it cannot say so here; tests of checkpoints and progress read the sentence
    before, broken = sorted((tmp_path / "run/checkpoints").glob("checkpoint_*"))[-2:]
    (broken / "state.npz").write_bytes(b"")

    process = start(tmp_path, "vracer", "--config.runtime.threads=2", "--config.runtime.checkpoint_seconds=1")
    try:
        deadline = time.monotonic() + SECONDS
        while broken.exists() and process.is_alive():  # until newer ones have taken its place
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.terminate()
        stderr = end(tmp_path, process)
    finally:
        process.kill()
    passed_over = f"({broken.name}: state.npz was changed or cut short)"
    assert f"Going on from {before}, since newer checkpoints are broken {passed_over}." in stderr
    assert f"Resuming {tmp_path / 'run'} at" in stderr
    assert saved_updates(tmp_path) > int(before.name.removeprefix("checkpoint_"))


def test_a_run_that_diverges_ends_with_a_sentence_and_saves_nothing_after_it(tmp_path):
    """DQN plays 96 steps first, 16 for each of 6 updates; the sentence counts gradient steps.

    It is at its end: the same command does not try again, as long as a try may go well.
    """
    process = start(tmp_path, "dqn", "--config.learner.learning_rate=1e38")
    try:
        stderr = end(tmp_path, process, code=1)
        process = start(tmp_path, "dqn", "--config.learner.learning_rate=1e38")
        again = end(tmp_path, process)
    finally:
        process.kill()
    sentence = stderr.splitlines()[-1]
    step = re.search(r"gradient step (\d+) gave .*(nan|inf)", sentence)
    assert step is not None, sentence
    assert saved_updates(tmp_path) == 6 + int(step[1]) - 1
    assert f"The last good checkpoint is in {tmp_path / 'run/checkpoints'}." in sentence
    complete = json.loads((tmp_path / "run/complete.json").read_text())
    assert complete["gradient_steps"] == int(step[1]) - 1
    assert f"{tmp_path / 'run'} has diverged ({complete['diverged']})" in again
    assert "Another try needs another --run_dir." in again
