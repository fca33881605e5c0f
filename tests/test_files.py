"""Files are whole or absent, whatever happens while they are written."""

from __future__ import annotations

import ast
import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from repro import files

ROOT = Path(__file__).resolve().parents[1]


def test_the_text_comes_back_with_its_line_ends(tmp_path):
    path = tmp_path / "x.csv"
    files.write_whole(path, "first\n")
    files.write_whole(path, "a,b\r\n1,\u03b2\n")
    assert path.read_bytes() == "a,b\r\n1,\u03b2\n".encode()
    assert [p.name for p in tmp_path.iterdir()] == ["x.csv"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_keeps_the_old_file_and_leaves_no_other(tmp_path, monkeypatch, step):
    path = tmp_path / "x.json"
    files.write_whole(path, "old")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space left"):
        files.write_whole(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_an_interrupt_leaves_no_other_file(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write_whole(tmp_path / "x.json", "new")
    assert list(tmp_path.iterdir()) == []


def test_a_kill_between_write_and_rename_keeps_the_old_file(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("old")
    code = (
        "import os, pathlib, signal; from repro import files\n"
        "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"files.write_whole(pathlib.Path({str(path)!r}), 'new')"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    assert list(tmp_path.glob("*.json")) == [path]  # what is left is hidden, and no JSON file
    files.write_whole(path, "new")
    assert path.read_text() == "new"


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_file_has_the_permissions_of_a_new_one(tmp_path, umask, mode):
    path = tmp_path / "x.json"
    before = os.umask(umask)
    try:
        files.write_whole(path, "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_bytes_reach_the_disk_before_the_name_and_the_name_before_the_end(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace

    def kind(descriptor):
        return "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"

    monkeypatch.setattr(os, "fsync", lambda d: (calls.append(f"flush {kind(d)}"), fsync(d)))
    monkeypatch.setattr(os, "replace", lambda a, b: (calls.append("name"), replace(a, b)))
    files.write_whole(tmp_path / "x.json", "new")
    assert calls == ["flush file", "name", "flush folder"]


def test_a_folder_that_cannot_be_flushed_is_no_fault(tmp_path, monkeypatch):
    fsync = os.fsync

    def files_only(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", files_only)
    files.write_whole(tmp_path / "x.json", "new")
    assert (tmp_path / "x.json").read_text() == "new"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "a.json"), "No space left on device"),
        (OSError("cannot flush"), "cannot flush"),
        (OSError(), "OSError"),
        (shutil.Error([("a", "b", "[Errno 13] Permission denied: 'a' -> 'b'"), ("c", "d", "x")]), "Permission denied"),
        (shutil.Error([("a", "b", "[Errno 28] No space left on device")]), "No space left on device"),
        (shutil.Error("`a` and `b` are the same file"), "`a` and `b` are the same file"),
        (RuntimeError("x.index.tmp; No space left on device\n[Op:SaveV2]"), "No space left on device"),
    ],
)
def test_the_reason_of_an_error_is_what_the_system_said(error, message):
    assert files.reason(error) == message
    advice = "free some space" if message == "No space left on device" else "make sure that it can be written"
    assert files.remedy(error) == advice


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        files.write_whole(tmp_path / "none" / "x.json", "new")


def test_nothing_else_replaces_files():
    """Whoever writes a text in one step does it with `write_whole`; weights that actors share are no text."""
    found = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "repro").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "os.replace"
    }
    assert found == {"repro/files.py", "repro/acting/weights_relay.py"}


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_folder_is_published_where_the_file_system_cannot_flush_folders(tmp_path, monkeypatch, number):
    (partial := tmp_path / "partial").mkdir()
    (partial / "file").write_text("x")
    fsync = os.fsync

    def flush(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", flush)
    files.publish_folder(partial, tmp_path / "final")
    assert (tmp_path / "final/file").read_text() == "x"


def test_a_folder_whose_files_cannot_be_flushed_is_not_published(tmp_path, monkeypatch):
    (partial := tmp_path / "partial").mkdir()
    (partial / "file").write_text("x")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EINVAL, "Invalid argument")))
    with pytest.raises(OSError, match="Invalid argument"):
        files.publish_folder(partial, tmp_path / "final")
    assert not (tmp_path / "final").exists()
