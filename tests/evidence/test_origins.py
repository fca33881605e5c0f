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
    return [error.message for error in origins.find_errors(stored, folder, folder.parent)]


def test_a_commit_of_the_history_is_no_fault(checkout):
    commit_record(checkout, git(checkout, "rev-parse", "HEAD"))
    assert messages(checkout / "results") == []


@pytest.mark.parametrize(
    ("git_commit", "words"),
    [
        ("0" * 40, "at commit 0000000000, which is not in the history"),
        ("{head}-dirty", "with uncommitted changes of commit {head:.10}"),
        (None, "from code without a git checkout of its own, so its commit is not known"),
    ],
)
def test_code_that_is_gone_is_a_fault_of_a_committed_record(checkout, git_commit, words):
    head = git(checkout, "rev-parse", "HEAD")
    path = commit_record(checkout, git_commit and git_commit.format(head=head))
    (message,) = messages(checkout / "results")
    assert words.format(head=head) in message
    assert str(path) in message
    assert message.endswith("make it again, or remove it.")
    assert message in [error.message for error in check.check(checkout / "results").errors]


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


def test_a_record_that_is_only_staged_is_not_committed(checkout):
    write(checkout / "results", make_record(1, git_commit="0" * 40))
    git(checkout, "add", ".")
    assert messages(checkout / "results") == []


def test_a_history_that_is_not_at_hand_is_one_fault(tmp_path, checkout):
    path = commit_record(checkout, "0" * 40)
    git(tmp_path, "clone", "-q", "--depth=1", checkout.as_uri(), "shallow")
    (message,) = messages(tmp_path / "shallow" / "results")
    assert message.endswith("fetch all of it: git fetch --unshallow")
    stored = [records.StoredRecord(path, records.read_record(path))]
    (error,) = origins.find_errors(stored, checkout / "results", tmp_path / "nowhere")
    assert "could not be read" in error.message


def test_outside_a_checkout_and_without_git_nothing_is_a_fault(tmp_path, checkout, monkeypatch):
    commit_record(checkout, "0" * 40)
    write(tmp_path / "results", make_record(1, git_commit="0" * 40))
    assert messages(tmp_path / "results") == []
    assert len(messages(checkout / "results")) == 1
    monkeypatch.setenv("PATH", "")
    assert messages(checkout / "results") == []
