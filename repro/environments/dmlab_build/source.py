"""Writes the source tree of DeepMind Lab from a git repository that may lack some of its files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from repro.environments.dmlab_build.errors import BuildError

MARKER = "python/dmlab_module.c"
"""Path of a file that only DeepMind Lab has."""


def find_source(source: Path, commit: str) -> tuple[Path, str]:
    """Returns the folder in which git finds the repository, and the full name of the commit.

    Args:
        source: a checkout, or a git directory, bare or not.
        commit: any name of the commit.

    Raises:
        BuildError: there is no such folder, repository or commit, or the repository is not DeepMind Lab's.
    """
    if not source.is_dir():
        raise BuildError(f"SOURCE={source} is not a folder; give a clone of https://github.com/google-deepmind/lab.")
    source = source.resolve()
    try:
        revision = run_git(source, "rev-parse", "--verify", f"{commit}^{{commit}}").decode().strip()
    except subprocess.CalledProcessError:
        raise BuildError(f"{source} is not a git repository with commit {commit}.") from None
    if not run_git(source, "ls-tree", "--name-only", revision, MARKER):
        raise BuildError(f"{source} is not the source of DeepMind Lab: {MARKER} is not there.")
    return source, revision


def write_tree(repository: Path, revision: str, tree: Path, paths: Sequence[str] = ()) -> list[str]:
    """Writes the files of a commit; existing files with the same content are left as they are.

    Args:
        repository: folder in which git finds the repository.
        revision: the commit.
        tree: folder to write to.
        paths: files and folders to write; empty for all.

    Returns:
        Sorted paths that the commit lists and the repository lacks.
    """
    entries = []
    for entry in run_git(repository, "ls-tree", "-r", "-z", revision, *paths).decode().split("\0")[:-1]:
        description, path = entry.split("\t", 1)
        mode, kind, object_name = description.split()
        if kind == "blob":
            entries.append((mode, object_name, path))
    missing = []
    with subprocess.Popen(
        _command(repository, "cat-file", "--batch"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment()
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        for mode, object_name, path in entries:
            reader.stdin.write(f"{object_name}\n".encode())
            reader.stdin.flush()
            header = reader.stdout.readline().split()  # name, kind, size; or name, "missing"
            if len(header) != 3:
                missing.append(path)
                (tree / path).unlink(missing_ok=True)  # a file of another commit, or an earlier stand-in
                continue
            content = reader.stdout.read(int(header[2]) + 1)[:-1]
            _write(tree / path, mode, content)
        reader.stdin.close()
    return sorted(missing)


def _write(path: Path, mode: str, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode == "120000":  # a symbolic link
        path.unlink(missing_ok=True)
        path.symlink_to(content.decode())
        return
    if not path.is_file() or path.read_bytes() != content:  # an unchanged modification time avoids a compilation
        path.write_bytes(content)
    path.chmod(0o755 if mode == "100755" else 0o644)


def run_git(repository: Path, *arguments: str) -> bytes:
    """Returns the output of a git command in a repository; raises `CalledProcessError` if it fails."""
    command = _command(repository, *arguments)
    return subprocess.run(command, check=True, capture_output=True, env=_environment()).stdout


def _command(repository: Path, *arguments: str) -> list[str]:
    return ["git", "-c", "safe.directory=*", "-C", str(repository), *arguments]


def _environment() -> dict[str, str]:
    """Returns an environment in which git does not fetch objects that a partial clone lacks."""
    return {**os.environ, "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
