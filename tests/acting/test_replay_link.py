"""The process of a replay and its connection with the learner."""

import contextlib
import os
import socket
import tempfile
import threading

import pytest

from repro.acting import replay_link, replay_process
from repro.acting.replay_link import DEAD_SECONDS, Kind, Link, LinkEndedError, Message

SECONDS = 20.0
KEY = "key"


@contextlib.contextmanager
def connecting(other_key=KEY):
    """A process that connects, whose errors are given, and the learner's end of the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address, links, errors = f"127.0.0.1:{server.getsockname()[1]}", [], []

        def run():
            try:
                links.append(replay_link.connect(address, other_key))
            except LinkEndedError as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        yield links, errors, server.accept()[0]
        thread.join(SECONDS)
        assert not thread.is_alive()


@pytest.fixture
def links():
    """Both ends of a connection."""
    with connecting() as (links, _, connected):
        one = Link(connected, KEY, is_learner=True)
    yield one, links[0]
    one.close()
    links[0].close()


def receive(link, kind):
    """The next message of a kind; those before it are signs of life."""
    while (message := receive_any(link)).kind == Kind.WRITTEN and kind != Kind.WRITTEN:
        pass
    assert message.kind == kind
    return message


def receive_any(link):
    assert link._connection.poll(SECONDS)
    return link.receive()


def receive_files(link, folder):
    """Takes files until another message, which it returns."""
    while (message := receive_any(link)).kind in (Kind.FILE, Kind.WRITTEN):
        if message.kind == Kind.FILE:
            link.receive_file(message, folder)
    return message


def test_files_come_as_they_were_whatever_their_size_with_messages_between_them(tmp_path, links, monkeypatch):
    monkeypatch.setattr(replay_link, "CHUNK_BYTES", 1000)
    files = {"a/b": bytes(range(250)) * 10, "a/empty": b"", "c": b"1"}
    for name, data in files.items():
        (tmp_path / "from" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "from" / name).write_bytes(data)
    here, there = links
    stop = threading.Event()

    def give_signs():
        with contextlib.suppress(LinkEndedError):  # of a sign that is being sent at the end
            while not stop.is_set():
                here.send(Message(Kind.WRITTEN, 5))

    signs = threading.Thread(target=give_signs)
    signs.start()
    sender = threading.Thread(target=here.send_files, args=(tmp_path / "from", 77))
    sender.start()
    assert receive_files(there, tmp_path / "to") == Message(Kind.END, 77)
    stop.set()
    there.close()
    signs.join(SECONDS)
    sender.join(SECONDS)
    assert {name: (tmp_path / "to" / name).read_bytes() for name in files} == files


def test_of_no_folder_nothing_comes_but_the_end(links):
    links[0].send_files(None)
    assert receive_any(links[1]) == Message(Kind.END)


def test_a_file_whose_connection_ends_in_it_is_no_file(tmp_path, links):
    here, there = links
    here.send(Message(Kind.FILE, 10, "a"))
    here._socket.sendall(b"12345")
    here.close()
    message = receive_any(there)
    with pytest.raises(LinkEndedError):
        there.receive_file(message, tmp_path)


@pytest.mark.parametrize("name", ["../outside", "/{}/outside"])
def test_no_file_comes_outside_of_its_folder(tmp_path, links, name):
    here, there = links
    here.send(Message(Kind.FILE, 1, name.format(tmp_path)))
    here._socket.sendall(b"1")
    with pytest.raises(LinkEndedError, match="which is outside its folder"):
        there.receive_file(receive_any(there), tmp_path / "to")
    assert not (tmp_path / "outside").exists()


def test_no_file_takes_the_place_of_another(tmp_path, links):
    """Which may be a second name of a checkpoint's."""
    here, there = links
    (tmp_path / "a").write_text("precious")
    here.send(Message(Kind.FILE, 1, "a"))
    here._socket.sendall(b"1")
    with pytest.raises(FileExistsError):
        there.receive_file(receive_any(there), tmp_path)
    assert (tmp_path / "a").read_text() == "precious"


def test_who_says_nothing_is_not_waited_for_long(monkeypatch):
    monkeypatch.setattr(replay_link, "CONNECT_SECONDS", 0.2)
    errors = []

    def answer(connected):
        try:
            Link(connected, KEY, is_learner=True)
        except LinkEndedError as error:
            errors.append(error)

    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        thread = threading.Thread(target=answer, args=(server.accept()[0],), daemon=True)
        thread.start()
        thread.join(SECONDS)
        assert len(errors) == 1


def test_a_connection_survives_minutes_without_an_answer_and_no_more(links):
    for link in links:
        assert link._socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert link._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) < DEAD_SECONDS
        assert link._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 1000 * DEAD_SECONDS


def test_neither_side_goes_on_with_one_that_does_not_know_the_key():
    with connecting("other") as (links, errors, connected), pytest.raises(LinkEndedError):
        Link(connected, KEY, is_learner=True)
    assert not links
    assert len(errors) == 1


@pytest.mark.parametrize("text", [b"GET / HTTP/1.1\r\n\r\n", bytes(30), b""])
def test_who_says_something_else_is_not_answered(text):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as here:
        here.sendall(text)
        here.shutdown(socket.SHUT_WR)
        with pytest.raises(LinkEndedError):
            Link(server.accept()[0], KEY, is_learner=True)


class FakeReplay:
    """A replay with so many sequences, whose files say what it began with; it counts none while it saves."""

    def __init__(self, faults=0):
        self.address, self.written, self.began, self._faults = "localhost:4321", 10, None, faults
        self.saves, self.may_save, self._can_count = threading.Event(), threading.Event(), threading.Event()
        self.may_save.set()
        self._can_count.set()

    @property
    def num_written(self):
        self._can_count.wait(SECONDS)
        return self.written

    def start(self, saved=None):
        self.began = saved and (saved / "a").read_text()
        self.written += 3 if saved else 0

    def save(self, folder):
        self.written += 1  # while it is saved
        self._can_count.clear()
        self.saves.set()
        self.may_save.wait(SECONDS)
        self._can_count.set()
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
            replay_process.serve(link, replay, tmp_path / "saved")
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
        assert receive(here, Kind.WRITTEN).number == 0  # a sign of life while it waits
        here.send_files(tmp_path / "checkpoint")
        assert receive(here, Kind.SERVES).number == 4321
        replay.written += 5
        while receive(here, Kind.WRITTEN).number != 5:
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
    with serving(there, FakeReplay(), tmp_path, monkeypatch) as errors, contextlib.suppress(LinkEndedError):
        here.send_files(tmp_path / "checkpoint")
    assert isinstance(errors[0], OSError)


def test_a_process_gives_signs_of_life_while_it_saves(tmp_path, links, monkeypatch):
    here, there = links
    replay = FakeReplay()
    with serving(there, replay, tmp_path, monkeypatch):
        here.send_files(None)
        receive(here, Kind.SERVES)
        replay.may_save.clear()
        here.send(Message(Kind.SAVE))
        assert replay.saves.wait(SECONDS)
        while here._connection.poll():  # signs of before
            here.receive()
        for _ in range(3):
            assert here._connection.poll(SECONDS / 2)
            assert here.receive().kind == Kind.WRITTEN
        replay.may_save.set()
        assert receive_files(here, tmp_path / "to") == Message(Kind.END, 0)
        here.close()


def test_a_process_saves_once_nobody_counts(tmp_path, links, monkeypatch):
    """Who counts a replay that is saved waits for its end, without a sign of life."""
    here, there = links
    replay = FakeReplay()
    with serving(there, replay, tmp_path, monkeypatch):
        here.send_files(None)
        receive(here, Kind.SERVES)
        replay._can_count.clear()
        while here._connection.poll(1.0):  # until it counts
            here.receive()
        here.send(Message(Kind.SAVE))
        assert not here._connection.poll(0.2)
        assert replay.written == 10
        replay._can_count.set()
        assert receive_files(here, tmp_path / "to") == Message(Kind.END, 0)
        here.close()


def test_a_process_says_that_the_learner_is_gone_and_leaves_nothing(tmp_path, monkeypatch, capsys):
    class EndedError(Exception):
        pass

    def end(code):
        raise EndedError(code)

    monkeypatch.setattr(os, "_exit", end)
    folder = tmp_path / "folder"
    folder.mkdir()

    def connect(address, key):
        raise LinkEndedError("the other side closed it")

    monkeypatch.setattr(replay_process, "connect", connect)
    with pytest.raises(EndedError, match="0"):
        replay_process.run_replay(lambda working: FakeReplay(), folder, "localhost:1", KEY)
    assert capsys.readouterr().err == "The connection to the learner ended: the other side closed it.\n"
    assert not folder.exists()


def test_a_process_that_fails_leaves_nothing_either(tmp_path, monkeypatch):
    """It may have filled the disk."""

    def serve(link, replay, saved):
        saved.mkdir()
        raise OSError("No space left on device")

    monkeypatch.setattr(replay_process, "connect", lambda address, key: None)
    monkeypatch.setattr(replay_process, "serve", serve)
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="No space left"):
        replay_process.run_replay(lambda working: FakeReplay(), tmp_path / "folder", "localhost:1", KEY)
    assert not (tmp_path / "folder").exists()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_process_that_cannot_count_any_more_ends_its_connection(tmp_path, links, monkeypatch):
    """In place of silence, which would be passed for a process that hangs."""
    here, there = links
    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)
    with serving(there, FakeReplay(), tmp_path, monkeypatch):
        here.send_files(None)
        receive(here, Kind.SERVES)
        monkeypatch.setattr(FakeReplay, "num_written", property(lambda replay: 1 / 0))
        with pytest.raises(LinkEndedError):
            while True:
                receive_any(here)


def test_a_process_removes_what_others_left_in_the_folder_of_a_run_and_has_one_of_its_own(tmp_path):
    """One whose learner was killed may still save, and removes its folder when it is done."""
    others = replay_process.make_folder_in(tmp_path)
    (others / "saved").mkdir()
    (tmp_path / "config.json").write_text("{}")
    own = replay_process.make_folder_in(tmp_path)
    assert own != others
    assert sorted(tmp_path.iterdir()) == sorted([own, tmp_path / "config.json"])


def test_a_folder_is_removed_once_its_process_has_ended_and_nothing_of_others(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    held, others = replay_process.make_temporary_folder(), tmp_path / "others"
    left, prefix = tmp_path / f"repro-replay-{os.geteuid()}-left", f"repro-replay-{os.geteuid()}-"
    left.mkdir(mode=0o700)
    others.mkdir(mode=0o700)
    (tmp_path / f"{prefix}link").symlink_to(others)
    (tmp_path / f"{prefix}open").mkdir()
    (tmp_path / f"{prefix}open").chmod(0o777)
    (tmp_path / f"{prefix}open" / "lock").symlink_to(others / "file")
    (others / "file").write_text("precious")
    assert replay_process.make_temporary_folder() != held
    assert held.exists()
    assert not left.exists()
    assert (others / "file").read_text() == "precious"
