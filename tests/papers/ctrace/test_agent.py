"""One update of C-trace's agents, piece by piece."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.trajectories import StepType

from repro.networks.sequence_network import unroll_after_burn_in
from repro.papers.ctrace import targets
from repro.papers.ctrace.agent import SCALARS
from repro.papers.ctrace.loss import dqn_loss
from repro.training.learner import Learner
from tests.papers.ctrace import small
from tests.support import two_replicas

METHODS = ("double_dqn", "n_step", "retrace", "c_trace")


def step(agent, batch, weights=None):
    """An eager update: its scalars, and what has a value for each sequence."""
    loss, extra = agent.train(tf.nest.map_structure(tf.constant, batch), weights)
    values = {name: value.numpy() for name, value in ({"loss": loss} | extra).items()}
    per_sequence = {name: value for name, value in values.items() if value.ndim}
    return {name: float(value) for name, value in values.items() if name not in per_sequence}, per_sequence


def snapshot(variables):
    return [variable.numpy().copy() for variable in variables]


def expected_losses(agent, batch, burn_in=0, alpha=0.5):
    """The loss of every step [T, B], of the whole unrolls' values and the rows behind the burn-in."""

    def values(network):
        if burn_in:
            state = batch.policy_info["core_state"]
            (q,) = unroll_after_burn_in(network, batch.observation, batch.step_type, state, burn_in)
        else:
            q, _ = network(batch.observation, batch.step_type)
        return tf.transpose(q, [1, 0, 2])

    def rows(x):
        return np.swapaxes(x[:, burn_in:], 0, 1)

    info = batch.policy_info
    return dqn_loss(
        values(agent._network),
        values(agent._target_network),
        targets.epsilon_greedy(rows(info["greedy_action"]), rows(info["epsilon"]), 3),
        tf.constant(rows(batch.action)[:-1]),
        tf.constant(rows(batch.reward)[:-1]),
        tf.constant(small.GAMMA * rows(batch.discount)[:-1], tf.float32),
        tf.constant(rows(batch.step_type)[:-1] == StepType.LAST),
        agent._loss_settings,
        alpha,
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("recurrent", [False, True])
def test_loss_is_the_weighted_mean_over_steps_and_sequences(method, recurrent):
    agent = small.make_agent(method, 3, recurrent=recurrent)
    for variable in agent._target_network.trainable_variables:  # else both networks agree
        variable.assign(variable + 0.1)
    batch, weights = small.random_batch(agent, 6, seed=1), np.float32([1.0, 0.5, 0.2, 0.0, 1.0, 0.7])
    losses = expected_losses(agent, batch, small.BURN_IN if recurrent else 0)
    scalars, per_sequence = step(agent, batch, weights)
    assert scalars["loss"] == pytest.approx(float(np.mean(losses.total.numpy().mean(axis=0) * weights)), rel=1e-5)
    assert set(scalars) == {"loss", *SCALARS}
    size = np.abs(losses.extras["td_error"].numpy())  # 0 on boundary rows
    first = small.BURN_IN if recurrent else 0
    count = (batch.step_type[:, first:-1] != StepType.LAST).sum(axis=1)
    expected = 0.9 * size.max(axis=0) + 0.1 * size.sum(axis=0) / np.maximum(count, 1)
    np.testing.assert_allclose(per_sequence["priorities"], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_only_c_trace_learns_alpha_and_towards_its_target(method):
    agent = small.make_agent(method, 3)
    scalars, _ = step(agent, small.random_batch(agent, 64, seed=1))
    moved = float(agent._phi)
    if method == "c_trace":
        assert scalars["contraction"] != pytest.approx(scalars["contraction_target"])
        assert np.sign(moved) == np.sign(scalars["contraction_target"] - scalars["contraction"])
        assert scalars["alpha"] == pytest.approx(0.5)  # before the step
    else:
        assert moved == 0.0
        assert scalars["alpha"] == 1.0  # the target policy is pi
    assert any("phi" in slot.name for slot in agent._optimizer.variables) == (method == "c_trace")


@pytest.mark.parametrize("phi", [-2.0, 2.0])
def test_alpha_is_the_sigmoid_of_phi_in_target_and_contraction(phi):
    """At the start, where phi is 0, alpha and 1 - alpha are the same."""
    agent = small.make_agent("c_trace", 3)
    agent._phi.assign(phi)
    batch, alpha = small.random_batch(agent, 64, seed=1), 1 / (1 + np.exp(-phi))
    losses, others = (expected_losses(agent, batch, alpha=a) for a in (alpha, 1 - alpha))
    live = (batch.step_type[:, :-1] != StepType.LAST).T
    scalars, _ = step(agent, batch)
    assert scalars["alpha"] == pytest.approx(alpha)
    assert scalars["loss"] == pytest.approx(float(losses.total.numpy().mean()), rel=1e-5)
    assert scalars["loss"] != pytest.approx(float(others.total.numpy().mean()), rel=1e-3)
    assert scalars["contraction"] == pytest.approx(losses.extras["contraction"].numpy()[live].mean(), rel=1e-5)
    assert scalars["contraction"] != pytest.approx(others.extras["contraction"].numpy()[live].mean(), rel=1e-2)


def gradients_of(agent, batch, weights):
    batch, weights = tf.nest.map_structure(tf.convert_to_tensor, (batch, weights))
    with tf.GradientTape() as tape:
        loss = agent._loss(batch, weights).loss
    return float(loss), [g.numpy() for g in tape.gradient(loss, agent._network.trainable_variables)]


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("method", ["n_step", "c_trace"])
def test_the_sum_over_time_is_its_mean_times_the_steps(method, recurrent):
    made = {"recurrent": recurrent, "clip_error": float("inf")}
    agents = {name: small.make_agent(method, 3, time_reduction=name, **made) for name in ("mean", "sum")}
    batch, weights = small.random_batch(agents["mean"], 6, seed=1), np.float32([1.0, 0.5, 0.2, 0.0, 1.0, 0.7])
    (mean, of_mean), (total, of_sum) = (gradients_of(agent, batch, weights) for agent in agents.values())
    per_step = expected_losses(agents["sum"], batch, small.BURN_IN if recurrent else 0).total.numpy()
    assert total == pytest.approx(float(np.mean(per_step.sum(axis=0) * weights)), rel=1e-5)
    assert total == pytest.approx(small.STEPS * mean, rel=1e-6)
    for one, other in zip(of_sum, of_mean, strict=True):
        np.testing.assert_allclose(one, small.STEPS * other, rtol=1e-5, atol=1e-7)
    norms = [np.sqrt(sum((g**2).sum() for g in gradients)) for gradients in (of_sum, of_mean)]
    assert norms[1] > 0.01
    for wrong in (1, small.STEPS - 1, small.STEPS + 1, small.STEPS + small.BURN_IN):
        assert norms[0] != pytest.approx(wrong * norms[1], rel=0.05)


def sgd_step(batch, weights=None, learning_rate=1e-2, **made):
    """An update of C-trace by gradient descent, as Adam would hide a factor: moves of network and phi, gradient norm"""
    agent = small.make_agent("c_trace", 3, **made)
    agent._optimizer = tf.keras.optimizers.SGD(learning_rate)
    agent._optimizer.build(agent._learned)
    before = snapshot(agent._network.trainable_variables)
    scalars, _ = step(agent, batch, weights)
    after = snapshot(agent._network.trainable_variables)
    moved = np.concatenate([(b - a).ravel() for a, b in zip(after, before)]) / learning_rate
    return moved, float(agent._phi), scalars["gradient_norm"]


def test_alpha_follows_the_mean_whatever_the_reduction_of_the_loss():
    batch = small.random_batch(small.make_agent("c_trace"), 64, seed=1)
    phi = {name: sgd_step(batch, time_reduction=name)[1] for name in ("mean", "sum")}
    assert phi["sum"] == pytest.approx(phi["mean"], rel=1e-6)
    assert abs(phi["mean"]) > 1e-4


@pytest.mark.parametrize("recurrent", [False, True])
def test_the_bound_is_on_the_gradient_of_the_network_alone(recurrent):
    """alpha's loss has a factor of 1000 / (1 - gamma): phi's gradient would take the whole bound."""
    made = {"recurrent": recurrent, "clip_error": float("inf")}
    batch = small.random_batch(small.make_agent(recurrent=recurrent), 64, seed=1)
    gradient, phi, norm = sgd_step(batch, **made)
    assert norm == pytest.approx(np.linalg.norm(gradient), rel=1e-3)
    assert norm > 0.01
    for share in (0.25, 2.0):
        clipped, clipped_phi, unclipped_norm = sgd_step(batch, clip_global_norm=share * norm, **made)
        np.testing.assert_allclose(clipped, min(share, 1.0) * gradient, rtol=1e-2, atol=1e-3 * norm)
        assert clipped_phi == pytest.approx(phi, rel=1e-6)
        assert unclipped_norm == pytest.approx(norm, rel=1e-6)  # of the gradient as it was


def test_importance_weights_are_not_those_of_alpha():
    batch = small.random_batch(small.make_agent("c_trace"), 64, seed=1)
    weights = np.linspace(0.1, 1.0, 64, dtype=np.float32)
    gradient, phi, _ = sgd_step(batch)
    weighted, weighted_phi, _ = sgd_step(batch, weights)
    assert np.linalg.norm(weighted) < 0.9 * np.linalg.norm(gradient)
    assert weighted_phi == pytest.approx(phi, rel=1e-6)
    assert abs(phi) > 1e-4


def test_an_unknown_reduction_is_an_error():
    with pytest.raises(ValueError, match="loss.time_reduction='max': choose mean, sum"):
        small.make_agent(time_reduction="max")


def test_an_unknown_target_is_an_error_before_anything_is_played():
    with pytest.raises(ValueError, match="loss.target='ctrace': choose double_dqn, n_step, retrace, c_trace."):
        small.make_agent("ctrace")


def test_target_network_is_copied_every_period():
    agent = small.make_agent("n_step", 3, target_period=3)
    learner = Learner(agent, tf.distribute.get_strategy())
    begin = snapshot(agent._target_network.variables)
    for i in range(1, 7):
        learner.step(small.random_batch(agent, 8, seed=i))
        online, target = (snapshot(n.variables) for n in (agent._network, agent._target_network))
        same = all((a == b).all() for a, b in zip(online, target))
        assert same == (i % 3 == 0)
        if i < 3:
            assert all((a == b).all() for a, b in zip(target, begin))


def test_one_step_reads_only_its_two_observations():
    agent = small.make_agent("double_dqn", 3)
    batch = tf.nest.map_structure(lambda x: x[:, :2], small.random_batch(agent, 6, seed=1))
    losses = expected_losses(agent, batch)
    scalars, _ = step(agent, batch)
    assert scalars["loss"] == pytest.approx(float(losses.total.numpy().mean()), rel=1e-5)


def test_two_replicas_make_the_update_of_one(tmp_path):
    result = two_replicas.run("tests.papers.ctrace.two_replicas", tmp_path)
    two_replicas.assert_same_updates(result, loss_rtol=1e-5, rtol=1e-5)
