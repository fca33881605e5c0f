"""The files of a run on their way between the head of a cluster and the machine that works on the run."""

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
"""Files that say of others that they are there, so that they come after them, in this order."""
MACHINES = "machines.json"
INCOMING = ".incoming"
CHUNK_BYTES = 1 << 24
"""Largest message."""

Files = dict[str, tuple[int, int]]
"""Names of files, from a folder on, with their size and the time of their last change."""


def list_files(folder: Path, skip: Sequence[str] = ()) -> Files:
    """Returns the files in a folder and below, but for hidden ones, such as locks, and checkpoints being written.

    Args:
        folder: others may write in it meanwhile.
        skip: names of folders that are left out.
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
    """Returns the files of a run that nobody writes in: as `list_files`, and of checkpoints the newest whole one."""
    found = list_files(folder, (CHECKPOINTS, *skip))
    for checkpoints in folder.rglob(CHECKPOINTS):  # those of a population's members, too
        if (newest := newest_checkpoint(checkpoints)) is not None:
            place = newest.relative_to(folder)
            found |= {str(place / name): stamp for name, stamp in list_files(newest).items()}
    return found


def pin_checkpoint(folder: Path, pins: Path) -> Files:
    """Links the newest checkpoint of a run at work, so that its files stay until a newer one takes its place.

    Args:
        folder: of the run.
        pins: has the links, under the same names.

    Returns:
        The files of the checkpoint that is there now.
    """
    for newest in newest_first(folder / CHECKPOINTS)[:1]:
        if not (target := pins / CHECKPOINTS / newest.name).exists():
            shutil.rmtree(pins, ignore_errors=True)
            try:
                shutil.copytree(newest, target, copy_function=os.link)
            except OSError:  # the run has just removed it
                shutil.rmtree(pins, ignore_errors=True)
    return list_files(pins)


class Inbox:
    """Takes files for the folder of a run; they get their places once all of one moment are there.

    A checkpoint is whole or absent at any time, and what says of others that they are there comes last.

    Args:
        folder: of the run; what a killed process left of an inbox there is removed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._incoming = folder, folder / INCOMING
        shutil.rmtree(self._incoming, ignore_errors=True)

    def add(self, name: str, chunks: Iterable[bytes]) -> None:
        """Takes a file.

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
        """Puts what was taken in its place, and removes checkpoints that are too many.

        Returns:
            Names of the files that are in their places; a checkpoint that did not come whole has none.

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
                shutil.rmtree(target)  # the same checkpoint, of before
            source.rename(target)
            flush(target.parent)
        for found in sorted(checkpoints - damaged):
            remove_old((self._folder / found).parent, Path(found).name)
        shutil.rmtree(self._incoming, ignore_errors=True)
        return [name for name in names if checkpoint_of(name) not in damaged]


def checkpoint_of(name: str) -> str | None:
    """Returns the folder of the checkpoint that a file is of, or None."""
    parts = Path(name).parts
    return str(Path(*parts[: parts.index(CHECKPOINTS) + 2])) if CHECKPOINTS in parts else None


def read_machines(folder: Path) -> list[str]:
    """Returns the machines of a cluster that have worked on a run as a whole."""
    path = folder / MACHINES
    return json.loads(path.read_text()) if path.exists() else []


def add_machine(folder: Path, machine: str) -> None:
    """Notes that a machine works on a run."""
    if machine not in (machines := read_machines(folder)):
        write_json(folder / MACHINES, [*machines, machine])


def _rank(name: str) -> int:
    """0, or the place among `LAST`."""
    file = Path(name).name
    return LAST.index(file) + 1 if file in LAST else 0
