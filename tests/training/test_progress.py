"""What a run logs: rows at fixed distances, each with what happened since the last."""

import resource

import pytest
import tensorflow as tf

from repro.training.progress import POINTS, Progress
from repro.training.run_directory import RunDirectory, RunDirectoryError, read_progress
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


@pytest.fixture
def limit():
    """Sets the size at which writes to a file fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("file", ["progress.csv", "tensorboard"])
def test_a_full_disk_is_a_sentence_and_a_row_that_was_cut_is_left_out(tmp_path, monkeypatch, limit, file):
    if file == "progress.csv":
        monkeypatch.setattr(tf.summary, "create_file_writer", lambda path: tf.summary.create_noop_writer())
    run = RunDirectory(tmp_path / "run", {"num_env_frames": 9}, 1)
    progress, update = Progress(run, 9, 1, 0, "test"), Update(1, 1, 1.0, {"loss": 0.0}, 0.0, 0.0, 0)
    progress(update)
    limit(run.progress_csv.stat().st_size + 10 if file == "progress.csv" else 300)
    with pytest.raises(RunDirectoryError, match=r"the progress to .*run \(File too large\); free some space"):
        progress(update._replace(updates=2))
    progress.close()
    with pytest.raises(RunDirectoryError, match="File too large"):
        limit(10)
        Progress(run, 9, 1, 1, "test")
    limit(resource.RLIM_INFINITY)
    assert run.progress_csv.read_text().count("\n") == (3 if file == "tensorboard" else 2)
    assert run.progress_csv.read_text().endswith("\n") == (file == "tensorboard")
    resumed = Progress(run, 9, 1, 1, "test")
    resumed(update._replace(updates=2, mean_return=5.0))
    resumed.close()
    assert [(row["updates"], row["mean_return"]) for row in read_progress(run.progress_csv)] == [(1, 0.0), (2, 5.0)]
