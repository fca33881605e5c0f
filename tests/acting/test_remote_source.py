"""Unrolls of actors in other processes: they reach the learner in order and once, and losses are counted."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import reverb
import tensorflow as tf

from paper_configs.impala import atari_shallow
from repro.acting import remote, sources
from repro.acting.actor import Actor
from repro.acting.actor_processes import ActorProcesses
from repro.acting.batches import GroupSizes
from repro.acting.machines import machine_number, own_address, own_machine
from repro.acting.remote import PulledWeights, RemoteWeights, Reporter, start_server
from repro.acting.remote_source import RemoteSource
from repro.acting.remote_unrolls import NOBODY, Header, UnrollReader, UnrollSender, make_queue
from repro.acting.supervision import Interrupted, Supervision
from repro.acting.unrolls import UnrollGroup
from repro.environments.specs import FrameStackSpace, tensor_spec_of
from repro.training.trainer import EpisodeLog
from tests.support.catch import Catch
from tests.support.training import UNROLL, make_agent, make_policy
from tests.support.waiting import IdleProcess, wait

ENVS, GROUP = 4, 2
HERE = machine_number("127.0.0.1")


@pytest.fixture(scope="module")
def spec():
    return make_agent(Catch(1, 0)).collect_data_spec


def make_group(spec):
    return UnrollGroup(spec, GROUP, UNROLL)


def filled(spec, number):
    """A group of numbers that differ from those of any other."""
    group, rng = make_group(spec), np.random.default_rng(number)
    for array in tf.nest.flatten(group.arrays):
        array[:] = rng.integers(0, 100, array.shape)
    group.version = 10 * number
    return group


def test_an_actors_environments_and_its_actions_have_seeds_of_their_own(monkeypatch):
    """Those that `begin` gives, also when it starts again."""
    config, run, seeds = atari_shallow.get_config("smoke"), [], []
    monkeypatch.setattr(sources, "begin", lambda *_: (11, 22))
    monkeypatch.setattr(sources, "UnrollSender", lambda *_: None)
    monkeypatch.setattr(sources, "PulledWeights", lambda address: None)
    monkeypatch.setattr(sources, "run_unroll_actor", lambda actor, *_: run.append(actor))

    def make_environment(index, seed):
        seeds.append(seed)
        return Catch(2, seed)

    sources.run_remote_actor(config, make_environment, make_policy, 1, 0, 0, "localhost:1")
    assert (seeds, [actor._seed for actor in run]) == ([11], [22])


@pytest.mark.parametrize("stacked", [False, True])
def test_groups_arrive_as_they_are_in_order_while_actors_wait_for_a_full_queue(spec, stacked):
    """Frames of stacks as well, each of which is sent once."""
    if stacked:
        spec = spec._replace(observation=tensor_spec_of(FrameStackSpace(3, 2), "frames"))
        assert make_group(spec).arrays.observation.pixels.shape == (GROUP, 3 + UNROLL + 1, 3, 2)
    server = start_server([make_queue(make_group(spec), max_groups=2)])
    address, sent = f"localhost:{server.port}", []
    groups = [filled(spec, i) for i in range(6)]
    reader, read = UnrollReader(address, make_group(spec)), make_group(spec)

    def play():
        sender = UnrollSender(reverb.Client(address), 3, 1, HERE)
        for group in groups:
            sender.send([group])
            sent.append(group)

    actor = threading.Thread(target=play, daemon=True)
    actor.start()
    wait(lambda: len(sent) == 3)
    time.sleep(0.5)
    assert len(sent) == 3  # the reader holds one; the fourth waits for a place
    for number, group in enumerate(groups):
        assert reader.read_into(read) == Header(3, 1, number, 10 * number, HERE)
        assert (read.version, read.actor) == (10 * number, 3)
        for a, b in zip(tf.nest.flatten(read.arrays), tf.nest.flatten(group.arrays), strict=True):
            np.testing.assert_array_equal(a, b)
    actor.join()
    threading.Timer(0.3, reader.end_wait).start()
    reader.read_into(read)
    server.stop()


def test_a_machine_is_known_by_the_address_that_it_has_on_its_way():
    assert own_address("localhost:1") == "127.0.0.1"
    assert machine_number("10.0.0.2") == 10 * 2**24 + 2
    assert own_machine("localhost:1") == HERE


class ThreadProcess(IdleProcess):
    """An actor in a thread, in place of a process, which ends between two unrolls."""

    def __init__(self, index, start, address):
        super().__init__()
        self.played = 0
        self.origin = index, start
        self.unrolls = []
        self._thread = threading.Thread(target=self._play, args=(address,), daemon=True)
        self._thread.start()

    def _play(self, address):
        index, start = self.origin
        environment, client = Catch(ENVS, 100 * index + start), reverb.Client(address)
        policy = make_policy(environment)
        machine = machine_number("10.0.0.7")
        reporter, sender = Reporter(client, index, start, machine), UnrollSender(client, index, start, machine)
        actor = Actor(environment, policy, PulledWeights(address), UNROLL, index, reporter.append)
        groups = [make_group(policy.trajectory_spec) for _ in range(ENVS // GROUP)]
        while not self.ended.is_set():
            actor.sync_weights()
            actor.collect(groups)
            if self.ended.is_set():  # the server may be gone, to which an insert would be tried for ever
                return
            self.unrolls.append((groups[0].version, groups[0].arrays.observation.copy()))
            reporter.report_games()
            sender.send(groups)


class Run:
    """A source on Catch, with the launcher of its actors; the learner changes its weights as a test says."""

    def __init__(self, folder, count=1, batch_size=4, home=None, **kept):
        self.agent, self.said, self.started = make_agent(Catch(1, 0)), [], []
        self.episodes = EpisodeLog()
        self.weights = RemoteWeights(self.agent.collect_policy.variables(), **kept)
        self.home, self.port = home, None
        self.actors = ActorProcesses(self, count, Supervision(self.said.append, folder))
        spec, sizes = self.agent.collect_data_spec, GroupSizes(ENVS, batch_size)
        assert (sizes.group, sizes.per_actor) == (GROUP if batch_size == 2 else ENVS, ENVS // sizes.group)
        parts = (self.actors, self.weights, lambda: UnrollGroup(spec, sizes.group, UNROLL), sizes)
        self.source = RemoteSource(*parts, 1, lambda x: x, self.episodes.append)

    def __call__(self, index, start, address):
        self.started.append(ThreadProcess(index, start, address))
        return self.started[-1]

    def learn(self, updates):
        """Batches, and after each one more publication of weights; returns the lag of each."""
        lags = []
        for _ in range(updates):
            batch = self.source.next()
            lags.append(self.weights.latest.version - np.mean(batch.versions))
            self.source.release(batch)
            self.weights.publish(self.weights.latest.version + 1)
        return lags


def test_batches_come_with_the_versions_of_their_weights_and_games_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "GAMES_SECONDS", 0.0)
    run = Run(tmp_path, batch_size=2)
    run.weights.publish(0)
    lags = run.learn(40)
    assert min(lags) >= 0
    assert 0 < max(lags) < 12  # bounded by the queue, the prefetched batch and one unroll of the actor
    assert run.source.restarts == 0
    assert run.source.totals() == {}
    assert run.episodes.games > 10
    versions = [version for version, _ in run.started[0].unrolls]
    assert versions == sorted(versions)
    assert versions[-1] > 20
    run.source.close()
    assert not run.said


def test_an_actor_that_ends_is_replaced_and_its_losses_are_counted(tmp_path):
    run = Run(tmp_path, batch_size=2, home="10.0.0.1")
    run.weights.publish(0)
    run.learn(4)
    run.started[0].kill()
    wait(lambda: len(run.started) == 2)
    while run.started[1].origin not in run.source._next:
        run.learn(1)
    assert run.said == ["Actor 0 was restarted (restart 1 by this process): it ended with code -9."]
    assert run.started[1].origin == (0, 1)  # plays other games
    assert run.source.restarts == 1
    assert run.source.totals() == {"machines": 2, "lost": {"games": ENVS, "unrolls": ENVS}}
    state = run.source.get_state()
    run.source.close()

    again = Run(tmp_path, batch_size=2, home="10.0.0.1")
    again.source.set_state(state)
    assert again.source.totals() == {"machines": 2, "lost": {"games": ENVS, "unrolls": ENVS}}
    again.weights.publish(4)
    again.learn(2)
    assert again.started[0].origin == (0, 2)
    assert again.source.restarts == 0
    again.source.close()


def test_machines_of_other_learners_count(tmp_path):
    chief, other, local = (Run(tmp_path, home=home).source for home in ("10.0.0.1", "10.0.0.2", None))
    assert chief.totals([other.get_state(), other.get_state()]) == {"machines": 2}
    assert local.totals([local.get_state()]) == {}


def test_a_group_that_comes_twice_is_learned_from_once_and_one_that_never_came_is_counted(tmp_path):
    run = Run(tmp_path, count=2, batch_size=2)
    source, run.actors._starts = run.source, [2, 1]
    new = [source._is_new(Header(0, 0, number, 5, HERE)) for number in (0, 1, 1, 4, 3, 5)]
    assert new == [True, True, False, True, False, True]
    assert source._is_new(Header(0, 1, 0, 5, HERE))
    assert source._is_new(Header(1, 0, 0, 5, HERE))
    for other in (Header(0, 2, 0, 5, HERE), Header(2, 0, 0, 5, HERE), Header(NOBODY, 0, 0, 0, 0)):
        assert not source._is_new(other)  # of another learner at the same address, or of none
    run.actors.set_state({"starts": [3, 1], "broken_off": 0})
    assert not source._is_new(Header(0, 2, 0, 5, HERE))  # of the learner before this one
    assert source.totals() == {"lost": {"games": 0, "unrolls": 2 * GROUP}}


def test_batches_bring_what_a_gradient_at_the_weights_that_acted_needs(tmp_path):
    learned = tf.Variable(0.0)
    run = Run(tmp_path, batch_size=2, acting=[learned], max_kept=1000)
    run.weights.publish(0)
    for update in range(1, 21):
        batch = run.source.next()
        (acting,) = batch.acting
        assert float(acting) == 0.5 * batch.versions[0]
        run.source.release(batch)
        learned.assign(0.5 * update)
        run.weights.publish(update)
    seen = run.source._acting_versions[0]
    assert seen > 5
    assert list(run.weights._kept)[0] >= seen - 1  # none is kept that no unroll can need
    assert run.source.totals() == {}
    run.source.close()


def test_an_unroll_whose_weights_were_given_up_is_passed_over_and_counted(tmp_path):
    run = Run(tmp_path, count=2, batch_size=2, acting=[learned := tf.Variable(0.0)], max_kept=3)
    for version in range(5):
        learned.assign(version)
        run.weights.publish(version)
    source, group = run.source, UnrollGroup(run.agent.collect_data_spec, GROUP, UNROLL)
    taken = [
        source._takes_acting(group, Header(actor, 0, 0, version, HERE)) for actor, version in ((0, 1), (0, 2), (1, 4))
    ]
    assert taken == [False, True, True]
    assert float(*group.acting) == 4.0
    assert source.totals() == {"lost": {"games": 0, "unrolls": GROUP}}
    assert list(run.weights._kept) == [2, 3, 4]  # actor 0 may still play with 2
    assert source._takes_acting(group, Header(0, 0, 1, 3, HERE))
    assert list(run.weights._kept) == [3, 4]


def test_a_wait_for_actors_is_interrupted(tmp_path, monkeypatch):
    run = Run(tmp_path)
    monkeypatch.setattr(ThreadProcess, "_play", lambda self, address: None)
    run.weights.publish(0)
    threading.Timer(0.3, run.source.interrupt).start()
    with pytest.raises(Interrupted):
        run.source.next()
    run.source.close()
