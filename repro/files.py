"""Atomic writing of files, locks, private folders, headlines of modules, and descriptions of errors."""

from __future__ import annotations

import ast
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
"""Number of tries to join a folder that others may be removing, and seconds between two tries."""

FULL = (errno.EDQUOT, errno.ENOSPC)
"""Error numbers for a full quota or disk."""
FULL_REASONS = tuple(os.strerror(code) for code in (*FULL, errno.EFBIG))
"""The system's messages for a full quota, a file at its size limit and a full disk."""


def headline(module: Path) -> str:
    """Returns the first line of a module's docstring, empty without one; the module is not imported.

    Raises:
        OSError: the file cannot be read.
    """
    return (ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def write_whole(path: Path, text: str) -> None:
    """Writes a file atomically: it contains either all of the text or its previous content.

    The text is written to a hidden file in the same folder, flushed to the disk, and then renamed. A process that is
    killed before may leave the hidden file, but never a part of this one.

    Args:
        path: the file to create or replace, with the permissions of a new file; its folder must exist.
        text: content, written as UTF-8 with unchanged line ends.

    Raises:
        OSError: the disk is full, permission is missing or the folder does not exist. The file is unchanged then, and
            nothing is left beside it.
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
    with contextlib.suppress(OSError):  # not every file system supports it; the file is complete either way
        flush(path.parent)


def reason(error: Exception) -> str:
    """Returns the system's message in an error about a file.

    Args:
        error: an OSError, one of `shutil` with the messages of several, or one of TensorFlow's, whose first line ends
            with the system's message.
    """
    if strerror := getattr(error, "strerror", None):
        return strerror
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):
        *_, text = error.args[0][0]
        return re.sub(r"^\[Errno \d+\] (.*?)(: '.*)?$", r"\1", text)
    return (str(error).splitlines() or [type(error).__name__])[0].split("; ")[-1]


def remedy(error: Exception) -> str:
    """Returns advice on a file that could not be written, as part of a sentence; the error is one as for `reason`."""
    return "free some space" if reason(error) in FULL_REASONS else "make sure that it can be written"


def locate(error: Exception, path: str | None = None) -> str:
    """Returns an error with its location in a Python file: `mine.py, line 3: NameError: name 'x' is not defined`.

    Args:
        error: the caught error.
        path: file whose last line in the traceback is given; None for the line that raised the error.
    """
    kind, text = type(error).__name__, " ".join(str(error).split())
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if path in (None, frame.filename)]
    file, line = (frames[-1].filename, frames[-1].lineno) if frames else (path, None)
    if isinstance(error, SyntaxError):
        file, line, text = error.filename, error.lineno, error.msg
    return f"{file}{f', line {line}' if line else ''}: {kind}: {text}"


def flush(path: Path) -> None:
    """Waits until the content of a file, or the names in a folder, have reached the disk.

    A file system that cannot flush folders is left to write their names in its own time.

    Raises:
        OSError: flushing failed.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if not path.is_dir() or error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def publish_folder(partial: Path, final: Path) -> None:
    """Gives a folder its final name once all that it holds has reached the disk, so that it is whole or not there.

    Args:
        partial: a folder beside `final`.
        final: the name; nothing or an empty folder may have it.

    Raises:
        OSError: flushing or renaming failed.
    """
    for path in [*partial.rglob("*"), partial]:
        flush(path)
    partial.rename(final)
    with contextlib.suppress(OSError):  # the folder is whole and has its name
        flush(final.parent)


def try_lock(path: Path) -> TextIO | None:
    """Takes a lock until the returned file is closed or this process ends; returns None if another process holds it.

    Args:
        path: the lock's file, created if necessary.

    Raises:
        OSError: the file cannot be created.
    """
    handle = path.open("w")
    if try_flock(handle.fileno(), fcntl.LOCK_EX):
        return handle
    handle.close()
    return None


def try_flock(descriptor: int, kind: int) -> bool:
    """Tries to take a shared or an exclusive lock on an open file without waiting; returns whether it was taken."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def make_private_folder(path: Path) -> None:
    """Creates a folder with access for this user only, unless it exists.

    Raises:
        OSError: the folder cannot be created, belongs to another user, or is accessible to others.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    os.close(_open_folder(path))


def join_folder(path: Path) -> int:
    """Creates a private folder unless it exists, and returns a descriptor with a shared lock that prevents its removal.

    Raises:
        OSError: the folder cannot be created, belongs to another user, or is accessible to others.
        TimeoutError: other processes kept removing the folder.
    """
    for _ in range(JOIN_TRIES):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        with contextlib.suppress(FileNotFoundError), contextlib.ExitStack() as stack:  # it may just have been removed
            directory = _open_folder(path)
            stack.callback(os.close, directory)
            if try_flock(directory, fcntl.LOCK_SH) and os.path.samestat(os.fstat(directory), os.stat(path)):
                stack.pop_all()
                return directory
        time.sleep(JOIN_PAUSE)
    raise TimeoutError(path)


def remove_unused_folders(parent: Path, prefix: str) -> None:
    """Removes this user's folders with a prefix that no process has joined any more."""
    for path in parent.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            directory = _open_folder(path)
            try:
                remove_folder_if_unused(path, directory)
            finally:
                os.close(directory)


def remove_folder_if_unused(path: Path, directory: int) -> None:
    """Removes a folder, given also an open descriptor of it, if no other descriptor has a lock on it."""
    with contextlib.suppress(OSError):  # another process has removed it
        if try_flock(directory, fcntl.LOCK_EX) and os.path.samestat(os.fstat(directory), os.stat(path)):
            shutil.rmtree(path, ignore_errors=True)


def _open_folder(path: Path) -> int:
    """Returns a descriptor of a folder of this user to which no other user has access.

    Raises:
        OSError: the folder does not exist, belongs to another user, or is accessible to others.
    """
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    status = os.fstat(directory)
    is_foreign = status.st_uid != os.geteuid()
    if is_foreign or status.st_mode & 0o077:
        os.close(directory)
        problem = "Folder of another user" if is_foreign else "Other users have access to it; run chmod 700 on it"
        raise PermissionError(errno.EACCES, problem, str(path))
    return directory
