"""A replay in a process of its own: the learner's side with processes that do as they are told, and a command."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time

import numpy as np
import pytest
import reverb
import tensorflow as tf
from tf_agents.trajectories import Trajectory

from paper_configs.ctrace import gymnasium
from repro.acting import actor_processes, replay_keeper
from repro.acting.actor_processes import LocalLauncher
from repro.acting.remote import Reporter
from repro.acting.replay_link import Kind, LinkEndedError, Message, connect, find_address
from repro.acting.replay_process import serve
from repro.acting.supervision import MAX_FAILURES, ActorPoolError, Interrupted, Supervision
from repro.config import PROCESSES, resolve
from repro.papers import find_experiment
from repro.papers.ctrace import experiment as experiment_module
from repro.replay.saved_replay import Totals, read_totals, write_totals
from repro.replay.sequences import SequenceReplay, SequenceSettings
from repro.training import remote_replay
from repro.training.remote_replay import RemoteReplay
from repro.training.run_directory import RunDirectory
from tests.support.waiting import IdleProcess, wait

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
SETTINGS = SequenceSettings(2, 1, 0, 100, 0.0)


class Process:
    """A process that does what the test says.

    start, address, key: that it was given.
    """

    may_wait = True

    def __init__(self, start, address, key):
        self.start, self.address, self.key, self.link = start, address, key, None
        self._ended = threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0))

    def wait(self):
        self._ended.wait()
        return "it was killed"

    def kill(self):
        if self.link is not None:
            self.link.close()
        self._server.close()
        self._ended.set()

    terminate = kill

    def begin(self):
        """Connects; returns the files that it is sent, by their names."""
        self.link = connect(self.address)
        self.link.send(Message(Kind.BEGIN, self.start, self.key))
        found = {}
        while (message := self.link.receive(SECONDS)).kind == Kind.FILE:
            found[message.text] = self.link._receive(message.number).decode()
        assert message.kind == Kind.END
        return found

    def serve(self, port=None):
        """Begins, and says that it has a server, which answers nothing if it is not another's."""
        found = self.begin()
        self.link.send(Message(Kind.SERVES, port or self._server.getsockname()[1]))
        return found

    def hold(self, number):
        self.link.send(Message(Kind.HOLDS, number))

    def save(self, folder, number):
        """Waits until it is asked to save, and sends what a folder has."""
        assert self.link.receive(SECONDS).kind == Kind.SAVE
        self.link.send_files(folder, number)

    def store(self, replay, folder):
        """Does what a real one does, with a replay that is in this process and a folder for files."""
        self.link = connect(self.address)

        def run():
            with contextlib.suppress(LinkEndedError):
                serve(self.link, replay, folder, self.start, self.key)

        threading.Thread(target=run, daemon=True).start()


class Launcher:
    """Has processes begin when the test says so."""

    home = port = None

    def __init__(self):
        self.processes = []

    def start_replay(self, start, address, key):
        self.processes.append(Process(start, address, key))
        return self.processes[-1]


class CommandLauncher(LocalLauncher):
    """Starts the command that has the replay, and in its place a process that begins when the test says so."""

    def __init__(self, run_dir, logs):
        super().__init__(run_dir, logs)
        self.replays = []

    def __call__(self, actor, start, address):
        return IdleProcess()

    def start_replay(self, start, address, key):
        start_one = Process if start else super().start_replay
        self.replays.append(start_one(start, address, key))
        return self.replays[-1]


class StoppedError(Exception):
    """What ends an actor that is in a thread."""


def write_rows(replay, count):
    """Writes so many steps of one game, from the third on a sequence with each."""
    rows = tf.nest.map_structure(lambda leaf: np.ones((count, *leaf.shape), leaf.dtype.as_numpy_dtype), SPEC)
    with contextlib.closing(replay.make_writer()) as writer:
        writer.append(rows)
        writer.flush()


class Run:
    """A replay whose processes the test has, and what it says."""

    def __init__(self, folder, saved=None, home=None, silent_seconds=600.0):
        self.lines, self.launcher = [], Launcher()
        self.launcher.home = home
        self.replay = RemoteReplay(self.launcher, SPEC, [], Supervision(self.lines.append, folder, silent_seconds))
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
        wait(lambda: self.replay.serves)
        return process

    def save(self, process, number, name="checkpoint_1"):
        """Saves, by a process with so many sequences; returns the folder."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        with in_thread(self.replay.save, folder / "replay"):
            process.save(self.folder / "files", number)
        return folder / "replay"

    def end(self, process):
        """Ends a process; the next one is started."""
        process.kill()
        wait(lambda: not self.replay.serves)


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
    monkeypatch.setattr(replay_keeper, "QUICK_SECONDS", 0.0)  # however soon a process ends, it had begun
    monkeypatch.setattr(replay_keeper, "REASON_SECONDS", 0.1)
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
    first.hold(30)
    saved = run.save(first, 40)
    run.replay.keep(saved)
    first.hold(47)
    wait(lambda: run.replay._keeper._store.num_written == 47)
    run.end(first)
    second = run.serve(1)
    assert second.found == {"a": "saved", "totals.json": json.dumps({"lost": 0, "restarts": 0})}
    run.replay.look()
    assert run.lines == [
        "The replay was restarted (restart 1 of this process): it was killed.",
        "The replay begins again with what the last checkpoint has; 7 sequences are lost.",
    ]
    assert (run.replay.lost, run.replay.restarts) == (7, 1)
    saved = run.save(second, 0, "checkpoint_2")
    assert read_totals(saved) == Totals(7, 1)


def test_a_process_that_is_killed_right_after_a_save_has_lost_nothing(make_run):
    """What it held was last said before the save."""
    run = make_run()
    first = run.serve()
    first.hold(30)
    run.replay.keep(run.save(first, 40))
    run.end(first)
    run.serve(1)
    assert run.replay.lost == 0


def test_a_process_that_is_killed_before_its_checkpoint_is_whole_has_lost_what_was_in_it(make_run):
    """The next one begins with the checkpoint before, whose totals are those of its own moment."""
    run = make_run()
    first = run.serve()
    run.replay.keep(run.save(first, 40))
    (run.folder / "files" / "a").write_text("saved again")
    saved = run.save(first, 45, "checkpoint_2")
    run.end(first)
    second = run.serve(1)
    assert second.found["a"] == "saved"
    run.replay.keep(saved)
    assert run.replay.lost == 5
    assert read_totals(saved) == Totals(0, 0)
    second.hold(3)
    wait(lambda: run.replay._keeper._store.num_written == 3)
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
    run.replay.keep(run.save(first, 0, "checkpoint_11"))
    run.end(first)
    assert run.serve(1).found["a"] == "saved"
    assert (run.replay.lost, run.replay.restarts) == (8, 3)


def test_a_checkpoint_that_is_due_during_a_restart_waits_until_the_next_process_serves(make_run):
    run = make_run()
    run.end(run.serve())
    second = run.next_process(1)
    run.replay.interrupt()  # by a signal, whose checkpoint it is
    (run.folder / "checkpoint_1").mkdir()
    with in_thread(run.replay.save, run.folder / "checkpoint_1" / "replay") as errors:
        second.begin()
        time.sleep(0.2)
        second.link.send(Message(Kind.SERVES, second._server.getsockname()[1]))  # nothing but files came before
        second.save(run.folder / "files", 5)
    assert not errors
    assert (run.folder / "checkpoint_1" / "replay" / "a").read_text() == "saved"
    assert read_totals(run.folder / "checkpoint_1" / "replay") == Totals(0, 1)


def test_what_a_process_sent_that_ended_in_a_save_is_no_part_of_the_checkpoint(make_run):
    run = make_run()
    first = run.serve()
    first.hold(12)
    (run.folder / "checkpoint_1").mkdir()
    with in_thread(run.replay.save, run.folder / "checkpoint_1" / "replay") as errors:
        assert first.link.receive(SECONDS).kind == Kind.SAVE
        first.link.send(Message(Kind.FILE, 3, "b"))
        first.link._socket.sendall(b"12")
        first.kill()
        second = run.next_process(1)
        second.serve()
        second.save(run.folder / "files", 5)
    assert not errors
    saved = run.folder / "checkpoint_1" / "replay"
    assert sorted(path.name for path in saved.iterdir()) == ["a", "totals.json"]
    assert read_totals(saved) == Totals(12, 1)  # counted while it was saved


def test_a_signal_during_a_restart_ends_the_wait_for_samples(make_run):
    run = make_run()
    run.end(run.serve())
    for call in (lambda: run.replay.sample(4), lambda: len(run.replay)):
        run.replay._interrupted.clear()
        with in_thread(call) as errors:
            time.sleep(0.1)
            assert not errors
            run.replay.interrupt()
        assert [type(error) for error in errors] == [Interrupted]


def test_new_priorities_are_not_waited_for_where_there_is_no_process(make_run):
    run = make_run()
    began = time.monotonic()
    run.replay.set_priorities(np.array([1], np.uint64), np.array([1.0]))
    assert time.monotonic() - began < remote_replay.PRIORITIES_SECONDS / 2


@pytest.mark.parametrize("ends_in", ["restores", "saves"])
def test_a_replay_that_cannot_work_ends_the_run(make_run, ends_in):
    """It says that it is there each time, and takes as long as it likes until it ends."""
    run = make_run()
    (run.folder / "checkpoint_1").mkdir()
    with in_thread(run.replay.save, run.folder / "checkpoint_1" / "replay") as errors:
        for number in range(MAX_FAILURES):
            process = run.next_process(number)
            process.begin()
            if ends_in == "saves":
                process.link.send(Message(Kind.SERVES, process._server.getsockname()[1]))
                assert process.link.receive(SECONDS).kind == Kind.SAVE
            process.kill()
    (error,) = errors
    assert isinstance(error, ActorPoolError)
    assert str(error).startswith("The replay failed 3 times in a row at its start or while it was saved, the last time")


def test_a_process_that_ends_at_rest_is_no_failure(make_run):
    run = make_run()
    for number in range(MAX_FAILURES + 1):
        run.end(run.serve(number))
    run.serve(MAX_FAILURES + 1)
    run.replay.look()


def test_a_process_that_ends_at_rest_but_soon_is_a_failure(make_run, monkeypatch):
    monkeypatch.setattr(replay_keeper, "QUICK_SECONDS", actor_processes.QUICK_SECONDS)
    run = make_run()
    for number in range(MAX_FAILURES):
        run.end(run.serve(number))
    wait(lambda: run.replay._keeper._process._error)
    with pytest.raises(ActorPoolError, match="failed 3 times"):
        run.replay.look()


@pytest.mark.parametrize("here", [False, True])
def test_a_full_disk_on_either_machine_is_an_error_of_the_checkpoint(make_run, here):
    run = make_run()
    process = run.serve()
    (run.folder / "checkpoint_1").mkdir()
    with in_thread(run.replay.save, run.folder / "checkpoint_1" / "replay") as errors:
        assert process.link.receive(SECONDS).kind == Kind.SAVE
        if here:
            (run.folder / "checkpoint_1" / "replay" / "a").mkdir(parents=True)  # in the way of a file
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
    process = run.next_process(0)
    for start, key in ((0, "other"), (-1 % 2**64, process.key), (1, process.key)):
        link = connect(process.address)
        link.send(Message(Kind.BEGIN, start, key))
        with pytest.raises(LinkEndedError):
            link.receive(SECONDS)
    assert run.serve().found == {}


def test_a_process_is_ended_once_its_connection_is(make_run):
    run = make_run()
    run.serve().link.close()
    assert run.next_process(1)


def test_a_process_that_hangs_is_replaced_but_may_read_what_it_was_sent(make_run, monkeypatch):
    monkeypatch.setattr(replay_keeper, "RESTORED_BYTES", 0.05)  # a second for a byte
    saved = make_run().folder / "files"
    run = make_run(saved=saved, silent_seconds=0.3)
    first = run.next_process(0)
    first.begin()
    first.hold(0)  # before it reads
    deadline = time.monotonic() + 1.5
    while time.monotonic() < deadline:
        run.replay.look()
        time.sleep(0.02)
    assert len(run.launcher.processes) == 1
    first.link.send(Message(Kind.SERVES, first._server.getsockname()[1]))
    while len(run.launcher.processes) == 1:
        run.replay.look()
        time.sleep(0.02)
    assert "The replay reported nothing for 0.3 seconds." in run.lines


def test_actors_and_the_learner_reach_it_by_the_launcher_s_address(make_run, tmp_path):
    """A process serves a replay; calls wait for it, and go on with another one."""
    run = make_run(home="127.0.0.1")
    addresses, lengths = [], []

    def find():
        addresses.append(find_address(run.replay.address.replace("localhost", "127.0.0.1")))

    with in_thread(find), in_thread(lambda: lengths.append(len(run.replay))):
        time.sleep(0.2)
        assert not addresses
        stored = [SequenceReplay(SPEC, SETTINGS, tmp_path / f"working_{i}") for i in range(2)]
        for one in stored:
            one.start()
        run.next_process(0).serve(int(stored[0].address.rsplit(":", 1)[1]))
    assert addresses == [run.replay._relay.address]
    assert addresses[0].startswith("127.0.0.1:")
    assert lengths == [0]
    run.end(run.launcher.processes[0])
    stored[0].close()
    with in_thread(lambda: lengths.append(len(run.replay))):
        run.next_process(1).serve(int(stored[1].address.rsplit(":", 1)[1]))
    assert lengths == [0, 0]
    stored[1].close()


def test_a_replay_that_this_machine_does_not_reach_ends_the_run(make_run):
    """Reverb's calls would wait for ever."""
    run = make_run()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for number in range(MAX_FAILURES):
        run.next_process(number).serve(port)
    wait(lambda: run.replay._keeper._process._error)
    with pytest.raises(ActorPoolError, match="failed 3 times"):
        len(run.replay)
    assert f"The replay's process is of no use: this machine does not reach port {port} of 127.0.0.1" in run.lines[0]


def test_a_replay_that_begins_again_without_anything_does_not_keep_the_learner(make_run, tmp_path):
    """Actors wait until the learner goes on."""
    run, samples = make_run(), []
    stored = SequenceReplay(SPEC, SETTINGS, tmp_path / "working")
    stored.start()
    run.next_process(0).serve(int(stored.address.rsplit(":", 1)[1]))
    with in_thread(lambda: samples.append(run.replay.sample(2))) as errors:
        pass
    assert (samples, errors) == ([None], [])
    write_rows(stored, 6)
    assert len(run.replay) == 4
    assert run.replay.sample(2).keys.shape == (2,)
    stored.close()


def test_a_run_goes_on_with_its_replay_here_or_in_a_process(make_run, tmp_path):
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
    run.next_process(0).store(SequenceReplay(SPEC, settings, tmp_path / "there"), tmp_path / "sent")
    assert len(run.replay) == 5
    assert (run.replay.sample(10).keys == keys[0]).all()
    run.replay.save(tmp_path / "second")
    assert read_totals(tmp_path / "second") == Totals(5, 1)

    here.start(tmp_path / "second")
    assert (len(here), here.lost, here.restarts) == (5, 5, 1)
    assert (here.sample(10).keys == keys[0]).all()
    here.save(tmp_path / "third")
    here.close()
    assert read_totals(tmp_path / "third") == Totals(5, 1)


def test_a_killed_replay_begins_again_with_what_was_saved_and_actor_and_learner_go_on(tmp_path, monkeypatch):
    """The command that has R2D2's replay is killed; what came after the checkpoint is lost and counted."""
    config, lines, stop = gymnasium.get_config("smoke"), [], threading.Event()
    config.agent = "r2d2_ctrace"
    config = resolve(config)
    config.runtime.update(schedule=PROCESSES, num_actors=1, replay_gb=1.0)
    experiment, run = find_experiment(config), RunDirectory(tmp_path, config.to_dict(), 1)
    launcher = CommandLauncher(run.path, run.actors)
    trainer = experiment.build_trainer(1, run, lines.append, launcher)
    replay, keeper = trainer._replay, trainer._replay._keeper

    def report(*_):
        time.sleep(0.02)
        if stop.is_set():
            raise StoppedError

    monkeypatch.setattr(Reporter, "report", report)
    monkeypatch.setattr(experiment_module, "begin", lambda *_: (1, 2))  # nor does this process end with the learner
    trainer._begin()
    with in_thread(experiment.run_remote_actor, 1, 0, 0, replay.address) as errors:
        wait(lambda: len(replay) >= 20)
        saved = len(replay)
        replay.save(tmp_path / "saved")
        replay.keep(tmp_path / "saved")
        wait(lambda: keeper._store.num_written - keeper._store.num_kept >= 20)
        launcher.replays[0].kill()
        wait(lambda: len(launcher.replays) == 2)
        spec = trainer._learner.agent.collect_data_spec
        there = SequenceReplay(spec, experiment.sequence_settings, tmp_path / "there")
        launcher.replays[1].store(there, tmp_path / "sent")
        assert replay.sample(8).keys.shape == (8,)
        assert len(replay) >= saved
        wait(lambda: keeper._store.num_written >= 20)
        stop.set()
    assert [type(error) for error in errors] == [StoppedError]
    assert lines[0].startswith("The replay was restarted (restart 1 of this process): it ended with code -9; see ")
    assert lines[1] == f"The replay begins again with what the last checkpoint has; {replay.lost} sequences are lost."
    assert replay.lost >= 20
    totals = trainer.summary()
    assert (totals["lost"]["sequences"], totals["replay_restarts"]) == (replay.lost, 1)
    trainer.close()
    assert not replay._relay._thread.is_alive()
