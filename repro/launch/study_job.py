"""A job that runs a study, which trains nothing."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import ml_collections
from rich.console import Console

from repro.config import SCALES
from repro.evidence import records
from repro.evidence.statistics import summarize_returns
from repro.launch.bars import make_bars
from repro.launch.recorded_job import JobError, RecordedJob, Stopped
from repro.launch.recording import budget_fields, circumstances, identity_fields, utc_now


class StudyJob(RecordedJob):
    """Runs a study and writes a record for each of its answers, and its figure.

    `config.study` names a module of the paper's package with `run`, a `study.RunStudy`. A study saves nothing on the
    way; an interrupted one starts over. TensorFlow computes on the CPU.

    Args:
        config: configuration of the experiment at its scale.
        task: task of the study, which must be `config.env.task`.
        seed: seed of the study.
        results_dir: root of the records.

    Raises:
        ValueError: `task` is another task.
    """

    def __init__(self, config: ml_collections.ConfigDict, task: str, seed: int, results_dir: Path) -> None:
        if task != config.env.task:
            raise ValueError(f"{config.experiment} has only the task {config.env.task}, not {task!r}.")
        self.label = f"{config.experiment} {config.env.task} seed {seed}"
        self._folder = results_dir / config.paper / records.as_folder(config.experiment)
        names = (config.paper, config.experiment, config.env.task)
        paths = [records.record_path(results_dir, *names, answer, seed) for answer in config.answers]
        super().__init__(config, seed, paths)
        self._share_done = 0.0

    def run(self, cores: list[int], quiet: bool) -> None:
        """Runs the study from its beginning on the given cores.

        Args:
            cores: numbers of the processor cores to use.
            quiet: whether to show no progress bar.

        Raises:
            JobError: the configuration names no study, or one of its processes was killed.
            Stopped: the study was interrupted; nothing was written.
        """
        from repro.papers import UnknownStudyError, find_experiment, find_study
        from repro.training.study import LostProcessError

        try:
            run_study = find_study(self.config)
        except UnknownStudyError as error:
            raise JobError(str(error)) from error
        if "tensorflow" in sys.modules:  # most studies do not use it
            from repro.training import devices

            devices.hide_gpus()
        started, began, commit = utc_now(), time.monotonic(), self.find_commit()
        with make_bars(Console(quiet=quiet)) as bars:
            bar = bars.add_task(self.label, total=1.0)

            def advance(done: int, pieces: int) -> None:
                self._check_stop()
                self._share_done = done / pieces
                bars.update(bar, completed=self._share_done)

            try:
                found = run_study(self.config, self.seed, cores, advance, find_experiment)
            except KeyboardInterrupt:
                raise Stopped from None
            except LostProcessError as error:
                raise JobError(str(error)) from error
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
        if (figure_dir := self.figure_dir()) is not None:
            found.save_figure(figure_dir)
        for path, (name, answer) in zip(self.record_paths, found.answers.items(), strict=True):
            identity = identity_fields(self.config, name, self.seed, "study")
            series = {"series": answer.series} if answer.series else {}
            evaluation = summarize_returns(answer.unit, answer.protocol, answer.values)
            if answer.interval is not None:
                evaluation["interval"] = list(answer.interval)
            if answer.exact:
                evaluation["exact"] = True
            records.write_record(path, identity | shared | series | {"evaluation": evaluation})

    def figure_dir(self) -> Path | None:
        """Returns the folder of the first seed's figure, unless the study was recorded at a larger scale."""
        larger = SCALES[SCALES.index(self.config.scale) + 1 :]
        has_larger = any(records.path_of_scale(self.paths[0], scale).exists() for scale in larger)
        return self._folder if self.seed == 1 and not has_larger else None

    def share_done(self) -> float:
        """Returns the share of the study's pieces of work that are done."""
        return self._share_done
