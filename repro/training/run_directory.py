"""The folder of one run: configuration, log, checkpoints, and the lock that keeps a second process out."""

from __future__ import annotations

import csv
import datetime
import json
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from repro.config import MACHINE_FIELDS, flatten, is_chosen, resolve_plain, without_later
from repro.files import publish_folder, reason, try_lock, write_whole
from repro.training.manifest import find_damage

CHECKPOINTS = "checkpoints"
"""Folder in a run's folder: its checkpoints."""
CHECKPOINT_PREFIX = "checkpoint_"
"""Prefix of the names of checkpoints, before the number of updates."""
KEEP = 3
"""Number of checkpoints that a run keeps."""
PROGRESS = "progress.csv"
"""File in a run's folder: its log."""
EVALUATION = "evaluation.json"
"""File in a run's folder: its last evaluation."""
COMPLETE = "complete.json"
"""File in a run's folder: its totals, once it has ended."""
LINEAGE = "lineage.json"
"""File in a population's folder: the history of its members."""
ORIGIN = "origin.json"
"""File in the folder of a run or population that is trained for a record: the code that it began with."""
LEAVE_SECONDS = 180.0
"""Longest wait for a process that is saving its run and ending."""
POLL_SECONDS = 0.2


class RunDirectoryError(RuntimeError):
    """The folder cannot be used; the message says what to do."""


class RunDirectory:
    """Opens or creates a run's folder and holds its lock until the process ends.

    A resume writes the new values of `MACHINE_FIELDS` to `config.json`.

    Contents: `config.json`, `progress.csv`, `evaluations.csv` of an evaluator beside training, `tensorboard/`,
    `checkpoints/`, `actors/` with the output and tracebacks of actors that failed, and, once training is complete,
    `complete.json`.

    Args:
        path: folder of the run, created if missing.
        config: configuration as plain dictionaries. A folder in which training has saved something must hold the same
            seed and, apart from `MACHINE_FIELDS`, the same configuration; any other folder is taken over by this
            run.
        seed: seed of the run.

    Raises:
        RunDirectoryError: another process uses the folder, it holds a run with other settings, or it is not writable.
    """

    def __init__(self, path: Path, config: dict[str, Any], seed: int) -> None:
        self.path = path
        self.checkpoints = path / CHECKPOINTS
        self.progress_csv = path / PROGRESS
        self.evaluations_csv = path / "evaluations.csv"
        self.tensorboard = path / "tensorboard"
        self.actors = path / "actors"
        self.complete_json = path / COMPLETE
        self._is_new = not path.exists()
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(path / ".lock")
        except OSError as error:
            raise RunDirectoryError(f"Cannot write to --run_dir={path} ({reason(error)}); give another one.") from error
        if not has_saved(path) or not (path / "config.json").exists():
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            write_json(path / "config.json", {"started": now, "seed": seed, "config": config})
            return
        differences = _differences(path, config, seed)
        if changed := _unchangeable(differences):
            state, way = "", f"--run_dir={path} alone resumes it, another --run_dir starts a new one."
            if self.complete_json.exists():
                state, way = "complete ", "a longer or a different one needs another --run_dir."
            raise RunDirectoryError(f"{path} holds a {state}run with other settings ({_describe(changed)}); {way}")
        if differences:
            write_json(path / "config.json", read_settings(path) | {"config": config})

    def complete(self, totals: Mapping[str, Any]) -> None:
        """Marks the run as ended, with its totals.

        Raises:
            RunDirectoryError: the disk is full or not writable.
        """
        write_json(self.complete_json, totals)

    def remove_new(self) -> None:
        """Removes the folder of a run that cannot begin, if this process created it and nothing was saved."""
        if self._is_new and not has_saved(self.path):
            shutil.rmtree(self.path, ignore_errors=True)

    def release(self) -> None:
        """Gives up the lock before the process ends."""
        self._lock.close()


def replace_config(path: Path, config: dict[str, Any]) -> None:
    """Gives the run in a folder, if there is one, another configuration to go on with, as for members of a population.

    Raises:
        RunDirectoryError: another process uses the folder, the disk is full or not writable, or `config.json` cannot be
            read.
    """
    if (path / "config.json").exists():
        with _lock(path / ".lock"):
            write_json(path / "config.json", read_settings(path) | {"config": config})


def changed_settings(path: Path, config: dict[str, Any], seed: int) -> list[str]:
    """Returns the names of the settings whose given values keep the run in a folder from being resumed.

    Args:
        path: folder of the run.
        config: configuration as plain dictionaries; a size of 0 fits any size that the run has chosen.
        seed: seed of the run.

    Raises:
        RunDirectoryError: the folder holds no readable run.
    """
    return list(_unchangeable(_differences(path, config, seed)))


def has_saved(path: Path) -> bool:
    """Returns whether a folder has something to go on from: a checkpoint, a complete run or a population."""
    saved = (path / CHECKPOINTS).glob(f"{CHECKPOINT_PREFIX}*")
    return any(saved) or is_complete(path) or (path / LINEAGE).exists()


def is_complete(path: Path) -> bool:
    """Returns whether the run in a folder has ended: it used up its budget, or diverged."""
    return (path / COMPLETE).exists()


def is_in_use(path: Path) -> bool:
    """Returns whether another process holds the lock of the run in a folder."""
    if not (path / ".lock").exists():
        return False
    handle = try_lock(path / ".lock")
    if handle is not None:
        handle.close()
    return handle is None


def wait_until_free(path: Path, stop: Callable[[], bool] = lambda: False) -> bool:
    """Waits, at most `LEAVE_SECONDS`, for an earlier process that is saving the run in a folder and ending.

    Args:
        path: folder of the run.
        stop: called repeatedly; the wait ends once it returns True.

    Returns:
        Whether the run is no longer in use.
    """
    deadline = time.monotonic() + LEAVE_SECONDS
    while is_in_use(path):
        if stop() or time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def checkpoint_name(updates: int) -> str:
    """Returns the name of the checkpoint after this number of updates."""
    return f"{CHECKPOINT_PREFIX}{updates:09d}"


def is_newest(checkpoints: Path, updates: int) -> bool:
    """Returns whether the newest checkpoint in a folder, whole or not, is the one after this number of updates."""
    return [path.name for path in newest_first(checkpoints)[:1]] == [checkpoint_name(updates)]


def newest_first(checkpoints: Path) -> list[Path]:
    """Returns the checkpoints in a folder, whole or not, from the newest to the oldest."""
    return sorted(checkpoints.glob(f"{CHECKPOINT_PREFIX}*"), reverse=True)


def remove_old(checkpoints: Path, last: str) -> None:
    """Removes all but the newest `KEEP` checkpoints in a folder; a failed removal is tried again at the next call.

    Args:
        checkpoints: the folder.
        last: name of the checkpoint written last. Broken ones of more updates, which the run skipped, are removed too.
    """
    for newer in newest_first(checkpoints):
        if newer.name > last and find_damage(newer):
            shutil.rmtree(newer, ignore_errors=True)
    for old in newest_first(checkpoints)[KEEP:]:
        shutil.rmtree(old, ignore_errors=True)


def newest_checkpoint(checkpoints: Path) -> Path | None:
    """Returns the newest whole checkpoint in a folder, or None."""
    return next((path for path in newest_first(checkpoints) if not find_damage(path)), None)


def copy_checkpoint(path: Path, target: Path) -> None:
    """Copies the newest whole checkpoint of the run in a folder; a killed process leaves no partial copy at `target`.

    Args:
        path: folder of a run that has a checkpoint.
        target: folder of the copy, which is kept if it is whole already; missing parent folders are created.

    Raises:
        RunDirectoryError: there is no whole checkpoint, or the disk is full or not writable.
    """
    if target.exists() and not find_damage(target):
        return
    partial = target.with_name(f"partial_{target.name}")
    newest = newest_checkpoint(path / CHECKPOINTS)
    if newest is None:
        raise RunDirectoryError(f"{path} has no intact checkpoint; start again with another --run_dir.")
    try:
        for leftover in (partial, target):
            shutil.rmtree(leftover, ignore_errors=True)
        shutil.copytree(newest, partial)
        publish_folder(partial, target)
    except OSError as error:
        raise RunDirectoryError(f"Could not copy a checkpoint to {target} ({reason(error)}).") from error


def read_settings(path: Path) -> dict[str, Any]:
    """Returns the settings `{"started", "seed", "config"}` of the run in a folder.

    Raises:
        RunDirectoryError: the folder holds no readable run.
    """
    try:
        settings = json.loads((path / "config.json").read_text())
        if not {"seed", "config"} <= settings.keys() or not isinstance(settings["config"], dict):
            raise ValueError("there is no seed or no config")
        return dict(settings)
    except (AttributeError, OSError, ValueError) as error:
        what = "holds no readable run (no valid config.json)" if path.exists() else "does not exist"
        raise RunDirectoryError(f"{path} {what}.") from error


def read_complete(path: Path) -> dict[str, Any]:
    """Returns the `complete.json` of a run that has ended.

    Raises:
        RunDirectoryError: the file cannot be read or is not valid JSON, as after a disk failure.
    """
    complete_json = path / COMPLETE
    try:
        return dict(json.loads(complete_json.read_text()))
    except (OSError, TypeError, ValueError) as error:
        raise RunDirectoryError(
            f"{complete_json} was changed or cut short; remove it, and the run goes on from its last checkpoint."
        ) from error


def write_json(path: Path, value: Any, indent: int | None = 1) -> None:
    """Writes a JSON file whole or not at all; `indent=None` writes a single line and is several times as fast.

    Raises:
        RunDirectoryError: the disk is full or not writable; a file already there stays as it was.
    """
    try:
        write_whole(path, json.dumps(value, indent=indent))
    except OSError as error:
        raise RunDirectoryError(f"Could not write {path} ({reason(error)}).") from error


def read_progress(path: Path) -> list[dict[str, float]]:
    """Returns the rows of a `progress.csv` or `evaluations.csv`, if any, without a last line cut short by a kill.

    Raises:
        RunDirectoryError: a row has more or fewer values than there are columns, or a value that is not a number.
    """
    reader = csv.reader(_whole_lines(path))
    columns = next(reader, [])
    rows = []
    for values in filter(None, reader):
        try:
            rows.append({name: float(value) for name, value in zip(columns, values, strict=True)})
        except ValueError as error:
            raise RunDirectoryError(
                f"Line {reader.line_num} of {path} does not have a number for each of the {len(columns)} columns: "
                "remove it, and all other lines like it."
            ) from error
    return rows


def read_columns(path: Path) -> list[str]:
    """Returns the column names of a `progress.csv` or `evaluations.csv`; empty if there is no whole line."""
    if not path.exists():
        return []
    with path.open() as file:
        first = file.readline()
    return next(csv.reader([first]), []) if first.endswith("\n") else []


def _whole_lines(path: Path) -> list[str]:
    try:
        whole, _, _ = path.read_text().rpartition("\n")
    except FileNotFoundError:
        return []
    return whole.splitlines()


def _differences(path: Path, config: dict[str, Any], seed: int) -> dict[str, tuple[Any, Any]]:
    """All settings read by this agent that differ, each with its value in the folder and its value here."""
    saved = read_settings(path)
    before = flatten({"seed": saved["seed"], "config": _as_read(saved["config"])})
    now = flatten(json.loads(json.dumps({"seed": seed, "config": _as_read(config)})))
    names = sorted(before.keys() | now.keys())
    changed = [name for name in names if before.get(name) != now.get(name)]
    return {name: (before.get(name, "absent"), now.get(name, "absent")) for name in changed}


def _unchangeable(differences: Mapping[str, tuple[Any, Any]]) -> dict[str, tuple[Any, Any]]:
    """The differences that keep a run from being resumed."""
    return {
        name: (there, here)
        for name, (there, here) in differences.items()
        if name.removeprefix("config.") not in MACHINE_FIELDS and not is_chosen(name, here)
    }


def _describe(differences: Mapping[str, tuple[Any, Any]]) -> str:
    """The first three differences in words, and how many more there are."""
    shown = [(name.removeprefix("config."), *both) for name, both in differences.items()]
    words = [f"{name}: {there} there, {here} here" for name, there, here in shown]
    return ", ".join(words[:3]) + (f", and {len(words) - 3} more" if len(words) > 3 else "")


def _as_read(config: dict[str, Any]) -> dict[str, Any]:
    return without_later(resolve_plain(config, config["agent"]) if "variants" in config else config)


def _lock(path: Path) -> TextIO:
    handle = try_lock(path)
    if handle is None:
        raise RunDirectoryError(
            f"Another process is running in {path.parent}; wait for it, stop it, or give another --run_dir."
        )
    return handle
