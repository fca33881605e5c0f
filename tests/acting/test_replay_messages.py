"""Files of a checkpoint in messages, and folders for them."""

import os
import tempfile

import reverb

from repro.acting import replay_messages, replay_process
from repro.acting.replay_messages import TO_REPLAY, Kind, Message, file_messages, make_tables, receive, send, write_file


def test_files_come_as_they_were_whatever_their_size(tmp_path, monkeypatch):
    monkeypatch.setattr(replay_messages, "CHUNK_BYTES", 1000)
    files = {"a/b": bytes(range(250)) * 10, "a/empty": b"", "c": b"1"}
    for name, data in files.items():
        (tmp_path / "from" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "from" / name).write_bytes(data)
    server = reverb.Server(make_tables())
    client = reverb.Client(f"localhost:{server.port}")
    assert receive(client, TO_REPLAY) is None
    kinds = []
    for message in file_messages(5, 2, tmp_path / "from", 77):
        send(client, TO_REPLAY, message)
        came = receive(client, TO_REPLAY)
        assert came[:5] == message[:5]
        kinds.append(came.kind)
        if came.kind == Kind.FILE:
            write_file(tmp_path / "to", came)
    server.stop()
    assert kinds == [Kind.FILE] * 5 + [Kind.END]
    assert came.number == 77
    found = {name: (tmp_path / "to" / name).read_bytes() for name in files}
    assert found == files


def test_a_folder_that_is_not_there_has_no_files(tmp_path):
    (message,) = file_messages(5, 0, tmp_path / "none", 0)
    assert message[:5] == Message(5, 0, Kind.END)[:5]


def test_a_folder_is_removed_once_its_process_has_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (held, lock), (left, ended) = replay_process.make_folder(), replay_process.make_folder()
    ended.close()
    assert replay_process.make_folder()[0] != left
    assert left.exists()  # it may not have its lock yet
    for folder in (held, left):
        os.utime(folder, (0, 0))
    replay_process.make_folder()
    assert held.exists()
    assert not left.exists()
    lock.close()
