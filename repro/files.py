"""Files that are whole or absent, whenever a process is killed or a disk is full, locks, and places of errors."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import time
import traceback
from pathlib import Path
from typing import TextIO

JOIN_TRIES, JOIN_PAUSE = 1000, 0.001
"""To join a folder that others are about to remove, and seconds between two."""


def write_whole(path: Path, text: str) -> None:
    """Writes a file in one step: it holds all of the text, or what it held before.

    The bytes go to a file of another name in the same folder, reach the disk, and only then take the name. A process
    that is killed before may leave that other file, hidden, but never part of this one.

    Args:
        path: the file to make or replace, with the permissions of a new file; its folder must exist.
        text: written as UTF-8, line ends as they are.

    Raises:
        OSError: disk full, no permission, no folder. The file stays as it was, and nothing is left beside it.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise
    with contextlib.suppress(OSError):  # not every file system can; the file is whole either way
        flush(path.parent)


def reason(error: Exception) -> str:
    """Returns what the system said of a file.

    Args:
        error: an OSError, of `shutil` with the texts of several, or one of TensorFlow's, whose first line ends with it.
    """
    if strerror := getattr(error, "strerror", None):
        return strerror
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):
        *_, text = error.args[0][0]
        return re.sub(r"^\[Errno \d+\] (.*?)(: '.*)?$", r"\1", text)
    return (str(error).splitlines() or [type(error).__name__])[0].split("; ")[-1]


def locate(error: Exception, path: str | None = None) -> str:
    """Returns an error with its place in a Python file: `mine.py, line 3: NameError: name 'x' is not defined`.

    Args:
        error: that was caught.
        path: the file whose last line on the error's way counts; None for the line that raised it.
    """
    kind, text = type(error).__name__, " ".join(str(error).split())
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if path in (None, frame.filename)]
    file, line = (frames[-1].filename, frames[-1].lineno) if frames else (path, None)
    if isinstance(error, SyntaxError):
        file, line, text = error.filename, error.lineno, error.msg
    return f"{file}{f', line {line}' if line else ''}: {kind}: {text}"


def flush(path: Path) -> None:
    """Waits until a file's bytes, or the names in a folder, have reached the disk.

    Raises:
        OSError: they cannot; not every file system can for a folder.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def try_lock(path: Path) -> TextIO | None:
    """Returns the open file that holds a lock until it is closed or this process ends; None where another one does.

    Args:
        path: of the lock's file, made if need be.

    Raises:
        OSError: it cannot be made.
    """
    handle = path.open("w")
    if try_flock(handle.fileno(), fcntl.LOCK_EX):
        return handle
    handle.close()
    return None


def try_flock(descriptor: int, kind: int) -> bool:
    """Takes a shared or an exclusive lock of an open file, and returns whether it could at once."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def make_private_folder(path: Path) -> None:
    """Makes a folder of this user alone, if need be.

    Raises:
        OSError: it cannot be made, or others than this user can write to it.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    os.close(_open_folder(path))


def join_folder(path: Path) -> int:
    """Makes a folder if need be; returns a descriptor of it with a shared lock, which keeps it from being removed.

    Raises:
        OSError: it cannot be made, or others than this user can write to it.
    """
    for _ in range(JOIN_TRIES):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        with contextlib.suppress(FileNotFoundError), contextlib.ExitStack() as stack:  # it may have just been removed
            directory = _open_folder(path)
            stack.callback(os.close, directory)
            if try_flock(directory, fcntl.LOCK_SH) and os.path.samestat(os.fstat(directory), os.stat(path)):
                stack.pop_all()
                return directory
        time.sleep(JOIN_PAUSE)
    raise TimeoutError(path)


def remove_unused_folders(parent: Path, prefix: str) -> None:
    """Removes this user's folders of these names whose processes have all ended."""
    for path in parent.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            directory = _open_folder(path)
            try:
                remove_folder_if_unused(path, directory)
            finally:
                os.close(directory)


def remove_folder_if_unused(path: Path, directory: int) -> None:
    """Removes a folder, given a descriptor of it as well, if no other one has a lock."""
    with contextlib.suppress(OSError):  # it was removed
        if try_flock(directory, fcntl.LOCK_EX) and os.path.samestat(os.fstat(directory), os.stat(path)):
            shutil.rmtree(path, ignore_errors=True)


def _open_folder(path: Path) -> int:
    """Returns a descriptor of a folder that nobody but this user can write to.

    Raises:
        OSError: there is no such folder.
    """
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    status = os.fstat(directory)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        os.close(directory)
        raise PermissionError(errno.EACCES, "Others than this user can write to it", str(path))
    return directory
