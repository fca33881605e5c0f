"""The dueling head: written out, sizes, seeds, gradients."""

import numpy as np
import tensorflow as tf

from repro.networks.dueling import DuelingHead

ACTIONS, UNITS = 4, 5


def make(seed=3, units=UNITS, actions=ACTIONS, features=3):
    head = DuelingHead(units, actions, seed)
    head.build((None, features))
    head(tf.zeros([1, features]))
    return head


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


def test_every_variable_gets_a_gradient():
    head, features = make(), np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(head(features) ** 2)
    gradients = tape.gradient(loss, head.trainable_variables)
    assert len(gradients) == 8
    assert all(np.abs(gradient).max() > 0 for gradient in gradients)


def test_weights_follow_from_the_seed():
    first, again, other = (make(seed).get_weights() for seed in (3, 3, 4))
    for a, b, c in zip(first, again, other):
        np.testing.assert_array_equal(a, b)
        assert np.array_equal(a, c) == (a.ndim == 1)


def test_the_two_streams_begin_apart():
    weights = make().get_weights()
    assert weights[0].shape == weights[4].shape
    assert not np.array_equal(weights[0], weights[4])


def test_the_papers_parameter_count():
    """512 features, 512 units, 18 actions."""
    assert make(units=512, actions=18, features=512).count_params() == 2 * 513 * 512 + 513 * 19
