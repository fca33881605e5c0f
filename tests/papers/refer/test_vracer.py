"""V-RACER's network and its fused gradient steps."""

import numpy as np
import pytest
import tensorflow as tf

from repro.distributions import gaussian
from repro.papers.refer.advantages import advantage
from repro.papers.refer.loss import Variant
from repro.papers.refer.vracer import VRacer, VRacerSettings
from repro.replay.refer import Minibatch
from tests.papers.refer.gradients import first_gradient, spread
from tests.papers.refer.small import A, B, S, random_batch, scalars

SETTINGS = VRacerSettings((8, 8), 6**0.5, 0.1, 0.2, 5e-3, Variant("refer", "none", 7.0, "current"))


def _agent(steps_per_call=1, **changes):
    settings = SETTINGS._replace(variant=SETTINGS.variant._replace(**changes))
    return VRacer(S, A, settings, np.random.default_rng(0), steps_per_call, compile_with_xla=False)


def _batch(size=B):
    return random_batch(size, S, A)


def test_k_steps_in_one_call_are_k_calls_of_one_step():
    fused, serial = _agent(4), _agent(1)
    batch = _batch(4 * B)
    rho, value, *_ = fused.train(batch, np.array([1, 0.9, 0.8, 0.7]), np.full(4, 3.0), np.array([1, 2, 3, 4]) * 1e-2)
    for k in range(4):
        part = Minibatch(*(x[k * B : (k + 1) * B] for x in batch))
        rho_k, value_k, *_ = serial.train(part, *scalars(beta=1 - k / 10, rate=(k + 1) * 1e-2))
        np.testing.assert_allclose(rho[k * B : (k + 1) * B], rho_k, rtol=1e-5)
        np.testing.assert_allclose(value[k * B : (k + 1) * B], value_k, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(fused.weights.numpy(), serial.weights.numpy(), rtol=1e-4, atol=1e-6)


def test_xla_gives_what_the_graph_gives():
    plain = _agent(2)
    compiled = VRacer(S, A, SETTINGS, np.random.default_rng(0), 2, compile_with_xla=True)
    for agent in (plain, compiled):
        agent.train(_batch(2 * B), *scalars(2))
    np.testing.assert_allclose(compiled.weights.numpy(), plain.weights.numpy(), rtol=1e-4, atol=1e-5)


def test_ratios_and_values_are_those_before_the_step():
    agent, batch = _agent(), _batch()
    v, mean, _ = agent.forward(batch.state)
    std = tf.fill([A], tf.sqrt(0.2))
    expected = tf.exp(gaussian.log_ratio(mean, std, batch.mean, batch.std, batch.action)).numpy()
    rho, value, *_ = agent.train(batch, *scalars())
    np.testing.assert_allclose(rho, expected, rtol=1e-5)
    np.testing.assert_allclose(value, v, rtol=1e-5, atol=1e-6)
    assert not np.allclose(agent.forward(batch.state)[0], v)


def test_one_step_is_adam_on_the_gradient_of_the_paper():
    agent, batch = _agent(rule="none"), _batch()
    before = agent.weights.numpy().astype(np.float64)
    rho, *_ = agent.train(batch, *scalars())

    def loss(weights):  # Eqs. (5) and (9), rho (Q_ret - V) with V constant in it
        agent.weights.assign(weights)
        v, mean, _ = (x.numpy().astype(np.float64) for x in agent.forward(batch.state))
        variance = np.log1p(np.exp(weights[-A:]))
        log_pi = -0.5 * ((batch.action - mean) ** 2 / variance + np.log(2 * np.pi * variance)).sum(1)
        square = ((batch.action - batch.mean) / batch.std) ** 2
        log_mu = -0.5 * (square + np.log(2 * np.pi * batch.std.astype(np.float64) ** 2)).sum(1)
        return np.mean(-np.exp(log_pi - log_mu) * (batch.q_ret - start) + 0.5 * (v - target) ** 2)

    after = agent.weights.numpy()
    agent.weights.assign(before)
    start = agent.forward(batch.state)[0].numpy().astype(np.float64)
    target = start + np.minimum(1.0, rho.astype(np.float64)) * (batch.q_ret - start)
    chosen, large = spread(len(before)), 0
    for i in chosen:
        step = 1e-3 * np.eye(1, len(before), i)[0]
        slope = (loss(before + step) - loss(before - step)) / 2e-3
        # Adam's first step is the learning rate against the sign of the gradient, whatever its size
        assert first_gradient(agent.optimizer)[i] == pytest.approx(slope, rel=2e-2, abs=2e-3)
        if abs(slope) > 1e-2:
            assert after[i] - before[i] == pytest.approx(-1e-2 * np.sign(slope), rel=1e-2)
            large += 1
    assert large >= 5


def test_acting_is_the_network_on_standardised_states():
    agent = _agent()
    agent.set_state_statistics(np.arange(S, dtype=np.float32), np.linspace(0.5, 3, S).astype(np.float32))
    agent.sync_acting_weights()
    for state in _batch().state[:4]:
        v, mean, _ = agent.forward(state[None])
        output = agent.act(state)
        np.testing.assert_allclose(output.value, v[0], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(output.mean, mean[0], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(output.std, np.sqrt(0.2), rtol=1e-6)


def test_acting_follows_the_weights_only_when_synced():
    agent, batch = _agent(), _batch()
    before = agent.act(batch.state[0])
    agent.train(batch, *scalars())
    assert agent.act(batch.state[0]).value == before.value
    agent.sync_acting_weights()
    assert agent.act(batch.state[0]).value != before.value


def test_a_checkpoint_holds_all_that_learning_needs(tmp_path):
    agent, again, batch = _agent(), _agent(), _batch()
    agent.set_state_statistics(np.ones(S, np.float32), np.full(S, 2.0, np.float32))
    agent.train(batch, *scalars())
    again.checkpoint().read(agent.checkpoint().write(str(tmp_path / "agent"))).assert_consumed()
    for one in (agent, again):
        one.train(batch, *scalars())
    np.testing.assert_array_equal(again.weights.numpy(), agent.weights.numpy())


def test_beta_of_0_leaves_the_penalty_alone():
    agent, batch = _agent(), _batch()
    batch = batch._replace(q_ret=np.full(B, 1e6, np.float32), v_tbc=np.full(B, 1e6, np.float32))
    *_, means = agent.train(batch, *scalars(beta=0.0))
    assert means["loss"] == pytest.approx(means["kl"], rel=1e-5)
    assert set(means) == set(VRacer.NAMES)


@pytest.mark.parametrize(("form", "extra"), [("none", 0), ("quadratic", 3), ("gaussian", 5)])
def test_advantages_add_outputs(form, extra):
    assert _agent(form=form).forward(_batch().state)[2].shape == (B, extra)


@pytest.mark.parametrize("form", ["none", "quadratic", "gaussian"])
def test_advantages_are_those_before_the_step(form):
    """What goes into the memory after sampling is A(s, a) of the network that gave rho and V."""
    agent, batch = _agent(form=form), _batch()
    _, mean, coefficients = agent.forward(batch.state)
    expected = advantage(form, coefficients, batch.action, mean, np.full(A, 0.2**0.5, np.float32))
    learned = agent.train(batch, *scalars())
    np.testing.assert_allclose(learned.advantage, expected, rtol=1e-4, atol=1e-6)
    assert np.any(learned.advantage) == (form != "none")


@pytest.mark.parametrize("form", ["none", "quadratic", "gaussian"])
def test_advantages_of_an_episode_are_those_of_acting(form):
    agent, batch = _agent(form=form), _batch()
    policy_outputs = [agent.act(state) for state in batch.state]
    coefficients = np.stack([one.coefficients for one in policy_outputs])
    means, stds = np.stack([one.mean for one in policy_outputs]), np.stack([one.std for one in policy_outputs])
    found = agent.advantages(coefficients, batch.action, means, stds)
    np.testing.assert_allclose(found, agent.train(batch, *scalars()).advantage, rtol=1e-4, atol=1e-6)
    assert found.dtype == np.float32
