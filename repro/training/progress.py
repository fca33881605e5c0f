"""What a run shows and logs: a line in the terminal, a CSV file, TensorBoard scalars."""

from __future__ import annotations

import csv
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf
from tqdm import tqdm

from repro.training.run_directory import RunDirectory, read_progress
from repro.training.trainer import Update

POINTS = 500
"""Rows that a whole run leaves in its CSV file."""

LINE = "{desc} {percentage:3.0f}%|{bar:12}| {n_fmt}/{total_fmt} [{remaining} left, {rate_fmt}]{postfix}"

SECONDS_BETWEEN_LINES = 30.0
"""Where the output is no terminal, a plain line appears this often."""


class Progress:
    """Consumes updates.

    Args:
        run: its folder; on resume, rows after the restored checkpoint are dropped.
        total_updates: of the whole run.
        frames_per_update: environment frames per learner update.
        first_update: updates made before this process.
        label: names the run in the line.
        unit: of the budget: frames or steps.
        shown: names of scalars in the line.
    """

    def __init__(
        self,
        run: RunDirectory,
        total_updates: int,
        frames_per_update: int,
        first_update: int,
        label: str,
        unit: str = "frames",
        shown: Sequence[str] = ("loss", "entropy"),
    ) -> None:
        self._shown = shown
        self._path = run.progress_csv
        self._every = max(1, total_updates // POINTS)
        self._total = total_updates
        self._last: Update | None = None
        self._lags: list[float] = []  # of the updates since the last row
        self._keep_rows_until(first_update)
        self._writer = tf.summary.create_file_writer(str(run.tensorboard))
        terminal = sys.stderr.isatty()
        self._bar = tqdm(
            total=total_updates * frames_per_update,
            initial=first_update * frames_per_update,
            desc=label,
            unit=f" {unit}",
            unit_scale=True,
            dynamic_ncols=True,
            mininterval=0.5 if terminal else SECONDS_BETWEEN_LINES,
            maxinterval=0.5 if terminal else SECONDS_BETWEEN_LINES,
            ascii=None if terminal else " #",
            bar_format=LINE,
        )

    def __call__(self, update: Update) -> None:
        """Shows the update, and logs it every `total / POINTS` updates and at the end, with the mean lag since then."""
        score = "-" if math.isnan(update.mean_return) else f"{update.mean_return:.1f}"
        texts = [f"return {score} ({min(update.games, 100)} games)"]
        known = {name: value for name, value in update.scalars.items() if not math.isnan(value)}  # NaN: none yet
        texts += [f"{name} {known[name]:.3g}" for name in self._shown if name in known]
        self._bar.set_postfix_str(", ".join([*texts, f"lag {update.lag:.1f}"]), refresh=False)
        self._bar.update(update.frames - self._bar.n)
        self._lags.append(update.lag)
        if update.updates % self._every == 0 or update.updates == self._total:
            self._log(update)

    def close(self) -> None:
        self._bar.close()
        self._writer.close()

    def _log(self, update: Update) -> None:
        before = self._last
        seconds = update.seconds - (before.seconds if before else 0.0)
        frames = update.frames - (before.frames if before else 0)
        row = {
            "updates": update.updates,
            "frames": update.frames,
            "seconds": update.seconds,
            "frames_per_second": frames / seconds if before and seconds else math.nan,
            "mean_return": update.mean_return,
            "games": update.games,
            "lag": sum(self._lags) / len(self._lags),
            **update.scalars,
        }
        self._last = update
        self._lags.clear()
        new = not self._path.exists()
        with self._path.open("a", newline="") as file:
            writer = csv.DictWriter(file, row, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(row)
        with self._writer.as_default(step=update.frames):
            for name, value in row.items():
                if name not in ("updates", "frames"):
                    tf.summary.scalar(name, value)

    def _keep_rows_until(self, update: int) -> None:
        if self._path.exists():
            rows = [row for row in read_progress(self._path) if row["updates"] <= update]
            _rewrite(self._path, rows)


def _rewrite(path: Path, rows: list[dict[str, float]]) -> None:
    if not rows:
        path.unlink()
        return
    partial = path.with_suffix(".partial")
    with partial.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    os.replace(partial, path)
