"""A replay in a separate process: the learner's side, with processes that tests control."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import reverb
import tensorflow as tf
from tf_agents.trajectories import Trajectory

from paper_configs.ctrace import gymnasium
from repro.acting import replay_keeper
from repro.acting.remote import find_replay, make_replay_table, publish_replay, start_server
from repro.acting.replay_keeper import ReplayKeeper
from repro.acting.replay_link import Kind, LinkEndedError, Message, connect
from repro.acting.replay_process import serve
from repro.acting.supervision import MAX_FAILURES, ActorPoolError, Interrupted, Supervision
from repro.config import PROCESSES, resolve
from repro.papers import find_experiment
from repro.papers.ctrace import experiment as experiment_module
from repro.replay import sequences
from repro.replay.saved_replay import Totals, read_totals, write_totals
from repro.replay.sequence_writer import SequenceSettings
from repro.replay.sequences import EmptyReplayError, SequenceReplay, make_writer
from repro.training import checkpoint, remote_replay
from repro.training.remote_replay import RemoteReplay
from tests.support.waiting import wait

SECONDS = 20.0
SPEC = Trajectory(
    step_type=tf.TensorSpec((), tf.int32),
    observation=tf.TensorSpec((2,), tf.float32),
    action=tf.TensorSpec((), tf.int32),
    policy_info=(),
    next_step_type=tf.TensorSpec((), tf.int32),
    reward=tf.TensorSpec((), tf.float32),
    discount=tf.TensorSpec((), tf.float32),
)
CAPACITY = 100
SETTINGS = SequenceSettings(2, 1, 0, CAPACITY, 0.0)


class Process:
    """A process that does what the test says.

    address, key: that it was given.
    """

    may_wait = True

    def __init__(self, address, key):
        self.address, self.key, self.link = address, key, None
        self._end = ""
        self._ended = threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0))

    def wait(self):
        self._ended.wait()
        return self._end

    def kill(self):
        if self.link is not None:
            self.link.close()
        self._server.close()
        self._end = self._end or "it was killed"
        self._ended.set()

    terminate = kill

    def end_by_itself(self, seconds):
        """Ends so long after its connection."""

        def end():
            self._end = self._end or "it had enough"
            self._ended.set()

        self.link.close()
        threading.Timer(seconds, end).start()

    def begin(self):
        """Connects; returns the files that it is sent, by their names."""
        self.link = connect(self.address, self.key)
        found = {}
        while (message := receive(self.link)).kind == Kind.FILE:
            found[message.text] = self.link._socket.recv(message.number, socket.MSG_WAITALL).decode()
        assert message.kind == Kind.END
        return found

    def serve(self, port=None):
        """Begins, and says that it has a server, which answers nothing if it is not another's."""
        found = self.begin()
        self.link.send(Message(Kind.SERVES, port or self._server.getsockname()[1]))
        return found

    def report(self, number):
        """Says that it has so many sequences."""
        self.link.send(Message(Kind.WRITTEN, number))

    def save(self, folder, number):
        """Waits until it is asked to save, and sends what a folder has."""
        assert receive(self.link).kind == Kind.SAVE
        self.link.send_files(folder, number)

    def store(self, replay, folder):
        """Does what a real one does, with a replay that is in this process and a folder for files."""
        self.link = connect(self.address, self.key)

        def run():
            with contextlib.suppress(LinkEndedError):
                serve(self.link, replay, folder)

        threading.Thread(target=run, daemon=True).start()


class Launcher:
    """Has processes begin when the test says so."""

    home = port = None

    def __init__(self):
        self.processes = []

    def start_replay(self, address, key):
        self.processes.append(Process(address, key))
        return self.processes[-1]


def receive(link):
    assert link._connection.poll(SECONDS)
    return link.receive()


def write_rows(replay, count):
    """Writes so many steps of one game, from the third on a sequence with each."""
    rows = tf.nest.map_structure(lambda leaf: np.ones((count, *leaf.shape), leaf.dtype.as_numpy_dtype), SPEC)
    with contextlib.closing(make_writer(reverb.Client(replay.address), SPEC, SETTINGS, None)) as writer:
        writer.append(rows)
        writer.flush()


class Run:
    """A replay whose processes the test has, and what it says."""

    def __init__(self, folder, saved=None, home=None, silent_seconds=600.0):
        self.lines, self.launcher = [], Launcher()
        self.launcher.home = home
        supervision = Supervision(self.lines.append, folder, silent_seconds)
        self.keeper = ReplayKeeper(self.launcher, supervision, CAPACITY)
        self.replay = RemoteReplay(self.keeper, SPEC, [])
        self.replay.start(saved)
        self.folder = folder
        (folder / "files").mkdir(exist_ok=True)
        (folder / "files" / "a").write_text("saved")

    def next_process(self, number):
        """The process with this number, once it was started."""
        wait(lambda: len(self.launcher.processes) > number)
        return self.launcher.processes[number]

    def serve(self, number=0):
        """The process with this number, which serves."""
        process = self.next_process(number)
        process.found = process.serve()
        wait(lambda: self.keeper.serves)
        return process

    def make_folder(self, name="checkpoint_1"):
        """Makes a folder of a checkpoint; returns that of the replay in it, which is not made yet."""
        (self.folder / name).mkdir(exist_ok=True)
        return self.folder / name / "replay"

    def save(self, process, number, name="checkpoint_1"):
        """Saves, by a process with so many sequences; returns the folder."""
        folder = self.make_folder(name)
        with in_thread(self.replay.save, folder):
            process.save(self.folder / "files", number)
        return folder

    def report(self, process, number):
        """Has a process with so many sequences."""
        process.report(number)
        wait(lambda: self.keeper._store.num_written == number)

    def end(self, process):
        """Ends a process; the next one is started."""
        process.kill()
        wait(lambda: not self.keeper.serves)

    def look_until(self, condition):
        """Has the learner wait."""

        def look():
            self.keeper.look()
            return condition()

        wait(look)


@contextlib.contextmanager
def in_thread(call, *arguments):
    """Calls in another thread and waits for its end; gives a list that the exception comes to, if it raises one."""
    errors = []

    def run():
        try:
            call(*arguments)
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield errors
    thread.join(SECONDS)
    assert not thread.is_alive()


@pytest.fixture
def make_run(tmp_path, monkeypatch):
    monkeypatch.setattr(replay_keeper, "REASON_SECONDS", 0.1)
    monkeypatch.setattr(replay_keeper, "JOIN_SECONDS", 0.0)  # processes of the test do not end by themselves
    runs = []

    def make(**settings):
        runs.append(Run(tmp_path, **settings))
        return runs[-1]

    yield make
    for run in runs:
        run.replay.close()


def test_another_process_begins_with_what_the_last_checkpoint_has(make_run):
    run = make_run()
    first = run.serve()
    assert first.found == {}
    first.report(30)
    saved = run.save(first, 40)
    run.replay.confirm_saved(saved)
    run.report(first, 47)
    run.end(first)
    second = run.serve(1)
    assert second.found == {"a": "saved", "totals.json": json.dumps({"lost": 0, "restarts": 0})}
    run.keeper.look()
    assert run.lines == [
        "The replay was restarted (restart 1 by this process): it was killed.",
        "The replay starts again from the last checkpoint; 7 sequences are lost.",
    ]
    assert (run.replay.lost, run.replay.restarts) == (7, 1)
    saved = run.save(second, 0, "checkpoint_2")
    assert read_totals(saved) == Totals(7, 1)


def test_a_process_that_is_killed_right_after_a_save_has_lost_nothing(make_run):
    """What it had was last said before the save."""
    run = make_run()
    first = run.serve()
    first.report(30)
    run.replay.confirm_saved(run.save(first, 40))
    run.end(first)
    run.serve(1)
    assert run.replay.lost == 0


def test_no_more_is_lost_than_the_replay_holds(make_run):
    run = make_run()
    first = run.serve()
    run.report(first, 3 * CAPACITY)
    run.end(first)
    assert run.replay.lost == CAPACITY


def test_a_process_that_is_killed_before_its_checkpoint_is_whole_has_lost_what_was_in_it(make_run):
    """The next one begins with the checkpoint before, whose totals are those of its own moment."""
    run = make_run()
    first = run.serve()
    run.replay.confirm_saved(run.save(first, 40))
    (run.folder / "files" / "a").write_text("saved again")
    saved = run.save(first, 45, "checkpoint_2")
    run.end(first)
    second = run.serve(1)
    assert second.found["a"] == "saved"
    run.replay.confirm_saved(saved)
    assert run.replay.lost == 5
    assert read_totals(saved) == Totals(0, 0)
    run.report(second, 3)
    run.end(second)
    third = run.serve(2)
    assert third.found["a"] == "saved again"
    assert run.replay.lost == 5 + 3


def test_a_run_that_passed_over_a_broken_checkpoint_begins_with_the_one_before(make_run, tmp_path):
    for name, text in (("checkpoint_10", "whole"), ("checkpoint_12", "broken")):
        (tmp_path / name / "replay").mkdir(parents=True)
        (tmp_path / name / "replay" / "a").write_text(text)
    write_totals(tmp_path / "checkpoint_10" / "replay", Totals(8, 2))
    run = make_run(saved=tmp_path / "checkpoint_10" / "replay")
    first = run.serve()
    assert first.found["a"] == "whole"
    run.replay.confirm_saved(run.save(first, 0, "checkpoint_11"))
    run.end(first)
    assert run.serve(1).found["a"] == "saved"
    assert (run.replay.lost, run.replay.restarts) == (8, 3)


def test_a_checkpoint_that_is_moved_away_is_no_empty_replay(make_run, tmp_path):
    run = make_run(saved=tmp_path / "gone")
    with pytest.raises(LinkEndedError):
        run.next_process(0).begin()
    run.look_until(lambda: run.lines)
    assert run.lines[0] == f"The replay's process cannot be used: {tmp_path / 'gone'} no longer exists."


def test_a_checkpoint_during_a_restart_takes_over_what_the_last_one_has_and_waits_for_nothing(make_run):
    run = make_run()
    first = run.serve()
    before = run.save(first, 40)
    run.replay.confirm_saved(before)
    run.report(first, 47)
    run.end(first)
    run.next_process(1)
    saved = run.make_folder("checkpoint_2")
    run.replay.save(saved)
    assert sorted(path.name for path in saved.iterdir()) == ["a", "totals.json"]
    assert (saved / "a").samefile(before / "a")
    assert read_totals(saved) == Totals(7, 1)
    assert read_totals(before) == Totals(0, 0)
    restarted = "The replay was restarted (restart 1 by this process): it was killed."
    assert run.lines == [restarted, "The replay is not available: this checkpoint has the sequences of the last one."]
    run.replay.confirm_saved(saved)
    assert run.serve(1).found["a"] == "saved"
    assert run.replay.lost == 7


def test_what_a_process_sent_that_ended_in_a_save_is_no_part_of_the_checkpoint(make_run):
    run = make_run()
    first = run.serve()
    first.report(12)
    saved = run.make_folder()
    with in_thread(run.replay.save, saved) as errors:
        assert receive(first.link).kind == Kind.SAVE
        first.link.send(Message(Kind.FILE, 3, "b"))
        first.link._socket.sendall(b"12")
        first.kill()
    assert not errors
    assert sorted(path.name for path in saved.iterdir()) == ["totals.json"]
    assert read_totals(saved).lost == 12


def test_a_signal_during_a_restart_ends_the_wait_for_samples(make_run):
    run = make_run()
    run.end(run.serve())
    for call in (lambda: run.replay.sample(4), lambda: len(run.replay)):
        run.keeper.interrupted.clear()
        with in_thread(call) as errors:
            time.sleep(0.1)
            assert not errors
            run.keeper.interrupt()
        assert [type(error) for error in errors] == [Interrupted]


def test_a_process_that_saves_is_not_ended_while_the_learner_s_disk_is_waited_for(make_run, monkeypatch):
    """As one of another machine may be when a file is closed; what the process says meanwhile is not read."""
    monkeypatch.setattr(replay_keeper, "STOP_SECONDS", 0.3)
    run = make_run()
    first = run.serve()
    original = Path.open

    def slow(path, mode="r", *arguments, **settings):
        if mode == "xb":
            time.sleep(1.0)
        return original(path, mode, *arguments, **settings)

    monkeypatch.setattr(Path, "open", slow)
    run.keeper.interrupt()
    saved = run.save(first, 7)
    assert (saved / "a").read_text() == "saved"
    assert not run.lines
    assert read_totals(saved) == Totals(0, 0)


def test_nobody_knows_the_key_before_the_first_process_has_one(make_run):
    supervision = make_run().keeper._supervision
    one, other = (ReplayKeeper(Launcher(), supervision, CAPACITY) for _ in range(2))
    assert one._key != other._key


def test_a_process_that_hangs_keeps_no_signal_waiting(make_run, monkeypatch):
    """Neither the wait for samples nor the checkpoint, and whichever comes first."""
    monkeypatch.setattr(replay_keeper, "STOP_SECONDS", 0.3)
    run = make_run()
    first = run.serve()
    run.replay.confirm_saved(run.save(first, 40))
    run.report(first, 41)
    with in_thread(lambda: run.replay.sample(4)) as errors:
        time.sleep(0.5)
        assert not errors
        run.keeper.interrupt()
    assert [type(error) for error in errors] == [Interrupted]
    run.serve(1)
    saved = run.make_folder("checkpoint_2")
    with in_thread(run.replay.save, saved) as errors:
        pass
    assert not errors
    assert (saved / "a").read_text() == "saved"
    assert read_totals(saved).lost == 1


def test_new_priorities_are_not_waited_for_where_there_is_no_process_or_none_that_answers(make_run, monkeypatch):
    run = make_run()
    keys, began = np.array([1], np.uint64), time.monotonic()
    run.replay.set_priorities(keys, np.array([1.0]))
    assert time.monotonic() - began < remote_replay.PRIORITIES_SECONDS / 2
    monkeypatch.setattr(remote_replay, "PRIORITIES_SECONDS", 0.3)
    run.serve()
    with in_thread(run.replay.set_priorities, keys, np.array([1.0])) as errors:
        pass
    assert not errors


@pytest.mark.parametrize("wrong", [np.nan, -1.0])
def test_priorities_that_are_none_are_an_error(make_run, wrong):
    with pytest.raises(ValueError, match="^Priorities must be numbers of 0 or more"):
        make_run().replay.set_priorities(np.array([1], np.uint64), np.array([wrong]))


@pytest.mark.parametrize(
    ("error", "ends", "raised"),
    [
        (RuntimeError("ended"), True, None),
        (RuntimeError("ended"), False, ActorPoolError),
        (ValueError("wrong"), False, ValueError),
    ],
)
def test_priorities_are_lost_with_a_process_and_for_no_other_reason(make_run, monkeypatch, error, ends, raised):
    """A call that always fails where the process is there is wrong, and would leave priorities as they are for ever."""
    monkeypatch.setattr(remote_replay, "RETRY_SECONDS", 0.01)
    run = make_run()
    process = run.serve()

    def fail():
        if ends:
            run.end(process)
        raise error

    run.replay._stored = Stored(1)
    monkeypatch.setattr(run.replay._stored, "set_priorities", lambda keys, priorities: fail())
    with in_thread(run.replay.set_priorities, np.array([1], np.uint64), np.array([1.0])) as errors:
        pass
    assert [type(one) for one in errors] == ([raised] if raised else [])


def test_priorities_are_set_once_more_where_a_connection_broke_off(make_run, monkeypatch):
    run = make_run()
    run.serve()
    errors, came = [RuntimeError("ended")] * 2, []

    def set_priorities(keys, priorities):
        if errors:
            raise errors.pop()
        came.extend(priorities.tolist())

    run.replay._stored = Stored(1)
    monkeypatch.setattr(run.replay._stored, "set_priorities", set_priorities)
    run.replay.set_priorities(np.array([1], np.uint64), np.array([3.0]))
    assert came == [3.0]


@pytest.mark.parametrize("ends_in", ["restores", "serves", "saves"])
def test_a_replay_that_ends_again_and_again_ends_the_run_which_is_saved(make_run, ends_in):
    """It says that it is there each time, and takes as long as it likes until it ends."""
    run = make_run()
    for number in range(MAX_FAILURES):
        process = run.next_process(number)
        process.begin()
        if ends_in != "restores":
            process.link.send(Message(Kind.SERVES, process._server.getsockname()[1]))
            wait(lambda: run.keeper.serves)
        if ends_in == "saves":
            with in_thread(run.replay.save, run.make_folder(f"checkpoint_{number}")) as errors:
                assert receive(process.link).kind == Kind.SAVE
                process.kill()
            assert not errors
        process.kill()
    wait(lambda: run.keeper._error)
    with pytest.raises(ActorPoolError, match="^The replay failed 3 times without a checkpoint between them, the last"):
        len(run.replay)
    saved = run.make_folder("last")
    run.replay.save(saved)
    assert read_totals(saved) == Totals(0, MAX_FAILURES - 1)


def test_ends_with_a_checkpoint_between_them_do_not_end_the_run(make_run):
    run = make_run()
    for number in range(2 * MAX_FAILURES):
        process = run.serve(number)
        if number % 2:
            run.replay.confirm_saved(run.save(process, 0, f"checkpoint_{number}"))
        run.end(process)
    run.serve(2 * MAX_FAILURES)
    run.keeper.look()


@pytest.mark.parametrize("here", [False, True])
def test_a_full_disk_on_either_machine_is_an_error_of_the_checkpoint(make_run, here):
    run = make_run()
    process = run.serve()
    saved = run.make_folder()
    with in_thread(run.replay.save, saved) as errors:
        assert receive(process.link).kind == Kind.SAVE
        if here:
            (saved / "a").mkdir(parents=True)  # in the way of a file
            process.link.send(Message(Kind.FILE, 1, "a"))
        else:
            process.link.send(Message(Kind.FAILED, text="No space left on device"))
    (error,) = errors
    assert isinstance(error, OSError)
    if not here:
        assert str(error) == "No space left on device, on the replay's machine"
        assert read_totals(run.save(process, 3, "checkpoint_2")) == Totals(0, 0)


def test_who_does_not_know_the_key_or_was_replaced_is_no_process(make_run):
    run = make_run()
    first = run.next_process(0)
    with pytest.raises(LinkEndedError):
        connect(first.address, "other")
    first.kill()
    second = run.next_process(1)
    with pytest.raises(LinkEndedError):
        connect(first.address, first.key)
    with socket.create_connection(("127.0.0.1", int(second.address.rsplit(":", 1)[1]))):  # and says nothing
        assert run.serve(1).found == {}


def test_a_process_is_ended_once_its_connection_is(make_run):
    run = make_run()
    run.serve().link.close()
    assert run.next_process(1)


def test_a_connection_ends_with_its_process_whose_machine_does_not_answer(make_run):
    run = make_run()
    first = run.serve()
    first._ended.set()
    run.next_process(1)
    wait(lambda: not run.keeper.serves)


def test_how_a_process_ended_by_itself_is_waited_for(make_run, monkeypatch):
    monkeypatch.setattr(replay_keeper, "REASON_SECONDS", SECONDS)
    run = make_run()
    run.serve().end_by_itself(0.3)
    run.next_process(1)
    run.keeper.look()
    assert run.lines == ["The replay was restarted (restart 1 by this process): it had enough."]


def test_a_process_may_end_by_itself_with_the_run(make_run, monkeypatch):
    monkeypatch.setattr(replay_keeper, "JOIN_SECONDS", SECONDS)
    run, terminated = make_run(), []
    process = run.serve()
    process.terminate = lambda: terminated.append(not process._ended.is_set())
    with in_thread(run.replay.close):
        with pytest.raises(LinkEndedError):
            receive(process.link)
        assert not terminated
        process.end_by_itself(0.2)
    assert not any(terminated)


def test_a_process_that_hangs_is_replaced_but_may_read_what_it_was_sent(make_run):
    run = make_run(silent_seconds=1.0)
    first = run.next_process(0)
    first.begin()
    deadline = time.monotonic() + 2.5
    run.look_until(lambda: time.monotonic() > deadline)
    assert len(run.launcher.processes) == 1
    first.link.send(Message(Kind.SERVES, first._server.getsockname()[1]))
    run.look_until(lambda: len(run.launcher.processes) == 2)
    assert "The replay reported nothing for 1 seconds." in run.lines


def test_a_process_answers_while_it_gives_signs_of_life(make_run, monkeypatch):
    run = make_run()
    assert not run.keeper.answers
    first = run.serve()
    assert run.keeper.answers
    monkeypatch.setattr(replay_keeper, "ANSWER_SECONDS", 0.1)
    wait(lambda: not run.keeper.answers)
    monkeypatch.setattr(replay_keeper, "ANSWER_SECONDS", SECONDS)
    assert run.keeper.answers
    run.end(first)
    assert not run.keeper.answers


def test_a_process_that_waits_for_memory_is_told_once(make_run, monkeypatch):
    monkeypatch.setattr(replay_keeper, "START_SECONDS", 0.1)
    run = make_run()
    time.sleep(0.2)
    for _ in range(3):
        run.keeper.look()
    assert run.lines == [
        "The replay has not started for 0.1 seconds: it waits for a machine with enough memory (runtime.replay_gb)."
    ]


def test_actors_and_the_learner_reach_it_by_the_same_ports_all_the_time(make_run, tmp_path):
    """A process serves a replay; calls wait for it, and go on with another one. Machines have several addresses."""
    run = make_run(home="127.0.0.2")
    addresses, lengths = [], []

    def find():
        addresses.append(find_replay(run.replay.address.replace("localhost", "127.0.0.2")))

    with in_thread(find), in_thread(lambda: lengths.append(len(run.replay))):
        time.sleep(0.2)
        assert not addresses
        stored = [SequenceReplay(SPEC, SETTINGS, tmp_path / f"working_{i}") for i in range(2)]
        for one in stored:
            one.start()
        first = run.next_process(0)
        first.address = first.address.replace("localhost", "127.0.0.2")
        first.serve(int(stored[0].address.rsplit(":", 1)[1]))
    assert addresses == [f"127.0.0.2:{run.replay._relay.port}"]
    assert lengths == [0]
    run.end(first)
    stored[0].close()
    with in_thread(lambda: lengths.append(len(run.replay))):
        run.next_process(1).serve(int(stored[1].address.rsplit(":", 1)[1]))
    assert lengths == [0, 0]
    stored[1].close()


def test_a_head_that_others_reach_by_an_address_of_another_machine_begins(make_run):
    assert make_run(home="203.0.113.7").serve().found == {}


def test_on_one_machine_no_port_is_open_to_others(make_run):
    run = make_run()
    for port in (run.replay._relay.port, int(run.next_process(0).address.rsplit(":", 1)[1])):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port))


def test_a_replay_whose_start_fails_is_closed(make_run, monkeypatch):
    run = make_run()
    monkeypatch.setattr(remote_replay, "Relay", None)
    failing = RemoteReplay(run.keeper, SPEC, [])
    with pytest.raises(TypeError):
        failing.start()
    failing.close()


def test_a_replay_that_this_machine_does_not_reach_ends_the_run(make_run):
    """Reverb's calls would wait for ever."""
    run = make_run()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for number in range(MAX_FAILURES):
        run.next_process(number).serve(port)
    wait(lambda: run.keeper._error)
    with pytest.raises(ActorPoolError, match="failed 3 times"):
        len(run.replay)
    assert f"The replay's process cannot be used: this machine cannot reach port {port} of 127.0.0.1" in run.lines[0]


class Stored:
    """A table with so many sequences, and what it raises instead."""

    def __init__(self, size=0, error=None):
        self.size, self._error = size, error

    def __len__(self):
        return self.size

    def sample(self, size):
        if self._error is not None:
            raise self._error
        return size

    def set_priorities(self, keys, priorities):
        pass


@pytest.mark.parametrize(
    ("error", "raised"), [(RuntimeError("ended"), ActorPoolError), (ValueError("wrong"), ValueError)]
)
def test_a_replay_whose_connections_end_again_and_again_ends_the_run(make_run, monkeypatch, error, raised):
    monkeypatch.setattr(remote_replay, "RETRY_SECONDS", 0.0)
    run = make_run()
    run.serve()
    run.replay._stored = Stored(1, error)
    with in_thread(lambda: run.replay.sample(2)) as errors:
        pass
    assert [type(one) for one in errors] == [raised]
    assert str(errors[0]) in ("The replay does not answer (ended).", "wrong")


def test_a_call_that_was_not_waited_for_ends_with_the_replay(make_run):
    run = make_run()
    run.serve()
    with in_thread(lambda: len(run.replay)) as errors:
        wait(lambda: run.replay._call_under_way)
        run.keeper.interrupt()
        run.end(run.launcher.processes[0])
    assert isinstance(errors[0], Interrupted)
    assert run.replay._call_under_way.is_alive()
    run.replay.close()
    assert not run.replay._call_under_way.is_alive()


def test_a_run_that_goes_on_with_little_fills_its_replay_first(make_run):
    """As much as when learning began before it was stopped."""
    run = make_run()
    run.replay._stored = stored = Stored(4)
    run.serve()
    assert run.replay.get_state() == {}
    assert run.replay.sample(2) == 2
    state = run.replay.get_state()
    assert state == {"min_size": 4}
    other = make_run()
    other.replay.set_state(state)
    other.replay._stored = stored = Stored(3)
    other.serve()
    assert other.replay.sample(2) is None
    stored.size = 4
    assert other.replay.sample(2) == 2
    other.replay.set_state({})  # of a replay in the learner's process


@pytest.mark.parametrize("min_size", [None, 4])
def test_a_run_goes_on_that_was_saved_before_or_after_its_first_sample(make_run, tmp_path, min_size):
    run, other, variables = make_run(), make_run(), tf.train.Checkpoint(x=tf.Variable(1.0))
    run.replay._min_size = min_size
    checkpoint.save(tmp_path / "checkpoints", 1, variables, {"replay": run.replay.get_state()})
    state = checkpoint.restore(tmp_path / "checkpoints", variables, print)
    other.replay.set_state(state["replay"])
    assert other.replay._min_size == min_size


def test_a_replay_that_begins_again_with_little_is_not_learned_from(make_run):
    """It is once there is as much as when learning began; actors wait until the learner goes on."""
    run = make_run()
    run.replay._stored = stored = Stored()
    first = run.serve()
    assert run.replay.sample(2) is None
    stored.size = 4
    assert run.replay.sample(2) == 2
    stored.size = 1
    assert run.replay.sample(2) == 2  # of the same process
    run.end(first)
    run.serve(1)
    stored.size = 3
    assert run.replay.sample(2) is None
    stored.size = 6
    assert run.replay.sample(2) == 2
    run.replay._stored = Stored(error=EmptyReplayError())
    assert run.replay.sample(2) is None


def test_a_run_goes_on_with_its_replay_here_or_in_a_process(make_run, tmp_path, monkeypatch):
    """With the sequences, their priorities, and the totals."""
    settings = SETTINGS._replace(priority_exponent=1.0)
    here = SequenceReplay(SPEC, settings, tmp_path / "here", [reverb.Table.queue("reports", 5)])
    here.start()
    write_rows(here, 7)
    keys = here.sample(200).keys
    here.set_priorities(keys, np.where(keys == keys[0], 1.0, 0.0))
    here.save(tmp_path / "first")
    here.close()
    assert read_totals(tmp_path / "first") == Totals(0, 0)
    write_totals(tmp_path / "first", Totals(5, 1))

    run = make_run(saved=tmp_path / "first")
    there = SequenceReplay(SPEC, settings, tmp_path / "there")
    run.next_process(0).store(there, tmp_path / "sent")
    assert len(run.replay) == 5
    with monkeypatch.context() as patched:
        patched.setattr(sequences, "suppress_stderr", None)  # or what happens meanwhile would not be said
        assert (run.replay.sample(10).keys == keys[0]).all()
    run.replay.save(tmp_path / "second")
    assert read_totals(tmp_path / "second") == Totals(5, 1)
    run.replay.close()
    for thread in threading.enumerate():
        if thread.name == "signs of life":
            thread.join(SECONDS)
    there.close()

    here.start(tmp_path / "second")
    assert (len(here), here.lost, here.restarts) == (5, 5, 1)
    assert (here.sample(10).keys == keys[0]).all()
    here.save(tmp_path / "third")
    here.close()
    assert read_totals(tmp_path / "third") == Totals(5, 1)


def test_a_run_whose_checkpoint_was_made_without_a_replay_goes_on_with_an_empty_one(make_run, tmp_path):
    run = make_run()
    saved = run.make_folder()
    run.replay.save(saved)
    here = SequenceReplay(SPEC, SETTINGS, tmp_path / "here")
    here.start(saved)
    assert len(here) == 0
    here.close()


def test_an_actor_ends_with_the_port_that_leads_to_its_replay(monkeypatch):
    """Another learner may have come to the address of its own."""
    config, watched = gymnasium.get_config("smoke"), []
    config.agent = "r2d2_ctrace"
    config = resolve(config)
    config.runtime.update(schedule=PROCESSES, num_actors=1, replay_gb=1.0)
    monkeypatch.setattr(experiment_module, "begin", lambda *_: (1, 2))
    monkeypatch.setattr(experiment_module, "find_replay", lambda address: "localhost:2")
    monkeypatch.setattr(experiment_module, "end_with", watched.append)
    monkeypatch.setattr(experiment_module, "PulledWeights", None)
    with pytest.raises(TypeError):
        find_experiment(config).run_remote_actor(1, 0, 0, "localhost:1")
    assert watched == ["localhost:2"]


def test_an_actor_that_does_not_reach_the_port_says_so():
    server = start_server([make_replay_table()])
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    publish_replay(f"localhost:{server.port}", port)
    with pytest.raises(OSError, match=f"^this machine cannot reach port {port} of localhost"):
        find_replay(f"localhost:{server.port}")
    server.stop()
