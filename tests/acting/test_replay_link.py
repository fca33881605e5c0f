"""A replay's process and its connection with the learner."""

import contextlib
import os
import socket
import tempfile
import threading

import pytest

from repro.acting import replay_link, replay_process
from repro.acting.replay_link import Kind, Link, LinkEndedError, Message

SECONDS = 20.0


@pytest.fixture
def links():
    """Both ends of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = replay_link.connect(f"127.0.0.1:{server.getsockname()[1]}")
        other = Link(server.accept()[0])
    yield one, other
    one.close()
    other.close()


def receive(link, kind):
    """The next message of a kind; those before it are signs of life."""
    while (message := link.receive(SECONDS)).kind == Kind.HOLDS and kind != Kind.HOLDS:
        pass
    assert message.kind == kind
    return message


def receive_files(link, folder):
    """Takes files until another message, which it returns."""
    while (message := link.receive(SECONDS)).kind in (Kind.FILE, Kind.HOLDS):
        if message.kind == Kind.FILE:
            link.receive_file(message, folder)
    return message


def test_files_come_as_they_were_whatever_their_size_with_messages_between_them(tmp_path, links, monkeypatch):
    monkeypatch.setattr(replay_link, "PIECE_BYTES", 1000)
    files = {"a/b": bytes(range(250)) * 10, "a/empty": b"", "c": b"1"}
    for name, data in files.items():
        (tmp_path / "from" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "from" / name).write_bytes(data)
    here, there = links
    stop = threading.Event()

    def give_signs():
        with contextlib.suppress(LinkEndedError):  # of a sign that is being sent at the end
            while not stop.is_set():
                here.send(Message(Kind.HOLDS, 5))

    signs = threading.Thread(target=give_signs)
    signs.start()
    sizes = []
    sender = threading.Thread(target=lambda: sizes.append(here.send_files(tmp_path / "from", 77)))
    sender.start()
    assert receive_files(there, tmp_path / "to") == Message(Kind.END, 77)
    stop.set()
    there.close()
    signs.join(SECONDS)
    sender.join(SECONDS)
    assert sizes == [2501]
    assert {name: (tmp_path / "to" / name).read_bytes() for name in files} == files


def test_of_no_folder_nothing_comes_but_the_end(links):
    assert links[0].send_files(None) == 0
    assert links[1].receive(SECONDS) == Message(Kind.END)


def test_a_file_whose_connection_ends_in_it_is_no_file(tmp_path, links):
    here, there = links
    here.send(Message(Kind.FILE, 10, "a"))
    here._socket.sendall(b"12345")
    here.close()
    message = there.receive(SECONDS)
    with pytest.raises(LinkEndedError):
        there.receive_file(message, tmp_path)


def test_a_file_stays_in_its_folder(tmp_path, links):
    with pytest.raises(OSError, match="not in the folder"):
        links[1].receive_file(Message(Kind.FILE, 0, "../a"), tmp_path / "b")


@pytest.mark.parametrize("text", [b"GET / HTTP/1.1\r\n\r\n", b"\x09" + bytes(12), b""])
def test_who_says_something_else_or_nothing_is_not_waited_for(links, text):
    here, there = links
    here._socket.sendall(text)
    with pytest.raises(LinkEndedError):
        there.receive(0.2)


class FakeReplay:
    """A replay with so many sequences, whose files say what it began with."""

    def __init__(self, faults=0):
        self.address, self.num_written, self.began, self._faults = "localhost:4321", 10, None, faults

    def start(self, saved=None):
        self.began = saved and (saved / "a").read_text()
        self.num_written += 3 if saved else 0

    def save(self, folder):
        self.num_written += 1  # while it is saved
        if self._faults:
            self._faults -= 1
            raise OSError("No space left on device")
        folder.mkdir()
        (folder / "a").write_text(f"{self.began}, saved")


@contextlib.contextmanager
def serving(link, replay, tmp_path, monkeypatch):
    """Has a replay served, with signs of life all the time."""
    monkeypatch.setattr(replay_process, "LIFE_SECONDS", 0.01)
    errors = []

    def run():
        try:
            replay_process.serve(link, replay, tmp_path / "saved", 2, "key")
        except (LinkEndedError, OSError) as error:
            errors.append(error)
            link.close()

    thread = threading.Thread(target=run)
    thread.start()
    yield errors
    thread.join(SECONDS)
    assert not thread.is_alive()


def test_a_process_serves_what_it_was_sent_saves_and_ends_with_the_learner(tmp_path, links, monkeypatch):
    here, there = links
    replay = FakeReplay()
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "a").write_text("was saved")
    with serving(there, replay, tmp_path, monkeypatch) as errors:
        assert receive(here, Kind.BEGIN) == Message(Kind.BEGIN, 2, "key")
        assert receive(here, Kind.HOLDS).number == 0  # a sign of life while it waits
        here.send_files(tmp_path / "checkpoint")
        assert receive(here, Kind.SERVES).number == 4321
        replay.num_written += 5
        while receive(here, Kind.HOLDS).number != 5:
            pass
        for number in (5, 6):
            here.send(Message(Kind.SAVE))
            assert receive_files(here, tmp_path / f"to_{number}") == Message(Kind.END, number)
            assert (tmp_path / f"to_{number}" / "a").read_text() == "was saved, saved"
        here.close()
    assert [type(error) for error in errors] == [LinkEndedError]
    assert not (tmp_path / "saved").exists()


def test_a_process_says_why_it_could_not_save_and_goes_on(tmp_path, links, monkeypatch):
    here, there = links
    with serving(there, FakeReplay(faults=1), tmp_path, monkeypatch):
        receive(here, Kind.BEGIN)
        here.send_files(None)
        receive(here, Kind.SERVES)
        here.send(Message(Kind.SAVE))
        assert receive(here, Kind.FAILED).text == "No space left on device"
        here.send(Message(Kind.SAVE))
        assert receive_files(here, tmp_path / "to") == Message(Kind.END, 1)
        here.close()


def test_a_process_ends_with_an_error_where_its_disk_does_not_take_what_was_saved(tmp_path, links, monkeypatch):
    here, there = links
    (tmp_path / "saved").write_text("in its way")
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "a").write_text("was saved")
    with serving(there, FakeReplay(), tmp_path, monkeypatch) as errors:
        receive(here, Kind.BEGIN)
        with contextlib.suppress(LinkEndedError):
            here.send_files(tmp_path / "checkpoint")
    assert isinstance(errors[0], OSError)


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
