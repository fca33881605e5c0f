"""Communication between a learner and actors in other processes, and which of them ends when."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
import reverb
import tensorflow as tf

from repro.acting import actor_processes, remote, remote_actor, remote_actor_pool, supervision
from repro.acting.actor_processes import ActorProcesses, LocalProcess
from repro.acting.machines import machine_number
from repro.acting.remote import (
    GAMES_SECONDS,
    WEIGHTS,
    PulledWeights,
    RemoteWeights,
    Reporter,
    Reports,
    make_tables,
    start_server,
)
from repro.acting.remote_actor_pool import RemoteActorPool
from repro.acting.rollout import Episode
from repro.acting.supervision import MAX_FAILURES, ActorPoolError, Interrupted, Supervision
from tests.support.waiting import wait

LONGEST_SECONDS = 60.0
MACHINE = machine_number("10.0.0.7")


@pytest.fixture
def variables():
    return [tf.Variable([1.0, 2.0]), tf.Variable(3.0)]


@pytest.fixture
def address(variables):
    server = start_server(make_tables(variables, waiting_unrolls=2))
    yield f"localhost:{server.port}"
    server.stop()


def test_a_server_leaves_no_temporary_folder(tmp_path, monkeypatch, variables):
    """Reverb makes one where it is not told where checkpoints are."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    reverb.Server(make_tables(variables)).stop()
    assert len(list(tmp_path.iterdir())) == 1
    server = start_server(make_tables(variables))
    client = reverb.Client(f"localhost:{server.port}")
    assert client.server_info()
    server.stop()
    assert len(list(tmp_path.iterdir())) == 1


def test_actor_waits_while_its_unrolls_wait(address):
    reporter, reports, sent = Reporter(reverb.Client(address), 7, 2, MACHINE), Reports(address), []

    def play():
        for unroll in range(6):
            reporter.append(Episode(float(unroll), 5))
            reporter.report(20, unroll)
            sent.append(unroll)

    actor = threading.Thread(target=play, daemon=True)
    actor.start()
    wait(lambda: len(sent) == 2)
    time.sleep(1.0)
    assert len(sent) == 2  # the third waits for a place
    assert reports.read_unrolls(1) == [(7, 2, 20, 0, MACHINE)]
    wait(lambda: len(sent) == 3)
    found = []
    while len(found) < 5:
        found += reports.read_unrolls(10)
    assert found == [(7, 2, 20, unroll, MACHINE) for unroll in range(1, 6)]
    assert reports.read_unrolls(10) == []
    assert reports.read_games() == [Episode(float(i), 5) for i in range(6)]
    actor.join()


def test_games_are_read_now_and_then_each_once(address, monkeypatch):
    reporter, reports = Reporter(reverb.Client(address), 7, 2, MACHINE), Reports(address)
    now = [100.0]
    monkeypatch.setattr(remote.time, "monotonic", lambda: now[0])
    found = []
    for score in range(3):
        reporter.append(Episode(float(score), 5))
        reporter.report_games()
        found.append(reports.read_games())
        now[0] += 0.6 * GAMES_SECONDS
    assert found == [[Episode(0.0, 5)], [], [Episode(1.0, 5), Episode(2.0, 5)]]
    now[0] += GAMES_SECONDS
    assert reports.read_games() == []


@pytest.fixture
def breaking_client(address, monkeypatch):
    """A client whose connection breaks once, when the server has what is inserted; with a list, empty since then."""
    client, not_yet = reverb.Client(address), [True]
    insert = client.insert

    def break_once(*arguments):
        insert(*arguments)
        if not_yet:
            not_yet.clear()
            raise RuntimeError("Error when confirming that all items written to table.")

    monkeypatch.setattr(client, "insert", break_once)
    return client, not_yet


def test_an_actor_goes_on_after_a_report_of_games_that_breaks_off_and_none_counts_twice(address, breaking_client):
    (client, not_yet), reports = breaking_client, Reports(address)
    reporter = Reporter(client, 7, 2, MACHINE)
    for score in (1.0, 2.0):
        reporter.append(Episode(score, 5))
        reporter.report_games()
    assert not not_yet
    assert reports.read_games() == [Episode(1.0, 5), Episode(2.0, 5)]


def test_an_actor_goes_on_after_a_report_of_steps_that_breaks_off_and_none_counts_twice(address, breaking_client):
    (client, not_yet), reports = breaking_client, Reports(address)
    reporter = Reporter(client, 7, 2, MACHINE)
    for version in (0, 1):
        reporter.report(20, version)
    assert not not_yet
    assert reports.read_unrolls(10) == [(7, 2, 20, 0, MACHINE), (7, 2, 20, 1, MACHINE)]


def test_weights_are_fetched_where_they_are_new(address, variables, monkeypatch):
    weights = RemoteWeights(variables)
    weights.connect(address)
    weights.publish(3)
    pulled, tables = PulledWeights(address), []
    pull = pulled._container.pull
    monkeypatch.setattr(pulled._container, "pull", lambda table: tables.append(table) or pull(table))
    for _ in range(3):
        assert pulled.latest.version == 3
    assert tables.count(WEIGHTS) == 1
    variables[0].assign([5.0, 6.0])
    weights.publish(4)
    version, values, _ = pulled.latest
    assert version == 4
    np.testing.assert_array_equal(values[0], [5.0, 6.0])
    assert tables.count(WEIGHTS) == 2


class _Reports:
    """Actors' reports, given in advance, in place of a server's."""

    def __init__(self, unrolls):
        self.unrolls = list(unrolls)

    def read_unrolls(self, max_count):
        taken, self.unrolls = self.unrolls[:max_count], self.unrolls[max_count:]
        return taken

    def read_games(self):
        return []


class _Anything:
    """A replay in the learner's process, and weights."""

    address = "localhost:1"
    lost = restarts = 0


def _actor_pool(folder, command=None, warn=print, silent_seconds=600.0, home=None):
    def launch(*_):
        return LocalProcess(command, folder / "actor_0.txt")

    launch.home = home
    actors = ActorProcesses(launch, 1, Supervision(warn, folder, silent_seconds))
    return RemoteActorPool(_Anything(), _Anything(), actors, 2, print, frames_per_step=4)


def test_no_more_unrolls_are_taken_than_an_update_needs(tmp_path):
    actor_pool = _actor_pool(tmp_path)
    reports = [remote_actor_pool.PlayedUnroll(i % 3, 0, 5, i, MACHINE) for i in range(12)]
    actor_pool._reports = _Reports(reports)
    left, lags = [], []
    for update in range(1, 4):
        lags.append(actor_pool.play(10, frames=60 * update))  # three unrolls of 20 frames
        left.append(len(actor_pool._reports.unrolls))
    assert left == [9, 6, 3]
    assert lags == [10 - 1, 10 - 4, 10 - 7]  # the mean of each update's three, not the last's
    assert actor_pool.get_state()["frames"] == 180


def test_machines_and_what_was_lost_are_of_the_whole_run(tmp_path):
    before, after = (_actor_pool(tmp_path, home=home) for home in ("10.0.0.1", "10.0.0.2"))
    assert before.totals() == {"machines": 1}
    before._reports = _Reports([remote_actor_pool.PlayedUnroll(0, 0, 5, 0, MACHINE)] * 2)
    before.play(0, frames=40)
    assert before.totals() == {"machines": 2}
    before._actors.broken_off = 3
    after.set_state(before.get_state())
    assert after.totals() == {"machines": 3, "lost": {"games": 6, "unrolls": 6}}


def test_hung_actor_is_ended_and_started_again(tmp_path, monkeypatch):
    monkeypatch.setattr(actor_processes, "START_SECONDS", 0.5)
    warnings = []
    actor_pool = _actor_pool(tmp_path, [sys.executable, "-c", "import time; time.sleep(1000)"], warnings.append, 0.5)
    actor_pool._reports = _Reports([])
    actor_pool._actors.start("localhost:1")
    with pytest.raises(ActorPoolError, match=f"Actor 0 failed {MAX_FAILURES} times at its start"):
        actor_pool.play(0, 20)
    assert warnings.count("Actor 0 reported nothing for 0.5 seconds.") >= MAX_FAILURES - 1
    assert any("restarted (restart 1 by this process): it ended with code -9; see" in line for line in warnings)
    assert actor_pool.restarts == MAX_FAILURES - 1


def test_an_actor_has_time_to_start_however_short_its_silence_may_be(tmp_path):
    actors, killed = ActorProcesses(lambda *_: None, 2, Supervision(print, tmp_path, 2.0)), []
    actors._clock, actors._seen = SimpleNamespace(look=lambda: now), {0: 0.0, 1: 0.0}
    processes = {i: SimpleNamespace(kill=lambda i=i: killed.append(i), may_wait=False) for i in (0, 1)}
    actors._processes, actors._reported = processes, {1}
    for now, expected in ((2.0, []), (2.1, [1]), (60.0, [1, 1]), (60.1, [1, 1, 0])):  # noqa: B007 - the clock's
        actors.look()
        assert killed == expected


def test_an_actor_that_waits_for_a_core_does_not_hang(tmp_path):
    """Before its first report; then it plays, and may hang."""
    actors, killed, now = ActorProcesses(lambda *_: None, 1, Supervision(print, tmp_path, 2.0)), [], 0.0
    actors._clock, actors._seen = SimpleNamespace(look=lambda: now, seconds=0.0), {0: 0.0}
    actors._processes = {0: SimpleNamespace(kill=lambda: killed.append(0), may_wait=True)}
    now = 1e6
    actors.look()
    assert killed == []
    actors._starts = [2]
    actors.report(0, start=0)  # of the one that was there before
    actors.look()
    assert killed == []
    actors.report(0, start=1)
    actors.look()
    assert killed == [0]


def test_an_actor_that_cannot_be_reached_ends_the_run_but_not_the_end_of_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(actor_processes, "JOIN_SECONDS", 0.1)
    actors, ended = ActorProcesses(lambda *_: None, 2, Supervision(print, tmp_path, 2.0)), []

    def lost():
        raise ConnectionError("the cluster is gone")

    gone = SimpleNamespace(kill=lost, terminate=lost, may_wait=False)
    deaf = SimpleNamespace(kill=lambda: ended.append("killed"), terminate=lambda: ended.append("asked"))
    actors._clock, actors._seen = SimpleNamespace(look=lambda: 100.0, seconds=0.0), {0: 0.0}
    actors._processes = {0: gone}
    with pytest.raises(ActorPoolError, match=r"Actor 0 could not be ended \(.*the cluster is gone\)"):
        actors.look()
    actors._processes = {0: gone, 1: deaf}
    actors._keepers = [threading.Thread(target=lambda: time.sleep(1.0), daemon=True)]
    actors._keepers[0].start()
    actors.close()
    assert ended == ["asked", "killed"]


def test_an_actor_that_cannot_be_started_ends_the_run_with_a_sentence(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(subprocess, "Popen", full)
    actor_pool = _actor_pool(tmp_path, ["actor"])
    actor_pool._reports = _Reports([])
    actor_pool._actors.start("localhost:1")
    with pytest.raises(ActorPoolError, match="Actor 0 could not be started .*Cannot allocate memory"):
        actor_pool.play(0, 20)


def test_starts_are_counted_over_the_whole_run_and_ctrl_c_does_not_reach_actors(tmp_path):
    starts, code = [], "import os; print(os.getpid() == os.getsid(0), flush=True)"

    def launch(index, start, address):
        starts.append(start)
        return LocalProcess([sys.executable, "-c", code], tmp_path / "actor_0.txt")

    launch.home = None
    actors = ActorProcesses(launch, 1, Supervision(print, tmp_path))
    actor_pool = RemoteActorPool(_Anything(), _Anything(), actors, 2, print, frames_per_step=4)
    started = {"starts": np.array([5]), "broken_off": 0}
    actor_pool.set_state({"frames": 0, "version": 0.0, "actors": started, "machines": ()})
    actor_pool._reports = _Reports([])
    actors.start("localhost:1")
    with pytest.raises(ActorPoolError, match="at its start"):
        actor_pool.play(0, 20)
    assert starts == [5, 6, 7]
    assert actor_pool.get_state()["actors"]["starts"].tolist() == [8]
    assert actor_pool.restarts == 2  # of this process
    assert (tmp_path / "actor_0.txt").read_text() == 3 * "True\n"


def test_a_restart_after_the_last_check_is_named_at_the_end(tmp_path):
    def launch(index, start, address):
        code = "import time; time.sleep(1000)" if start else ""
        return LocalProcess([sys.executable, "-c", code], tmp_path / "actor_0.txt")

    lines = []
    actors = ActorProcesses(launch, 1, Supervision(lines.append, tmp_path))
    actors.start("localhost:1")
    wait(lambda: actors.restarts)
    actors.close()
    assert ["restart 1 by this process" in line for line in lines] == [True]


def test_wait_for_actors_ends_when_it_is_interrupted(tmp_path):
    actor_pool = _actor_pool(tmp_path)
    actor_pool._reports = _Reports([])
    threading.Timer(0.2, actor_pool.interrupt).start()
    with pytest.raises(Interrupted):
        actor_pool.play(0, 20)


def test_learner_that_is_away_does_not_make_its_actors_silent(tmp_path, monkeypatch):
    monkeypatch.setattr(supervision, "AWAY_SECONDS", 0.1)
    warnings = []
    actor_pool = _actor_pool(tmp_path, [sys.executable, "-c", "import time; time.sleep(1000)"], warnings.append, 0.5)
    actor_pool._reports = _Reports([remote_actor_pool.PlayedUnroll(0, 0, 5, 0, MACHINE)] * 2)
    actor_pool._actors.start("localhost:1")
    wait(lambda: 0 in actor_pool._actors._processes)
    actor_pool.play(0, 20)
    time.sleep(1.0)  # a checkpoint
    actor_pool.play(1, 40)
    actor_pool._actors.check()
    actor_pool.close()
    assert not warnings


def test_actor_ends_after_several_failed_looks_in_a_row(monkeypatch):
    answers = iter([True, False, True, False, False, True, False, False, False])
    ended = []
    monkeypatch.setattr(remote_actor, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(remote_actor, "_answers", lambda address: next(answers))
    monkeypatch.setattr(os, "_exit", ended.append)
    remote_actor._watch("localhost:1")
    assert ended == [0]
    assert list(answers) == []


@pytest.mark.slow
def test_actor_whose_server_is_gone_before_it_asks_ends():
    """Reverb's calls wait for a server that will not come."""
    code = "\n".join(
        [
            "from repro.acting import remote, remote_actor",
            "remote_actor.LOOK_SECONDS = 0.1",
            "remote_actor.end_with('localhost:1')",
            "remote.PulledWeights('localhost:1')",
        ]
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=LONGEST_SECONDS, check=False).returncode == 0


def test_a_server_answers_and_a_closed_port_does_not():
    with socket.create_server(("localhost", 0)) as server:
        address = f"localhost:{server.getsockname()[1]}"
        assert remote_actor._answers(address)
    assert not remote_actor._answers(address)


def test_a_machine_that_cannot_be_reached_is_waited_for(monkeypatch):
    outcomes = iter([OSError("no route to host"), TimeoutError(), socket.socket()])

    def connect(address, timeout):
        outcome = next(outcomes)
        if isinstance(outcome, OSError):
            raise outcome
        return outcome

    monkeypatch.setattr(remote_actor, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(socket, "create_connection", connect)
    assert remote_actor._answers("10.0.0.1:5")
    outcomes = iter([OSError("no route to host")] * 2)
    monkeypatch.setattr(remote_actor, "PATIENCE_SECONDS", -1.0)
    assert not remote_actor._answers("10.0.0.1:5")
    assert len(list(outcomes)) == 1
