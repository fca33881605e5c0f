"""The loss against Algorithm 1 in loops, its gradients, and IMPALA's loss."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repro.papers.impala.loss import VtraceLossSettings, impala_loss
from repro.papers.stac.action_distribution import Softmax
from repro.papers.stac.loss import Hyperparameters, stac_loss
from tests.papers.stac.oracle import Data, Head, Zeta, head_loss, softmax_policy

T, B, P, A = 5, 3, 2, 4
ZETA = Hyperparameters(
    gamma=np.array([0.9, 0.8]),
    lambda_=np.array([0.7, 0.95]),
    alpha_rho=np.array([0.6, 0.3]),
    alpha_c=np.array([0.4, 0.85]),
    truncation=np.array([1.1, 0.75]),
    g_v=np.array([0.25, 0.5]),
    g_p=np.array([1.0, 1.5]),
    g_e=np.array([0.01, 0.2]),
)
"""Every entry differs, so that no two can be confused."""


def arguments(seed=0, num_heads=P):
    """Keyword arguments of the loss, with an end and a row between two games, poisoned, inside."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(T + 1, B, num_heads))
    found = {
        "target_logits": rng.normal(size=(T, B, num_heads, A)),
        "behaviour_logits": rng.normal(size=(T, B, A)),
        "r_t": rng.normal(size=(T, B)),
        "continues_t": np.ones((T, B)),
        "v_tm1": values[:-1],
        "v_t": values[1:].copy(),
    }
    found = {name: x.astype(np.float32) for name, x in found.items()}
    boundary = np.zeros((T, B), bool)
    boundary[2, 1] = True
    found["continues_t"][1, 0] = 0.0
    found["v_t"][1, 0] = np.nan
    for name in ("behaviour_logits", "r_t", "continues_t", "v_t"):
        found[name][2, 1] = np.nan
    actions = rng.integers(A, size=(T, B)).astype(np.int32)
    return found | {"actions": actions, "is_boundary": boundary}


def tensors(x):
    return {name: tf.constant(value) for name, value in x.items()}


def loss_of(x, zeta):
    """Of the arguments above, with softmax policies."""
    names = {"target_logits": "target_outputs", "behaviour_logits": "behaviour"}
    arguments = {names.get(name, name): value for name, value in x.items()}
    return stac_loss(Softmax(A), **arguments | {"behaviour": {"logits": x["behaviour_logits"]}}, zeta=zeta)


def zeta_tensors(zeta=ZETA):
    return Hyperparameters(*(tf.constant(x, tf.float32) for x in zeta))


def oracle_loss(x, head, zeta, inner_loss=True):
    """Of one head, with gradients to the logits, the values and zeta: the loss and the tensors that it read."""
    logits, v = tf.constant(x["target_logits"][:, :, head], tf.float64), x["v_tm1"][:, :, head].astype(np.float64)
    last = np.nan_to_num(x["v_t"][-1:, :, head]).astype(np.float64)
    values = tf.constant(np.concatenate([v, last]))
    behaviour = x["behaviour_logits"].astype(np.float64)
    log_mu = behaviour - np.log(np.exp(behaviour).sum(-1, keepdims=True))
    log_mu = np.take_along_axis(log_mu, x["actions"][..., None], -1)[..., 0]
    data = Data(None, x["actions"], x["r_t"].astype(np.float64), x["continues_t"], log_mu, x["is_boundary"])
    zeta = Zeta(*(tf.constant(float(value[head]), tf.float64) for value in zeta))
    with tf.GradientTape() as tape:
        tape.watch([logits, values, zeta])
        log_probs, entropy, log_pi = softmax_policy(logits, x["actions"])
        loss = head_loss(data, Head(log_probs, entropy, values, log_pi), zeta, inner_loss)
    return loss, tape.gradient(loss, [logits, values, zeta])


def test_loss_and_gradients_are_those_of_algorithm_1():
    """Of the inner loss to theta and zeta; that line 24 stops the advantage changes no gradient to theta."""
    x = arguments()
    data, zeta = tensors(x), zeta_tensors()
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([data["target_logits"], data["v_tm1"], zeta])
        loss = loss_of(data, zeta)
        total = tf.reduce_sum(loss.total)
    logits_gradient, v_gradient = tape.gradient(total, [data["target_logits"], data["v_tm1"]])
    zeta_gradient = tape.gradient(total, zeta)
    for head in range(P):
        expected, (logits, values, zetas) = oracle_loss(x, head, ZETA)
        assert float(tf.reduce_sum(loss.total[..., head])) == pytest.approx(float(expected), rel=1e-5)
        np.testing.assert_allclose(logits_gradient[:, :, head], logits, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(v_gradient[:, :, head], values[:-1], rtol=1e-4, atol=1e-5)
        for name, found, value in zip(Hyperparameters._fields, zeta_gradient, zetas):
            assert float(found[head]) == pytest.approx(float(value), rel=1e-4, abs=1e-5), name
        _, (outer_logits, outer_values, _) = oracle_loss(x, head, ZETA, inner_loss=False)
        np.testing.assert_array_equal(outer_logits, logits)
        np.testing.assert_array_equal(outer_values, values)


def test_parts_add_up_and_rows_between_games_are_zero():
    loss = loss_of(tensors(arguments()), zeta_tensors())
    np.testing.assert_allclose(loss.total, loss.value + loss.policy + loss.entropy, rtol=1e-6)
    for part in loss:
        assert part.shape == (T, B, P)
        np.testing.assert_array_equal(part[2, 1], [0.0, 0.0])
    assert (loss.entropy.numpy() <= 0).all()  # minimised: a bonus


def test_behaviour_rewards_and_next_values_get_no_gradient():
    data = tensors(arguments())
    dead = [data[name] for name in ("behaviour_logits", "r_t", "v_t")]
    with tf.GradientTape() as tape:
        tape.watch(dead)
        total = tf.reduce_sum(loss_of(data, zeta_tensors()).total)
    assert tape.gradient(total, dead) == [None, None, None]


def test_the_outer_loss_is_impalas():
    """0.25 (v - V)^2 is IMPALA's 0.5 * 1/2 (v - V)^2."""
    x = arguments(num_heads=1)
    zeta = Hyperparameters(0.99, 1.0, 1.0, 1.0, 1.0, 0.25, 1.0, 0.01)
    found = loss_of(tensors(x), zeta)
    one = {name: value[:, :, 0] if name in ("target_logits", "v_tm1", "v_t") else value for name, value in x.items()}
    settings = VtraceLossSettings("vtrace", 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.01, 0.5, True)
    one["discount_t"] = np.float32(0.99) * one.pop("continues_t")
    expected = impala_loss(**tensors(one), settings=settings)
    np.testing.assert_allclose(found.total[..., 0], expected.total, rtol=1e-5, atol=1e-6)
