"""Records: written whole or not at all, read with clear errors, refused if their content is inconsistent."""

import errno
import hashlib
import json
import os
import pathlib
import re
import stat
import subprocess

import ml_collections
import pytest

from repro.evidence import checksums, records
from tests.evidence.synthetic_records import make_record, write


def test_written_record_comes_back_and_leaves_no_other_file(tmp_path):
    record = make_record(seed=3)
    path = write(tmp_path, record)
    assert path == tmp_path / "impala/atari_shallow/pong/impala_shallow/seed_3.json"
    assert records.read_record(path) == record
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [tmp_path / "SHA256SUMS", path]
    assert checksums.changes(tmp_path, checksums.RECORDS) == []


def _set(name, value):
    def change(record):
        *parents, last = name.split(".")
        for parent in parents:
            record = record[parent]
        record[last] = value

    return change


FAULTS = {
    "missing field": (
        lambda record: record.pop("num_env_frames"),
        "it needs exactly one of num_env_frames and num_env_steps",
    ),
    "two budgets": (_set("num_env_steps", 1), "it needs exactly one of num_env_frames and num_env_steps"),
    "rate of another unit": (
        lambda record: record.update(steps_per_second=record.pop("frames_per_second")),
        "it needs the rate of its budget, one of frames_per_second and steps_per_second",
    ),
    "unknown field": (_set("framse", 1), "framse"),
    "number as text": (_set("evaluation.mean", "21"), "evaluation.mean: '21' is not of type 'number'"),
    "unknown scale": (_set("scale", "huge"), "scale"),
    "path in a name": (_set("task", "../pong"), "task"),
    "truth value as seed": (_set("seed", True), "seed"),
    "short hash": (_set("config_sha256", "abc"), "config_sha256"),
    "hash of another config": (_set("config_sha256", "0" * 64), "config_sha256 does not match config"),
    "NaN mean": (_set("evaluation.mean", float("nan")), "NaN or infinity"),
    "infinity in the config": (_set("config.learner.learning_rate", float("inf")), "NaN or infinity"),
    "mean of other returns": (_set("evaluation.mean", -99.0), "evaluation.mean is -99.0 but the returns have mean"),
    "interval upside down": (_set("evaluation.interval", [2.0, 1.0]), "its low end 2.0 lies above its high end 1.0"),
    "lost game": (_set("evaluation.episodes", 199), "evaluation.episodes is 199 but there are 200 returns"),
    "text among returns": (_set("evaluation.returns", ["1"] * 200), "evaluation.returns"),
    "curve of triples": (_set("curve", [[0, 1.0, 2.0]]), "curve: every point must be"),
    "curve that goes back": (_set("curve", [[8, 1.0], [4, 1.0]]), "curve: the budget used must not decrease"),
    "series with a short row": (_set("series", {"columns": ["x", "y"], "rows": [[1.0]]}), "series.rows: every row"),
    "series of words": (_set("series", {"columns": ["x"], "rows": [["a"]]}), "series.rows: every row"),
    "too long a curve": (_set("curve", [[i, 0.0] for i in range(501)]), "curve"),
    "local time": (_set("finished", "2024-05-01T12:00:00+02:00"), "finished"),
    "no restarts, which are left out": (_set("actor_restarts", 0), "actor_restarts: 0 is less than the minimum of 1"),
    "lag without its maximum": (_set("policy_lag", {"mean": 1.0}), "policy_lag: 'max' is a required property"),
}


@pytest.mark.parametrize(("change", "words"), FAULTS.values(), ids=FAULTS.keys())
def test_faulty_record_is_refused_on_writing_and_on_reading(tmp_path, change, words):
    record = json.loads(json.dumps(make_record()))
    change(record)
    with pytest.raises(records.RecordError, match=re.escape(words)):
        records.write_record(tmp_path / "seed_1.json", record)
    assert not list(tmp_path.iterdir())
    (tmp_path / "seed_1.json").write_text(json.dumps(record))
    with pytest.raises(records.RecordError, match="seed_1.json"):
        records.read_record(tmp_path / "seed_1.json")


def test_value_that_is_not_json_is_refused_in_one_sentence(tmp_path):
    record = make_record()
    record["evaluation"]["protocol"] = {"games": {1, 2}}
    with pytest.raises(records.RecordError, match="not plain JSON"):
        records.write_record(tmp_path / "seed_1.json", record)


def test_number_beyond_float_range_is_refused(tmp_path):
    path = write(tmp_path, make_record(wall_seconds=123.0))
    path.write_text(path.read_text().replace("123.0", "1e999"))
    with pytest.raises(records.RecordError, match="NaN or infinity"):
        records.read_record(path)


@pytest.mark.parametrize("text", ["", "{", '{"paper": "imp', "[]", "\x00\x01", '{"seed": NaN}'])
def test_unreadable_file_is_named(tmp_path, text):
    (tmp_path / "seed_1.json").write_text(text)
    with pytest.raises(records.RecordError, match="seed_1.json"):
        records.read_record(tmp_path / "seed_1.json")


def test_absent_file_is_named(tmp_path):
    with pytest.raises(records.RecordError, match="No such file"):
        records.read_record(tmp_path / "seed_1.json")


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_full_disk_keeps_the_old_record(tmp_path, monkeypatch, step):
    path = write(tmp_path, make_record(final=10.0))
    before = path.read_bytes()

    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, full)
    with pytest.raises(records.RecordError, match=r"could not be written \(No space left on device\)") as caught:
        write(tmp_path, make_record(final=12.0))
    assert str(caught.value).count(".") == str(path).count(".") + 1  # one sentence
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [tmp_path / "SHA256SUMS", path]
    assert checksums.changes(tmp_path, checksums.RECORDS) == []


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("killed_at", [1, 2])
def test_a_kill_between_checksum_and_record_leaves_the_record_to_be_made(tmp_path, monkeypatch, killed_at):
    """So that the command that makes it does not take it for done."""
    replace, calls = os.replace, []

    def killed(source, target):
        calls.append(target)
        if len(calls) == killed_at:
            raise Killed
        replace(source, target)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(Killed):
        write(tmp_path, make_record(seed=3))
    monkeypatch.undo()
    assert records.read_all(tmp_path) == ([], [])
    write(tmp_path, make_record(seed=3))
    assert checksums.changes(tmp_path, checksums.RECORDS) == []


def test_a_record_that_cannot_be_written_leaves_the_checksums_as_they_were(tmp_path, monkeypatch):
    write(tmp_path, make_record(seed=1))
    before = (tmp_path / "SHA256SUMS").read_text()
    replace = os.replace

    def full(source, target):
        if str(target).endswith("seed_2.json"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(records.RecordError, match=r"seed_2.json could not be written \(No space left on device\)"):
        write(tmp_path, make_record(seed=2))
    assert (tmp_path / "SHA256SUMS").read_text() == before


def test_file_in_place_of_a_directory_is_one_sentence(tmp_path):
    (tmp_path / "impala").write_text("")
    with pytest.raises(records.RecordError, match="could not be written"):
        write(tmp_path, make_record())


def test_bytes_reach_the_disk_before_the_name(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace

    def kind(descriptor):
        return "directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"

    monkeypatch.setattr(os, "fsync", lambda d: (calls.append(f"sync {kind(d)}"), fsync(d)))
    monkeypatch.setattr(os, "replace", lambda a, b: (calls.append("name"), replace(a, b)))
    write(tmp_path, make_record())
    assert calls == ["sync file", "name", "sync directory"] * 2  # of the record, then of the checksums


def test_numbers_of_a_figure_come_back(tmp_path):
    record = make_record(series={"columns": ["contraction", "bias"], "rows": [[0.9, 0], [0.5, 0.25]]})
    records.write_record(tmp_path / "r.json", record)
    assert records.read_record(tmp_path / "r.json")["series"] == record["series"]


def test_read_all_gives_records_in_order_and_faults_apart(tmp_path):
    for seed in (2, 1):
        write(tmp_path, make_record(seed=seed))
    good = tmp_path / "impala/atari_shallow/pong/impala_shallow"
    (good / "seed_3.json").write_text("{")
    moved = make_record(seed=5)
    records.write_record(good / "seed_4.json", moved)
    (tmp_path / "notes.json").write_text("{}")
    stored, errors = records.read_all(tmp_path)
    assert [item.record["seed"] for item in stored] == [1, 2]
    assert [error.path.name for error in errors] == ["seed_3.json", "seed_4.json"]
    assert "wrong place" in errors[1].message


def test_a_record_of_another_scale_has_its_scale_in_the_name(tmp_path):
    path = records.record_path(tmp_path, "impala", "atari_shallow", "pong", "impala_shallow", 1)
    assert records.path_of_scale(path, "paper") == path
    write(tmp_path, make_record(seed=1, scale="desk"))
    assert records.path_of_scale(path, "desk") == path
    beside = records.path_of_scale(path, "paper")
    assert beside == path.with_name("seed_1_paper.json")
    records.write_record(beside, make_record(seed=1, scale="paper"))
    stored, errors = records.read_all(tmp_path)
    assert [(item.path.name, item.record["scale"]) for item in stored] == [
        ("seed_1.json", "desk"),
        ("seed_1_paper.json", "paper"),
    ]
    assert errors == []


def test_a_second_record_of_a_run_and_a_scale_misnamed_are_faults(tmp_path):
    path = write(tmp_path, make_record(seed=1, scale="desk"))
    records.write_record(path.with_name("seed_1_desk.json"), make_record(seed=1, scale="desk"))
    records.write_record(path.with_name("seed_1_paper.json"), make_record(seed=1, scale="desk"))
    stored, errors = records.read_all(tmp_path)
    assert [item.path for item in stored] == [path]
    assert [error.path.name for error in errors] == ["seed_1_desk.json", "seed_1_paper.json"]
    assert "is of the same run as" in errors[0].message
    assert "wrong place" in errors[1].message


@pytest.mark.parametrize("task", ["my_module:MyEnv-v0", "ale_py:ALE/Pong-v5", "_package.envs:_Env-v1"])
def test_a_task_with_a_module_is_recorded_as_given_in_a_folder_without_signs(tmp_path, task):
    path = write(tmp_path, make_record() | {"task": task})
    assert path.parent.parent.name == task.replace(":", "+").replace("/", "+")
    (stored,), errors = records.read_all(tmp_path)
    assert (stored.path, stored.record["task"], errors) == (path, task, [])
    assert (tmp_path / "SHA256SUMS").read_text().endswith(f"{path.relative_to(tmp_path)}\n")


@pytest.mark.parametrize("experiment", ["my/lander.py", "/lab/my/lander.py"])
def test_an_experiment_of_a_file_is_recorded_by_its_path_in_a_folder_without_signs(tmp_path, experiment):
    path = write(tmp_path, make_record() | {"experiment": experiment})
    assert path.relative_to(tmp_path / "impala").parts[0] == experiment.replace("/", "+")
    (stored,), errors = records.read_all(tmp_path)
    assert (stored.path, stored.record["experiment"], errors) == (path, experiment, [])


@pytest.mark.parametrize("experiment", ["", "..", "my/lander", "my configs/lander.py", "my:lander.py"])
def test_an_experiment_that_is_neither_name_nor_file_is_refused(tmp_path, experiment):
    with pytest.raises(records.RecordError, match="experiment"):
        records.write_record(tmp_path / "seed_1.json", make_record() | {"experiment": experiment})


@pytest.mark.parametrize("task", ["", "../pong", "/pong", "a b"])
def test_a_task_that_is_no_name_is_refused(tmp_path, task):
    with pytest.raises(records.RecordError, match="task"):
        records.write_record(tmp_path / "seed_1.json", make_record() | {"task": task})


def test_read_all_of_an_absent_directory_is_empty(tmp_path):
    assert records.read_all(tmp_path / "none") == ([], [])


def test_config_hash_is_that_of_canonical_json():
    expected = hashlib.sha256(b'{"a":[1,2],"b":{"c":0.5,"d":"\xc3\xa9"}}').hexdigest()
    config = ml_collections.ConfigDict({"b": {"d": "\u00e9", "c": 0.5}, "a": (1, 2)})
    assert records.config_sha256(config) == expected
    assert records.config_sha256({"a": [1, 2], "b": {"c": 0.5, "d": "\u00e9"}}) == expected
    assert records.config_sha256({"a": [1, 2], "b": {"c": 0.25, "d": "\u00e9"}}) != expected


def test_config_that_json_cannot_hold_is_refused():
    with pytest.raises(records.RecordError, match="cannot be recorded"):
        records.plain_config({"rate": float("nan")})
    with pytest.raises(records.RecordError, match="cannot be recorded"):
        records.plain_config({"function": len})


def test_thin_curve_keeps_ends_and_chooses_logged_points():
    curve = [[4 * i, float(i % 7)] for i in range(12_345)]
    thin = records.thin_curve(curve)
    assert len(thin) == 500
    assert thin[0] == curve[0]
    assert thin[-1] == curve[-1]
    assert all(point in curve for point in thin[::50])
    frames = [point[0] for point in thin]
    assert frames == sorted(set(frames))
    assert records.thin_curve(curve[:499]) == curve[:499]


def test_thin_curve_leaves_out_points_before_the_first_game():
    assert records.thin_curve([[0, float("nan")], [8, 1.0]]) == [[8, 1.0]]


def test_versions_and_hardware_fit_the_schema(tmp_path):
    record = make_record(versions=records.versions(), hardware=records.hardware())
    write(tmp_path, record)
    assert record["versions"]["tensorflow"].startswith("2.15")
    assert record["hardware"]["cores"] == len(os.sched_getaffinity(0))


def test_hidden_gpu_is_none_and_several_are_counted(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    gpus = ["0, GPU-11aa-22, Fast GPU", "1, GPU-11ab-33, Slow GPU", "2, GPU-44, Fast GPU"]
    program.write_text("#!/bin/sh\n" + "".join(f"echo '{gpu}'\n" for gpu in gpus))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert records.hardware()["gpu"] == "3 x Fast GPU"
    for visible, name in {
        "": None,
        "-1": None,
        "1": "Slow GPU",
        "2, 0": "2 x Fast GPU",
        "GPU-11ab": "Slow GPU",
        "GPU-44,0": "2 x Fast GPU",
        "1,-1,2": "Slow GPU",
        "3": None,
        "MIG-1/0": "3 x Fast GPU",
    }.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert records.hardware()["gpu"] == name, visible
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    program.write_text("#!/bin/sh\nexit 9\n")
    assert records.hardware()["gpu"] is None


@pytest.fixture
def checkout(tmp_path):
    """A git checkout with one commit of code and configs."""
    for name in ("repro/a.py", "paper_configs/impala/a.py", "paper_configs/published/impala.json", "README.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("old\n")
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "dirty"),
    [
        (None, False),
        ("repro/a.py", True),
        ("repro/new.py", True),
        ("paper_configs/impala/a.py", True),
        ("paper_configs/published/impala.json", False),
        ("README.md", False),
        ("results/impala/seed_1.json", False),
    ],
)
def test_commit_is_dirty_when_code_differs_and_only_then(checkout, name, dirty):
    if name:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text("new\n")
    pattern = "[0-9a-f]{40}-dirty" if dirty else "[0-9a-f]{40}"
    assert re.fullmatch(pattern, records.git_commit(checkout))


def test_no_commit_outside_a_checkout_or_below_its_top(tmp_path, checkout, monkeypatch):
    assert records.git_commit(checkout / "repro") is None
    elsewhere = pathlib.Path(os.path.dirname(checkout)) / "elsewhere"
    elsewhere.mkdir()
    assert records.git_commit(elsewhere) is None
    monkeypatch.setenv("PATH", "")
    assert records.git_commit(checkout) is None


def test_committed_files_are_those_that_git_has_as_they_are(checkout, tmp_path_factory, monkeypatch):
    kept, changed = checkout / "results/kept.json", checkout / "results/changed.json"
    kept.parent.mkdir()
    for path in (kept, changed):
        path.write_text("{}")
    assert records.committed_files(kept.parent) == set()
    identity = ["-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run(["git", "add", "results"], cwd=checkout, check=True)
    assert records.committed_files(kept.parent) == set()  # to add is not yet to commit
    subprocess.run(["git", *identity, "commit", "--quiet", "--message=results"], cwd=checkout, check=True)
    changed.write_text("[]")
    subprocess.run(["git", "add", "results"], cwd=checkout, check=True)
    (kept.parent / "new.json").write_text("{}")
    assert records.committed_files(kept.parent) == {kept}
    elsewhere = tmp_path_factory.mktemp("no_git")
    (elsewhere / "results").mkdir()
    (elsewhere / "results/b.json").write_text("{}")
    assert records.committed_files(elsewhere / "results") == set()
    monkeypatch.setattr(records, "ROOT", elsewhere)
    assert records.committed_files(elsewhere / "results") == {elsewhere / "results/b.json"}  # as in an archive
