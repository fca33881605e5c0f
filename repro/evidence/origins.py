"""Whether the code that made a committed record can be had again: its commit is in the history of the checkout."""

import pathlib
import subprocess
from collections.abc import Sequence

from repro.evidence.records import StoredRecord, ValidationError, run_git


def faults(stored: Sequence[StoredRecord], results_dir: pathlib.Path) -> list[ValidationError]:
    """Returns a fault for each committed record whose commit is not in the history of `HEAD`.

    Records that are not committed are no faults, nor is any where the history is not at hand: outside a checkout, in
    one that is shallow, and without git.

    Args:
        stored: valid records below `results_dir`.
        results_dir: root of the record layout.
    """
    try:
        if run_git(results_dir, "rev-parse", "--is-shallow-repository") != "false":
            return []
        history = frozenset(run_git(results_dir, "rev-list", "HEAD").splitlines())
        committed = {results_dir / name for name in run_git(results_dir, "ls-files", "-z").split("\0")}
    except (OSError, subprocess.SubprocessError):
        return []
    return [
        ValidationError(item.path, f"The record {item.path} was made {reason}; make it again, or remove it.")
        for item in stored
        if item.path in committed and (reason := _reason(item.record["git_commit"], history))
    ]


def _reason(commit: str | None, history: frozenset[str]) -> str:
    """Why the code of a record cannot be had; empty where it can."""
    if commit is None:
        return "outside a git checkout, so that its code is not known"
    sha, _, dirty = commit.partition("-")
    if dirty:
        return f"with changes of commit {sha[:10]} that were not committed"
    return "" if sha in history else f"at commit {sha[:10]}, which is not in the history of this checkout"
