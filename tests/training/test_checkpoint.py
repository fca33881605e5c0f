"""Checkpoints are whole or skipped, and never damage earlier ones."""

from __future__ import annotations

import errno
import shutil

import numpy as np
import pytest
import tensorflow as tf

from repro.training import checkpoint


def variables(value: float) -> tf.train.Checkpoint:
    return tf.train.Checkpoint(x=tf.Variable([value, value]))


def save(directory, updates):
    state = {"updates": updates, "a": {"b": np.arange(3), "text": "seven"}, "score": 0.5, "none": {}}
    return checkpoint.save(directory, updates, variables(float(updates)), state)


def restore(directory):
    target, lines = variables(-1.0), []
    state = checkpoint.restore(directory, target, lines.append)
    return state, target.x.numpy()[0], lines


def test_round_trip(tmp_path):
    save(tmp_path, 7)
    state, value, lines = restore(tmp_path)
    assert value == 7.0
    assert state["updates"] == 7
    assert state["score"] == 0.5
    assert state["a"]["text"] == "seven"
    assert state["none"] == {}
    np.testing.assert_array_equal(state["a"]["b"], [0, 1, 2])
    assert lines == []


def test_a_large_array_is_mapped_from_a_file_of_its_own(tmp_path, monkeypatch):
    large = np.arange(12.0).reshape(3, 4)
    monkeypatch.setattr(checkpoint, "LARGE_BYTES", large.nbytes)
    state = {"replay": {"arrays": {"0": large, "1": large[0]}}, "end": 7}
    path = checkpoint.save(tmp_path, 1, variables(1.0), state)
    restored = checkpoint.restore(tmp_path, variables(-1.0), print)
    shutil.rmtree(path)
    arrays = restored["replay"]["arrays"]
    assert [isinstance(arrays[i], np.memmap) for i in "01"] == [True, False]
    np.testing.assert_array_equal(arrays["0"], large)
    arrays["0"][0] = -1.0  # a copy of the page
    np.testing.assert_array_equal(arrays["1"], large[0])
    assert restored["end"] == 7


@pytest.mark.parametrize("large_bytes", [0, 1 << 20])
def test_what_could_not_be_read_again_is_not_written(tmp_path, monkeypatch, large_bytes):
    monkeypatch.setattr(checkpoint, "LARGE_BYTES", large_bytes)
    with pytest.raises(TypeError, match="A checkpoint's replay/min_size must be an array, a number or a string"):
        checkpoint.save(tmp_path, 1, variables(1.0), {"replay": {"min_size": np.array([None])}})
    with pytest.raises(TypeError, match="not None"):
        checkpoint.save(tmp_path, 1, variables(1.0), {"replay": {"min_size": None}})
    assert restore(tmp_path)[0] is None


def test_a_broken_large_array_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "LARGE_BYTES", 1)
    file = save(tmp_path, 1) / "large" / "a" / "b.npy"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(checkpoint.CheckpointError, match="All checkpoints in .* are broken"):
        restore(tmp_path)


def test_no_checkpoint(tmp_path):
    assert restore(tmp_path / "none")[0] is None
    with pytest.raises(checkpoint.CheckpointError, match=r"has no checkpoint yet; train it first\.$"):
        checkpoint.restore_trained(tmp_path / "checkpoints", variables(1.0), print)
    (tmp_path / "complete.json").touch()
    with pytest.raises(checkpoint.CheckpointError, match="the run is complete; put its checkpoints back, or"):
        checkpoint.restore_trained(tmp_path / "checkpoints", variables(1.0), print)


def test_the_last_three_are_kept(tmp_path):
    for updates in (1, 2, 30, 4):
        save(tmp_path, updates)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"checkpoint_{u:09d}" for u in (2, 4, 30)]


def test_broken_ones_that_a_run_passed_over_are_removed_and_keep_no_whole_one_out(tmp_path):
    for updates in (500, 600, 700, 800, 900):
        save(tmp_path, updates)
    for updates in (800, 900):
        (tmp_path / f"checkpoint_{updates:09d}" / "state.npz").write_bytes(b"")
    assert restore(tmp_path)[0]["updates"] == 700
    for updates in (710, 720, 730):
        save(tmp_path, updates)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"checkpoint_{u:09d}" for u in (710, 720, 730)]


def test_an_old_one_that_cannot_be_removed_stays_and_the_new_one_is_written(tmp_path, monkeypatch):
    for updates in (1, 2, 3):
        save(tmp_path, updates)

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("os.unlink", refuse)
        patch.setattr("os.rmdir", refuse)
        save(tmp_path, 4)
    assert (restore(tmp_path)[0]["updates"], len(list(tmp_path.iterdir()))) == (4, 4)
    save(tmp_path, 5)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"checkpoint_{u:09d}" for u in (3, 4, 5)]


@pytest.mark.parametrize("file", ["variables.data-00000-of-00001", "state.npz", "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "flip", "remove"])
def test_a_broken_newest_falls_back_with_one_line(tmp_path, file, damage):
    save(tmp_path, 1)
    broken = save(tmp_path, 2) / file
    data = bytearray(broken.read_bytes())
    if damage == "remove":
        broken.unlink()
    elif damage == "cut":
        broken.write_bytes(data[: len(data) // 2])
    else:
        data[len(data) // 2] ^= 0xFF
        broken.write_bytes(data)
    state, value, lines = restore(tmp_path)
    assert (state["updates"], value) == (1, 1.0)
    assert len(lines) == 1
    assert lines[0].startswith(
        f"Going on from {tmp_path / 'checkpoint_000000001'}, since newer checkpoints are broken (checkpoint_000000002: "
    )


def test_a_broken_checkpoint_is_written_again_and_a_whole_one_is_not(tmp_path):
    save(tmp_path, 1)
    (save(tmp_path, 2) / "state.npz").write_bytes(b"")
    save(tmp_path, 2)
    state, value, lines = restore(tmp_path)
    assert (state["updates"], value, lines) == (2, 2.0, [])
    checkpoint.save(tmp_path, 2, variables(5.0), {"updates": 2})
    assert restore(tmp_path)[1] == 2.0


def test_all_broken_is_an_error(tmp_path):
    (save(tmp_path, 1) / "state.npz").write_bytes(b"")
    with pytest.raises(
        checkpoint.CheckpointError,
        match="are broken .checkpoint_.*train again with another --run_dir; nothing was removed",
    ):
        restore(tmp_path)


def test_leftovers_of_a_kill_are_ignored_and_removed(tmp_path):
    save(tmp_path, 1)
    leftover = tmp_path / "partial_checkpoint_000000002"
    leftover.mkdir()
    (leftover / "state.npz").write_bytes(b"half")
    assert restore(tmp_path)[0]["updates"] == 1
    save(tmp_path, 3)
    assert not leftover.exists()


@pytest.mark.parametrize("where", ["savez", "fsync"])
def test_full_disk_is_a_clear_error_and_corrupts_nothing(tmp_path, monkeypatch, where):
    save(tmp_path, 1)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr({"savez": "numpy.savez", "fsync": "os.fsync"}[where], full)
    with pytest.raises(checkpoint.CheckpointError, match="No space left on device.*free some space.*are intact"):
        save(tmp_path, 2)
    with pytest.raises(checkpoint.CheckpointError, match=r"free some space and resume the run\.$"):
        save(tmp_path.with_name(f"{tmp_path.name}_first"), 1)
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint_000000001"]
    assert restore(tmp_path)[0]["updates"] == 1


def test_a_folder_without_permission_is_not_a_full_disk(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("numpy.savez", refuse)
    with pytest.raises(
        checkpoint.CheckpointError, match=r"\(Permission denied\); make sure that it can be written and"
    ):
        save(tmp_path, 1)


@pytest.mark.parametrize(
    ("target", "difference"),
    [
        ({"y": [1.0, 2.0]}, "it lacks some variables"),
        ({"x": [1.0, 2.0, 3.0]}, r"Variable has shape \(2,\) there and \(3,\) here"),
    ],
)
def test_other_variables_are_refused(tmp_path, target, difference):
    path = save(tmp_path, 1)
    target = tf.train.Checkpoint(**{name: tf.Variable(value) for name, value in target.items()})
    for read in (
        lambda: checkpoint.restore(tmp_path, target, print),
        lambda: checkpoint.read_variables(path, target),
    ):
        with pytest.raises(
            checkpoint.CheckpointError, match=rf"checkpoint_\d+1 does not fit .* \({difference}\): it is from"
        ):
            read()
