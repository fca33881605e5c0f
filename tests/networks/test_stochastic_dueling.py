"""Eq. 13 of ACER: its value by hand, its consistency with V, and where its gradients go."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repro.networks import mlp
from repro.networks.gaussian_actor_critic import GaussianActorCritic, apply
from repro.networks.stochastic_dueling import advantages, stochastic_q

N, S, A, K, SAMPLES = 6, 4, 3, 2, 5


def weights(hidden=(7, 8), seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=w.shape).astype(np.float32) for w in mlp.init_mlp(rng, [S + A, *hidden], 1, 1.0, 1.0)]


def data(seed=1, **counts):
    rng = np.random.default_rng(seed)
    counts = {"actions": K, "samples": SAMPLES} | counts
    found = {"state": rng.normal(size=(N, S)), "value": rng.normal(size=N)}
    found |= {name: rng.normal(size=(N, count, A)) for name, count in counts.items()}
    return {name: x.astype(np.float32) for name, x in found.items()}


@pytest.mark.parametrize("hidden", [(7,), (7, 8), (7, 8, 9)])
def test_advantages_are_the_mlps_of_state_and_action_side_by_side(hidden):
    layers, x = weights(hidden), data()
    expected = np.empty((N, K))
    for i in range(N):
        for k in range(K):
            expected[i, k] = mlp.apply_numpy(layers, np.concatenate([x["state"][i], x["actions"][i, k]]))[0]
    np.testing.assert_allclose(advantages(layers, x["state"], x["actions"]), expected, rtol=1e-4, atol=1e-5)


def test_a_map_without_a_hidden_layer_and_wrong_shapes_are_errors():
    x = data()
    with pytest.raises(ValueError, match="hidden layer"):
        advantages(weights(()), x["state"], x["actions"])
    with pytest.raises(ValueError, match="actions"):
        advantages(weights(), x["state"], x["actions"][:, 0])
    with pytest.raises(ValueError, match="actions"):
        advantages(weights(), x["state"], x["actions"][1:])
    with pytest.raises(ValueError, match="value"):
        stochastic_q(weights(), **(x | {"value": x["value"][:, None]}))


def test_eq_13_term_by_term():
    layers, x = weights(), data()
    expected = np.empty((N, K))
    for i in range(N):

        def advantage(action, i=i):
            return mlp.apply_numpy(layers, np.concatenate([x["state"][i], action]))[0]

        baseline = np.mean([advantage(u) for u in x["samples"][i]])
        for k in range(K):
            expected[i, k] = x["value"][i] + advantage(x["actions"][i, k]) - baseline
    np.testing.assert_allclose(stochastic_q(layers, **x), expected, rtol=1e-4, atol=1e-5)


def test_the_expectation_under_the_policy_is_v_and_under_another_it_is_not():
    """Within 4 standard errors, where the samples come from pi as the actions are."""
    count, rng, layers = 20_000, np.random.default_rng(2), weights()
    state, value = np.repeat(data()["state"][:1], count, axis=0), np.full(count, 0.7, np.float32)

    def q(action_mean):
        actions = action_mean + 0.3 * rng.normal(size=(count, 1, A))
        samples = 0.3 * rng.normal(size=(count, SAMPLES, A))
        return stochastic_q(layers, state, value, actions.astype(np.float32), samples.astype(np.float32)).numpy()

    same, other = q(0.0), q(0.5)
    error = same.std() / count**0.5
    assert same.std() > 0.1
    assert abs(same.mean() - 0.7) < 4 * error
    assert abs(other.mean() - 0.7) > 20 * error


def test_gradients_reach_weights_and_value_and_no_action():
    layers, x = [tf.Variable(w) for w in weights()], {name: tf.constant(v) for name, v in data().items()}
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(list(x.values()))
        total = tf.reduce_sum(stochastic_q(layers, **x)[:, 0])
    assert tape.gradient(total, x["actions"]) is None
    assert tape.gradient(total, x["samples"]) is None
    np.testing.assert_allclose(tape.gradient(total, x["value"]), np.ones(N))
    *inner, bias = tape.gradient(total, layers)
    assert all(np.abs(g).max() > 1e-3 for g in inner)
    np.testing.assert_allclose(bias, [0.0], atol=1e-5)  # a constant added to A cancels


@pytest.mark.parametrize("jit_compile", [False, True])
def test_eager_graph_and_xla_agree(jit_compile):
    layers, x = weights(), data()
    compiled = tf.function(lambda: stochastic_q(layers, **x), jit_compile=jit_compile, autograph=False)
    np.testing.assert_allclose(compiled(), stochastic_q(layers, **x), rtol=1e-5, atol=1e-5)


def test_the_network_over_time_and_batch():
    network = GaussianActorCritic(S, A, [8, 8], [5], seed=0)
    rng = np.random.default_rng(3)
    observation = rng.normal(size=(3, 2, S))  # float64: cast by the network
    actions, samples = (rng.normal(size=(3, 2, k, A)).astype(np.float32) for k in (K, SAMPLES))
    mean, value = network.mean(observation), network.value(observation)
    q = network.q(tf.constant(observation), value, actions, samples)
    assert mean.shape == (3, 2, A)
    assert value.shape == (3, 2)
    assert q.shape == (3, 2, K)
    for t in range(3):
        x = observation[t].astype(np.float32)
        np.testing.assert_allclose(mean[t], mlp.apply_mlp(network.policy_weights, x), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(value[t], mlp.apply_mlp(network.value_weights, x)[:, 0], rtol=1e-5, atol=1e-6)
        row = stochastic_q(network.advantage_weights, x, value[t], actions[t], samples[t])
        np.testing.assert_allclose(q[t], row, rtol=1e-5, atol=1e-6)
    assert len(network.trainable_variables) == 6 + 6 + 4
    assert apply(network.policy_weights, observation[0, 0]).shape == (A,)


def test_seeds_and_the_network_without_advantages():
    first, second = (GaussianActorCritic(S, A, [8], [5], seed=1) for _ in range(2))
    without, other = (GaussianActorCritic(S, A, [8], [], seed=seed) for seed in (1, 2))
    assert without.advantage_weights == []
    for a, b in zip(first.trainable_variables, second.trainable_variables, strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(first.policy_weights + first.value_weights, without.policy_weights + without.value_weights):
        np.testing.assert_array_equal(a, b)
    assert np.abs(first.policy_weights[0] - other.policy_weights[0]).max() > 0.1
