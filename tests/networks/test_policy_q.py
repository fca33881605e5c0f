"""The network with a policy and a value for every action, and the policy class that acts with it."""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import BoundedTensorSpec
from tf_agents.trajectories import time_step as ts

from repro.networks.actor_critic_policy import ActorCriticPolicy
from repro.networks.atari import nature_torso
from repro.networks.policy_q import PolicyQ

B, T, ACTIONS = 2, 3, 4
FRAME = (36, 36, 2)
STEP_TYPE = np.ones((B, T), np.int32)


def make(seed=3):
    network = PolicyQ(nature_torso(2), ACTIONS, seed=seed)
    network.build_variables(tf.TensorSpec(FRAME, tf.uint8))
    return network


def frames(seed=0):
    return np.random.default_rng(seed).integers(0, 256, size=(B, T, *FRAME), dtype=np.uint8)


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_heads_are_linear_in_the_torso_and_each_frame_is_its_own(mode):
    network, x = make(), frames()
    *torso, w_pi, b_pi, w_q, b_q = network.get_weights()
    copy = nature_torso(2)
    features = copy(x.reshape(B * T, *FRAME)).numpy()
    for a, b in zip(copy.get_weights(), torso, strict=True):
        np.testing.assert_array_equal(a, b)
    call = network if mode == "eager" else tf.function(network, jit_compile=mode == "xla", autograph=False)
    logits, q, state = call(x, STEP_TYPE)
    assert state == ()
    np.testing.assert_allclose(logits, (features @ w_pi + b_pi).reshape(B, T, ACTIONS), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(q, (features @ w_q + b_q).reshape(B, T, ACTIONS), rtol=1e-4, atol=1e-5)
    assert np.abs(logits - q).max() > 1e-2


def test_every_variable_exists_after_building_and_gets_a_gradient():
    network = make()
    assert len(network.variables) == len(network.trainable_variables) == 8 + 4
    with tf.GradientTape() as tape:
        logits, q, _ = network(frames(), STEP_TYPE)
        loss = tf.reduce_sum(logits**2) + tf.reduce_sum(q**2)
    assert all(np.abs(gradient).max() > 0 for gradient in tape.gradient(loss, network.trainable_variables))


def test_weights_of_the_heads_follow_from_the_seed():
    first, again, other = (make(seed).get_weights() for seed in (3, 3, 4))
    for i, (a, b, c) in enumerate(zip(first, again, other)):
        np.testing.assert_array_equal(a, b)
        assert np.array_equal(a, c) == (i < 8 or a.ndim == 1)
    assert not np.array_equal(first[8], first[10])


def test_atari_parameter_count():
    network = PolicyQ(nature_torso(0), 18, seed=0)
    network.build_variables(tf.TensorSpec((84, 84, 4), tf.uint8))
    assert network.count_params() == 1_684_128 + 2 * 513 * 18


@pytest.mark.parametrize("greedy", [True, False])
def test_the_policy_acts_and_carries_the_behaviour_logits(greedy):
    network = make()
    spec = ts.time_step_spec(BoundedTensorSpec(FRAME, tf.uint8, 0, 255))
    policy = ActorCriticPolicy(spec, BoundedTensorSpec((), tf.int32, 0, ACTIONS - 1), network, greedy)
    x = frames()[:, 0]
    step = policy.action(ts.TimeStep(tf.ones([B], tf.int32), tf.zeros([B]), tf.ones([B]), x), seed=(1, 2))
    logits = network(x[:, np.newaxis], STEP_TYPE[:, :1])[0][:, 0]
    np.testing.assert_allclose(step.info["logits"], logits, rtol=1e-6)
    assert step.state == ()
    if greedy:
        np.testing.assert_array_equal(step.action, np.argmax(logits, axis=-1))
