"""Kills `repro.reproduce` at random moments and looks at what is left: `python -m tests.kill_and_resume --kills=50`.

After every SIGKILL of the whole process group, each record must be valid, the newest whole checkpoint must not be older
than the one before the kill, and at most one checkpoint interval of training may be lost.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from paper_configs.impala import atari_shallow
from repro.evidence import records
from repro.training.run_directory import read_progress

GRACE_SECONDS = 2.0
"""An update and the writing of a checkpoint may come on top of the interval."""


@dataclasses.dataclass
class Report:
    """What the kills did."""

    kills: int = 0
    records: int = 0
    most_repeated_seconds: float = 0.0
    resumed_from: list[int] = dataclasses.field(default_factory=list)


def kill_repeatedly(folder: Path, kills: int, longest: float, seed: int) -> Report:
    """Starts, kills and checks; then lets one more run finish.

    Args:
        folder: empty folder for runs and records.
        kills: number of kills.
        longest: seconds after the start, uniform from 0, at which the process group is killed; every other time
            up to a quarter of them after its first new checkpoint instead.
        seed: of the moments.

    Raises:
        AssertionError: something was lost or corrupt.
    """
    interval = atari_shallow.get_config("smoke").runtime.checkpoint_seconds
    chance = random.Random(seed)
    report = Report()
    newest: dict[Path, int] = {}
    done: set[Path] = set()
    for kill in range(kills):
        process = start(folder, seeds=kills)
        if kill % 2:
            time.sleep(chance.uniform(0.0, longest))
        else:  # however slow the machine, some kills come in the midst of training
            wait_for_checkpoint(folder, process)
            time.sleep(chance.uniform(0.0, longest / 4))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        report.kills += 1
        done = check_records(folder, done)
        for run in (folder / "runs").rglob("checkpoints"):
            updates, seconds = newest_checkpoint(run)
            assert updates >= newest.get(run, 0), f"{run} went back from {newest[run]} to {updates} updates"
            newest[run] = updates
            report.resumed_from.append(updates)
            report.most_repeated_seconds = max(report.most_repeated_seconds, seconds_logged(run) - seconds)
    assert report.most_repeated_seconds <= interval + GRACE_SECONDS, report
    last = start(folder, seeds=len(done) + 1)
    assert last.wait() == 0
    report.records = len(check_records(folder, done))
    assert report.records == len(done) + 1
    return report


def start(folder: Path, seeds: int) -> subprocess.Popen:
    arguments = ["--paper=impala", "--scale=smoke", f"--seeds={seeds}"]
    folders = [f"--runs_dir={folder / 'runs'}", f"--results_dir={folder / 'records'}"]
    return subprocess.Popen(
        [sys.executable, "-m", "repro.reproduce", *arguments, *folders],
        stdout=subprocess.DEVNULL,
        stderr=(folder / "log.txt").open("a"),
        start_new_session=True,
    )


def wait_for_checkpoint(folder: Path, process: subprocess.Popen) -> None:
    """Returns once there is a checkpoint that was not there at the call, or the process has ended."""
    before = set((folder / "runs").rglob("checkpoint_*"))
    while process.poll() is None and set((folder / "runs").rglob("checkpoint_*")) <= before:
        time.sleep(0.1)


def check_records(folder: Path, before: set[Path]) -> set[Path]:
    """Every record is valid and none has gone."""
    stored, errors = records.read_all(folder / "records")
    assert not errors, errors
    now = {item.path for item in stored}
    assert before <= now, before - now
    return now


def newest_checkpoint(checkpoints: Path) -> tuple[int, float]:
    """Updates and training seconds of the newest checkpoint; 0, 0 before the first."""
    paths = sorted(checkpoints.glob("checkpoint_*"))
    if not paths:
        return 0, 0.0
    with np.load(paths[-1] / "state.npz") as state:
        return int(state["updates"]), float(state["seconds"])


def seconds_logged(checkpoints: Path) -> float:
    rows = read_progress(checkpoints.parent / "progress.csv")
    return rows[-1]["seconds"] if rows else 0.0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--longest", type=float, default=25.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        outcome = kill_repeatedly(Path(temporary), options.kills, options.longest, options.seed)
    resumed = [updates for updates in outcome.resumed_from if updates]
    print(
        f"{outcome.kills} kills, {outcome.records} complete records, {len(resumed)} checkpoints to resume from, "
        f"at most {outcome.most_repeated_seconds:.1f} s of training repeated"
    )
