"""The log of a run: rows at fixed distances, each with what happened since the last one."""

import resource

import numpy as np
import pytest
import tensorflow as tf

from repro.acting.evaluator_process import Evaluated
from repro.training.progress import POINTS, Progress
from repro.training.run_directory import RunDirectory, RunDirectoryError, read_progress
from repro.training.scalars_file import ScalarsFile
from repro.training.trainer import Update


def test_a_row_has_the_mean_lag_since_the_last_one(tmp_path):
    """A round of four batches and a row every four updates: single lags would be the same in every row."""
    total = 4 * POINTS
    run = RunDirectory(tmp_path / "run", {"num_env_frames": total}, 1)
    progress = Progress(run, total, 1, 0, "test", "frames", ())
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
        monkeypatch.setattr(ScalarsFile, "write", lambda self, step, scalars: None)
    run = RunDirectory(tmp_path / "run", {"num_env_frames": 9}, 1)
    progress, update = Progress(run, 9, 1, 0, "test", "frames", ()), Update(1, 1, 1.0, {"loss": 0.0}, 0.0, 0.0, 0)
    progress(update)
    limit(run.progress_csv.stat().st_size + 10 if file == "progress.csv" else 300)
    with pytest.raises(RunDirectoryError, match=r"the progress to .*run \(File too large\); free some space"):
        progress(update._replace(updates=2))
    progress.close()
    with pytest.raises(RunDirectoryError, match="File too large"):
        limit(10)
        Progress(run, 9, 1, 1, "test", "frames", ())
    limit(resource.RLIM_INFINITY)
    tf.summary.scalar("another library's", 1.0, step=0)  # nothing here is the writer of all
    assert run.progress_csv.read_text().count("\n") == (3 if file == "tensorboard" else 2)
    assert run.progress_csv.read_text().endswith("\n") == (file == "tensorboard")
    resumed = Progress(run, 9, 1, 1, "test", "frames", ())
    resumed(update._replace(updates=2, mean_return=5.0))
    resumed.close()
    assert [(row["updates"], row["mean_return"]) for row in read_progress(run.progress_csv)] == [(1, 0.0), (2, 5.0)]


def test_a_run_that_goes_on_with_other_scalars_has_a_column_for_each_of_all(tmp_path):
    """New code may log one more, one fewer, or the same in another order."""
    run, update = RunDirectory(tmp_path / "run", {}, 1), Update(1, 10, 1.0, {}, 0.0, 0.0, 0)
    logged = [{"loss": 1.0, "kl": 2.0}, {"entropy": 3.0, "kl": 4.0, "loss": 5.0}, {"entropy": 6.0}, {"kl": 7.0}]
    for i, scalars in enumerate(logged):
        progress = Progress(run, 9, 10, i, "test", "frames", ())
        progress(update._replace(updates=i + 1, scalars=scalars))
        progress.close()
        rows = read_progress(run.progress_csv)
    assert [row["updates"] for row in rows] == [1, 2, 3, 4]
    for row, scalars in zip(rows, logged, strict=True):
        assert {name: row[name] for name in ("loss", "kl", "entropy") if not np.isnan(row[name])} == scalars


def evaluated(updates, *returns, tasks=()):
    return Evaluated(updates, 10 * updates, np.float64(returns), tasks)


def test_evaluations_are_logged_when_they_come_and_go_on_after_an_interruption(tmp_path):
    """Also between two rows of the progress; those of updates that are lost are dropped."""
    run = RunDirectory(tmp_path / "run", {"num_env_frames": 90_000}, 1)
    progress, update = Progress(run, 9000, 10, 0, "test", "frames", ()), Update(1, 10, 1.0, {"loss": 0.0}, 0.0, 0.0, 0)
    progress(update)
    assert not run.evaluations_csv.exists()
    progress(update._replace(evaluations=[evaluated(3, [1.0, 3.0])]))
    progress(update._replace(evaluations=[evaluated(5, [2.0]), evaluated(9, [4.0, 4.0])]))
    progress.close()
    resumed = Progress(run, 9000, 10, 5, "test", "frames", ())
    resumed(update._replace(updates=6, evaluations=[evaluated(6, [7.0, 8.0])]))
    resumed.close()
    rows = read_progress(run.evaluations_csv)
    assert [list(row.values())[:4] for row in rows] == [[3, 30, 2, 2.0], [5, 50, 1, 2.0], [6, 60, 2, 7.5]]
    assert list(rows[0]) == ["updates", "num_env_frames", "episodes", "mean_return", "std_return"]
    assert rows[0]["std_return"] == pytest.approx(2**0.5)
    assert np.isnan(rows[1]["std_return"])
    assert not run.progress_csv.exists()
    files = sorted((run.tensorboard / "evaluator").iterdir(), key=lambda file: file.stat().st_mtime_ns)
    scalars = [
        (event.step, value.tag, float(tf.make_ndarray(value.tensor)))
        for file in files
        for event in tf.compat.v1.train.summary_iterator(str(file))
        for value in event.summary.value
    ]
    assert [(step, x) for step, tag, x in scalars if tag == "mean_return"] == [(30, 2), (50, 2), (90, 4), (60, 7.5)]
    Progress(run, 9000, 10, 2, "test", "frames", ()).close()
    assert not run.evaluations_csv.exists()


def test_evaluations_of_several_tasks_have_the_mean_of_each(tmp_path):
    run = RunDirectory(tmp_path / "run", {"num_env_frames": 90}, 1)
    progress, update = Progress(run, 9, 10, 0, "test", "frames", ()), Update(1, 10, 1.0, {"loss": 0.0}, 0.0, 0.0, 0)
    progress(update._replace(evaluations=[evaluated(3, [1.0, 3.0], [5.0, 9.0], tasks=("pong", "breakout"))]))
    progress.close()
    (row,) = read_progress(run.evaluations_csv)
    mean = {"mean_return": 4.5, "return/pong": 2.0, "return/breakout": 7.0}
    assert row == {"updates": 3, "num_env_frames": 30, "episodes": 4, **mean}


def test_restarted_evaluators_are_shown_beside_restarted_actors(tmp_path, capsys):
    run = RunDirectory(tmp_path / "run", {"num_env_frames": 10}, 1)
    progress = Progress(run, 1, 10, 0, "test", "frames", ("loss",))
    progress(Update(1, 10, 1.0, {"loss": 0.0}, 0.0, 0.0, 0, actor_restarts=2, evaluator_restarts=3))
    progress.close()
    assert "2 restarted actors, 3 restarted evaluators, loss" in capsys.readouterr().err


def test_what_was_logged_after_the_restored_checkpoint_is_lost(tmp_path):
    """A row every second update of 1000; the run was killed after 9 updates, with checkpoints after 4 and after 8."""
    run = RunDirectory(tmp_path / "run", {"num_env_frames": 10_000}, 1)
    progress = Progress(run, 1000, 10, 0, "test", "frames", ())
    assert progress.lost == 0
    for i in range(1, 10):
        progress(Update(i, 10 * i, float(i), {"loss": 0.0}, 0.0, 0.0, 0))
    progress.close()
    for checkpoint, lost in ((8, 0), (4, 40), (4, 0)):
        resumed = Progress(run, 1000, 10, checkpoint, "test", "frames", ())
        resumed.close()
        assert resumed.lost == lost
    assert [row["updates"] for row in read_progress(run.progress_csv)] == [2, 4]
