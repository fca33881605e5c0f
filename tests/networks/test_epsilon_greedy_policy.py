"""The epsilon-greedy policy: what it samples and reports, and that actors can use it."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats
from tf_agents.specs import BoundedTensorSpec
from tf_agents.trajectories import time_step as ts

from repro.acting.rollout import compile_act
from repro.networks.atari import shallow_torso
from repro.networks.epsilon_greedy_policy import EpsilonGreedyPolicy, ape_x_epsilons
from repro.networks.q_network import QNetwork
from repro.networks.recurrent_q import RecurrentQ

A = 4
SPEC = ts.time_step_spec(tf.TensorSpec([A], tf.float32))
ACTIONS = BoundedTensorSpec([], tf.int32, 0, A - 1)
Q = np.array([0.5, -1.0, 2.0, 1.9], np.float32)  # the greedy action is 2
N = 40_000


def make(epsilon):
    """A policy whose Q(x, .) is the observation."""
    network = QNetwork(tf.keras.layers.Flatten(), A, seed=0)
    network.build_variables(tf.TensorSpec([A], tf.float32))
    network.set_weights([np.eye(A), np.zeros(A)])
    return EpsilonGreedyPolicy(SPEC, ACTIONS, network, epsilon)


def act(policy, observation, seed=(3, 4)):
    step_type = np.ones(len(observation), np.int32)
    choice = compile_act(policy, len(observation))(observation, step_type, (), np.array(seed, np.int32))
    return choice.action, choice.info


def mu(epsilon, greedy):
    """The definition: probability of each action."""
    return np.array([epsilon / A + (1 - epsilon) * (a == greedy) for a in range(A)])


@pytest.mark.parametrize("epsilon", [0.1, 0.6, 1.0])
def test_frequencies_are_those_of_the_definition(epsilon):
    action, info = act(make(epsilon), np.tile(Q, (N, 1)))
    expected = mu(epsilon, 2)
    counts = np.bincount(action, minlength=A)
    assert stats.chisquare(counts, N * expected).pvalue > 1e-3
    assert stats.chisquare(counts, N * mu(0.8 * epsilon, 2)).pvalue < 1e-6  # another epsilon is noticed
    assert info["greedy_action"].shape == info["epsilon"].shape == (N,)
    assert (info["greedy_action"].dtype, info["epsilon"].dtype) == (np.int32, np.float32)
    np.testing.assert_array_equal(info["greedy_action"], 2)  # after exploratory actions, too
    np.testing.assert_array_equal(info["epsilon"], np.float32(epsilon))
    np.testing.assert_array_equal(info["action_value"], Q[action])
    np.testing.assert_array_equal(info["greedy_value"], Q[2])


def test_a_network_without_variables_gets_them():
    policy = EpsilonGreedyPolicy(SPEC, ACTIONS, QNetwork(tf.keras.layers.Flatten(), A, seed=0), 0.1)
    assert [tuple(variable.shape) for variable in policy.variables()] == [(A, A), (A,)]


def test_epsilon_0_is_greedy():
    observation = np.random.default_rng(0).normal(size=(500, A)).astype(np.float32)
    action, info = act(make(0.0), observation)
    np.testing.assert_array_equal(action, observation.argmax(axis=-1))
    np.testing.assert_array_equal(info["greedy_action"], action)
    np.testing.assert_array_equal(info["epsilon"], 0.0)


def test_of_equal_values_the_first_is_greedy():
    action, _ = act(make(0.0), np.array([[0, 1, 1, 0], [2, 2, 2, 2], [0, 0, 0, 3]], np.float32))
    np.testing.assert_array_equal(action, [1, 0, 3])
    action, info = act(make(0.5), np.zeros((N, A), np.float32))
    np.testing.assert_array_equal(info["greedy_action"], 0)
    assert stats.chisquare(np.bincount(action, minlength=A), N * mu(0.5, 0)).pvalue > 1e-3


def test_an_epsilon_for_each_environment():
    epsilon = np.tile(np.array([0.05, 0.8], np.float32), N // 2)
    greedy = np.tile([2, 0], N // 2)
    values = np.where(np.arange(A) == greedy[:, np.newaxis], 1, 0).astype(np.float32)
    action, info = act(make(epsilon), values)
    np.testing.assert_array_equal(info["greedy_action"], greedy)
    np.testing.assert_array_equal(info["epsilon"], epsilon)
    for i in (0, 1):
        expected = mu(epsilon[i], greedy[i])
        assert stats.chisquare(np.bincount(action[i::2], minlength=A), N // 2 * expected).pvalue > 1e-3


def test_a_variable_is_read_in_each_step():
    epsilon = tf.Variable(1.0)
    call = compile_act(make(epsilon), 3)
    arguments = np.tile(Q, (3, 1)), np.ones(3, np.int32), (), np.array([1, 0], np.int32)
    np.testing.assert_array_equal(call(*arguments).info["epsilon"], 1.0)
    epsilon.assign(0.0)
    np.testing.assert_array_equal(call(*arguments).info["epsilon"], 0.0)
    np.testing.assert_array_equal(call(*arguments).action, 2)


@pytest.mark.parametrize("epsilon", [0.5, np.array([0.1, 0.2], np.float32), tf.Variable(0.5)])
def test_only_the_weights_are_published(epsilon):
    assert [variable.shape for variable in make(epsilon).variables()] == [(A, A), (A,)]


def test_the_seed_decides_the_samples():
    policy, observation = make(1.0), np.tile(Q, (200, 1))
    first, same, next_step, other = (act(policy, observation, seed)[0] for seed in ((1, 0), (1, 0), (1, 1), (2, 0)))
    np.testing.assert_array_equal(first, same)
    for a, b in ((first, next_step), (first, other), (next_step, other)):
        assert abs(np.mean(a == b) - 1 / A) < 0.15
    time_step = ts.TimeStep(tf.ones([200], tf.int32), tf.zeros([200]), tf.ones([200]), tf.constant(observation))
    unseeded = [policy.action(time_step).action.numpy() for _ in range(2)]
    assert (unseeded[0] != unseeded[1]).any()


def test_a_recurrent_network_carries_the_state_before_the_step():
    batch, frame = 3, (36, 36, 2)
    observation_spec = {
        "frame": tf.TensorSpec(frame, tf.uint8),
        "last_action": tf.TensorSpec([], tf.int32),
        "last_reward": tf.TensorSpec([], tf.float32),
    }
    network = RecurrentQ(shallow_torso(0), A, 5, 6, seed=0)
    network.build_variables(observation_spec)
    policy = EpsilonGreedyPolicy(ts.time_step_spec(observation_spec), ACTIONS, network, np.array([0.0, 0.0, 1.0]))
    rng = np.random.default_rng(0)
    observation = {
        "frame": rng.integers(0, 256, (batch, *frame), dtype=np.uint8),
        "last_action": np.array([0, 3, 1], np.int32),
        "last_reward": np.array([0.0, 1.0, -1.0], np.float32),
    }
    step_type = np.array([0, 1, 1], np.int32)
    state = tuple(tf.constant(rng.normal(size=(batch, 5)), tf.float32) for _ in range(2))
    assert [part.shape for part in policy.get_initial_state(batch)] == [part.shape for part in state]
    choice = compile_act(policy, batch)(observation, step_type, state, np.array([1, 0], np.int32))
    q, after = network({key: part[:, np.newaxis] for key, part in observation.items()}, step_type[:, np.newaxis], state)
    np.testing.assert_array_equal(choice.action[:2], np.argmax(q[:2, 0], axis=-1))
    np.testing.assert_array_equal(choice.info["greedy_action"], np.argmax(q[:, 0], axis=-1))
    np.testing.assert_array_equal(choice.info["epsilon"], [0, 0, 1])
    tf.nest.assert_same_structure(choice.info, policy.info_spec)
    for before, given, new, expected in zip(choice.info["core_state"], state, choice.state, after, strict=True):
        np.testing.assert_array_equal(before, given)
        np.testing.assert_allclose(new, expected, atol=1e-6)
        assert np.abs(new - given).max() > 1e-3


@pytest.mark.parametrize("epsilon", [-0.1, 1.1, np.nan, [0.5, 2.0], np.full((2, 1), 0.5), tf.Variable(1.5)])
def test_refuses_an_epsilon_that_is_no_probability(epsilon):
    with pytest.raises(ValueError, match="EpsilonGreedyPolicy: epsilon"):
        make(epsilon)


def test_refuses_another_number_of_environments():
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        act(make(np.array([0.1, 0.2])), np.tile(Q, (3, 1)))


def test_ape_x_epsilons():
    epsilons = ape_x_epsilons(8, base=0.4, spread=7.0)
    np.testing.assert_allclose(epsilons, [0.4 ** (1 + i) for i in range(8)], rtol=1e-6)
    assert epsilons.dtype == np.float32
    np.testing.assert_allclose(ape_x_epsilons(256, base=0.4, spread=7.0)[[0, 85, -1]], [0.4, 0.4 ** (10 / 3), 0.4**8])
    np.testing.assert_allclose(ape_x_epsilons(1, base=0.4, spread=7.0), [0.4])
    np.testing.assert_allclose(ape_x_epsilons(3, base=0.1, spread=0.0), [0.1] * 3)


@pytest.mark.parametrize(("count", "base", "spread"), [(0, 0.4, 7.0), (2, 0.0, 7.0), (2, 1.0, 7.0), (2, 0.4, -1.0)])
def test_ape_x_epsilons_refuses(count, base, spread):
    with pytest.raises(ValueError, match="ape_x_epsilons"):
        ape_x_epsilons(count, base=base, spread=spread)
