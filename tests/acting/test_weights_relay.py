"""Weights that the actors of a machine share: each version is fetched once and whole, and no actor waits forever."""

from __future__ import annotations

import functools
import os
import resource
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import reverb
import tensorflow as tf

from repro.acting import remote_actor, weights_relay
from repro.acting.actor_processes import ActorProcesses
from repro.acting.batches import GroupSizes
from repro.acting.remote import WEIGHTS, PulledWeights, RemoteWeights, make_tables, start_server
from repro.acting.remote_actor_pool import RemoteActorPool
from repro.acting.remote_source import RemoteSource
from repro.acting.supervision import Supervision
from repro.acting.weights_relay import WeightsRelay
from tests.support import relaying, waiting
from tests.support.forked_train import FORKING
from tests.support.relaying import ADDRESS, PARTS, SIGNATURE, SIZE, TOKEN, lines, publish, weights_of

LONGEST_SECONDS = 240.0
wait = functools.partial(waiting.wait, seconds=LONGEST_SECONDS)
LONG = 1000.0
"""Seconds that no test waits for: who goes on does so for another reason."""


@pytest.fixture(autouse=True)
def memory(tmp_path, monkeypatch):
    """Where folders are, in place of the machine's."""
    (folder := tmp_path / "memory").mkdir()
    monkeypatch.setattr(weights_relay, "SHARED_MEMORY", folder)
    return folder


@pytest.fixture
def start(tmp_path):
    """Starts a process that does something of `relaying` in this test's folder."""
    processes = []

    def begin(body, *arguments):
        processes.append(FORKING.Process(target=body, args=(tmp_path, len(processes), *arguments), daemon=True))
        processes[-1].start()
        return processes[-1]

    yield begin
    for process in processes:
        process.kill()
        process.join()


class FakeLearner:
    """Publishes to relays of this process, and counts what they fetch."""

    def __init__(self, token=TOKEN, address=ADDRESS):
        self.version, self.token, self.address, self.fetched = 0, token, address, []

    def join(self):
        return WeightsRelay(self.address, self.token, SIGNATURE)

    def fetch(self):
        self.fetched.append(self.version)
        return weights_of(self.version, self.token)

    def versions(self, relay):
        """All that is in the weights that a relay has."""
        return {int(x) for value in relay.get(self.version, self.fetch)[1:] for x in np.unique(value)}


class FakeClock:
    """Goes on while somebody sleeps."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        assert self.now < LONG, "waits for ever"


def taken(folder, index):
    """What an actor took, after a check that all of it was whole and new enough."""
    found = lines(folder / f"taken_{index}")
    for version, lowest, highest in found:
        assert version <= lowest == highest, (index, version, lowest, highest)
    return [version for _, version, _ in found]


def have(folder, indices, version):
    return all((taken(folder, index) or [-1])[-1] >= version for index in indices)


def test_a_version_crosses_the_network_once_for_all_actors_of_a_machine(tmp_path, start):
    variables = [tf.Variable(tf.zeros([100], tf.int64)), tf.Variable(tf.zeros([], tf.int64))]
    server = start_server(make_tables(variables))
    address, weights = f"localhost:{server.port}", RemoteWeights(variables)
    weights.connect(address)
    for _ in range(3):
        start(relaying.pull, address)
    for version in range(5):
        for variable in variables:
            variable.assign(tf.fill(variable.shape, tf.constant(version, tf.int64)))
        weights.publish(version)
        wait(lambda: have(tmp_path, range(3), version))
    assert [taken(tmp_path, index) for index in range(3)] == 3 * [[0, 1, 2, 3, 4]]
    assert reverb.Client(address).server_info()[WEIGHTS].rate_limiter_info.sample_stats.completed == 5
    server.stop()


def test_the_lock_of_a_killed_actor_is_free(tmp_path, start):
    publish(tmp_path, 0)
    holder = start(relaying.follow, LONG, 0)
    wait(lambda: lines(tmp_path / "fetched") == [(0, 0)])
    for _ in range(2):
        start(relaying.follow, LONG)
    wait(lambda: (tmp_path / "ready_1").exists() and (tmp_path / "ready_2").exists())
    time.sleep(0.5)
    assert lines(tmp_path / "fetched") == [(0, 0)]  # they wait
    holder.kill()
    wait(lambda: have(tmp_path, (1, 2), 0))
    assert len(lines(tmp_path / "fetched")) == 2
    publish(tmp_path, 1)
    wait(lambda: have(tmp_path, (1, 2), 1))
    assert len(lines(tmp_path / "fetched")) == 3


def test_others_go_on_without_an_actor_that_is_stopped_while_it_fetches(tmp_path, start):
    publish(tmp_path, 0)
    holder = start(relaying.follow, LONG, 0)
    wait(lambda: lines(tmp_path / "fetched") == [(0, 0)])
    os.kill(holder.pid, signal.SIGSTOP)
    for _ in range(2):
        start(relaying.follow, 0.5)
    for version in range(3):
        publish(tmp_path, version)
        wait(lambda: have(tmp_path, (1, 2), version))
    assert sorted(lines(tmp_path / "fetched")[1:]) == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]

    (tmp_path / "go_on").touch()
    os.kill(holder.pid, signal.SIGCONT)  # it writes version 0, which nobody wants any more
    for version in range(3, 1000):
        publish(tmp_path, version)
        wait(lambda: have(tmp_path, range(3), version))
        if [found for _, found in lines(tmp_path / "fetched")].count(version) == 1:
            break
    else:
        pytest.fail("they do not share again")


def test_a_wait_in_vain_is_not_repeated(monkeypatch):
    monkeypatch.setattr(weights_relay, "time", clock := FakeClock())
    learner = FakeLearner()
    holder, relay, other = learner.join(), learner.join(), learner.join()
    assert weights_relay.try_flock(holder._lock, weights_relay.fcntl.LOCK_EX)
    for learner.version in (1, 2, 3):
        assert learner.versions(relay) == {learner.version}
    assert weights_relay.WAIT_SECONDS <= clock.now < weights_relay.WAIT_SECONDS + 0.1
    assert learner.fetched == [1, 2, 3]
    holder.close()
    learner.version = 4
    assert [learner.versions(x) for x in (relay, other)] == [{4}, {4}]
    assert learner.fetched == [1, 2, 3, 4]
    assert clock.now < weights_relay.WAIT_SECONDS + 0.1


def test_what_another_actor_fetched_before_the_lock_was_free_is_not_fetched_again(monkeypatch):
    learner = FakeLearner()
    other, relay, try_lock = learner.join(), learner.join(), weights_relay.try_flock

    def busy(descriptor, kind):
        monkeypatch.setattr(weights_relay, "try_flock", try_lock)
        learner.versions(other)
        return try_lock(descriptor, kind)

    monkeypatch.setattr(weights_relay, "try_flock", busy)
    assert learner.versions(relay) == {0}
    assert learner.fetched == [0]


def test_a_reader_has_all_of_one_version_while_others_write_and_are_killed(tmp_path, start):
    publish(tmp_path, 0)
    for _ in range(4):
        start(relaying.follow, LONG)
    killed = [start(relaying.follow, LONG) for _ in range(2)]
    for version in range(100):
        publish(tmp_path, version)
        wait(lambda: have(tmp_path, (version % 4,), version))
        if version in (30, 60):
            killed.pop().kill()
    for index in range(4):
        assert len(taken(tmp_path, index)) > 10
    fetched = [version for _, version in lines(tmp_path / "fetched")]
    assert len(fetched) <= len(set(fetched)) + 2  # twice where it was the one killed that fetched


def test_what_was_written_of_a_snapshot_when_its_writer_was_killed_is_not_read(memory):
    learner = FakeLearner()
    one, two = learner.join(), learner.join()
    partial = one._folder / weights_relay.PARTIAL
    partial.write_bytes(10 * PARTS * SIZE * b"x")
    assert [learner.versions(x) for x in (one, two)] == [{0}, {0}]
    assert learner.fetched == [0]
    assert not partial.exists()


def test_weights_that_were_read_stay_as_they_are():
    learner = FakeLearner()
    writer, reader = learner.join(), learner.join()
    learner.versions(writer)
    held = reader.get(0, learner.fetch)
    learner.version = 1
    assert learner.versions(writer) == {1}
    assert {int(x) for value in held[1:] for x in np.unique(value)} == {0}
    assert learner.fetched == [0, 1]


def test_tensors_of_all_kinds_come_back_as_they_were():
    values = [
        tf.constant(np.array([5, TOKEN])),
        tf.constant(1.5),
        tf.constant([[1, 2], [3, 4]], tf.uint8),
        tf.constant([True, False, True]),
        tf.constant(np.linspace(0, 1, 33)),
    ]
    writer, reader = (WeightsRelay(ADDRESS, TOKEN, [tf.TensorSpec(v.shape, v.dtype) for v in values]) for _ in range(2))
    writer.get(5, lambda: values)
    found = reader.get(5, lambda: pytest.fail("it is in the file"))
    for a, b in zip(found, values, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_array_equal(a, b)


def test_older_weights_are_not_taken_and_newer_ones_are(monkeypatch):
    monkeypatch.setattr(weights_relay, "time", clock := FakeClock())
    learner = FakeLearner()
    one, two = learner.join(), learner.join()
    learner.version = 4
    learner.versions(one)
    assert int(two.get(3, learner.fetch)[0][0]) == 4
    learner.version = 5
    assert learner.versions(two) == {5}
    assert learner.fetched == [4, 5]
    assert clock.now == 0.0  # nobody waits for a lock that nobody has


def test_a_full_memory_costs_fetches_alone(memory):
    learner = FakeLearner()
    one, two = learner.join(), learner.join()
    learner.versions(one)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (PARTS * SIZE, limits[1]))  # bytes, of which weights have more
    try:
        for learner.version in (1, 2):
            assert [learner.versions(x) for x in (one, two)] == 2 * [{learner.version}]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert learner.fetched == [0, 1, 1, 2, 2]
    assert sorted(path.name for path in next(memory.iterdir()).iterdir()) == ["lock", "weights"]
    learner.version = 3
    assert [learner.versions(x) for x in (one, two)] == 2 * [{3}]
    assert learner.fetched[5:] == [3]


def _open_to_others(path):
    path.mkdir()
    path.chmod(0o777)


@pytest.mark.parametrize("spoil", [_open_to_others, Path.touch, lambda path: path.symlink_to(path.parent.parent)])
def test_a_folder_that_is_not_this_users_alone_is_not_used(memory, spoil):
    spoil(memory / weights_relay._name(ADDRESS, TOKEN))
    learner = FakeLearner()
    one, two = learner.join(), learner.join()
    for learner.version in (0, 1):
        assert [learner.versions(x) for x in (one, two)] == 2 * [{learner.version}]
    assert learner.fetched == [0, 0, 1, 1]
    one.close()
    assert os.path.lexists(memory / weights_relay._name(ADDRESS, TOKEN))


@pytest.mark.parametrize("folder", ["/proc", "/dev/null/nothing"])
def test_without_permission_or_shared_memory_weights_come_all_the_same(tmp_path, monkeypatch, folder):
    monkeypatch.setattr(weights_relay, "SHARED_MEMORY", Path(folder))
    monkeypatch.setattr(weights_relay.tempfile, "gettempdir", lambda: str(tmp_path))
    learner = FakeLearner()
    one, two = learner.join(), learner.join()
    assert [learner.versions(x) for x in (one, two)] == 2 * [{0}]
    assert len(learner.fetched) == (2 if folder == "/proc" else 1)


def test_the_file_is_for_this_user_alone(memory):
    learner = FakeLearner()
    learner.versions(relay := learner.join())
    paths = [*memory.iterdir(), *memory.rglob("*/*")]
    assert len(paths) == 3
    assert all(path.stat().st_uid == os.geteuid() and not path.stat().st_mode & 0o077 for path in paths)
    relay.close()


@pytest.mark.parametrize("other", [{"token": TOKEN + 1}, {"address": "10.0.0.2:5"}])
def test_learners_on_one_machine_do_not_mix(memory, other):
    learners = [FakeLearner(), FakeLearner(**other)]
    learners[0].version = 1
    relays = [learner.join() for learner in learners for _ in range(2)]
    assert [learner.versions(relay) for learner, relay in zip(np.repeat(learners, 2), relays)] == [{1}, {1}, {0}, {0}]
    assert [learner.fetched for learner in learners] == [[1], [0]]


def test_weights_of_a_learner_that_has_just_come_are_not_for_the_actors_of_the_one_before():
    learner, other = FakeLearner(), FakeLearner(token=TOKEN + 1)
    one, two = learner.join(), learner.join()
    other.version = 7
    assert int(one.get(0, other.fetch)[0][1]) == TOKEN + 1
    assert learner.versions(two) == {0}
    assert learner.fetched == [0]


def test_a_new_learner_at_an_old_address_is_not_taken_for_the_old_one(memory):
    old, new = tf.Variable([0.0]), tf.Variable([1.0])
    server = start_server(make_tables([old]))
    address = f"localhost:{server.port}"
    actors = [PulledWeights(address) for _ in range(2)]
    for variable, versions in ((old, (8, 9)), (new, (3, 9))):
        weights = RemoteWeights([variable])
        weights.connect(address)
        for version in versions:
            weights.publish(version)
            for actor in actors:
                assert (actor.latest.version, float(actor.latest.values[0])) == (version, float(variable))
    assert len(list(memory.iterdir())) == 1  # that of the new one
    assert reverb.Client(address).server_info()[WEIGHTS].rate_limiter_info.sample_stats.completed == 4
    server.stop()


def test_the_last_actor_removes_the_folder(memory):
    learner = FakeLearner()
    relays = [learner.join() for _ in range(3)]
    for relay in relays:
        learner.versions(relay)
        relay.close()
        assert len(list(memory.iterdir())) == (relay is not relays[-1])
    assert learner.versions(relays[0]) == {0}  # by itself


def test_what_killed_actors_left_is_removed_by_the_next_one_of_any_learner(tmp_path, memory, start):
    publish(tmp_path, 0)
    killed, other = start(relaying.follow, LONG), FakeLearner(token=TOKEN + 1)
    wait(lambda: have(tmp_path, (0,), 0))
    (folder,) = memory.iterdir()
    relay = other.join()
    assert folder.exists()  # it plays
    killed.kill()
    killed.join()
    assert folder.exists()
    other.join()
    assert list(memory.iterdir()) == [relay._folder]


@pytest.mark.parametrize("kind", ["of unrolls", "of a replay"])
def test_what_killed_actors_left_is_removed_by_their_learner(tmp_path, memory, start, kind):
    publish(tmp_path, 0)
    killed = start(relaying.follow, LONG)
    wait(lambda: have(tmp_path, (0,), 0))
    actors = ActorProcesses(lambda *_: None, 1, Supervision(print, tmp_path))
    if kind == "of unrolls":
        parts = actors, RemoteWeights([]), lambda: SimpleNamespace(nbytes=0), GroupSizes(1, 1)
        learner = RemoteSource(*parts, 1, None, print)
    else:
        learner = RemoteActorPool(SimpleNamespace(), RemoteWeights([]), actors, 1, print, frames_per_step=4)
    learner.close()
    assert len(list(memory.iterdir())) == 1
    killed.kill()
    killed.join()
    learner.close()
    assert not list(memory.iterdir())


def test_an_actor_whose_learner_is_gone_leaves_nothing_behind(memory, monkeypatch):
    learner = FakeLearner()
    relay, left = learner.join(), []
    learner.versions(relay)
    monkeypatch.setattr(remote_actor, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(remote_actor, "_answers", lambda address: False)
    monkeypatch.setattr(os, "_exit", lambda code: left.append(list(memory.iterdir())))
    remote_actor._watch("localhost:1")
    assert left == [[]]


def test_actors_that_come_and_go_meet_in_one_folder(tmp_path, memory, start):
    processes = [start(relaying.come_and_go, 50) for _ in range(4)]
    wait(lambda: not any(process.is_alive() for process in processes))
    assert [process.exitcode for process in processes] == [0, 0, 0, 0]
    found = lines(tmp_path / "joined")
    assert len(found) == 200
    assert {(version, there) for _, version, there in found} == {(3, 1)}
    assert not list(memory.iterdir())
