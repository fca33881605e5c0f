"""The folder of a run: settings, log rows, whole files."""

from __future__ import annotations

import errno
import json

import pytest

from repro.training import run_directory
from repro.training.run_directory import RunDirectory, RunDirectoryError


def test_the_same_settings_resume_and_others_are_refused(tmp_path):
    config = {"learner": {"rate": 0.1, "sizes": (1, 2)}}
    del_me = RunDirectory(tmp_path, config, seed=1)
    del del_me
    del_me = RunDirectory(tmp_path, config, seed=1)
    del del_me
    with pytest.raises(RunDirectoryError, match=r"other settings \(config\.learner\.rate\)"):
        RunDirectory(tmp_path, {"learner": {"rate": 0.2, "sizes": (1, 2)}}, seed=1)
    with pytest.raises(RunDirectoryError, match=r"other settings \(seed\)"):
        RunDirectory(tmp_path, config, seed=2)


def test_settings_keep_when_the_run_began(tmp_path):
    first = RunDirectory(tmp_path, {}, seed=1)
    started = run_directory.read_settings(tmp_path)["started"]
    del first
    RunDirectory(tmp_path, {}, seed=1)
    assert run_directory.read_settings(tmp_path)["started"] == started


def test_a_last_row_cut_short_is_left_out(tmp_path):
    path = tmp_path / "progress.csv"
    for cut in ("", "3", "3,30", "3,30,", "3,30,0.2"):  # the last one may have lost digits
        path.write_text(f"updates,frames,loss\n1,10,0.5\n2,20,nan\n{cut}")
        assert [row["updates"] for row in run_directory.read_progress(path)] == [1, 2]
    path.write_text("updates,fra")
    assert run_directory.read_progress(path) == []


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    run_directory.write_json(path, {"a": 1})

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(RunDirectoryError, match="No space left"):
        run_directory.write_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]
