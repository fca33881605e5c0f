"""The folder of a run: settings, log rows, whole files."""

from __future__ import annotations

import errno
import json
import resource

import pytest

from repro.training import run_directory
from repro.training.manifest import find_damage, write_manifest
from repro.training.run_directory import RunDirectory, RunDirectoryError


def save_something(path):
    (path / "checkpoints/checkpoint_000000001").mkdir(parents=True)


def test_the_same_settings_resume_and_others_are_refused(tmp_path):
    config = {"learner": {"rate": 0.1, "sizes": (1, 2)}}
    del_me = RunDirectory(tmp_path, config, seed=1)
    del del_me
    del_me = RunDirectory(tmp_path, config, seed=1)
    del del_me
    save_something(tmp_path)
    with pytest.raises(RunDirectoryError, match=r"other settings \(learner\.rate: 0\.1 there, 0\.2 here\); "):
        RunDirectory(tmp_path, {"learner": {"rate": 0.2, "sizes": (1, 2)}}, seed=1)
    with pytest.raises(RunDirectoryError, match=r"other settings \(seed: 1 there, 2 here\); --run_dir=\S+ alone"):
        RunDirectory(tmp_path, config, seed=2)
    with pytest.raises(RunDirectoryError, match=r"\(a: absent there, 1 here, .*, and 2 more\); "):
        RunDirectory(tmp_path, {"a": 1, "b": 2, "c": 3}, seed=1)
    run_directory.write_json(tmp_path / "complete.json", {})
    with pytest.raises(RunDirectoryError, match="a complete run with other settings .* needs another --run_dir"):
        RunDirectory(tmp_path, config, seed=2)


def test_fields_that_change_no_algorithm_may_change(tmp_path):
    """Cores, checkpoint interval and patience, also of one agent, or where the run was begun without the field."""
    config = {"runtime": {"threads": 1, "checkpoint_seconds": 60.0, "num_actors": 2}, "learner": {"rate": 0.1}}
    del_me = RunDirectory(tmp_path, config, seed=1)
    save_something(tmp_path)
    started = run_directory.read_settings(tmp_path)["started"]
    del del_me
    runtime = {"threads": 4, "checkpoint_seconds": 5.0, "env_threads": 3, "silent_seconds": 100.0, "num_actors": 2}
    runtime |= {"evaluator_episodes": 5}
    changed = config | {"runtime": runtime}
    assert run_directory.changed_settings(tmp_path, changed, seed=1) == []
    del_me = RunDirectory(tmp_path, changed, seed=1)
    del del_me
    assert run_directory.read_settings(tmp_path) == {"started": started, "seed": 1, "config": changed}
    for other in ({"runtime": runtime | {"num_actors": 3}}, {"learner": {"rate": 0.1, "threads": 1}}):
        with pytest.raises(RunDirectoryError, match="other settings"):
            RunDirectory(tmp_path, changed | other, seed=1)
    assert run_directory.read_settings(tmp_path)["config"] == changed


@pytest.mark.parametrize(
    ("section", "field", "then", "other"),
    [("runtime", "num_learners", 1, 2), ("network", "compute_dtype", "float32", "bfloat16")],
)
def test_a_run_from_before_a_field_goes_on_with_the_value_that_it_had(tmp_path, section, field, then, other):
    config = {"runtime": {"num_actors": 2}, "network": {"torso": "shallow"}}
    del_me = RunDirectory(tmp_path, config, seed=1)
    save_something(tmp_path)
    del del_me
    later = config | {section: {**config[section], field: then}}
    assert run_directory.changed_settings(tmp_path, later, seed=1) == []
    later[section][field] = other
    assert run_directory.changed_settings(tmp_path, later, seed=1) == [f"config.{section}.{field}"]


def test_other_agents_of_the_experiment_may_change(tmp_path):
    own, other = {"learner": {"rate": 0.2}}, {"learner": {"rate": 0.3}}
    config = {"agent": "own", "learner": {"rate": 0.1}, "variants": {"own": own, "other": other}}
    del_me = RunDirectory(tmp_path, config, seed=1)
    del del_me
    save_something(tmp_path)
    same = {"agent": "own", "learner": {"rate": 0.2}, "variants": {"own": {}, "new": own}}
    assert run_directory.changed_settings(tmp_path, same, seed=1) == []
    changed = config | {"variants": {"own": other, "other": other}}
    assert run_directory.changed_settings(tmp_path, changed, seed=1) == ["config.learner.rate"]
    assert run_directory.changed_settings(tmp_path, config | {"agent": "other"}, seed=1) == [
        "config.agent",
        "config.learner.rate",
    ]


def test_a_run_that_saved_nothing_is_not_in_the_way(tmp_path):
    del_me = RunDirectory(tmp_path, {"env": {"task": "Pendulum-v1"}}, seed=1)
    del del_me
    (tmp_path / "checkpoints/partial_checkpoint_000000001").mkdir(parents=True)
    RunDirectory(tmp_path, {"env": {"task": "CartPole-v1"}}, seed=2)
    settings = run_directory.read_settings(tmp_path)
    assert (settings["config"]["env"]["task"], settings["seed"]) == ("CartPole-v1", 2)
    assert not run_directory.has_saved(tmp_path)


def test_settings_keep_when_the_run_began(tmp_path):
    first = RunDirectory(tmp_path, {}, seed=1)
    settings = run_directory.read_settings(tmp_path)
    started = settings["started"] = "2020-02-20T20:20:20+00:00"
    run_directory.write_json(tmp_path / "config.json", settings)
    save_something(tmp_path)
    del first
    RunDirectory(tmp_path, {}, seed=1)
    assert run_directory.read_settings(tmp_path)["started"] == started


def test_a_last_row_cut_short_is_left_out(tmp_path):
    path = tmp_path / "progress.csv"
    assert run_directory.read_progress(path) == []
    for cut in ("", "3", "3,30", "3,30,", "3,30,0.2"):  # the last one may have lost digits
        path.write_text(f"updates,frames,loss\n1,10,0.5\n2,20,nan\n{cut}")
        assert [row["updates"] for row in run_directory.read_progress(path)] == [1, 2]
    path.write_text("updates,fra")
    assert run_directory.read_progress(path) == []


@pytest.mark.parametrize("row", ["2,20,0.5,0.5", "2,20", "2,20,x"])
def test_a_row_that_does_not_fit_the_columns_is_one_sentence(tmp_path, row):
    path = tmp_path / "progress.csv"
    path.write_text(f"updates,frames,loss\n1,10,0.5\n\n{row}\n3,30,0.5\n")
    with pytest.raises(RunDirectoryError, match=r"^Line 4 of .*progress\.csv does not have a number for each of the 3"):
        run_directory.read_progress(path)


def test_a_full_disk_during_the_copy_of_a_checkpoint_is_said(tmp_path):
    """`shutil` has an error of its own for it, which has no `strerror`."""
    checkpoint = tmp_path / "run/checkpoints/checkpoint_000000001"
    checkpoint.mkdir(parents=True)
    (checkpoint / "replay.bin").write_bytes(bytes(100_000))
    write_manifest(checkpoint)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with pytest.raises(RunDirectoryError, match=r"^Could not copy a checkpoint to .*copy \(File too large\)\.$"):
            run_directory.copy_checkpoint(tmp_path / "run", tmp_path / "copy")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


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


def test_settings_without_a_config_or_a_seed_are_no_run(tmp_path):
    for text in ("{}", '{"config": {}}', '{"seed": 1}', '{"seed": 1, "config": 5}', "[]", "{"):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(RunDirectoryError, match=r"holds no readable run \(no valid config\.json\)"):
            run_directory.read_settings(tmp_path)


def test_a_damaged_summary_is_named(tmp_path):
    (tmp_path / "complete.json").write_text('{"seconds": 1.0}')
    assert run_directory.read_complete(tmp_path) == {"seconds": 1.0}
    for text in ("", '{"seconds": 1', "3"):
        (tmp_path / "complete.json").write_text(text)
        with pytest.raises(RunDirectoryError, match=r"complete\.json was changed or cut short; remove it"):
            run_directory.read_complete(tmp_path)


def test_a_broken_checkpoint_names_its_file(tmp_path):
    (tmp_path / "weights").write_text("1")
    write_manifest(tmp_path)
    assert find_damage(tmp_path) is None
    (tmp_path / "weights").write_text("2")
    assert find_damage(tmp_path) == "weights was changed or cut short"
    (tmp_path / "weights").unlink()
    assert find_damage(tmp_path) == "weights cannot be read (No such file or directory)"
    for text in ("{", "3"):
        (tmp_path / "manifest.json").write_text(text)
        assert find_damage(tmp_path) == "manifest.json was changed or cut short"
    (tmp_path / "manifest.json").unlink()
    assert find_damage(tmp_path) == "manifest.json cannot be read (No such file or directory)"


def test_the_folder_of_a_run_that_cannot_begin_goes_unless_it_was_there_before(tmp_path):
    new = RunDirectory(tmp_path / "new", {}, seed=1)
    new.remove_new()
    assert not (tmp_path / "new").exists()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "notes.txt").touch()
    old = RunDirectory(tmp_path / "old", {}, seed=1)
    old.remove_new()
    assert (tmp_path / "old" / "notes.txt").exists()


def test_a_run_that_another_process_works_on_gets_no_other_configuration(tmp_path):
    other = RunDirectory(tmp_path / "run", {"agent": "a"}, 1)
    with pytest.raises(RunDirectoryError, match="Another process is running in"):
        run_directory.replace_config(tmp_path / "run", {"agent": "b"})
    assert run_directory.read_settings(tmp_path / "run")["config"] == {"agent": "a"}
    other.release()
    run_directory.replace_config(tmp_path / "run", {"agent": "b"})
    assert run_directory.read_settings(tmp_path / "run")["config"] == {"agent": "b"}


def test_a_log_that_vanishes_while_it_is_read_has_no_rows(tmp_path, monkeypatch):
    (path := tmp_path / "progress.csv").write_text("updates\n1\n")
    assert run_directory.read_progress(path) != []
    monkeypatch.setattr(type(path), "exists", lambda _: True)
    path.unlink()
    assert run_directory.read_progress(path) == []
