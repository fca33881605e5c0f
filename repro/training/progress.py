"""What a run shows and logs: a line in the terminal, CSV files, TensorBoard scalars."""

from __future__ import annotations

import contextlib
import csv
import functools
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from repro.acting.evaluator_process import Evaluated
from repro.files import reason, remedy, write_whole
from repro.training.progress_line import ProgressLine, format_score
from repro.training.run_directory import RunDirectory, RunDirectoryError, read_columns, read_progress
from repro.training.scalars_file import ScalarsFile
from repro.training.task_returns import return_of
from repro.training.trainer import RECENT_GAMES, Update

POINTS = 500
"""Number of rows that a whole run writes to `progress.csv`."""
EVALUATOR = "evaluator"
"""Folder for the scalars of an evaluator beside training, which TensorBoard shows as a run of its own."""


class Progress:
    """Shows and logs the updates of a run.

    Args:
        run: folder of the run; on a resume, rows after the restored checkpoint are dropped, also those of evaluations.
        total_updates: number of updates of the whole run.
        frames_per_update: units of the budget per update.
        first_update: number of updates made before this process.
        label: name of the run in the line.
        unit: unit of the budget: frames or steps.
        progress_scalars: names of scalars in the line.

    Attributes:
        lost: units of the budget that a resume loses: learned from after the restored checkpoint, up to the last row
            that was dropped.

    Raises:
        RunDirectoryError: the disk is full or not writable, or an earlier row cannot be read.
    """

    def __init__(
        self,
        run: RunDirectory,
        total_updates: int,
        frames_per_update: int,
        first_update: int,
        label: str,
        unit: str,
        progress_scalars: Sequence[str],
    ) -> None:
        self._progress_scalars = progress_scalars
        self._unit = unit
        self._path, self._evaluations = run.progress_csv, run.evaluations_csv
        self._tensorboard = run.tensorboard
        self._every = max(1, total_updates // POINTS)
        self._total = total_updates
        self._last: Update | None = None
        self._lags: list[float] = []  # of the updates since the last row
        self._evaluator_scalars: ScalarsFile | None = None  # None until there is something to write
        with self._writing():
            dropped = _keep_rows_until(self._path, first_update)
            _keep_rows_until(self._evaluations, first_update)
            self._scalars = ScalarsFile(run.tensorboard)
        last_logged = max((int(row["updates"]) for row in dropped), default=first_update)
        self.lost = (last_logged - first_update) * frames_per_update
        self._line = ProgressLine(label, total_updates * frames_per_update, unit, first_update * frames_per_update)

    def __call__(self, update: Update) -> None:
        """Shows the update, and logs it every `total / POINTS` updates and at the end, with the mean lag since then.

        Evaluations beside training are logged at once.

        Raises:
            RunDirectoryError: the disk is full or not writable. A row that was cut short is left out at a resume.
        """
        self._line.update(update.frames, functools.partial(self._describe, update))
        self._lags.append(update.lag)
        for evaluated in update.evaluations:
            with self._writing():
                self._log_evaluation(evaluated)
        if update.updates % self._every == 0 or update.updates == self._total:
            with self._writing():
                self._log(update)

    def close(self) -> None:
        self._line.close()
        self._scalars.close()
        if self._evaluator_scalars is not None:
            self._evaluator_scalars.close()

    def _describe(self, update: Update) -> str:
        """Returns the text of the progress line."""
        mean_return = "-" if math.isnan(update.mean_return) else format_score(update.mean_return)
        games = min(update.games, RECENT_GAMES)
        texts = [f"return {mean_return} ({games} episode{'' if games == 1 else 's'})"]
        if update.actor_restarts:
            texts.append(f"{update.actor_restarts} restarted actors")
        if update.evaluator_restarts:
            texts.append(f"{update.evaluator_restarts} restarted evaluators")
        known = {name: value for name, value in update.scalars.items() if not math.isnan(value)}  # NaN: none yet
        texts += [f"{name} {known[name]:.3g}" for name in self._progress_scalars if name in known]
        return ", ".join([*texts, f"lag {update.lag:.1f}"])

    def _log(self, update: Update) -> None:
        before = self._last
        seconds = update.seconds - (before.seconds if before else 0.0)
        frames = update.frames - (before.frames if before else 0)
        row = {
            "updates": update.updates,
            f"num_env_{self._unit}": update.frames,
            "seconds": update.seconds,
            f"{self._unit}_per_second": frames / seconds if before and seconds else math.nan,
            "mean_return": update.mean_return,
            "games": update.games,
            "lag": sum(self._lags) / len(self._lags),
            **update.scalars,
        }
        self._last = update
        self._lags.clear()
        self._write(self._path, row, self._scalars)

    def _log_evaluation(self, evaluated: Evaluated) -> None:
        if self._evaluator_scalars is None:
            self._evaluator_scalars = ScalarsFile(self._tensorboard / EVALUATOR)
        returns = evaluated.returns
        row = {
            "updates": evaluated.updates,
            f"num_env_{self._unit}": evaluated.frames,
            "episodes": returns.size,
            "mean_return": float(returns.mean()),
        }
        if evaluated.tasks:
            row |= {return_of(task): float(mean) for task, mean in zip(evaluated.tasks, returns.mean(1), strict=True)}
        else:
            row["std_return"] = float(np.std(returns, ddof=1)) if returns.size > 1 else math.nan
        self._write(self._evaluations, row, self._evaluator_scalars)

    def _write(self, path: Path, row: Mapping[str, float], scalars: ScalarsFile) -> None:
        """Adds a row to a CSV file, and its values to TensorBoard's scalars."""
        _add_row(path, row)
        counted = f"num_env_{self._unit}"
        scalars.write(int(row[counted]), {name: row[name] for name in row if name not in ("updates", counted)})

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, tf.errors.OpError) as error:
            raise RunDirectoryError(
                f"Could not write the progress to {self._path.parent} ({reason(error)}); {remedy(error)} and "
                "resume the run."
            ) from error


def _keep_rows_until(path: Path, update: int) -> list[dict[str, float]]:
    """Removes rows of later updates, which it returns; removes the file if no others are left."""
    rows = read_progress(path)
    kept = [row for row in rows if row["updates"] <= update]
    if kept:
        write_whole(path, _csv(kept, kept[0], header=True))
    else:
        path.unlink(missing_ok=True)
    return [row for row in rows if row["updates"] > update]


def _add_row(path: Path, row: Mapping[str, float]) -> None:
    """Adds a row to a file; scalars that the run's code did not log before become columns with NaN in earlier rows."""
    columns = read_columns(path)
    if set(row) <= set(columns):
        rows = _csv([row], columns, header=False)
    elif not columns:
        rows = _csv([row], row, header=True)
    else:
        columns = [*row, *(name for name in columns if name not in row)]
        write_whole(path, _csv([*read_progress(path), row], columns, header=True))
        return
    with path.open("a", newline="") as file:
        file.write(rows)


def _csv(rows: Sequence[Mapping[str, float]], columns: Iterable[str], header: bool) -> str:
    """The text of rows; NaN in the columns that a row lacks."""
    file = io.StringIO()
    writer = csv.DictWriter(file, list(columns), restval=math.nan, lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
