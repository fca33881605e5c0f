"""The network with several heads: shapes, which of them act, seeds."""

import numpy as np
import pytest
import tensorflow as tf

from repro.networks.atari import deep_torso, strided_torso
from repro.networks.dense import dense_torso
from repro.networks.multi_head_actor_critic import MultiHeadActorCritic

B, T, ACTIONS, SIZE = 2, 5, 4, 3


def make(acting="first", num_heads=3, seed=3, core_units=None, **embedding):
    network = MultiHeadActorCritic(
        dense_torso((8,), 2),
        ACTIONS,
        num_heads=num_heads,
        head_units=6,
        core_units=core_units,
        acting=acting,
        seed=seed,
        **embedding,
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


@pytest.mark.slow
def test_who_acts():
    x = observation()
    for acting in ("first", "random", "average"):
        acting_logits, logits, _, _ = make(acting)(x, None)
        expected = {"first": logits[:, :, :1], "random": logits, "average": logits[:, :, 3:]}[acting]
        np.testing.assert_array_equal(acting_logits, expected)
        alone = make(acting)(x, None, acting_alone=True)
        all_values = make(acting)(x, None)[2]
        expected_values = {"first": all_values[..., :1], "random": all_values, "average": all_values[..., 3:]}[acting]
        for found, wanted in zip(alone, (expected, expected, expected_values)):
            np.testing.assert_array_equal(found, wanted)
        if acting == "average":
            np.testing.assert_allclose(acting_logits[:, :, 0], tf.reduce_mean(logits[:, :, :3], 2), atol=1e-6)


def test_equal_seeds_give_equal_weights():
    one, same, other = make(), make(), make(seed=4)
    for a, b in zip(one.variables, same.variables, strict=True):
        np.testing.assert_array_equal(a, b)
    assert any(np.any(a.numpy() != b.numpy()) for a, b in zip(one.variables, other.variables))
    kernels = [v.numpy().ravel()[:8] for v in one.variables if len(v.shape) == 2]
    assert all(np.abs(a - b).max() > 1e-3 for i, a in enumerate(kernels) for b in kernels[:i] if len(a) == len(b))


@pytest.mark.parametrize("acting", ["first", "average"])
@pytest.mark.parametrize("gamma_embedding", ["shared", "separate"])
def test_heads_read_the_features_and_their_gamma_times_its_embedding(acting, gamma_embedding):
    network, x = make(acting, gamma_embedding=gamma_embedding, gamma_embedding_units=2), observation()
    heads = 4 if acting == "average" else 3
    np.testing.assert_array_equal(network.gammas, np.zeros(heads))
    assert all(variable is not network.gammas for variable in network.trainable_variables)
    gammas = np.array([0.9, -2.0, 0.5, 3.0][:heads], np.float32)
    network.gammas.assign(gammas)
    _, logits, values, _ = network(x, None)
    features = network._torso(tf.reshape(x, [B * T, SIZE])).numpy()
    rows = network._embedding.numpy()
    assert rows.shape == (1 if gamma_embedding == "shared" else heads, 2)
    assert len(np.unique(rows)) == rows.size
    for found, layers in ((logits, network._policies), (values[..., None], network._values)):
        for i, head in enumerate(layers):
            embedded = gammas[i] * rows[0 if gamma_embedding == "shared" else i]
            expected = head(np.concatenate([features, np.tile(embedded, (B * T, 1))], axis=1))
            np.testing.assert_allclose(tf.reshape(found[:, :, i], expected.shape), expected, rtol=1e-5, atol=1e-6)


def test_embeddings_begin_as_normals_of_std_1_without_their_tails():
    network = make(gamma_embedding="separate", gamma_embedding_units=4000)
    rows = network._embedding.numpy()
    assert np.abs(rows).max() == pytest.approx(2.0, abs=0.01)
    assert rows.std() == pytest.approx(0.88, abs=0.02)


@pytest.mark.parametrize("arguments", [{"acting": "last"}, {"num_heads": 0}, {"gamma_embedding": "both"}])
def test_wrong_arguments(arguments):
    with pytest.raises(ValueError, match="MultiHeadActorCritic: num_heads must be 1 or more"):
        make(**arguments)


def test_the_core_runs_over_time_between_torso_and_heads():
    network, x = make(core_units=5), observation()
    step_type = np.array([[1, 1, 0, 1, 1], [1, 1, 1, 1, 1]], np.int32)
    state = tuple(tf.constant(np.random.default_rng(i).normal(size=(B, 5)), tf.float32) for i in range(2))
    _, logits, values, after = network(x, step_type, state)
    features = tf.reshape(network._torso(tf.reshape(x, [B * T, SIZE])), [B, T, 8])
    outputs, expected_after = network._core(features, step_type == 0, state)
    np.testing.assert_array_equal(np.stack(after), np.stack(expected_after))
    for heads, found in ((network._policies, logits), (network._values, values[..., None])):
        for i, head in enumerate(heads):
            np.testing.assert_allclose(found[:, :, i], head(outputs), rtol=1e-5, atol=1e-6)
    first, _ = network._core(features[:, 2:], np.zeros([B, T - 2], bool), network.initial_state(B))
    np.testing.assert_allclose(outputs[0, 2:], first[0], atol=1e-6)  # the state was zeroed in the first row alone
    assert np.abs(outputs[1, 2:] - first[1]).max() > 1e-3
    assert make().initial_state(B) == ()


def test_heads_have_the_weights_that_they_have_without_a_core():
    one, other = make()._policies + make()._values, make(core_units=8)
    for head, same in zip(one, other._policies + other._values, strict=True):
        np.testing.assert_array_equal(head.variables[2], same.variables[2])


def control_network(torso, observation_spec, num_heads, actions):
    """Table 2."""
    network = MultiHeadActorCritic(torso, 2 * actions, num_heads=num_heads, head_units=256, core_units=256, seed=0)
    network.build_variables(observation_spec)
    return network


@pytest.mark.parametrize("num_heads", [1, 3])
def test_parameters_of_the_control_networks_counted_by_hand(num_heads):
    """Table 2 with 17 features or 84 x 84 x 3 pixels, and 6 actions."""
    heads = num_heads * ((256 * 256 + 256 + 256 * 12 + 12) + (256 * 256 + 256 + 256 + 1))
    features = (17 * 256 + 256) + (256 * 256 + 256) + (4 * (256 + 256) * 256 + 4 * 256) + heads
    found = control_network(dense_torso((256, 256), 1), tf.TensorSpec([17], tf.float32), num_heads, 6)
    assert found.count_params() == features
    convolutions = (3 * 3 * 3 * 32 + 32) + 8 * (3 * 3 * 32 * 32 + 32)  # a section is one of stride 2 and a pair
    flat = 11 * 11 * 32  # 84, 42, 21, 11
    pixels = convolutions + (4 * (flat + 256) * 256 + 4 * 256) + heads
    found = control_network(strided_torso(1), tf.TensorSpec([84, 84, 3], tf.uint8), num_heads, 6)
    assert found.count_params() == pixels


@pytest.mark.parametrize("num_heads", [1, 3])
def test_parameters_of_the_atari_network_counted_by_hand(num_heads):
    """Section 3.2 and Table 2 with four frames and 6 actions; the first of three sections has 16 channels."""

    def section(inputs, channels):
        """A convolution and two residual blocks of two."""
        return 9 * inputs * channels + channels + 4 * (9 * channels * channels + channels)

    torso = section(4, 16) + section(16, 32) + section(32, 32) + 11 * 11 * 32 * 256 + 256
    heads = num_heads * ((256 * 256 + 256 + 256 * 6 + 6) + (256 * 256 + 256 + 256 + 1))
    network = MultiHeadActorCritic(deep_torso(1), 6, num_heads=num_heads, head_units=256, seed=0)
    network.build_variables(tf.TensorSpec([84, 84, 4], tf.uint8))
    assert network.count_params() == torso + heads
