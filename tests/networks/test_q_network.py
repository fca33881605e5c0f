"""The Q network of DQN: heads written out, time, sizes, seeds."""

import numpy as np
import pytest
import tensorflow as tf

from repro.networks.atari import nature_torso
from repro.networks.q_network import DuelingHead, QNetwork

B, T, ACTIONS, UNITS = 2, 3, 4, 5
FRAME = (36, 36, 2)
STEP_TYPE = np.ones((B, T), np.int32)
TORSO_WEIGHTS = 8


def make(dueling_units=None, seed=3):
    network = QNetwork(nature_torso(2), ACTIONS, dueling_units, seed=seed)
    network.build_variables(tf.TensorSpec(FRAME, tf.uint8))
    return network


def frames(seed=0):
    return np.random.default_rng(seed).integers(0, 256, size=(B, T, *FRAME), dtype=np.uint8)


def features_of(x, weights):
    torso = nature_torso(2)
    features = torso(x.reshape(-1, *FRAME)).numpy()
    for a, b in zip(torso.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(a, b)
    return features


@pytest.mark.parametrize("mode", ["eager", "xla"])
def test_the_linear_head_and_each_frame_is_its_own(mode):
    network, x = make(), frames()
    *torso, w, b = network.get_weights()
    call = network if mode == "eager" else tf.function(network, jit_compile=True)
    q, state = call(x, STEP_TYPE)
    assert state == ()
    np.testing.assert_allclose(q, (features_of(x, torso) @ w + b).reshape(B, T, ACTIONS), rtol=1e-4, atol=1e-5)
    assert np.abs(q[0, 0] - q[0, 1]).max() > 1e-4


def dueling_by_hand(head, features):
    """Value [N], advantages [N, A] and Wang et al.'s Eq. 9 [N, A], from the head's eight arrays."""
    value_w, value_b, v_w, v_b, advantage_w, advantage_b, a_w, a_b = head
    value = (np.maximum(features @ value_w + value_b, 0) @ v_w + v_b)[:, 0]
    advantage = np.maximum(features @ advantage_w + advantage_b, 0) @ a_w + a_b
    q = np.empty_like(advantage)
    for n in range(len(q)):
        for a in range(ACTIONS):
            q[n, a] = value[n] + advantage[n, a] - sum(advantage[n]) / ACTIONS
    return value, advantage, q


def test_the_dueling_head():
    head = DuelingHead(UNITS, ACTIONS, seed=0)
    features = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    head(features)
    head.set_weights([np.random.default_rng(1).normal(size=w.shape) for w in head.get_weights()])
    value, advantage, q = dueling_by_hand(head.get_weights(), features)
    np.testing.assert_allclose(head(features), q, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(tf.reduce_mean(head(features), axis=-1), value, rtol=1e-4, atol=1e-5)
    assert np.abs(advantage.mean(axis=-1)).min() > 1e-2  # so that the mean taken away matters


def test_the_dueling_network_is_torso_and_head():
    network, x = make(UNITS), frames()
    weights = network.get_weights()
    *_, q = dueling_by_hand(weights[TORSO_WEIGHTS:], features_of(x, weights[:TORSO_WEIGHTS]))
    np.testing.assert_allclose(network(x, STEP_TYPE)[0], q.reshape(B, T, ACTIONS), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("units", "count"), [(None, 2), (UNITS, 8)])
def test_every_variable_exists_after_building_and_gets_a_gradient(units, count):
    network = make(units)
    assert len(network.variables) == len(network.trainable_variables) == TORSO_WEIGHTS + count
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(network(frames(), STEP_TYPE)[0] ** 2)
    gradients = tape.gradient(loss, network.trainable_variables)
    assert len(network.variables) == TORSO_WEIGHTS + count
    assert all(np.abs(gradient).max() > 0 for gradient in gradients)


@pytest.mark.parametrize("units", [None, UNITS])
def test_weights_of_the_head_follow_from_the_seed(units):
    first, again, other = (make(units, seed).get_weights() for seed in (3, 3, 4))
    for i, (a, b, c) in enumerate(zip(first, again, other)):
        np.testing.assert_array_equal(a, b)
        assert np.array_equal(a, c) == (i < TORSO_WEIGHTS or a.ndim == 1)


def test_the_two_streams_begin_apart():
    weights = make(UNITS).get_weights()[TORSO_WEIGHTS:]
    assert weights[0].shape == weights[4].shape
    assert not np.array_equal(weights[0], weights[4])


def test_atari_parameter_counts():
    """84 x 84 x 4 frames, 18 actions; 1.69 million is what Mnih et al.'s layers add up to."""
    counts = []
    for units in (None, 512):
        network = QNetwork(nature_torso(0), 18, units, seed=0)
        network.build_variables(tf.TensorSpec((84, 84, 4), tf.uint8))
        counts.append(network.count_params())
    assert counts == [1_684_128 + 513 * 18, 1_684_128 + 2 * 513 * 512 + 513 * 19]


def test_needs_no_static_time():
    network, x = make(UNITS), frames()

    @tf.function(input_signature=[tf.TensorSpec([None, None, *FRAME], tf.uint8)])
    def run(frames):
        return network(frames, tf.zeros(tf.shape(frames)[:2], tf.int32))[0]

    np.testing.assert_allclose(run(x), network(x, STEP_TYPE)[0], atol=1e-5)
