"""One run of the reproduce command from training to its record, and several of them side by side."""

from __future__ import annotations

import datetime
import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path

import ml_collections
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from repro import cli
from repro.evaluation import records
from repro.evaluation.staleness import stale_reason
from repro.runtime.run_directory import read_progress, read_settings, write_json


class JobError(RuntimeError):
    """A run failed; the message says where to look."""


class Stopped(Exception):
    """A run was interrupted and saved; it is neither complete nor failed."""


class Job:
    """Trains, evaluates and records one seed of one task.

    Args:
        config: of the experiment, at its scale.
        task: overrides `config.env.task`.
        seed: of the run.
        results_dir: root of the records.
        runs_dir: root of the run folders.
    """

    def __init__(
        self, config: ml_collections.ConfigDict, task: str, seed: int, results_dir: Path, runs_dir: Path
    ) -> None:
        from repro.environments.games import game_name

        config.env.task = game_name(task)
        self.config = config
        self.seed = seed
        self.label = f"{config.experiment} {config.env.task} seed {seed}"
        names = (config.paper, config.experiment, config.env.task, config.agent)
        self.record_path = records.record_path(results_dir, *names, seed)
        self._process: subprocess.Popen | None = None
        self.run_dir = runs_dir.joinpath(*names, config.scale, f"seed_{seed}")

    def recorded(self) -> bool:
        """Whether a valid record of this scale and of the current configuration lies in place."""
        if not self.record_path.exists():
            return False
        record = records.read_record(self.record_path)
        return record["scale"] == self.config.scale and stale_reason(record) is None

    def run(self, cores: list[int], log: Path | None) -> None:
        """Does what is left to do, in processes of their own on the given cores.

        Args:
            cores: numbers of the processor cores to use.
            log: file for the output; None shows it.

        Raises:
            JobError: a process failed.
            Stopped: interrupted, saved.
        """
        self._refuse_to_replace_a_larger_scale()
        self.run_dir.mkdir(parents=True, exist_ok=True)
        origin = self.run_dir / "origin.json"
        if not origin.exists():
            write_json(origin, {"git_commit": records.git_commit()})
        if not (self.run_dir / "complete.json").exists():
            experiment = f"paper_configs/{self.config.paper}/{self.config.experiment}.py:{self.config.scale}"
            self._call(
                cores,
                log,
                "repro.train",
                f"--config={experiment}",
                f"--config.env.task={self.config.env.task}",
                f"--seed={self.seed}",
            )
        if not (self.run_dir / "complete.json").exists():
            raise Stopped
        if not self._evaluated():
            self._call(cores, log, "repro.evaluate", f"--episodes={self.config.evaluation.episodes}")
        if not self._evaluated():
            raise Stopped
        records.write_record(self.record_path, self._make_record(len(cores)))

    def stop(self) -> None:
        """Asks the process that works on this job, if there is one, to save and end."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def frames_done(self) -> float:
        """Frames trained so far, from the run's log; 0 before its first row."""
        path = self.run_dir / "progress.csv"
        rows = read_progress(path) if path.exists() else []
        return rows[-1]["frames"] if rows else 0.0

    def _refuse_to_replace_a_larger_scale(self) -> None:
        order = ("smoke", "desk", "paper")
        if self.record_path.exists():
            there = records.read_record(self.record_path)["scale"]
            if order.index(there) > order.index(self.config.scale):
                raise JobError(f"{self.record_path} holds a record of scale {there}; give another --results_dir.")

    def _call(self, cores: list[int], log: Path | None, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", module, f"--run_dir={self.run_dir}", *arguments]
        output = log.open("a") if log else None
        self._process = subprocess.Popen(
            command, stdout=output, stderr=output, preexec_fn=lambda: os.sched_setaffinity(0, cores)
        )
        try:
            code = self._process.wait()
        except KeyboardInterrupt:
            self.stop()
            self._process.wait()  # it saves before it ends
            raise Stopped from None
        finally:
            if output:
                output.close()
        if -code in (signal.SIGINT, signal.SIGTERM) or code == cli.INTERRUPTED:
            raise Stopped
        if code:
            raise JobError(f"{module} ended with exit code {code}" + (f"; see {log}." if log else "."))

    def _evaluated(self) -> bool:
        """Whether the run's evaluation has the protocol's number of games."""
        path = self.run_dir / "evaluation.json"
        return path.exists() and json.loads(path.read_text())["episodes"] == self.config.evaluation.episodes

    def _make_record(self, cores: int) -> dict[str, object]:
        complete = json.loads((self.run_dir / "complete.json").read_text())
        rows = read_progress(self.run_dir / "progress.csv")
        config = self.config
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        return {
            "paper": config.paper,
            "experiment": config.experiment,
            "task": config.env.task,
            "agent": config.agent,
            "seed": self.seed,
            "scale": config.scale,
            "schedule": config.runtime.schedule,
            "config": records.plain_config(config),
            "config_sha256": records.config_sha256(config),
            "frames": complete["frames"],
            "agent_steps": complete["frames"] // config.env.frame_skip,
            "gradient_steps": complete["updates"],
            "wall_seconds": complete["seconds"],
            "frames_per_second": complete["frames"] / complete["seconds"],
            "policy_lag": {
                "mean": float(np.mean([row["lag"] for row in rows])),
                "max": max(row["lag"] for row in rows),
            },
            "curve": records.thin_curve(
                [[row["frames"], row["mean_return"]] for row in rows if math.isfinite(row["mean_return"])]
            ),
            "evaluation": json.loads((self.run_dir / "evaluation.json").read_text()),
            "versions": records.versions(),
            "hardware": {**records.hardware(), "cores": cores},
            "git_commit": json.loads((self.run_dir / "origin.json").read_text())["git_commit"],
            "started": read_settings(self.run_dir)["started"],
            "finished": now,
        }


def run_jobs(jobs: list[Job], at_once: int, console: Console) -> dict[Job, str]:
    """Runs jobs, `at_once` side by side; returns the failed ones with the reason.

    One at a time shows its own progress line; several write to `log.txt` in their run folders and share a
    display of bars.
    """
    at_once = min(at_once, len(jobs))
    if at_once <= 1:
        return _run_in_turn(jobs, console)
    return _run_side_by_side(jobs, at_once, console)


def _run_in_turn(jobs: list[Job], console: Console) -> dict[Job, str]:
    failures: dict[Job, str] = {}
    cores = sorted(os.sched_getaffinity(0))
    for job in jobs:
        try:
            job.run(cores, log=None)
        except (JobError, records.RecordError) as error:
            failures[job] = str(error)
        except Stopped:
            break
    return failures


def _run_side_by_side(jobs: list[Job], at_once: int, console: Console) -> dict[Job, str]:
    cores = sorted(os.sched_getaffinity(0))
    shares = [cores[i::at_once] or [cores[i % len(cores)]] for i in range(at_once)]
    waiting = deque(jobs)
    failures: dict[Job, str] = {}
    stop = threading.Event()
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeRemainingColumn(),
        console=console,
    )
    running: dict[Job, TaskID] = {}

    def work(share: list[int]) -> None:
        while waiting and not stop.is_set():
            job = waiting.popleft()
            running[job] = bars.add_task(job.label, total=job.config.frames)
            try:
                job.run(share, job.run_dir / "log.txt")
            except (JobError, records.RecordError, OSError) as error:
                failures[job] = str(error)
            except Stopped:
                stop.set()

    threads = [threading.Thread(target=work, args=(share,)) for share in shares]
    with bars:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            try:
                for job, bar in list(running.items()):
                    bars.update(bar, completed=job.frames_done())
                for thread in threads:
                    thread.join(timeout=0.5)
            except KeyboardInterrupt:
                stop.set()
                for job in running:
                    job.stop()
    return failures
