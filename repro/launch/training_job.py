"""A job that trains, evaluates and records a run."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_collections

from repro import cli
from repro.config import budget, frames_per_step, resolve, resolve_plain, tasks, total_budget, use_processes
from repro.environments.names import run_task
from repro.evidence import behaviour, records
from repro.evidence.staleness import CONFIGS_DIR, config_path
from repro.files import reason
from repro.launch.recorded_job import JobError, RecordedJob, Stopped
from repro.launch.recording import budget_fields, circumstances, identity_fields, series_fields, utc_now
from repro.launch.run_files import read_machines
from repro.processes import end_with_parent
from repro.training.run_directory import (
    CHECKPOINTS,
    COMPLETE,
    EVALUATION,
    ORIGIN,
    PROGRESS,
    RunDirectoryError,
    changed_settings,
    has_saved,
    is_complete,
    is_newest,
    read_complete,
    read_progress,
    read_settings,
    write_json,
)
from repro.training.sizes import take_saved
from repro.training.task_returns import return_of

NEEDED = ("seconds", "gradient_steps", "policy_lag")
"""Fields of a run's `complete.json` that its record requires, besides the budget."""
OPTIONAL = ("sampled_hparams", "actor_restarts", "machines", "learners", "lost", "diverged")
"""Fields of a run's `complete.json` that its record contains if they exist."""


class TrainingJob(RecordedJob):
    """Trains, evaluates and records one seed of one task, or of several tasks that are learned together.

    Each of several tasks has its own record, which counts only the frames of this task.

    Args:
        config: configuration of the experiment at its scale.
        task: task that replaces `config.env.task`; the name of the set for tasks that are learned together.
        seed: seed of the run.
        results_dir: root of the records.
        runs_dir: root of the run folders.
        cluster: address of a Ray cluster on which the actors play, see `ray_cluster.join`; None for this machine.

    Attributes:
        run_dir: folder of the run.

    Raises:
        ValueError: the task is unknown, or the agent has no actors that could play on a cluster.
    """

    def __init__(
        self,
        config: ml_collections.ConfigDict,
        task: str,
        seed: int,
        results_dir: Path,
        runs_dir: Path,
        cluster: str | None = None,
    ) -> None:
        if cluster:
            use_processes(config)
        self._on_cluster = (f"--cluster={cluster}",) if cluster else ()
        config.env.task = run_task(config, task)
        self._together = tasks(resolve_plain(config.to_dict(), config.agent))
        self._tasks = self._together or (config.env.task,)
        self.label = f"{config.experiment} {config.agent} {config.env.task} seed {seed}"
        run, *places = (
            records.record_path("", config.paper, config.experiment, name, config.agent, seed)
            for name in (config.env.task, *self._tasks)
        )
        super().__init__(config, seed, [results_dir / place for place in places])
        self._process: subprocess.Popen | None = None
        self.run_dir = runs_dir / run.parent / config.scale / f"seed_{seed}"
        self._origin = self.run_dir / ORIGIN

    def run(self, cores: list[int], quiet: bool) -> None:
        """Trains, evaluates and records what is left to do, in separate processes on the given cores.

        Args:
            cores: numbers of the processor cores to use.
            quiet: whether to write output to `log.txt` in the run folder instead of showing it.

        Raises:
            JobError: a process failed, another process works on the run, or the run must not be continued.
            Stopped: the job was interrupted, and the run is saved.
        """
        log = self.run_dir / "log.txt" if quiet else None
        self.run_dir.mkdir(parents=True, exist_ok=True)
        if reason := self.refusal():
            raise JobError(reason)
        self._wait_until_free(self.run_dir)
        if not self._was_begun():
            origin = {"git_commit": self.find_commit(), "behaviour": self._behaviour_version()}
            write_json(self._origin, origin)
        if not is_complete(self.run_dir):
            file = config_path(self.config.paper, self.config.experiment, Path("paper_configs"))
            flags = [
                f"--run_dir={self.run_dir}",
                f"--config={file}:{self.config.scale}",
                f"--config.experiment={self.config.experiment}",
                f"--config.env.task={self.config.env.task}",
                f"--config.agent={self.config.agent}",
                f"--seed={self.seed}",
            ]
            try:
                self._call(cores, log, *self._training(len(cores)), *flags)
            except JobError:
                if not self._diverged():
                    raise
        if not is_complete(self.run_dir):
            raise Stopped
        if changed := changed_settings(self.run_dir, self.config.to_dict(), self.seed):
            raise JobError(
                f"the configuration was edited after this command had read it, and the run in {self.run_dir} was made "
                f"with other settings ({', '.join(changed[:5])}): repeat the command to record it."
            )
        complete = self._read_complete()
        if self._evaluations(complete) is None:
            episodes = f"--episodes={self.config.evaluation.episodes}"
            self._call(cores, log, "repro.evaluate", f"--run_dir={self._trained_dir}", episodes)
        evaluations = self._evaluations(complete)
        if evaluations is None:
            raise JobError(
                f"the last checkpoint in {self._trained_dir} was not evaluated; if it is broken, replace it by an "
                "intact copy, or move the folder away."
            )
        for path, (task, evaluation) in zip(self.record_paths, evaluations.items(), strict=True):
            records.write_record(path, self._make_record(complete, task, evaluation, len(cores)))

    def stop(self) -> None:
        """Asks the process that works on this job, if there is one, to save and end, and starts no further one."""
        super().stop()
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kills the process that works on this job, if there is one; its last checkpoint remains."""
        self._stopped = True
        if self._process is not None and self._process.poll() is None:
            self._process.kill()

    def share_done(self) -> float:
        """Returns the share of the budget trained so far, from the run's log; 0 before its first row."""
        rows = self._logged()
        if not rows:
            return 0.0
        unit, amount = total_budget(resolve(self.config))
        return rows[-1][f"num_env_{unit}"] / amount

    def seconds_done(self) -> float:
        """Returns the seconds of training so far, from the run's log."""
        rows = self._logged()
        return rows[-1]["seconds"] if rows else 0.0

    def refusal(self) -> str | None:
        """Returns a sentence if the run began with another behaviour version of its agent or with other settings."""
        if not self._was_begun():
            return None
        try:
            begun, version = behaviour.of_record(json.loads(self._origin.read_text())), self._behaviour_version()
        except (OSError, ValueError) as error:
            return f"{self._origin} could not be read ({reason(error)}): move the folder away."
        if begun != version:
            return (
                f"the run in {self.run_dir} began with behaviour version {begun} of its agent, whose version is now "
                f"{version}: move the folder away."
            )
        try:
            changed = changed_settings(self.run_dir, self.config.to_dict(), self.seed)
        except RunDirectoryError as error:
            return f"{error} Move the folder away."
        if changed:
            return f"the run in {self.run_dir} has other settings ({', '.join(changed[:5])}): move the folder away."
        return None

    def _training(self, cores: int) -> Sequence[str]:
        """Returns the module that trains, and additional flags for it."""
        return ("repro.train", *self._on_cluster)

    @property
    def _trained_dir(self) -> Path:
        """Folder of the run that is evaluated and recorded after training."""
        return self.run_dir

    def _logged(self) -> list[dict[str, float]]:
        """Returns the rows of the run's log; none if it cannot be read, in which case the run itself fails."""
        try:
            return read_progress(self.run_dir / PROGRESS)
        except RunDirectoryError:
            return []

    def _was_begun(self) -> bool:
        return self._origin.exists() and has_saved(self.run_dir)

    def _call(self, cores: list[int], log: Path | None, module: str, *arguments: str) -> None:
        self._check_stop()
        command = [sys.executable, "-m", module, *arguments]
        output = log.open("a") if log else None
        environment = {**os.environ, cli.PARENT: "repro.reproduce"}
        self._process = subprocess.Popen(
            command, stdout=output, stderr=output, env=environment, preexec_fn=lambda: _prepare_process(cores)
        )
        try:
            code = self._process.wait()
        except KeyboardInterrupt:
            self.stop()
            self._process.wait()  # the process saves before it ends
            raise Stopped from None
        finally:
            if output:
                output.close()
        killed = self._stopped and -code == signal.SIGKILL
        if killed or -code in (signal.SIGINT, signal.SIGTERM) or code == cli.INTERRUPTED:
            raise Stopped
        if code:
            last = log.read_text().strip().splitlines()[-1:] if log else []
            raise JobError(f"{module} ended with exit code {code}" + (f"; see {log}: {''.join(last)}" if log else "."))

    def _diverged(self) -> bool:
        """Returns whether the run has ended because of a loss that was not finite, and counts as it is."""
        return is_complete(self.run_dir) and "diverged" in read_complete(self.run_dir)

    def _evaluations(self, complete: Mapping[str, Any]) -> dict[str, Mapping[str, Any]] | None:
        """Returns the evaluation of each task, or None if there is no valid one yet.

        It is either part of `complete.json`, or of the last checkpoint with the protocol's number of games. Evaluations
        by `repro.evaluate` of earlier checkpoints do not count.
        """
        if "evaluation" in complete:
            return {self.config.env.task: complete["evaluation"]}
        path = self._trained_dir / EVALUATION
        if not path.exists():
            return None
        played = json.loads(path.read_text())
        if "unfinished" in played or not is_newest(self._trained_dir / CHECKPOINTS, played.pop("updates", -1)):
            return None
        of_tasks = played["tasks"] if self._together else {self.config.env.task: played}
        whole = list(of_tasks) == list(self._tasks)
        enough = all(found["episodes"] == self.config.evaluation.episodes for found in of_tasks.values())
        return of_tasks if whole and enough else None

    def _read_complete(self) -> dict[str, Any]:
        """Returns the content of the run's `complete.json`.

        Raises:
            JobError: it lacks a field that a record requires.
            RunDirectoryError: it cannot be read.
        """
        path, (unit, _) = self._trained_dir / COMPLETE, budget(resolve(self.config))
        complete = read_complete(path.parent)
        if missing := [name for name in (f"num_env_{unit}", *NEEDED) if name not in complete]:
            names = ", ".join(missing)
            raise JobError(f"{path} has no {names}; it may be from an older version: move the folder away.")
        return complete

    def _behaviour_version(self) -> int:
        names = (self.config.paper, self.config.experiment, self.config.agent)
        return behaviour.version_of(*names, CONFIGS_DIR)

    def _make_record(
        self, complete: Mapping[str, Any], task: str, evaluation: Mapping[str, Any], cores: int
    ) -> dict[str, object]:
        rows = read_progress(self._trained_dir / PROGRESS)  # none if it diverged before the first row
        config = resolve(self.config)
        take_saved(config, self._trained_dir)
        unit, _ = budget(config)
        counted = f"num_env_{unit}"
        number = len(self._tasks)
        amount, column = complete[counted] // number, return_of(task) if self._together else "mean_return"
        rows = [row | {counted: row[counted] // number} for row in rows]
        curve = [[row[counted], row[column]] for row in rows if math.isfinite(row[column])]
        if not curve and "diverged" in complete:
            curve = [[amount, evaluation["mean"]]]  # the only known point
        return {
            **identity_fields(config, config.agent, self.seed, config.runtime.schedule),
            "task": task,
            **budget_fields(unit, amount, complete["seconds"]),
            "agent_steps": amount // frames_per_step(config),
            "gradient_steps": complete["gradient_steps"],
            "policy_lag": complete["policy_lag"],
            "curve": records.thin_curve(curve),
            "evaluation": evaluation,
            **{name: complete[name] for name in OPTIONAL if name in complete},
            **({"machines": len(moved)} if len(moved := read_machines(self.run_dir)) > 1 else {}),
            **series_fields(rows, counted, config.get("recorded", ())),
            **circumstances(cores, config.env.name),
            "behaviour": self._behaviour_version(),
            "git_commit": json.loads(self._origin.read_text())["git_commit"],
            "started": read_settings(self.run_dir)["started"],
            "finished": utc_now(),
        }


def _prepare_process(cores: Sequence[int]) -> None:
    """Pins a new process to its cores, and makes it save and end when this one is killed."""
    os.sched_setaffinity(0, cores)
    end_with_parent()
