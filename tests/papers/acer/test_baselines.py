"""A3C, TIS and their versions with a trust region, against the equations of Appendix E.2 written out."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repro.papers.acer.baselines import a3c_loss, log_trajectory_ratio, tis_loss
from repro.papers.acer.continuous_loss import ContinuousLossSettings, Steps
from tests.papers.acer.continuous_oracle import (
    A,
    B,
    T,
    baseline_updates,
    data,
    poison,
    returns_and_products,
    rho,
)

SETTINGS = ContinuousLossSettings(truncation=2.0, delta=0.3)
LOSSES = {"a3c": a3c_loss, "tis": tis_loss}


def steps_of(x, **changes):
    fields = {name: None if value is None else tf.constant(value) for name, value in x.items()}
    return Steps(**(fields | changes))


def updates(loss_function, x):
    """What descent adds to the mean and to V, and the loss."""
    mean, v = tf.constant(x["mean"]), tf.constant(x["v_tm1"])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([mean, v])
        loss = loss_function(steps_of(x, mean=mean, v_tm1=v), SETTINGS)
        policy, critic = tf.reduce_sum(loss.policy), tf.reduce_sum(loss.critic)
    assert tape.gradient(policy, v) is None
    assert tape.gradient(critic, mean) is None
    return -tape.gradient(policy, mean).numpy(), -tape.gradient(critic, v).numpy(), loss


@pytest.mark.parametrize("trust_region", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_updates_by_hand(name, trust_region):
    x = data(average=trust_region)
    z, of_v, loss = updates(LOSSES[name], poison(x))
    returns, products = returns_and_products(x)
    assert (products > 2.0).sum() > 2
    assert ((products < 2.0) & (products > 0.0)).sum() > 2
    expected = baseline_updates(x, 2.0 if name == "tis" else None, SETTINGS.delta)
    np.testing.assert_allclose(z, expected[0], rtol=5e-3, atol=5e-3)
    np.testing.assert_allclose(of_v, expected[1], rtol=1e-3, atol=1e-4)
    error = np.where(x["is_boundary"], 0.0, returns - x["v_tm1"])
    np.testing.assert_allclose(loss.critic, 0.5 * error * expected[1], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(loss.total, loss.policy + loss.critic)


def test_the_trust_region_is_met_and_not_met():
    extras = {name: loss(steps_of(data()), SETTINGS).extras for name, loss in LOSSES.items()}
    for found in extras.values():
        assert 3 < found["trust_region_active"].numpy().sum() < T * B - 3
        assert found["kl"].numpy().min() > 0.0
    assert "kl" not in a3c_loss(steps_of(data(average=False)), SETTINGS).extras


def test_products_end_with_the_episode():
    """At a terminal, before a boundary row, and at the end of the unroll the product is one ratio."""
    x = data()
    found = np.exp(log_trajectory_ratio(steps_of(poison(x))))
    _, products = returns_and_products(x)
    live = ~x["is_boundary"]
    np.testing.assert_allclose(found[live], products[live], rtol=1e-3)
    for s, b in ((1, 0), (2, 1), (T - 1, 3)):
        np.testing.assert_allclose(found[s, b], rho(x, s, b), rtol=1e-4)
    assert found[3, 1] == 1.0


def test_a3c_reads_no_behaviour_and_tis_is_a3c_on_policy():
    x = data()
    nan = np.full((T, B, A), np.nan, np.float32)
    a3c = a3c_loss(steps_of(x, behaviour_mean=nan, behaviour_std=nan), SETTINGS)
    np.testing.assert_array_equal(a3c.total, a3c_loss(steps_of(x), SETTINGS).total)
    on_policy = steps_of(x, behaviour_mean=tf.constant(x["mean"]), behaviour_std=tf.constant(x["std"]))
    np.testing.assert_allclose(tis_loss(on_policy, SETTINGS).total, a3c.total, rtol=1e-5, atol=1e-5)
    assert np.abs(tis_loss(steps_of(x), SETTINGS).total - a3c.total).max() > 0.1


def test_extras_of_tis():
    x = data()
    extras = tis_loss(steps_of(x), SETTINGS).extras
    _, products = returns_and_products(x)
    live = ~x["is_boundary"]
    np.testing.assert_allclose(extras["importance_weight"].numpy()[live], np.minimum(2.0, products[live]), rtol=1e-3)
    np.testing.assert_array_equal(extras["truncated"].numpy()[live], products[live] > 2.0)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_products_of_extreme_ratios_leave_everything_finite(sign):
    x = data()
    x["behaviour_mean"] = x["mean"] + np.float32(1e4)
    x["action"] = x["mean"].copy() if sign > 0 else x["behaviour_mean"].copy()
    loss = tis_loss(steps_of(x), SETTINGS)
    assert np.isfinite(loss.total).all()
    live = ~x["is_boundary"]
    np.testing.assert_allclose(loss.extras["importance_weight"].numpy()[live], 2.0 if sign > 0 else 0.0)


@pytest.mark.parametrize("name", LOSSES)
def test_eager_graph_and_xla_agree(name):
    x = steps_of(data())
    eager = LOSSES[name](x, SETTINGS).total
    for jit_compile in (False, True):
        compiled = tf.function(lambda: LOSSES[name](x, SETTINGS).total, jit_compile=jit_compile, autograph=False)
        np.testing.assert_allclose(compiled(), eager, rtol=1e-4, atol=1e-4)


def test_errors():
    x = steps_of(data())
    with pytest.raises(ValueError, match="truncation"):
        tis_loss(x, SETTINGS._replace(truncation=0.0))
    for loss in LOSSES.values():
        with pytest.raises(ValueError, match="delta"):
            loss(x, SETTINGS._replace(delta=-0.1))
        with pytest.raises(ValueError, match="v_t"):
            loss(x._replace(v_t=x.v_t[..., None]), SETTINGS)
