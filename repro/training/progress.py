"""What a run shows and logs: a line in the terminal, a CSV file, TensorBoard scalars."""

from __future__ import annotations

import contextlib
import csv
import io
import math
from collections.abc import Iterator, Sequence

import tensorflow as tf

from repro.files import reason, write_whole
from repro.training.progress_line import ProgressLine, format_score
from repro.training.run_directory import RunDirectory, RunDirectoryError, read_progress
from repro.training.trainer import RECENT_GAMES, Update

POINTS = 500
"""Rows that a whole run leaves in its CSV file."""


class Progress:
    """Consumes updates.

    Args:
        run: its folder; on resume, rows after the restored checkpoint are dropped.
        total_updates: of the whole run.
        frames_per_update: environment frames per learner update.
        first_update: updates made before this process.
        label: names the run in the line.
        unit: of the budget: frames or steps.
        progress_scalars: names of scalars in the line.

    Raises:
        RunDirectoryError: the disk is full or not writable.
    """

    def __init__(
        self,
        run: RunDirectory,
        total_updates: int,
        frames_per_update: int,
        first_update: int,
        label: str,
        unit: str = "frames",
        progress_scalars: Sequence[str] = ("loss", "entropy"),
    ) -> None:
        self._progress_scalars = progress_scalars
        self._unit = unit
        self._path = run.progress_csv
        self._every = max(1, total_updates // POINTS)
        self._total = total_updates
        self._last: Update | None = None
        self._lags: list[float] = []  # of the updates since the last row
        with self._writing():
            self._keep_rows_until(first_update)
            self._writer = tf.summary.create_file_writer(str(run.tensorboard))
        self._line = ProgressLine(label, total_updates * frames_per_update, unit, first_update * frames_per_update)

    def __call__(self, update: Update) -> None:
        """Shows the update, and logs it every `total / POINTS` updates and at the end, with the mean lag since then.

        Raises:
            RunDirectoryError: the disk is full or not writable. A row that was cut short is left out at a resume.
        """
        mean_return = "-" if math.isnan(update.mean_return) else format_score(update.mean_return)
        texts = [f"return {mean_return} ({min(update.games, RECENT_GAMES)} episodes)"]
        if update.actor_restarts:
            texts.append(f"{update.actor_restarts} restarted actors")
        known = {name: value for name, value in update.scalars.items() if not math.isnan(value)}  # NaN: none yet
        texts += [f"{name} {known[name]:.3g}" for name in self._progress_scalars if name in known]
        self._line.update(update.frames, ", ".join([*texts, f"lag {update.lag:.1f}"]))
        self._lags.append(update.lag)
        if update.updates % self._every == 0 or update.updates == self._total:
            with self._writing():
                self._log(update)

    def close(self) -> None:
        self._line.close()
        self._writer.close()

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
        rows = _csv([row], header=not self._path.exists())
        with self._path.open("a", newline="") as file:
            file.write(rows)
        with self._writer.as_default(step=update.frames):
            for name, value in row.items():
                if name not in ("updates", f"num_env_{self._unit}"):
                    tf.summary.scalar(name, value)
        self._writer.flush()  # here, since `close` passes over what cannot be written

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, tf.errors.OpError) as error:
            raise RunDirectoryError(
                f"Could not write the progress to {self._path.parent} ({reason(error)}); free some space and resume "
                "the run."
            ) from error

    def _keep_rows_until(self, update: int) -> None:
        if self._path.exists():
            rows = [row for row in read_progress(self._path) if row["updates"] <= update]
            if rows:
                write_whole(self._path, _csv(rows, header=True))
            else:
                self._path.unlink()


def _csv(rows: Sequence[dict[str, float]], header: bool) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, rows[0], lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
