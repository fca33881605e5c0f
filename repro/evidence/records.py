"""Result records: one JSON file for one training run and its final evaluation.

A record is a plain dictionary that follows `record_schema.json`. Its file is
`<results>/<paper>/<experiment>/<task>/<agent>/seed_<n>.json`, with `as_folder` for experiment and task, or
`seed_<n>_<scale>.json` if a record of another scale has that name. It is written atomically.
"""

import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import itertools
import json
import math
import os
import pathlib
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jsonschema
import ml_collections
import numpy as np

from repro.evidence import checksums, migrations
from repro.files import reason, write_whole

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMITTED = pathlib.Path("results")
SCHEMA_PATH = pathlib.Path(__file__).with_name("record_schema.json")
MAX_CURVE_POINTS = 500
BUDGET_FIELDS = ("num_env_frames", "num_env_steps")
# Paths that can affect a run. Results, documentation and published numbers may differ from the commit.
CODE_PATHS = ("repro", "paper_configs", "setup.cfg", "requirements.lock", ":(exclude)paper_configs/published")
PACKAGES = {
    "tensorflow": "tensorflow",
    "keras": "keras",
    "tf_agents": "tf-agents",
    "numpy": "numpy",
    "gymnasium": "gymnasium",
    "ale_py": "ale-py",
    "mujoco": "mujoco",
}


class RecordError(Exception):
    """A record cannot be read, written or trusted; the message is one sentence that names the file."""


@dataclasses.dataclass(frozen=True)
class StoredRecord:
    """Valid record and the file that it was read from."""

    path: pathlib.Path
    record: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class ValidationError:
    """File that is not a valid record, and a sentence that says why."""

    path: pathlib.Path
    message: str


def is_elsewhere(experiment: str) -> bool:
    """Returns whether an experiment's name is the path of a file outside `paper_configs`."""
    return experiment.endswith(".py")


def as_folder(name: str) -> str:
    """Returns the name of a task, or the path of a config, as one path component: `my/lander.py` as `my+lander.py`."""
    return re.sub("[:/]", "+", name)


def record_path(
    results_dir: str | os.PathLike[str], paper: str, experiment: str, task: str, agent: str, seed: int
) -> pathlib.Path:
    """Returns the path of a run's record, `<results_dir>/<paper>/<experiment>/<task>/<agent>/seed_<n>.json`.

    Args:
        results_dir: `results` for desk and paper scale, `runs/records` for smoke.
        paper: short name, such as `impala`.
        experiment: name of the file in `paper_configs/<paper>`, without `.py`, or the path of a file elsewhere.
        task: canonical task name, such as `space_invaders`.
        agent: name of the agent, the config's field `agent`.
        seed: seed of the run, 0 or more.
    """
    return pathlib.Path(results_dir, paper, as_folder(experiment), as_folder(task), agent, f"seed_{seed}.json")


def path_of_scale(path: pathlib.Path, scale: str) -> pathlib.Path:
    """Returns the path of a run's record of this scale, whether it exists or not.

    Args:
        path: path from `record_path`.
        scale: one of `repro.config.SCALES`.

    Returns:
        `path` itself, unless a record of another scale has that name; then `seed_<n>_<scale>.json` beside it.

    Raises:
        RecordError: the file at `path` is not a valid record.
    """
    if path.exists() and read_record(path)["scale"] != scale:
        return _with_scale(path, scale)
    return path


def find_record(path: pathlib.Path, scale: str) -> dict[str, Any] | None:
    """Reads a run's record of this scale from its path, as in `path_of_scale`.

    Args:
        path: path from `record_path`.
        scale: one of `repro.config.SCALES`.

    Returns:
        Record as from `read_record`; None if there is none.

    Raises:
        RecordError: a file there is not a valid record.
    """
    record = read_record(path) if path.exists() else None
    if record is None or record["scale"] == scale:
        return record
    other = _with_scale(path, scale)
    return read_record(other) if other.exists() else None


def _with_scale(path: pathlib.Path, scale: str) -> pathlib.Path:
    return path.with_stem(f"{path.stem}_{scale}")


def write_record(path: str | os.PathLike[str], record: Mapping[str, Any]) -> None:
    """Validates a record, writes its checksum at the top of the folder of results, and then the record atomically.

    If the record cannot be written, one already at `path` stays as it was, with its checksum. If the process is killed
    in between, a new record is missing, so that the command that makes it goes on there. A file outside the record
    layout gets no checksum.

    Args:
        path: file to make or replace; missing directories are made.
        record: record that follows `record_schema.json`, with plain Python numbers, all finite.

    Raises:
        RecordError: the record is not valid, such as with NaN or infinity; or it or its checksum cannot be written,
            such as on a full disk.
    """
    path = pathlib.Path(path)
    problem = _find_error(record)
    if problem:
        raise RecordError(f"The record for {path} was refused: {problem}.")
    lines = [f"  {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in record.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _checksum(path, record, text):
            write_whole(path, text)
    except OSError as error:
        raise RecordError(f"The record {path} could not be written ({reason(error)}); no file was changed.") from error


@contextlib.contextmanager
def _checksum(path: pathlib.Path, record: Mapping[str, Any], text: str) -> Iterator[None]:
    """Writes the checksum of a record that is about to be written, and takes it back if that fails."""
    if (root := _root(path, record)) is None:
        yield
        return
    try:
        before = checksums.replace(root, path, checksums.digest(text.encode()))
    except ValueError as error:
        where = root / checksums.NAME
        raise RecordError(f"The record {path} was not written: {where} takes no checksum ({error}).") from error
    try:
        yield
    except OSError:
        with contextlib.suppress(OSError):
            checksums.replace(root, path, before)
        raise


def _root(path: pathlib.Path, record: Mapping[str, Any]) -> pathlib.Path | None:
    """Returns the root of the record layout that `path` fits into for this record; None if it does not fit."""
    root = path.parents[4] if len(path.parents) > 4 else path.parent
    expected = record_path(root, *(record[key] for key in ("paper", "experiment", "task", "agent", "seed")))
    return root if path in (expected, _with_scale(expected, record["scale"])) else None


def read_record(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads one record and checks that it follows the schema and is consistent in itself.

    Args:
        path: file that `write_record` made.

    Returns:
        Record in the layout of `migrations.SCHEMA_VERSION`.

    Raises:
        RecordError: the file cannot be read, is not JSON (such as with NaN or infinity), or is not a valid record.
    """
    path = pathlib.Path(path)
    try:
        record = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except OSError as error:
        raise RecordError(f"The record {path} could not be read ({reason(error)}).") from error
    except ValueError as error:
        raise RecordError(f"The record {path} is not readable JSON ({error}); restore it, or remove it.") from error
    record = migrations.rename_fields(record)
    problem = _find_error(record)
    if problem:
        raise RecordError(f"The record {path} is not valid: {problem}.")
    migrated = migrations.migrate(record)
    return migrated | {"config_sha256": config_sha256(migrated["config"])}


def read_all(results_dir: str | os.PathLike[str]) -> tuple[list[StoredRecord], list[ValidationError]]:
    """Reads every `seed_<n>.json` and `seed_<n>_<scale>.json` below a directory.

    Args:
        results_dir: root of the record layout; a directory that does not exist holds no records.

    Returns:
        The valid records in order of their paths, and an error for each other file. A record whose fields belong to
        another path is an error, too, and so is a second record of a run.
    """
    stored: list[StoredRecord] = []
    errors: list[ValidationError] = []
    for path in sorted(pathlib.Path(results_dir).rglob("seed_*.json")):
        try:
            record = read_record(path)
        except RecordError as error:
            errors.append(ValidationError(path, str(error)))
            continue
        names = [record[key] for key in ("paper", "experiment", "task", "agent", "seed")]
        expected = record_path(results_dir, *names)
        if path not in (expected, _with_scale(expected, record["scale"])):
            expected = record_path("", *names)
            errors.append(
                ValidationError(path, f"The record {path} lies at the wrong place: its fields say {expected}.")
            )
            continue
        if path != expected and any(
            item.path == expected and item.record["scale"] == record["scale"] for item in stored
        ):
            errors.append(
                ValidationError(path, f"The record {path} is of the same run as {expected}; remove one of them.")
            )
            continue
        stored.append(StoredRecord(path, record))
    return stored, errors


def plain_config(config: Mapping[str, Any] | ml_collections.ConfigDict) -> dict[str, Any]:
    """Returns a config as nested plain dictionaries and lists, as read from JSON.

    Args:
        config: nested mapping or ConfigDict with JSON values; field references are resolved, tuples become lists.

    Raises:
        RecordError: a value has no form in JSON (NaN, a function, an array).
    """
    if isinstance(config, ml_collections.ConfigDict):
        config = config.to_dict()
    try:
        return json.loads(json.dumps(config, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise RecordError(f"The config cannot be recorded: {error}.") from error


def config_sha256(config: Mapping[str, Any] | ml_collections.ConfigDict) -> str:
    """Returns the SHA-256 (64 hex digits) of the config's canonical JSON: sorted keys, no spaces, UTF-8.

    It does not depend on the order of fields, nor on whether a sequence is a tuple or a list.

    Args:
        config: as for `plain_config`.

    Raises:
        RecordError: as for `plain_config`.
    """
    canonical = json.dumps(plain_config(config), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8")).hexdigest()


def thin_curve(curve: Sequence[Sequence[float]]) -> list[list[float]]:
    """Returns at most `MAX_CURVE_POINTS` evenly chosen points of a learning curve, including the first and the last.

    Points are chosen, not averaged, so that each one was logged. Points whose return is not finite, because no game had
    ended yet, are left out first.

    Args:
        curve: pairs [budget used, mean return] in order of the budget.
    """
    return thin([[int(used), float(value)] for used, value in curve if math.isfinite(value)])


def thin(points: Sequence[Any], max_points: int = MAX_CURVE_POINTS) -> list[Any]:
    """Returns at most `max_points` (2 or more) evenly chosen points, including the first and the last."""
    chosen = np.linspace(0, len(points) - 1, min(len(points), max_points)).round().astype(int)
    return [points[i] for i in chosen]


def budget_field(record: Mapping[str, Any]) -> str:
    """Returns the name of the field with a valid record's budget, one of `BUDGET_FIELDS`."""
    return next(name for name in BUDGET_FIELDS if name in record)


def counted(field: str) -> str:
    """Returns what a field counts, in words: `frames` for num_env_frames, `agent steps` for agent_steps."""
    return field.removeprefix("num_env_").replace("_", " ")


def hardware() -> dict[str, Any]:
    """Returns `{"cpu": model, "cores": cores this process may use, "gpu": name or None}` of this machine.

    A GPU hidden by CUDA_VISIBLE_DEVICES, or one without a working driver, counts as none.
    """
    return {"cpu": _cpu_model(), "cores": len(os.sched_getaffinity(0)), "gpu": _gpu_name()}


def versions() -> dict[str, str | None]:
    """Returns the versions of Python and of the packages that a result may depend on; None if not installed.

    They are read from the packages' metadata, so that nothing is imported.
    """
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name, distribution in PACKAGES.items():
        try:
            found[name] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def git_commit(root: str | os.PathLike[str] = ROOT) -> str | None:
    """Returns the commit of the checkout at `root`, with `-dirty` if code or configs differ from it.

    Call it when the run starts, because the code in memory is of this time. Only changes in `CODE_PATHS` count, since
    a run itself adds records and documentation may be edited; untracked files in these paths do count.

    Args:
        root: top directory of the checkout.

    Returns:
        Commit, or None if `root` is not the top of a git checkout with a commit, or git is not installed.
    """
    try:
        top = run_git(root, "rev-parse", "--show-toplevel")
        commit = run_git(root, "rev-parse", "HEAD")
        changes = run_git(root, "status", "--porcelain", "--", *CODE_PATHS)
    except (OSError, subprocess.SubprocessError):
        return None
    if pathlib.Path(top).resolve() != pathlib.Path(root).resolve():
        return None
    return f"{commit}-dirty" if changes else commit


def committed_files(folder: pathlib.Path) -> set[pathlib.Path]:
    """Returns the files of a folder that are committed and unchanged.

    Outside a git checkout, as in an archive of the project, these are all files of its own `results/`, and none of any
    other folder.
    """
    try:
        committed = run_git(folder, "ls-tree", "-r", "-z", "--name-only", "HEAD", ".").split("\0")
        changed = run_git(folder, "diff", "--relative", "-z", "--name-only", "HEAD", "--", ".").split("\0")
    except (OSError, subprocess.SubprocessError):
        is_ours = folder.resolve() == (ROOT / "results").resolve()
        return {path for path in folder.rglob("*") if path.is_file()} if is_ours else set()
    return {folder / name for name in set(committed) - set(changed) if name}


def run_git(root: str | os.PathLike[str], *arguments: str) -> str:
    """Returns the output of a git command in a folder, without surrounding white space.

    Raises:
        OSError: git is not installed.
        SubprocessError: the command failed, or took more than a minute.
    """
    command = ["git", "-C", os.fspath(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown"


def _gpu_name() -> str | None:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible in ("", "-1") or not shutil.which("nvidia-smi"):
        return None
    command = ["nvidia-smi", "--query-gpu=index,uuid,name", "--format=csv,noheader"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    names = _visible_gpus(
        [line.strip().split(", ", 2) for line in output.splitlines() if line.count(", ") > 1], visible
    )
    if not names:
        return None
    return names[0] if len(names) == 1 else f"{len(names)} x {names[0]}"


def _visible_gpus(gpus: Sequence[Sequence[str]], visible: str | None) -> list[str]:
    """Returns the names of the GPUs that `CUDA_VISIBLE_DEVICES` leaves visible, which nvidia-smi ignores.

    Args:
        gpus: index, UUID and name of each GPU of the machine.
        visible: value of the variable, or None if it is not set: indices or beginnings of UUIDs. The first unknown one
            and all after it do not count. All GPUs count if it names a part of one, such as `MIG-...`.
    """
    if visible is None or "MIG-" in visible:
        return [name for _, _, name in gpus]
    names = []
    for asked in map(str.strip, visible.split(",")):
        found = [
            name for index, uuid, name in gpus if asked == index or (asked[:4] == "GPU-" and uuid.startswith(asked))
        ]
        if not found:
            break
        names.append(found[0])
    return names


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number a record may hold")


@functools.cache
def _validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema)


def _find_error(record: Any) -> str | None:
    """Returns what is wrong with a record in a few words, or None."""
    errors = sorted(_validator().iter_errors(record), key=lambda error: [str(step) for step in error.absolute_path])
    if errors:
        where = ".".join(str(step) for step in errors[0].absolute_path)
        return f"{where}: {errors[0].message}" if where else errors[0].message
    return next(_content_errors(record), None)


def _content_errors(record: Mapping[str, Any]) -> Iterator[str]:
    """Yields errors that the schema cannot express, from cheap and informative checks first."""
    try:
        json.dumps(record, allow_nan=False)
    except ValueError:
        yield "it holds NaN or infinity"
    except TypeError as error:
        yield f"it holds a value that is not plain JSON ({error})"
    rates = [name.replace("num_env_", "") + "_per_second" for name in BUDGET_FIELDS]
    if [name in record for name in BUDGET_FIELDS].count(True) != 1:
        yield f"it needs exactly one of {' and '.join(BUDGET_FIELDS)}"
    elif [name in record for name in BUDGET_FIELDS] != [name in record for name in rates]:
        yield f"it needs the rate of its budget, one of {' and '.join(rates)}"
    evaluation, curve = record["evaluation"], record["curve"]
    if not _are_numbers(evaluation["returns"]):
        yield "evaluation.returns: every return must be a number"
    if not _are_rows(curve, 2):
        yield "curve: every point must be [budget used, mean return]"
    series = record.get("series", {"columns": [], "rows": []})
    if not _are_rows(series["rows"], len(series["columns"])):
        yield "series.rows: every row must hold a number for each column"
    if any(later[0] < earlier[0] for earlier, later in zip(curve, curve[1:])):
        yield "curve: the budget used must not decrease"
    if evaluation["episodes"] != len(evaluation["returns"]):
        count = len(evaluation["returns"])
        yield f"evaluation.episodes is {evaluation['episodes']} but there are {count} returns"
    mean = math.fsum(evaluation["returns"]) / len(evaluation["returns"])
    if not math.isclose(evaluation["mean"], mean, rel_tol=1e-5, abs_tol=1e-5):
        yield f"evaluation.mean is {evaluation['mean']} but the returns have mean {mean}"
    low, high = evaluation.get("interval", (0, 0))
    if low > high:
        yield f"evaluation.interval: its low end {low} lies above its high end {high}"
    if config_sha256(record["config"]) != record["config_sha256"]:
        yield "config_sha256 does not match config"


def _are_rows(values: Sequence[Any], columns: int) -> bool:
    """Returns whether each value is a row of `columns` numbers."""
    if not all(isinstance(row, list | tuple) and len(row) == columns for row in values):
        return False
    return _are_numbers(itertools.chain.from_iterable(values))


def _are_numbers(values: Iterable[Any]) -> bool:
    """Returns whether all values are int or float and none is bool; the set of types is fast for many numbers."""
    return all(issubclass(kind, int | float) and kind is not bool for kind in set(map(type, values)))
