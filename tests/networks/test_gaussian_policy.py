"""The Gaussian policy: what it samples and reports, and that actors can use it."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats
from tf_agents.specs import BoundedTensorSpec
from tf_agents.trajectories import time_step as ts

from repro.acting.rollout import compile_act
from repro.networks import mlp
from repro.networks.gaussian_actor_critic import GaussianActorCritic
from repro.networks.gaussian_policy import GaussianPolicy

S, A, STD = 4, 2, 0.3
SPEC = ts.time_step_spec(tf.TensorSpec([S], tf.float32))
ACTIONS = BoundedTensorSpec([A], tf.float32, -1.0, 1.0)


def make(greedy=False, seed=0):
    weights = GaussianActorCritic(S, A, [8, 8], [], seed=seed).policy_weights
    weights[-1].assign([2.0, -0.5])  # beyond the bounds of the actions
    return GaussianPolicy(SPEC, ACTIONS, weights, STD, greedy), weights


def act(policy, observation, seed):
    return compile_act(policy, len(observation))(observation, np.ones(len(observation), np.int32), (), seed)


def test_samples_are_normal_around_the_mean_and_not_clipped():
    policy, weights = make()
    observation = np.repeat(np.random.default_rng(0).normal(size=(1, S)).astype(np.float32), 20_000, axis=0)
    choice = act(policy, observation, np.array([3, 4], np.int32))
    mean = mlp.apply_mlp(weights, observation[:1]).numpy()[0]
    np.testing.assert_allclose(choice.info["mean"], np.tile(mean, (20_000, 1)), rtol=1e-5)
    np.testing.assert_allclose(choice.info["std"], np.full((20_000, A), STD))
    noise = (choice.action - mean) / STD
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-3
    assert abs(np.corrcoef(noise.T)[0, 1]) < 0.03
    assert choice.action[:, 0].mean() > 1.5


def test_a_bound_of_the_mean_is_a_tanh_and_leaves_the_samples_unclipped():
    _, weights = make()
    policy = GaussianPolicy(SPEC, ACTIONS, weights, STD, mean_bound=0.5)
    observation = np.repeat(np.random.default_rng(0).normal(size=(1, S)).astype(np.float32), 1000, axis=0)
    choice = act(policy, observation, np.array([3, 4], np.int32))
    unbounded = mlp.apply_mlp(weights, observation).numpy()
    np.testing.assert_allclose(choice.info["mean"], 0.5 * np.tanh(unbounded), rtol=1e-5)
    assert unbounded[0, 0] > 1
    assert choice.action[:, 0].max() > 1
    network = GaussianActorCritic(S, A, [8, 8], [], seed=0, mean_bound=0.5)
    network.policy_weights[-1].assign([2.0, -0.5])
    np.testing.assert_allclose(network.mean(observation), choice.info["mean"], rtol=1e-5)


def test_the_seed_decides_the_samples():
    policy, _ = make()
    observation = np.ones((3, S), np.float32)
    first, same, other = (act(policy, observation, np.array([1, i], np.int32)).action for i in (0, 0, 1))
    np.testing.assert_array_equal(first, same)
    assert (first != other).all()
    time_step = ts.TimeStep(tf.ones([3], tf.int32), tf.zeros([3]), tf.ones([3]), tf.constant(observation))
    unseeded = [policy.action(time_step).action.numpy() for _ in range(2)]
    assert (unseeded[0] != unseeded[1]).all()


def test_greedy_takes_the_mean():
    policy, weights = make(greedy=True)
    observation = np.random.default_rng(0).normal(size=(3, S)).astype(np.float32)
    choice = act(policy, observation, np.array([1, 0], np.int32))
    np.testing.assert_allclose(choice.action, mlp.apply_mlp(weights, observation), rtol=1e-5)
    np.testing.assert_allclose(choice.info["std"], np.full((3, A), STD))


def test_only_the_weights_of_the_mean_are_published():
    policy, weights = make()
    assert [v.ref() for v in policy.variables()] == [v.ref() for v in weights]
    observation = np.ones((1, S), np.float32)
    before = act(policy, observation, np.array([1, 0], np.int32)).action
    policy.variables()[-1].assign_add([1.0, 0.0])
    after = act(policy, observation, np.array([1, 0], np.int32)).action
    np.testing.assert_allclose(after - before, [[1.0, 0.0]], atol=1e-6)


@pytest.mark.parametrize("wide", [True, False])
def test_observations_of_another_precision(wide):
    policy, _ = make()
    observation = np.ones((2, S), np.float64 if wide else np.float32)
    time_step = ts.TimeStep(tf.ones([2], tf.int32), tf.zeros([2]), tf.ones([2]), tf.constant(observation))
    action = policy._action(time_step, (), tf.constant([1, 2], tf.int32)).action
    assert action.dtype == tf.float32
