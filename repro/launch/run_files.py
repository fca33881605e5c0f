"""Transfer of a run's files between the head of a cluster and the machine that works on the run."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from repro.files import flush
from repro.training.manifest import find_damage
from repro.training.run_directory import (
    CHECKPOINTS,
    COMPLETE,
    LINEAGE,
    newest_checkpoint,
    newest_first,
    remove_old,
    write_json,
)

OUTPUT = ("tensorboard", "actors")
"""Folders that a run writes and never reads."""
LAST = ("piece.json", LINEAGE, COMPLETE)
"""Files that imply that others exist, and are therefore put in place after them, in this order."""
MACHINES = "machines.json"
"""File with the names of the machines that have worked on the run."""
INCOMING = ".incoming"
"""Folder for files that are being received."""
CHUNK_BYTES = 1 << 24
"""Largest size of a message."""

Files = dict[str, tuple[int, int]]
"""Paths of files relative to a folder, with size in bytes and time of the last change in nanoseconds."""


def list_files(folder: Path, skip: Sequence[str] = ()) -> Files:
    """Returns the files in a folder and its subfolders, except hidden ones, such as locks, and unfinished checkpoints.

    Args:
        folder: the folder; other processes may write to it at the same time.
        skip: names of folders to leave out.
    """
    found: Files = {}
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in skip and not name.startswith((".", "partial_"))]
        for file in (Path(path) / name for name in names if not name.startswith(".")):
            with contextlib.suppress(FileNotFoundError):
                status = file.stat()
                found[str(file.relative_to(folder))] = status.st_size, status.st_mtime_ns
    return found


def list_saved(folder: Path, skip: Sequence[str] = ()) -> Files:
    """Returns the files of a run that is not running, as `list_files` does, with only the newest valid checkpoint."""
    found = list_files(folder, (CHECKPOINTS, *skip))
    for checkpoints in folder.rglob(CHECKPOINTS):  # a population's members have their own
        if (newest := newest_checkpoint(checkpoints)) is not None:
            place = newest.relative_to(folder)
            found |= {str(place / name): stamp for name, stamp in list_files(newest).items()}
    return found


def pin_checkpoint(folder: Path, pins: Path) -> Files:
    """Hard-links the newest checkpoint of a running run, so that its files exist until a newer one is linked.

    Args:
        folder: folder of the run.
        pins: folder for the links, which have the same names.

    Returns:
        Files of the linked checkpoint.
    """
    for newest in newest_first(folder / CHECKPOINTS)[:1]:
        if not (target := pins / CHECKPOINTS / newest.name).exists():
            shutil.rmtree(pins, ignore_errors=True)
            try:
                shutil.copytree(newest, target, copy_function=os.link)
            except OSError:  # the run has just removed the checkpoint
                shutil.rmtree(pins, ignore_errors=True)
    return list_files(pins)


class Inbox:
    """Receives files for a run's folder, and moves them into place once all files of one moment have arrived.

    At any time, a checkpoint is complete or absent, and files that imply the existence of others come last.

    Args:
        folder: folder of the run; files that a killed process left in an inbox there are removed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._incoming = folder, folder / INCOMING
        shutil.rmtree(self._incoming, ignore_errors=True)

    def add(self, name: str, chunks: Iterable[bytes]) -> None:
        """Receives a file.

        Args:
            name: path of the file relative to the run's folder.
            chunks: content of the file.

        Raises:
            OSError: the disk is full or not writable.
        """
        path = self._incoming / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())

    def publish(self) -> list[str]:
        """Moves the received files into place, and removes superfluous checkpoints.

        Returns:
            Names of the files moved; those of a damaged checkpoint are left out.

        Raises:
            OSError: the disk is full or not writable.
        """
        names = list(list_files(self._incoming))
        checkpoints = {found for name in names if (found := checkpoint_of(name))}
        damaged = {found for found in checkpoints if find_damage(self._incoming / found)}
        plain = sorted((name for name in names if not checkpoint_of(name)), key=_rank)
        first = [name for name in plain if not _rank(name)]
        for name in (*first, *sorted(checkpoints - damaged), *plain[len(first) :]):
            source, target = self._incoming / name, self._folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_dir():
                shutil.rmtree(target)  # an earlier copy of the same checkpoint
            source.rename(target)
            flush(target.parent)
        for found in sorted(checkpoints - damaged):
            remove_old((self._folder / found).parent, Path(found).name)
        shutil.rmtree(self._incoming, ignore_errors=True)
        return [name for name in names if checkpoint_of(name) not in damaged]


def checkpoint_of(name: str) -> str | None:
    """Returns the folder of the checkpoint to which a file belongs, or None."""
    parts = Path(name).parts
    return str(Path(*parts[: parts.index(CHECKPOINTS) + 2])) if CHECKPOINTS in parts else None


def read_machines(folder: Path) -> list[str]:
    """Returns the names of the machines of a cluster that have worked on a whole run."""
    path = folder / MACHINES
    return json.loads(path.read_text()) if path.exists() else []


def add_machine(folder: Path, machine: str) -> None:
    """Adds a machine to those that have worked on a run."""
    if machine not in (machines := read_machines(folder)):
        write_json(folder / MACHINES, [*machines, machine])


def _rank(name: str) -> int:
    """Returns the position of a file in `LAST` from 1 on, or 0 for other files."""
    file = Path(name).name
    return LAST.index(file) + 1 if file in LAST else 0
