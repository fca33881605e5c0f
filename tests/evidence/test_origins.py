"""Committed records name a commit that is in the history, and `check` refuses those that do not."""

import subprocess

import pytest

from repro import check
from repro.evidence import origins, records
from tests.evidence.synthetic_records import make_record, write


def git(folder, *arguments):
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    """A git checkout with one commit."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


def commit_record(checkout, git_commit):
    path = write(checkout / "results", make_record(1, git_commit=git_commit))
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "a record")
    return path


def messages(folder):
    stored = records.read_all(folder)[0]
    assert stored
    return [fault.message for fault in origins.faults(stored, folder)]


def test_a_commit_of_the_history_is_no_fault(checkout):
    commit_record(checkout, git(checkout, "rev-parse", "HEAD"))
    assert messages(checkout / "results") == []


@pytest.mark.parametrize(
    ("git_commit", "words"),
    [
        ("0" * 40, "at commit 0000000000, which is not in the history"),
        ("{head}-dirty", "with changes of commit {head:.10} that were not committed"),
        (None, "outside a git checkout"),
    ],
)
def test_code_that_is_gone_is_a_fault_of_a_committed_record(checkout, git_commit, words):
    head = git(checkout, "rev-parse", "HEAD")
    path = commit_record(checkout, git_commit and git_commit.format(head=head))
    (message,) = messages(checkout / "results")
    assert words.format(head=head) in message
    assert str(path) in message
    assert message.endswith("make it again, or remove it.")
    assert message in [fault.message for fault in check.check(checkout / "results").faults]


def test_a_commit_of_another_branch_is_a_fault(checkout):
    start = git(checkout, "rev-parse", "HEAD")
    git(checkout, "commit", "-q", "--allow-empty", "-m", "aside")
    aside = git(checkout, "rev-parse", "HEAD")
    git(checkout, "reset", "-q", "--hard", start)
    commit_record(checkout, aside)
    assert len(messages(checkout / "results")) == 1


def test_records_that_are_not_committed_are_no_fault(checkout):
    write(checkout / "results", make_record(1, git_commit="0" * 40))
    assert messages(checkout / "results") == []


def test_without_a_history_nothing_is_a_fault(tmp_path, checkout, monkeypatch):
    commit_record(checkout, "0" * 40)
    git(tmp_path, "clone", "-q", "--depth=1", checkout.as_uri(), "shallow")
    assert messages(tmp_path / "shallow" / "results") == []
    write(tmp_path / "results", make_record(1, git_commit="0" * 40))
    assert messages(tmp_path / "results") == []
    assert len(messages(checkout / "results")) == 1
    monkeypatch.setenv("PATH", "")
    assert messages(checkout / "results") == []
