"""One run of the reproduce command from training to its record, a study, and several of them side by side."""

from __future__ import annotations

import abc
import datetime
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import ml_collections
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from repro import cli
from repro.config import budget, frames_per_step, resolve
from repro.evidence import behaviour, migrations, records
from repro.evidence.staleness import CONFIGS_DIR, stale_reason
from repro.training.run_directory import has_saved, read_progress, read_settings, write_json


class JobError(RuntimeError):
    """A run failed; the message says where to look."""


class Stopped(Exception):
    """A run was interrupted and saved; it is neither complete nor failed."""


class RecordedJob(abc.ABC):
    """What all jobs share: a configuration, a seed, and the places of their records.

    Attributes:
        label: what it is, in one line.

    Args:
        config: of the experiment, at its scale.
        seed: of the run.
        paths: of the records, were this scale the first that is recorded.
    """

    label: str

    def __init__(self, config: ml_collections.ConfigDict, seed: int, paths: Sequence[Path]) -> None:
        self.config = config
        self.seed = seed
        self._paths = paths

    @property
    def record_paths(self) -> list[Path]:
        """Where the records of this scale lie or are to lie: one of a run, one for each answer of a study."""
        return [records.path_of_scale(path, self.config.scale) for path in self._paths]

    @abc.abstractmethod
    def run(self, cores: list[int], quiet: bool) -> None:
        """Does what is left to do on the given cores.

        Args:
            cores: numbers of the processor cores to use.
            quiet: shows no bar.

        Raises:
            JobError: it failed.
            Stopped: it was interrupted.
        """

    @abc.abstractmethod
    def stop(self) -> None:
        """Asks for an end before its own, from another thread."""

    @abc.abstractmethod
    def share_done(self) -> float:
        """Returns the share of the work that is done, from 0 to 1."""

    def recorded(self) -> bool:
        """Whether they are there, valid, of this scale and of the current configuration."""
        return all(path.exists() and stale_reason(records.read_record(path)) is None for path in self.record_paths)


class Job(RecordedJob):
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
        from repro.environments.names import task_name

        config.env.task = task_name(config.env.name, task)
        self.label = f"{config.experiment} {config.agent} {config.env.task} seed {seed}"
        names = (config.paper, config.experiment, config.env.task, config.agent)
        place = records.record_path("", *names, seed)
        super().__init__(config, seed, [results_dir / place])
        self._process: subprocess.Popen | None = None
        self.run_dir = runs_dir / place.parent / config.scale / f"seed_{seed}"

    def run(self, cores: list[int], quiet: bool) -> None:
        """Does what is left to do, in processes of their own on the given cores.

        Args:
            cores: numbers of the processor cores to use.
            quiet: sends the output to `log.txt` in the run folder, instead of showing it.

        Raises:
            JobError: a process failed.
            Stopped: interrupted, saved.
        """
        log = self.run_dir / "log.txt" if quiet else None
        self.run_dir.mkdir(parents=True, exist_ok=True)
        origin = self.run_dir / "origin.json"
        version = self._behaviour_version()
        if not (origin.exists() and has_saved(self.run_dir)):
            write_json(origin, {"git_commit": records.git_commit(), "behaviour": version})
        elif (begun := behaviour.of_record(json.loads(origin.read_text()))) != version:
            raise JobError(
                f"the run in {self.run_dir} began with behaviour version {begun} of its agent, which is {version} now: "
                "move the folder away."
            )
        if not (self.run_dir / "complete.json").exists():
            experiment = f"paper_configs/{self.config.paper}/{self.config.experiment}.py:{self.config.scale}"
            self._call(
                cores,
                log,
                "repro.train",
                f"--config={experiment}",
                f"--config.env.task={self.config.env.task}",
                f"--config.agent={self.config.agent}",
                f"--seed={self.seed}",
            )
        if not (self.run_dir / "complete.json").exists():
            raise Stopped
        if self._evaluation() is None:
            self._call(cores, log, "repro.evaluate", f"--episodes={self.config.evaluation.episodes}")
        if self._evaluation() is None:
            raise Stopped
        records.write_record(self.record_paths[0], self._make_record(len(cores)))

    def stop(self) -> None:
        """Asks the process that works on this job, if there is one, to save and end."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def share_done(self) -> float:
        """Share of the frames trained so far, from the run's log; 0 before its first row."""
        path = self.run_dir / "progress.csv"
        rows = read_progress(path) if path.exists() else []
        unit, amount = budget(self.config)
        return rows[-1][f"num_env_{unit}"] / amount if rows else 0.0

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

    def _evaluation(self) -> dict[str, object] | None:
        """The run's own evaluation, or one of the protocol's number of games; None before there is one."""
        complete = json.loads((self.run_dir / "complete.json").read_text())
        if "evaluation" in complete:
            return complete["evaluation"]
        path = self.run_dir / "evaluation.json"
        played = json.loads(path.read_text()) if path.exists() else None
        return played if played and played["episodes"] == self.config.evaluation.episodes else None

    def _behaviour_version(self) -> int:
        names = (self.config.paper, self.config.experiment, self.config.agent)
        return behaviour.version_of(*names, CONFIGS_DIR)

    def _make_record(self, cores: int) -> dict[str, object]:
        complete = json.loads((self.run_dir / "complete.json").read_text())
        rows = read_progress(self.run_dir / "progress.csv")
        config = resolve(self.config)
        unit, _ = budget(config)
        counted = f"num_env_{unit}"
        if counted not in complete:
            raise JobError(f"{self.run_dir} holds a run of an older version; remove it, or give another --runs_dir.")
        return {
            **identity_fields(config, config.agent, self.seed, config.runtime.schedule),
            **budget_fields(unit, complete[counted], complete["seconds"]),
            "agent_steps": complete[counted] // frames_per_step(config),
            "gradient_steps": complete["gradient_steps"],
            "policy_lag": complete["policy_lag"],
            "curve": records.thin_curve(
                [[row[counted], row["mean_return"]] for row in rows if math.isfinite(row["mean_return"])]
            ),
            "evaluation": self._evaluation(),
            **({"sampled_hparams": complete["sampled_hparams"]} if "sampled_hparams" in complete else {}),
            **_series(rows, counted, config.get("recorded", ())),
            **circumstances(cores),
            "behaviour": self._behaviour_version(),
            "git_commit": json.loads((self.run_dir / "origin.json").read_text())["git_commit"],
            "started": read_settings(self.run_dir)["started"],
            "finished": utc_now(),
        }


class StudyJob(RecordedJob):
    """Runs a study, which trains nothing, and writes a record for each of its answers, and its figure.

    `config.study` names a module of the paper's package with `run(config, seed, cores, advance)`. A study keeps
    nothing on the way: one that was interrupted starts again.

    Args:
        config: of the experiment, at its scale.
        task: must be `config.env.task`.
        seed: of the study.
        results_dir: root of the records.

    Raises:
        ValueError: another task.
    """

    def __init__(self, config: ml_collections.ConfigDict, task: str, seed: int, results_dir: Path) -> None:
        if task != config.env.task:
            raise ValueError(f"{config.experiment} has one task, {config.env.task}, and not {task!r}.")
        self.label = f"{config.experiment} {config.env.task} seed {seed}"
        self._folder = results_dir / config.paper / config.experiment
        names = (config.paper, config.experiment, config.env.task)
        paths = [records.record_path(results_dir, *names, answer, seed) for answer in config.answers]
        super().__init__(config, seed, paths)
        self._share_done = 0.0
        self._stopped = False

    def run(self, cores: list[int], quiet: bool) -> None:
        """Runs the study from its beginning on the given cores.

        Args:
            cores: numbers of the processor cores to use.
            quiet: shows no bar.

        Raises:
            Stopped: interrupted; nothing was written.
        """
        from repro.papers import find_experiment, find_study

        run_study = find_study(self.config)
        started, began, commit = utc_now(), time.monotonic(), records.git_commit()
        with _bars(Console(quiet=quiet)) as bars:
            bar = bars.add_task(self.label, total=1.0)

            def advance(done: int, pieces: int) -> None:
                if self._stopped:
                    raise Stopped
                self._share_done = done / pieces
                bars.update(bar, completed=self._share_done)

            try:
                found = run_study(self.config, self.seed, cores, advance, find_experiment)
            except KeyboardInterrupt:
                raise Stopped from None
        seconds = time.monotonic() - began
        shared = {
            **budget_fields("steps", found.steps, seconds),
            "agent_steps": found.steps,
            "gradient_steps": 0,
            "curve": [],
            **circumstances(len(cores)),
            "git_commit": commit,
            "started": started,
            "finished": utc_now(),
        }
        if self.seed == 1 and not self._has_larger_scale():
            found.save_figure(self._folder)
        for path, (name, answer) in zip(self.record_paths, found.answers.items(), strict=True):
            identity = identity_fields(self.config, name, self.seed, "study")
            series = {"series": answer.series} if answer.series else {}
            evaluation = summarize_returns(answer.unit, answer.protocol, answer.values)
            if answer.interval is not None:
                evaluation["interval"] = list(answer.interval)
            if answer.exact:
                evaluation["exact"] = True
            records.write_record(path, identity | shared | series | {"evaluation": evaluation})

    def stop(self) -> None:
        """Asks the study to end at its next piece."""
        self._stopped = True

    def _has_larger_scale(self) -> bool:
        """Whether this study was recorded at a larger scale, whose figure the folder then holds."""
        larger = records.SCALES[records.SCALES.index(self.config.scale) + 1 :]
        return any(records.path_of_scale(self._paths[0], scale).exists() for scale in larger)

    def share_done(self) -> float:
        """Share of the pieces of work done."""
        return self._share_done


def _series(rows: Sequence[dict[str, float]], counted: str, columns: Sequence[str]) -> dict[str, object]:
    """The columns of a run's log that its record keeps besides the return; empty without any.

    Agents of one experiment may log different things: a column that this run's log lacks is left out.
    """
    columns = [name for name in columns if rows and name in rows[0]]
    if not columns:
        return {}
    points = [[row[name] for name in (counted, *columns)] for row in rows]
    points = [row for row in points if all(map(math.isfinite, row))]  # a replay is filled before anything is learned
    return {"series": {"columns": [counted, *columns], "rows": records.thin(points)}}


def identity_fields(config: ml_collections.ConfigDict, agent: str, seed: int, schedule: str) -> dict[str, object]:
    """The fields of a record that say what it is of."""
    return {
        "schema_version": migrations.SCHEMA_VERSION,
        "paper": config.paper,
        "experiment": config.experiment,
        "task": config.env.task,
        "agent": agent,
        "seed": seed,
        "scale": config.scale,
        "schedule": schedule,
        "config": records.plain_config(config),
        "config_sha256": records.config_sha256(config),
    }


def budget_fields(unit: str, amount: int, seconds: float) -> dict[str, object]:
    """Returns the fields of a record that say how much was played, `num_env_<unit>`, how long that took, and the rate.

    Args:
        unit: `frames` or `steps`.
        amount: in this unit.
        seconds: of training, above 0.
    """
    return {f"num_env_{unit}": amount, "wall_seconds": seconds, f"{unit}_per_second": amount / seconds}


def circumstances(cores: int) -> dict[str, object]:
    """Returns the fields of a record that say what it was made with."""
    return {"versions": records.versions(), "hardware": {**records.hardware(), "cores": cores}}


def summarize_returns(unit: str, protocol: str, values: np.ndarray) -> dict[str, object]:
    """Returns a record's `evaluation`.

    Args:
        unit: of the values.
        protocol: how a value came about, in words.
        values: [N], one an episode or a repetition.
    """
    return {
        "protocol": protocol,
        "episodes": len(values),
        "unit": unit,
        "mean": float(values.mean()),
        "std": float(values.std()),
        "returns": [float(f"{value:.9g}") for value in values],
    }


def utc_now() -> str:
    """Returns the time in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeRemainingColumn(),
        console=console,
    )


def run_jobs(jobs: Sequence[RecordedJob], at_once: int, console: Console) -> dict[RecordedJob, str]:
    """Runs jobs, `at_once` side by side; returns the failed ones with the reason.

    One at a time shows its own progress line; several write to `log.txt` in their run folders and share a
    display of bars.
    """
    at_once = min(at_once, len(jobs))
    if at_once <= 1:
        return _run_in_turn(jobs, console)
    return _run_side_by_side(jobs, at_once, console)


def _run_in_turn(jobs: Sequence[RecordedJob], console: Console) -> dict[RecordedJob, str]:
    failures: dict[RecordedJob, str] = {}
    cores = sorted(os.sched_getaffinity(0))
    for job in jobs:
        try:
            job.run(cores, quiet=False)
        except (JobError, records.RecordError) as error:
            failures[job] = str(error)
        except Stopped:
            break
    return failures


def _run_side_by_side(jobs: Sequence[RecordedJob], at_once: int, console: Console) -> dict[RecordedJob, str]:
    cores = sorted(os.sched_getaffinity(0))
    shares = [cores[i::at_once] or [cores[i % len(cores)]] for i in range(at_once)]
    waiting = deque(jobs)
    failures: dict[RecordedJob, str] = {}
    stop = threading.Event()
    bars = _bars(console)
    running: dict[RecordedJob, TaskID] = {}

    def work(share: list[int]) -> None:
        while waiting and not stop.is_set():
            job = waiting.popleft()
            running[job] = bars.add_task(job.label, total=1.0)
            try:
                job.run(share, quiet=True)
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
                    bars.update(bar, completed=job.share_done())
                for thread in threads:
                    thread.join(timeout=0.5)
            except KeyboardInterrupt:
                stop.set()
                for job in running:
                    job.stop()
    return failures
