"""One policy that serves several actors, against the same policy called by each of them alone."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.trajectories import time_step as ts

from repro.acting.inference import DynamicBatching, LocalInference, SharedInference
from repro.acting.rollout import FIRST, MID
from repro.acting.weights import WeightsPublisher
from repro.networks.actor_critic import ActorCritic
from repro.networks.actor_critic_policy import ActorCriticPolicy
from tests.support.catch import COLUMNS, ROWS, Catch
from tests.support.training import dense_torso


def make_policy(seed, core_units=None):
    environment = Catch(1, 0)
    spec = environment.time_step_spec
    if core_units is not None:
        last = {"last_action": tf.TensorSpec((), tf.int32), "last_reward": tf.TensorSpec((), tf.float32)}
        spec = ts.time_step_spec({"frame": spec.observation, **last})
    network = ActorCritic(dense_torso(seed), 3, core_units, seed=seed)
    network.build_variables(spec.observation)
    return ActorCriticPolicy(spec, environment.action_spec, network)


def make_batching(max_rows, core_units=None):
    """One whose weights are published, and what publishes them."""
    learned = make_policy(7, core_units)
    publisher = WeightsPublisher(learned.variables())
    publisher.publish(0)
    return DynamicBatching(make_policy(1, core_units), publisher, max_rows, 3), publisher, learned


def frames(rng, rows):
    return rng.integers(0, 256, (rows, ROWS, COLUMNS, 1), np.uint8), np.full(rows, MID, np.int32)


def gathered(batching, calls):
    """Answers of calls that all wait while the first is at work, each in a thread; errors; the rows of each call."""
    answer, sizes, may_go = batching._answer, [], threading.Event()

    def slow(requests):
        sizes.append([request.rows for request in requests])
        if len(sizes) == 1:
            assert may_go.wait(30)
        return answer(requests)

    batching._answer = slow
    found, errors = {}, {}

    def run(i, call):
        try:
            found[i] = call()
        except Exception as error:  # noqa: BLE001 - looked at below
            errors[i] = error

    threads = [threading.Thread(target=run, args=numbered) for numbered in enumerate(calls)]
    threads[0].start()
    while not sizes:
        pass
    for thread in threads[1:]:
        thread.start()
    while len(batching._waiting) < len(calls) - 1:
        pass
    may_go.set()
    for thread in threads:
        thread.join(30)
    return found, errors, sizes


def test_those_who_wait_are_answered_together_and_each_gets_its_own():
    rng = np.random.default_rng(0)
    batching, publisher, learned = make_batching(9)
    local = [LocalInference(make_policy(2), publisher, rows, 0) for rows in (1, 2, 3, 2)]
    inputs = [frames(rng, rows) for rows in (1, 2, 3, 2)]
    shared = [SharedInference(batching, rows) for rows in (1, 2, 3, 2)]
    found, _, sizes = gathered(batching, [lambda s=s, i=i: s(*i) for s, i in zip(shared, inputs)])
    assert sizes[0] == [1]
    assert sorted(sizes[1]) == [2, 2, 3]
    assert len(sizes) == 2
    for i, alone in enumerate(local):
        alone.sync()
        action, info = found[i]
        np.testing.assert_allclose(info["logits"], alone(*inputs[i])[1]["logits"], atol=1e-6)
        assert action.shape == (len(inputs[i][1]),)


def test_sizes_of_calls_are_few():
    rng = np.random.default_rng(0)
    batching, *_ = make_batching(6)
    for rows in (1, 2, 3, 4, 5, 6):
        SharedInference(batching, rows)(*frames(rng, rows))
    assert sorted(batching._compiled) == [1, 2, 4, 6]


def test_a_recurrent_state_returns_to_its_actor():
    rng = np.random.default_rng(0)
    batching, publisher, _ = make_batching(4, core_units=5)
    shared = [SharedInference(batching, 2) for _ in range(2)]
    alone = [LocalInference(make_policy(2, 5), publisher, 2, 0) for _ in range(2)]
    for inference in alone:
        inference.sync()
    for step in range(4):
        inputs = []
        for begins in (False, step == 2):
            frame, step_type = frames(rng, 2)
            last = {"last_action": rng.integers(0, 3, 2, np.int32), "last_reward": rng.random(2, np.float32)}
            step_type[0] = FIRST if begins else MID  # a game of the second actor begins
            inputs.append(({"frame": frame, **last}, step_type))
        found, _, sizes = gathered(batching, [lambda s=s, i=i: s(*i) for s, i in zip(shared, inputs)])
        for i in range(2):
            info = alone[i](*inputs[i])[1]
            np.testing.assert_allclose(found[i][1]["logits"], info["logits"], atol=1e-6)
            for ours, theirs in zip(found[i][1]["core_state"], info["core_state"]):
                np.testing.assert_allclose(ours, theirs, atol=1e-6)
        if step == 1:
            saved = shared[1].get_state()
            shared[1] = SharedInference(batching, 2)
            shared[1].set_state(saved)


def test_calls_after_a_resume_have_other_numbers():
    rng = np.random.default_rng(0)
    batching, *_ = make_batching(2)
    shared = SharedInference(batching, 2)
    for _ in range(5):
        shared(*frames(rng, 2))
    saved = shared.get_state()
    resumed, *_ = make_batching(2)
    actors = [SharedInference(resumed, 1) for _ in range(2)]
    for actor, state in zip(actors, (saved, saved | {"calls": 1})):
        actor.set_state(state)
    assert resumed.calls == 5
    inputs = frames(rng, 2)
    assert np.array_equal(shared(*inputs)[0], SharedInference(resumed, 2)(*inputs)[0])


def test_a_new_seed_is_saved_with_the_calls_and_states_of_before_have_none():
    rng = np.random.default_rng(0)
    batching, *_ = make_batching(2)
    shared = SharedInference(batching, 2)
    shared.reseed(8)
    shared(*frames(rng, 2))
    saved = shared.get_state()
    older = {name: value for name, value in saved.items() if name != "seed"}
    for state, seed in ((saved, 8), (older, 3)):
        resumed, *_ = make_batching(2)
        SharedInference(resumed, 2).set_state(state)
        assert (resumed.seed, resumed.calls) == (seed, 1)


@pytest.mark.parametrize("kind", ["alone", "shared"])
def test_weights_of_another_process_with_the_same_version_are_taken(kind):
    """As after a learner was killed and goes on from a checkpoint."""
    batching, publisher, learned = make_batching(2)
    inference = SharedInference(batching, 2) if kind == "shared" else LocalInference(make_policy(2), publisher, 2, 0)
    inputs = frames(np.random.default_rng(0), 2)
    inference.sync()
    before = inference(*inputs)[1]["logits"]
    for variable in learned.variables():
        variable.assign(2.0 * variable)
    publisher.publish(0)
    inference.sync()
    assert inference.version == 0
    assert not np.allclose(inference(*inputs)[1]["logits"], before)


def test_new_weights_answer_the_next_call():
    rng = np.random.default_rng(0)
    batching, publisher, learned = make_batching(2)
    shared = SharedInference(batching, 2)
    shared.sync()
    assert shared.version == 0
    inputs = frames(rng, 2)
    before = shared(*inputs)[1]["logits"]
    for variable in learned.variables():
        variable.assign(2.0 * variable)
    assert np.array_equal(shared(*inputs)[1]["logits"], before)
    publisher.publish(4)
    after = shared(*inputs)[1]["logits"]
    assert not np.allclose(after, before)
    assert shared.version == 0  # of the unroll's start
    shared.sync()
    assert shared.version == 4
    alone = LocalInference(make_policy(2), publisher, 2, 0)
    alone.sync()
    np.testing.assert_allclose(after, alone(*inputs)[1]["logits"], atol=1e-6)


def test_an_error_reaches_all_whose_rows_were_in_the_call_and_no_other():
    rng = np.random.default_rng(0)
    batching, *_ = make_batching(8)
    shared = [SharedInference(batching, 2) for _ in range(4)]
    good = [frames(rng, 2) for _ in range(4)]
    bad = (good[2][0][:, :-1], good[2][1])  # a row of pixels is missing
    calls = [lambda s=s, i=i: s(*i) for s, i in zip(shared, [*good[:2], bad, good[3]])]
    found, errors, _ = gathered(batching, calls)
    assert sorted(found) == [0]
    assert sorted(errors) == [1, 2, 3]
    assert shared[1](*good[1])[0].shape == (2,)  # and goes on


@pytest.mark.parametrize("rows", [1, 3])
def test_each_call_samples_other_actions(rows):
    rng = np.random.default_rng(0)
    batching, *_ = make_batching(4)
    shared, inputs = SharedInference(batching, rows), frames(rng, rows)
    actions = np.array([shared(*inputs)[0] for _ in range(200)])
    probabilities = tf.nn.softmax(shared(*inputs)[1]["logits"]).numpy()
    for row in range(rows):
        share = np.bincount(actions[:, row], minlength=3) / 200
        np.testing.assert_allclose(share, probabilities[row], atol=0.15)
