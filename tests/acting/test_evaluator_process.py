"""An evaluator beside training: its weights, its results, and how its faults affect the run."""

from __future__ import annotations

import functools
import time

import numpy as np
import pytest
import reverb
import tensorflow as tf

from repro.acting import actor_processes, evaluator_process, remote_evaluator
from repro.acting.evaluator_process import Evaluator
from repro.acting.play import play
from repro.acting.remote import start_server
from repro.acting.remote_evaluator import LearnerLink, Offer, evaluate_offers, seed_of
from repro.acting.supervision import MAX_FAILURES, Supervision
from tests.support.catch import Catch
from tests.support.training import make_agent, make_recurrent_agent
from tests.support.waiting import IdleProcess, wait

TOTAL = 1000
"""Updates of a run: weights are offered every tenth."""
GIVEN_UP = (
    "The evaluator failed 3 times in a row without a finished evaluation, the last time: it ended with code -9. "
    "The run goes on without it."
)


class Learner:
    """The learner's end, its server, the processes that were started, and what was said.

    Args:
        make_process: returns the next process.
        silent_seconds: see `Supervision`.
    """

    home = port = None

    def __init__(self, folder, make_process=IdleProcess, silent_seconds=1e9, tasks=()):
        self.variables, self.said, self.started = [tf.Variable([0.0, 0.0]), tf.Variable(7)], [], []
        self._make_process = make_process
        supervision = Supervision(self.said.append, folder, silent_seconds)
        self.evaluator = Evaluator(self, self.variables, tasks, supervision)
        self.server = start_server(self.evaluator.make_tables())
        self.address = f"localhost:{self.server.port}"
        self.evaluator.start(self.address)

    def start_evaluator(self, address):
        assert address == self.address
        self.started.append(self._make_process())
        return self.started[-1]

    def update(self, updates):
        """One update, whose weights have its number."""
        self.variables[0].assign([updates, 0.5])
        return self.evaluator.follow(updates, 10 * updates, TOTAL)


@pytest.fixture
def make_learner(tmp_path, monkeypatch):
    monkeypatch.setattr(evaluator_process, "LOOK_SECONDS", 0.0)
    made = []

    def make(*args, **kwargs):
        made.append(Learner(tmp_path, *args, **kwargs))
        return made[-1]

    yield make
    for learner in made:
        learner.evaluator.close()
        learner.server.stop()


def test_the_newest_weights_of_every_hundredth_are_taken_once_and_come_back_with_their_updates(make_learner):
    learner = make_learner()
    link, returns = LearnerLink(learner.address), np.float64([[1.0, 2.0, 6.0]])
    assert learner.update(3) == []  # the first of a process
    header, values = link.take()
    assert header[:2].tolist() == [3, 30]
    np.testing.assert_array_equal(values[0], [3.0, 0.5])
    assert values[1] == 7
    link.report(Offer(header, values), returns)
    link.report(Offer(header, values), returns)  # as after a connection that broke
    for updates in (*range(4, 9), 9):
        came = learner.update(updates)
        if came:
            break
    (evaluated,) = came
    assert evaluated[:2] == (3, 30)
    assert (evaluated.returns.tolist(), evaluated.tasks) == ([[1.0, 2.0, 6.0]], ())

    for updates in range(updates + 1, 35):
        assert learner.update(updates) == []
    offer = link.take()
    assert offer.header[:2].tolist() == [30, 300]  # 10 and 20 came too early
    assert offer.values[0][0] == 30.0
    assert reverb.Client(learner.address).server_info()["offered"].current_size == 0

    for header in ([2, 20, offer.header[2]], [30, 300, offer.header[2] + 1]):  # late, and of another learner
        link.report(Offer(np.int64(header), ()), returns)
    link.report(offer, 2 * returns)
    came = []
    wait(lambda: came.extend(learner.update(35)) or came)
    assert [(evaluated.updates, evaluated.returns.sum()) for evaluated in came] == [(30, 18.0)]
    assert learner.update(36) == []


def test_it_begins_after_the_first_update_and_one_that_is_killed_is_replaced(make_learner):
    learner = make_learner()
    learner.evaluator.look()
    time.sleep(0.2)
    assert learner.started == []
    learner.update(1)
    wait(lambda: learner.started)
    LearnerLink(learner.address).live()
    learner.update(2)
    assert learner.evaluator.restarts == 0
    learner.started[0].kill()
    wait(lambda: len(learner.started) == 2)
    assert learner.evaluator.restarts == 1
    learner.update(3)
    assert learner.said == ["The evaluator was restarted (restart 1 by this process): it ended with code -9."]


def test_a_run_goes_on_without_one_that_cannot_begin(make_learner):
    def make():
        process = IdleProcess()
        process.kill()
        return process

    learner = make_learner(make)
    learner.update(1)
    wait(lambda: not learner.update(2) and "without it" in str(learner.said[-1:]))
    assert len(learner.started) == MAX_FAILURES
    assert learner.said[-1] == GIVEN_UP
    count = len(learner.said)
    LearnerLink(learner.address).take()  # what was offered before
    assert learner.update(10) == []
    assert len(learner.said) == count
    assert reverb.Client(learner.address).server_info()["offered"].current_size == 0


def fail_late(learner):
    """One that has played for longer than a start takes raises an error; returns whether another one comes."""
    number = len(learner.started)
    LearnerLink(learner.address).live()
    learner.evaluator.look()
    learner.started[-1].kill()
    wait(lambda: len(learner.started) > number or learner.update(5) or learner.said[-1:] == [GIVEN_UP])
    return len(learner.started) > number


def test_only_a_finished_evaluation_ends_failures_in_a_row(make_learner, monkeypatch):
    """As where an environment fails after some time, always or now and then; what leaves its core has not failed."""
    monkeypatch.setattr(actor_processes, "QUICK_SECONDS", 0.0)
    learner = make_learner(lambda: IdleProcess(may_wait=True))
    learner.update(1)
    wait(lambda: learner.started)
    assert fail_late(learner)
    assert fail_late(learner)
    link, came = LearnerLink(learner.address), []
    link.report(link.take(), np.ones((1, 2)))
    wait(lambda: came.extend(learner.update(2)) or came)
    assert fail_late(learner)
    assert fail_late(learner)
    with monkeypatch.context() as still:
        still.setattr(evaluator_process, "STILL_SECONDS", -1.0)
        LearnerLink(learner.address).live()
        wait(lambda: learner.evaluator.look() or learner.started[-1].ended.is_set())
    learner.update(3)
    wait(lambda: len(learner.started) == 6)
    assert not fail_late(learner)
    assert len(learner.started) == 6
    count = len(learner.said)
    for updates in range(6, 20):
        assert learner.update(updates) == []
    assert learner.said[count - 1 :] == [GIVEN_UP]


def test_an_evaluation_that_waits_to_be_read_ends_failures_in_a_row_too(make_learner, monkeypatch):
    monkeypatch.setattr(evaluator_process, "LOOK_SECONDS", 1e9)
    learner = make_learner()
    learner.update(1)
    link = LearnerLink(learner.address)
    for number in range(1, MAX_FAILURES + 1):
        wait(lambda number=number: len(learner.started) == number)
        if number == MAX_FAILURES:
            link.report(link.take(), np.ones((1, 2)))
        learner.started[-1].kill()
    wait(lambda: len(learner.started) == MAX_FAILURES + 1)
    (evaluated,) = learner.update(2)
    assert evaluated.updates == 1


@pytest.mark.parametrize("error", [OSError("no memory"), ConnectionError("the cluster is gone")])
def test_a_run_goes_on_where_none_can_be_started(make_learner, error):
    def make():
        raise error

    learner = make_learner(make)
    learner.update(1)
    wait(lambda: not learner.update(2) and learner.said)
    assert learner.said == [
        f"The evaluator could not be started ({type(error).__name__}: {error}). The run goes on without it."
    ]


def test_one_that_hangs_is_ended_and_replaced(make_learner, monkeypatch):
    monkeypatch.setattr(remote_evaluator, "LIFE_SECONDS", 0.1)
    learner = make_learner(silent_seconds=1.0)
    learner.update(1)
    wait(lambda: learner.started)
    link, end = LearnerLink(learner.address), time.monotonic() + 2.5
    while time.monotonic() < end:  # it plays
        link.live()
        learner.evaluator.look()
        time.sleep(0.05)
    assert not learner.started[0].ended.is_set()
    wait(lambda: learner.evaluator.look() or learner.started[0].ended.is_set())
    assert learner.said[0] == "The evaluator reported nothing for 1 seconds."


@pytest.mark.parametrize("may_wait", [True, False])
def test_it_leaves_its_core_while_the_run_stands_still(make_learner, monkeypatch, may_wait):
    """On a cluster, where an actor may wait for it."""
    monkeypatch.setattr(evaluator_process, "STILL_SECONDS", 0.3)
    learner = make_learner(lambda: IdleProcess(may_wait))
    learner.update(1)
    wait(lambda: learner.started)
    end = time.monotonic() + 1.0
    while time.monotonic() < end:  # one that waits for a core itself stays
        learner.evaluator.look()
    assert not learner.started[0].ended.is_set()
    LearnerLink(learner.address).live()
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        learner.evaluator.look()
    assert learner.started[0].ended.is_set() == may_wait
    assert len(learner.started) == 1
    if may_wait:
        assert learner.said[0] == "The evaluator frees its core until the next update: there was none for 0.3 seconds."
        learner.update(2)
        wait(lambda: len(learner.started) == 2)


def test_one_that_left_its_core_is_neither_silent_nor_restarted(make_learner, monkeypatch):
    monkeypatch.setattr(evaluator_process, "STILL_SECONDS", 0.3)
    learner = make_learner(lambda: IdleProcess(may_wait=True), silent_seconds=0.8)
    learner.update(1)
    wait(lambda: learner.started)
    LearnerLink(learner.address).live()
    wait(lambda: learner.evaluator.look() or learner.started[0].ended.is_set())
    end = time.monotonic() + 2.0
    while time.monotonic() < end:
        learner.evaluator.look()
    assert learner.said == ["The evaluator frees its core until the next update: there was none for 0.3 seconds."]
    learner.update(2)
    wait(lambda: len(learner.started) == 2)
    learner.started[1].kill()
    wait(lambda: len(learner.started) == 3)
    learner.update(3)
    assert learner.said[1:] == ["The evaluator was restarted (restart 1 by this process): it ended with code -9."]
    assert learner.evaluator.restarts == 1


@pytest.mark.parametrize("updates", [0, 1])
def test_it_ends_with_the_run(make_learner, updates):
    """Also one that was never to begin."""
    learner = make_learner()
    if updates:
        learner.update(1)
        wait(lambda: learner.started)
    began = time.monotonic()
    learner.evaluator.close()
    assert time.monotonic() - began < 2.0
    assert [process.ended.is_set() for process in learner.started] == [True] * updates
    time.sleep(0.2)
    assert len(learner.started) == updates


class Breaking:
    """A client whose connection breaks at every other call."""

    def __init__(self, client):
        self._client, self._calls = client, 0

    def _break(self):
        self._calls += 1
        if self._calls % 2:
            raise RuntimeError("Socket closed")

    def server_info(self):
        self._break()
        return self._client.server_info()

    def insert(self, *args):
        self._break()
        self._client.insert(*args)

    def sample(self, *args, **kwargs):
        return self._client.sample(*args, **kwargs)


def test_what_breaks_off_is_tried_again(make_learner, monkeypatch):
    monkeypatch.setattr(remote_evaluator, "POLL_SECONDS", 0.01)
    learner = make_learner()
    link = LearnerLink(learner.address)
    link._client = Breaking(link._client)
    learner.update(1)
    link.report(link.take(), np.ones((1, 2)))
    came = []
    wait(lambda: came.extend(learner.update(2)) or came)
    assert came[0].updates == 1


class ScriptedLink:
    """Gives offers, and ends the evaluator after the last one."""

    def __init__(self, *offers):
        self.offers, self.reported, self.steps = list(offers), [], 0

    def take(self):
        if not self.offers:
            raise EOFError
        return self.offers.pop(0)

    def live(self):
        self.steps += 1

    def report(self, offer, returns):
        self.reported.append(returns)


def test_it_plays_what_an_evaluation_of_the_same_weights_plays():
    """Of two tasks, one after the other; nothing is left of the games before."""
    learner, own = make_agent(Catch(1, 0), seed=1), make_agent(Catch(1, 0), seed=2)
    offers, expected, tasks = [], [], [functools.partial(Catch, 4), lambda seed: Catch(4, seed + 1)]
    for updates in (10, 20, 10):
        for variable in learner.collect_policy.variables():
            variable.assign(tf.random.stateless_normal(variable.shape, (updates, 1)))
        values = [variable.numpy() for variable in learner.collect_policy.variables()]
        offers.append(Offer(np.array([updates, 0, 0]), values))
        seed = seed_of(5, updates)
        games = [play(learner.policy, make(seed), 20, seed, lambda _: None) for make in tasks]
        expected.append([[game.score for game in of_task] for of_task in games])
    link = ScriptedLink(*offers)
    with pytest.raises(EOFError):
        evaluate_offers(own.policy, own.collect_policy.variables(), tasks, 4, 20, 5, link)
    np.testing.assert_array_equal(link.reported, expected)
    assert expected[0] == expected[2] != expected[1]
    assert link.steps >= 2 * 3 * 5


def test_games_are_others_than_before_and_than_those_of_other_runs():
    assert len({seed_of(seed, updates) for seed in range(30) for updates in range(30)}) == 900


class WithLast(Catch):
    """Catch whose observation has the last action and reward, both 0."""

    def _observe(self):
        zeros = np.zeros(self.num_envs)
        return {"frame": super()._observe(), "last_action": zeros.astype(np.int32), "last_reward": np.float32(zeros)}


def test_the_state_of_a_recurrent_policy_begins_again():
    agent = make_recurrent_agent()
    values = [variable.numpy() for variable in agent.collect_policy.variables()]
    link = ScriptedLink(*(Offer(np.array([updates, 0, 0]), values) for updates in (1, 2, 1)))
    with pytest.raises(EOFError):
        variables = agent.collect_policy.variables()
        evaluate_offers(agent.policy, variables, [functools.partial(WithLast, 4)], 4, 100, 5, link)
    np.testing.assert_array_equal(link.reported[0], link.reported[2])
    assert (link.reported[0] != link.reported[1]).any()
