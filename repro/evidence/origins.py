"""Checks that the code behind each committed record is available: its commit is in the history of the checkout."""

import pathlib
import subprocess
from collections.abc import Sequence

from repro.evidence.records import ROOT, StoredRecord, ValidationError, run_git


def find_errors(
    stored: Sequence[StoredRecord], results_dir: pathlib.Path, code_dir: pathlib.Path = ROOT
) -> list[ValidationError]:
    """Returns an error for each committed record whose commit is not in the history of the code.

    Records that are not committed or are outside a checkout are not errors.

    Args:
        stored: valid records below `results_dir`.
        results_dir: root of the record layout.
        code_dir: checkout of the code that makes records. If its history is not available, as in a shallow clone, a
            single error for all committed records says so.
    """
    try:
        names = run_git(results_dir, "ls-tree", "-r", "-z", "--name-only", "HEAD", ".").split("\0")
    except (OSError, subprocess.SubprocessError):
        return []
    committed = {results_dir / name for name in names}
    if not any(item.path in committed for item in stored):
        return []
    try:
        if run_git(code_dir, "rev-parse", "--is-shallow-repository") != "false":
            sentence = "The history of a shallow clone does not show whether records name its commits"
            return [ValidationError(results_dir, f"{sentence}; fetch all of it: git fetch --unshallow")]
        history = frozenset(run_git(code_dir, "rev-list", "HEAD").splitlines())
    except (OSError, subprocess.SubprocessError):
        sentence = f"The history of {code_dir} could not be read, so that the commits of records were not checked"
        return [ValidationError(results_dir, f"{sentence}; see: git -C {code_dir} log")]
    return [
        ValidationError(item.path, f"The record {item.path} was made {reason}; make it again, or remove it.")
        for item in stored
        if item.path in committed and (reason := _reason(item.record["git_commit"], history))
    ]


def _reason(commit: str | None, history: frozenset[str]) -> str:
    """Says why the code of a record is not available; empty if it is."""
    if commit is None:
        return "from code without a git checkout of its own, so its commit is not known"
    sha, _, dirty = commit.partition("-")
    if dirty:
        return f"with uncommitted changes of commit {sha[:10]}"
    return "" if sha in history else f"at commit {sha[:10]}, which is not in the history of this checkout"
