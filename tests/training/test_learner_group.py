"""Messages from other learners to the chief; here learners are threads instead of processes."""

from __future__ import annotations

import socket
import threading
import time
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client

import numpy as np
import pytest
import tensorflow as tf

from repro.acting.batches import Batch
from repro.acting.rollout import Episode
from repro.acting.supervision import ActorPoolError, Interrupted, Supervision
from repro.training import learner_group
from repro.training.learner_group import ChiefLink, LearnerGroup, LearnerLostError, Ready, _Beat, _Failed
from repro.training.synchronous_learners import ChiefSource
from tests.support.waiting import IdleProcess

SILENT_SECONDS = 0.5
LONG = 600.0


class ThreadLearner(IdleProcess):
    """A learner that joins and then says what a test lets it."""

    may_wait = False

    def __init__(self, number, address, key):
        super().__init__(self.may_wait)
        self.number, self.joined = number, threading.Event()
        host, port = address.split(":")
        self.place = (host, int(port)), key.encode()
        threading.Thread(target=self._join, daemon=True).start()

    def _join(self):
        address, key = self.place
        self.silent = socket.create_connection(address)  # somebody else, who says nothing and keeps nobody waiting
        with pytest.raises(AuthenticationError):
            Client(address, authkey=b"another key")
        self.connection = Client(address, authkey=key)
        self.connection.send((self.number, f"10.0.0.{self.number}:7"))
        self.addresses = self.connection.recv()
        self.joined.set()

    def end(self):
        assert self.joined.wait(20.0)  # nobody reads any more
        self.connection.close()
        self.silent.close()
        self.ended.set()


class Group(LearnerGroup):
    """Learners that are threads, besides the chief."""

    home = None

    def __init__(self, folder, num_learners=3):
        self.messages, self.learners = [], []
        super().__init__(self, num_learners, Supervision(self.messages.append, folder, SILENT_SECONDS))

    def start_learner(self, *arguments):
        self.learners.append(ThreadLearner(*arguments))
        return self.learners[-1]

    def say(self, *messages):
        for learner, message in zip(self.learners, messages):
            learner.connection.send(message)


@pytest.fixture
def group(tmp_path, monkeypatch):
    monkeypatch.setattr(learner_group, "START_SECONDS", 20.0)
    monkeypatch.setattr(learner_group, "REASON_SECONDS", 0.5)
    monkeypatch.setattr(learner_group, "NO_BEAT_SECONDS", LONG)
    group = Group(tmp_path)
    yield group
    for learner in group.learners:
        learner.ended.set()
    group.close()


def ready(version=0, games=(), restarts=0, broken_off=0, machines=(), missing=0):
    state = {"actors": {"broken_off": broken_off}, "machines": np.array(machines, np.int64), "missing": missing}
    return Ready([version], list(games), restarts, state)


def test_learners_that_know_the_key_get_all_addresses_and_the_states_of_before(group):
    chief, *others = group.connect()
    assert chief.startswith("localhost:")
    assert others == ["10.0.0.1:7", "10.0.0.2:7"]
    group.states = {"1": {"starts": 4}}
    group.begin()
    assert all(learner.joined.wait(20.0) for learner in group.learners)
    assert [learner.connection.recv() for learner in group.learners] == [{"starts": 4}, None]
    assert all(learner.addresses == [chief, *others] for learner in group.learners)


def test_an_update_begins_when_all_are_ready(group):
    group.connect()
    group.learners[0].connection.send("Actor 1 was restarted.")
    group.learners[0].connection.send(ready(1, restarts=2))
    threading.Timer(0.3, group.learners[1].connection.send, [ready(5, restarts=1)]).start()
    assert [found.versions for found in group.wait(lambda: None)] == [[1], [5]]
    assert group.messages == ["Actor 1 was restarted."]
    assert group.restarts == 3
    assert sorted(group.states) == ["1", "2"]


def test_a_learner_that_ends_is_named_with_the_reason(group):
    group.connect()
    group.say(ready())
    group.learners[1].end()
    with pytest.raises(LearnerLostError, match=r"^Learner 2 is gone: it ended with code -9\.$"):
        group.wait(lambda: None)


def test_a_learner_that_ends_before_it_joins_is_named(group, monkeypatch):
    monkeypatch.setattr(ThreadLearner, "_join", lambda self: self.ended.set() if self.number == 2 else None)
    monkeypatch.setattr(ThreadLearner, "end", lambda self: self.ended.set())
    with pytest.raises(LearnerLostError, match="Learner 2 is gone: it ended with code -9"):
        group.connect()


def test_a_learner_that_says_nothing_hangs(group, monkeypatch):
    """Later than an actor of its own would, which it replaces."""
    group.connect()
    monkeypatch.setattr(learner_group, "START_SECONDS", 1.0)
    limit = SILENT_SECONDS + 1.0
    group.say(ready())
    began = time.monotonic()
    with pytest.raises(LearnerLostError, match=f"Learner 2 reported nothing for {limit:g} seconds"):
        group.wait(lambda: None)
    assert time.monotonic() - began > limit


def beat(group, silent, stopped):
    """Gives signs of life of all learners until an event, and of the first until another."""
    for learner in group.learners:
        assert learner.joined.wait(20.0)
    while not stopped.wait(0.1):
        for learner in group.learners[1:] if silent.is_set() else group.learners:
            learner.connection.send(_Beat())


@pytest.fixture
def silent(group):
    """Learners of which all that one can say is that they live; once this event is set, the first does not."""
    silent, stopped = threading.Event(), threading.Event()
    group.connect()
    thread = threading.Thread(target=beat, args=(group, silent, stopped), daemon=True)
    thread.start()
    yield silent
    stopped.set()
    thread.join()


def test_a_learner_that_lives_but_has_no_share_of_the_batch_hangs(group, silent, monkeypatch):
    monkeypatch.setattr(learner_group, "START_SECONDS", 1.0)
    with pytest.raises(LearnerLostError, match="Learner 1 reported nothing for 1.5 seconds"):
        group.wait(lambda: None)


def test_a_learner_may_wait_for_cores_before_its_first_share_alone(group, monkeypatch):
    monkeypatch.setattr(ThreadLearner, "may_wait", True)
    monkeypatch.setattr(learner_group, "START_SECONDS", SILENT_SECONDS)
    group.connect()
    threading.Timer(6 * SILENT_SECONDS, group.say, [ready(), ready()]).start()
    assert len(group.wait(lambda: None)) == 2
    with pytest.raises(LearnerLostError, match="Learner 1 reported nothing for 1 seconds"):
        group.wait(lambda: None)


def test_a_learner_has_as_long_to_join_as_an_actor_for_its_first_report(group, monkeypatch):
    monkeypatch.setattr(ThreadLearner, "_join", lambda self: self.ended.wait())
    monkeypatch.setattr(learner_group, "START_SECONDS", 0.1)
    with pytest.raises(LearnerLostError, match="Learner 1 reported nothing for 0.5 seconds"):
        group.connect()


def test_a_learner_without_a_sign_of_life_is_gone_also_in_an_update(group, silent, monkeypatch):
    aborted = threading.Event()
    context = learner_group.context.context()
    monkeypatch.setattr(context, "abort_collective_ops", lambda code, message: aborted.set())
    monkeypatch.setattr(learner_group, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(learner_group, "NO_BEAT_SECONDS", 4.0)
    group.say(ready(), ready())
    group.wait(lambda: None)
    assert not aborted.wait(6.0)
    silent.set()
    assert aborted.wait(30.0)
    lost = group.lost(tf.errors.UnavailableError(None, None, "Collective ops is aborted"))
    assert str(lost) == "Learner 1 is gone: it gave no sign of life for 4 seconds."


def test_a_wait_for_a_learner_without_a_sign_of_life_ends(group, silent, monkeypatch):
    monkeypatch.setattr(learner_group.context.context(), "abort_collective_ops", lambda code, message: None)
    monkeypatch.setattr(learner_group, "START_SECONDS", 20.0)
    monkeypatch.setattr(learner_group, "NO_BEAT_SECONDS", 4.0)
    silent.set()
    with pytest.raises(LearnerLostError, match=r"^Learner 1 is gone: it gave no sign of life for 4 seconds\.$"):
        group.wait(lambda: None)


def test_a_learner_gives_signs_of_life_from_its_joining_on(tmp_path, monkeypatch):
    """And its process ends with the chief, also where it waits for other learners."""
    exited = threading.Event()

    def join(self):
        (host, port), key = self.place
        self.connection = ChiefLink(f"{host}:{port}", key.decode(), self.number)
        self.addresses = self.connection.join()
        self.joined.set()

    monkeypatch.setattr(ThreadLearner, "_join", join)
    monkeypatch.setattr(learner_group.os, "_exit", lambda code: exited.set())
    monkeypatch.setattr(learner_group.context.context(), "abort_collective_ops", lambda code, message: None)
    monkeypatch.setattr(learner_group, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(learner_group, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(learner_group, "NO_BEAT_SECONDS", 4.0)
    group = Group(tmp_path, num_learners=2)
    addresses = group.connect()
    (learner,) = group.learners
    assert learner.joined.wait(20.0)
    assert learner.addresses == addresses
    time.sleep(6.0)
    group.say(ready(3))
    assert [found.versions for found in group.wait(lambda: None)] == [[3]]
    learner.ended.set()
    group.close()
    assert exited.wait(20.0)


def test_learners_hear_of_the_end(group, monkeypatch):
    monkeypatch.setattr(learner_group, "JOIN_SECONDS", 0.2)
    group.connect()
    assert all(learner.joined.wait(20.0) for learner in group.learners)
    time.sleep(0.2)  # until the chief reads
    group.close()
    for learner in group.learners:
        assert learner.connection.poll(20.0)
        with pytest.raises(EOFError):
            learner.connection.recv()


def test_what_a_learner_cannot_go_on_with_ends_the_run(group):
    group.connect()
    group.say(_Failed("Actor 3 failed 3 times."))
    with pytest.raises(ActorPoolError, match="Actor 3 failed 3 times"):
        group.wait(lambda: None)


def test_what_a_learner_said_before_it_ended_counts(group, monkeypatch):
    monkeypatch.setattr(learner_group, "REASON_SECONDS", 20.0)
    group.connect()
    assert all(learner.joined.wait(20.0) for learner in group.learners)
    learner = group.learners[0]
    learner.ended.set()
    time.sleep(0.5)  # until the chief knows that the process has ended
    learner.connection.send(_Failed("Actor 3 failed 3 times."))
    learner.connection.close()
    with pytest.raises(ActorPoolError, match="Actor 3 failed 3 times"):
        group.wait(lambda: None)


def test_a_wait_for_learners_is_interrupted(group):
    group.connect()

    def check():
        raise Interrupted

    with pytest.raises(Interrupted):
        group.wait(check)


def test_an_update_that_does_not_end_is_broken_off(group, monkeypatch):
    aborted = threading.Event()
    context = learner_group.context.context()
    monkeypatch.setattr(context, "abort_collective_ops", lambda code, message: aborted.set())
    monkeypatch.setattr(learner_group, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(learner_group, "START_SECONDS", SILENT_SECONDS)
    group.connect()
    group.say(ready(), ready())
    group.wait(lambda: None)
    group.end_update()
    time.sleep(4 * SILENT_SECONDS)
    assert not aborted.is_set()  # it waits for its own actors, and learns nothing
    group.say(ready(), ready())
    group.wait(lambda: None)
    assert aborted.wait(20.0)
    lost = group.lost(tf.errors.UnavailableError(None, None, "Collective ops is aborted"))
    assert str(lost) == f"A learner hangs: an update took longer than {2 * SILENT_SECONDS:g} seconds."


def test_an_update_that_fails_names_who_is_gone(group):
    error = tf.errors.UnavailableError(None, None, "From here\nConnection reset by peer")
    group.connect()
    assert str(group.lost(error)) == "A learner does not answer (Connection reset by peer)."
    group.learners[0].end()
    assert str(group.lost(error)) == "Learner 1 is gone: it ended with code -9."


class OwnSource:
    """The chief's own, as far as `ChiefSource` needs it."""

    restarts = 1

    def next(self):
        batch = Batch([], None)
        batch.versions = [3]
        return batch

    def check(self):
        pass

    def totals(self, others):
        return {"machines": len(others)}

    def get_state(self):
        return {"missing": 0}

    def set_state(self, state):
        self.state = state

    def close(self):
        pass


def test_a_batch_and_the_totals_are_those_of_all_learners(group):
    games = []
    source = ChiefSource(OwnSource(), group, games.append)
    group.connect()
    group.say(ready(4, [Episode(1.0, 10)], restarts=2), ready(5, [Episode(2.0, 20)]))
    assert source.next().versions == [3, 4, 5]
    assert [game.score for game in games] == [1.0, 2.0]
    assert source.restarts == 3
    assert source.totals() == {"learners": 3, "machines": 2}
    state = source.get_state()
    assert state["missing"] == 0
    group.states = {}
    source.set_state(state)
    assert sorted(group.states) == ["1", "2"]
