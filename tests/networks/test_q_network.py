"""The Q network of DQN: heads written out, time, sizes, seeds."""

import numpy as np
import pytest
import tensorflow as tf

from repro.networks.atari import nature_torso
from repro.networks.q_network import QNetwork

B, T, ACTIONS = 2, 3, 4
FRAME = (36, 36, 2)
STEP_TYPE = np.ones((B, T), np.int32)
TORSO_WEIGHTS = 8


def make(seed=3):
    network = QNetwork(nature_torso(2), ACTIONS, seed=seed)
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
    call = network if mode == "eager" else tf.function(network, jit_compile=True, autograph=False)
    q, state = call(x, STEP_TYPE)
    assert state == ()
    np.testing.assert_allclose(q, (features_of(x, torso) @ w + b).reshape(B, T, ACTIONS), rtol=1e-4, atol=1e-5)
    assert np.abs(q[0, 0] - q[0, 1]).max() > 1e-4


def test_every_variable_exists_after_building_and_gets_a_gradient():
    network = make()
    assert len(network.variables) == len(network.trainable_variables) == TORSO_WEIGHTS + 2
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(network(frames(), STEP_TYPE)[0] ** 2)
    gradients = tape.gradient(loss, network.trainable_variables)
    assert len(network.variables) == TORSO_WEIGHTS + 2
    assert all(np.abs(gradient).max() > 0 for gradient in gradients)


def test_weights_of_the_head_follow_from_the_seed():
    first, again, other = (make(seed).get_weights() for seed in (3, 3, 4))
    for i, (a, b, c) in enumerate(zip(first, again, other)):
        np.testing.assert_array_equal(a, b)
        assert np.array_equal(a, c) == (i < TORSO_WEIGHTS or a.ndim == 1)


def test_the_atari_parameter_count():
    """84 x 84 x 4 frames, 18 actions; 1.69 million is what Mnih et al.'s layers add up to."""
    network = QNetwork(nature_torso(0), 18, seed=0)
    network.build_variables(tf.TensorSpec((84, 84, 4), tf.uint8))
    assert network.count_params() == 1_684_128 + 513 * 18


def test_needs_no_static_time():
    network, x = make(), frames()

    @tf.function(input_signature=[tf.TensorSpec([None, None, *FRAME], tf.uint8)], autograph=False)
    def run(frames):
        return network(frames, tf.zeros(tf.shape(frames)[:2], tf.int32))[0]

    np.testing.assert_allclose(run(x), network(x, STEP_TYPE)[0], atol=1e-5)
