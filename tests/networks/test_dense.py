"""The dense torso against its layers written out, its sizes by hand, and as part of the networks with heads."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repro.networks.actor_critic import ActorCritic
from repro.networks.dense import dense_torso
from repro.networks.policy_q import PolicyQ
from repro.networks.q_network import QNetwork


def vectors(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_is_its_layers_one_after_the_other() -> None:
    x = vectors(5, 4)
    torso = dense_torso((7, 3), seed=1)
    torso(x)
    rng = np.random.default_rng(5)
    for variable in torso.trainable_variables:  # so that biases are not zero
        variable.assign_add(0.5 * rng.normal(size=variable.shape))
    w_1, b_1, w_2, b_2 = (variable.numpy().astype(np.float64) for variable in torso.trainable_variables)
    expected = np.maximum(np.maximum(x @ w_1 + b_1, 0.0) @ w_2 + b_2, 0.0)
    assert (expected > 0).any()
    assert (expected == 0).any()
    np.testing.assert_allclose(torso(x), expected, rtol=1e-5, atol=1e-6)


def test_sizes() -> None:
    torso = dense_torso((64, 32), seed=0)
    features = torso(vectors(2, 4))
    assert (features.shape, features.dtype) == ((2, 32), tf.float32)
    assert torso.count_params() == (4 + 1) * 64 + (64 + 1) * 32


def test_initial_weights() -> None:
    """Standard deviation 1 / sqrt(fan in) before the cut at two of them, which leaves 0.88 of it."""
    torso = dense_torso((400, 300), seed=3)
    torso(vectors(1, 100))
    w_1, b_1, w_2, b_2 = torso.get_weights()
    for kernel, bias in ((w_1, b_1), (w_2, b_2)):
        std = kernel.shape[0] ** -0.5
        assert kernel.std() == pytest.approx(0.88 * std, rel=0.02)
        assert 1.9 * std < np.abs(kernel).max() <= 2 * std * (1 + 1e-6)
        assert not bias.any()


def test_weights_follow_from_the_seed_alone() -> None:
    def weights(seed: int, global_seed: int) -> list[np.ndarray]:
        tf.random.set_seed(global_seed)
        torso = dense_torso((50, 50, 50), seed)
        torso(vectors(1, 50))
        return torso.get_weights()[::2]

    first, again, other = weights(1, 10), weights(1, 11), weights(2, 10)
    for a, b, c in zip(first, again, other):
        np.testing.assert_array_equal(a, b)
        assert abs(np.corrcoef(a.ravel(), c.ravel())[0, 1]) < 0.1
    for i, a in enumerate(first):  # no two layers share their numbers
        for b in first[:i]:
            assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.1


def test_eager_graph_and_xla_agree() -> None:
    x, torso = vectors(6, 4), dense_torso((16, 8), seed=3)
    eager = torso(x)
    for jit_compile in (False, True):
        np.testing.assert_allclose(
            tf.function(torso, jit_compile=jit_compile, autograph=False)(x), eager, rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("make", [ActorCritic, PolicyQ, QNetwork])
def test_networks_with_heads_take_vectors(make: type) -> None:
    network = make(dense_torso((16,), seed=1), 3, seed=2)
    network.build_variables(tf.TensorSpec([4], tf.float32))
    variables = network.variables
    outputs = network(vectors(2, 5, 4), np.zeros((2, 5), np.int32))
    assert outputs[0].shape == (2, 5, 3)
    assert len(network.variables) == len(variables)
    assert all(variable.shape[0] for variable in variables)


@pytest.mark.parametrize("units", [(), (16, 0)])
def test_no_layer_or_no_units_is_an_error(units: tuple[int, ...]) -> None:
    with pytest.raises(
        ValueError, match="dense_torso: units must have one layer or more, each of 1 unit or more, got "
    ):
        dense_torso(units, seed=0)
