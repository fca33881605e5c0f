"""What a run logs: rows at fixed distances, each with what happened since the last."""

import pytest

from repro.training.progress import POINTS, Progress
from repro.training.run_directory import RunDirectory, read_progress
from repro.training.trainer import Update


def test_a_row_has_the_mean_lag_since_the_last_one(tmp_path):
    """A round of four batches and a row every four updates: single lags would be the same in every row."""
    total = 4 * POINTS
    run = RunDirectory(tmp_path / "run", {"num_env_frames": total}, 1)
    progress = Progress(run, total, 1, 0, "test")
    for i in range(1, total + 1):
        progress(Update(i, i, float(i), {"loss": 0.0}, float(i % 4), 0.0, 0))
    progress.close()
    lags = [row["lag"] for row in read_progress(run.progress_csv)]
    assert len(lags) == POINTS
    assert lags == pytest.approx([1.5] * POINTS)
