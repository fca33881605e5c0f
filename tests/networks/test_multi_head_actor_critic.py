"""The network with several heads: shapes, which of them act, seeds."""

import numpy as np
import pytest
import tensorflow as tf

from repro.networks.dense import dense_torso
from repro.networks.multi_head_actor_critic import MultiHeadActorCritic

B, T, ACTIONS, SIZE = 2, 5, 4, 3


def make(acting="first", num_heads=3, seed=3):
    network = MultiHeadActorCritic(
        dense_torso((8,), 2), ACTIONS, num_heads=num_heads, head_units=6, acting=acting, seed=seed
    )
    network.build_variables(tf.TensorSpec([SIZE], tf.float32))
    return network


def observation():
    return tf.constant(np.random.default_rng(0).normal(size=(B, T, SIZE)), tf.float32)


@pytest.mark.parametrize(("acting", "heads", "acting_heads"), [("first", 3, 1), ("random", 3, 3), ("average", 4, 1)])
def test_shapes(acting, heads, acting_heads):
    acting_logits, logits, values, state = make(acting)(observation(), None)
    assert acting_logits.shape == (B, T, acting_heads, ACTIONS)
    assert logits.shape == (B, T, heads, ACTIONS)
    assert values.shape == (B, T, heads)
    assert state == ()


def test_a_head_is_a_layer_of_relus_and_a_linear_one_of_its_own():
    network, x = make(), observation()
    _, logits, values, _ = network(x, None)
    features = network._torso(tf.reshape(x, [B * T, SIZE]))
    for heads, outputs in ((network._policies, logits), (network._values, values[..., None])):
        assert len(heads) == 3
        for i, head in enumerate(heads):
            w_1, b_1, w_2, b_2 = head.variables
            assert w_1.shape == (8, 6)
            expected = tf.nn.relu(features @ w_1 + b_1) @ w_2 + b_2
            np.testing.assert_allclose(tf.reshape(outputs[:, :, i], expected.shape), expected, rtol=1e-5, atol=1e-6)
    assert np.abs(logits[:, :, 0] - logits[:, :, 1]).max() > 0.01


def test_who_acts():
    x = observation()
    for acting in ("first", "random", "average"):
        acting_logits, logits, _, _ = make(acting)(x, None)
        expected = {"first": logits[:, :, :1], "random": logits, "average": logits[:, :, 3:]}[acting]
        np.testing.assert_array_equal(acting_logits, expected)
        if acting == "average":
            np.testing.assert_allclose(acting_logits[:, :, 0], tf.reduce_mean(logits[:, :, :3], 2), atol=1e-6)


def test_equal_seeds_give_equal_weights():
    one, same, other = make(), make(), make(seed=4)
    for a, b in zip(one.variables, same.variables, strict=True):
        np.testing.assert_array_equal(a, b)
    assert any(np.any(a.numpy() != b.numpy()) for a, b in zip(one.variables, other.variables))
    kernels = [v.numpy().ravel()[:8] for v in one.variables if len(v.shape) == 2]
    assert all(np.abs(a - b).max() > 1e-3 for i, a in enumerate(kernels) for b in kernels[:i] if len(a) == len(b))


@pytest.mark.parametrize("arguments", [{"acting": "last"}, {"num_heads": 0}])
def test_wrong_arguments(arguments):
    with pytest.raises(ValueError, match="MultiHeadActorCritic: needs a head or more"):
        make(**arguments)
