"""Checksums of published numbers and of records, so that no file changes unnoticed.

They are in the file `SHA256SUMS` at the top of the folder, in the format of the command `sha256sum`.
"""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from repro.files import reason, write_whole

NAME = "SHA256SUMS"
LINE = re.compile(r"(?P<digest>[0-9a-f]{64}) [ *](?P<name>.+)")


class Files(NamedTuple):
    """Files below a folder that have a checksum.

    patterns: glob patterns relative to the folder.
    kind: name of their contents in error messages, in the plural.
    """

    patterns: Sequence[str]
    kind: str


PUBLISHED = Files(("*.json", "*/*.json"), "published numbers")
RECORDS = Files(("*/*/*/*/seed_*.json",), "records")


def changes(directory: pathlib.Path, files: Files) -> list[str]:
    """Returns a sentence for every file that is gone, has no checksum, or does not match it.

    Without any file an unreadable or absent `SHA256SUMS` is no fault; otherwise one sentence says so.

    Args:
        directory: folder with the files and `SHA256SUMS`.
        files: files to check.
    """
    found = {
        path.relative_to(directory).as_posix(): path for pattern in files.patterns for path in directory.glob(pattern)
    }
    remedy = f"if this is intended, run: cd {directory} && sha256sum {' '.join(files.patterns)} > {NAME}"
    try:
        expected = _read(directory)
    except (OSError, ValueError) as error:
        if not found:
            return []
        return [f"The checksums {directory / NAME} could not be read ({reason(error)}); {remedy}"]
    sentences = []
    for name in sorted({*expected, *found}):
        if name not in found:
            sentences.append(f"The {files.kind} {directory / name} are missing; {remedy}")
        elif name not in expected:
            sentences.append(f"The {files.kind} {directory / name} have no checksum in {NAME}; {remedy}")
        elif digest(found[name].read_bytes()) != expected[name]:
            sentences.append(f"The {files.kind} {directory / name} have changed; {remedy}")
    return sentences


def replace(directory: pathlib.Path, path: pathlib.Path, new: str | None) -> str | None:
    """Writes the checksum of a file; several processes may do so for different files at once.

    Args:
        directory: folder of `SHA256SUMS`.
        path: file below this folder, which need not exist yet.
        new: its SHA-256; None for no checksum.

    Returns:
        The checksum before; None if there was none.

    Raises:
        OSError: `SHA256SUMS` cannot be read or written, and stays as it was.
        ValueError: `SHA256SUMS` has a line that is not a checksum with a name; it stays as it was.
    """
    with _locked(directory):
        try:
            expected = _read(directory)
        except FileNotFoundError:
            expected = {}
        name = path.relative_to(directory).as_posix()
        before = expected.pop(name, None)
        if new is not None:
            expected[name] = new
        write_whole(directory / NAME, "".join(f"{expected[name]}  {name}\n" for name in sorted(expected)))
    return before


def digest(content: bytes) -> str:
    """Returns the SHA-256 of a file's content, 64 hex digits."""
    return hashlib.sha256(content).hexdigest()


def _read(directory: pathlib.Path) -> dict[str, str]:
    """Returns file name to checksum; raises ValueError for any other line, such as one of a merge conflict."""
    found = {}
    for number, line in enumerate((directory / NAME).read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            match = LINE.fullmatch(line)
            if match is None:
                raise ValueError(f"line {number} is not a checksum with a name: {line!r}")
            found[match["name"]] = match["digest"]
    return found


@contextlib.contextmanager
def _locked(directory: pathlib.Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
