"""DDPG: its two gradients against the paper's objectives, and that it learns."""

import numpy as np
import pytest

from repro.papers.refer import ddpg
from repro.papers.refer.refer_rules import RULES
from repro.replay.refer import Minibatch
from tests.papers.refer.gradients import first_gradient, network, ratio_and_kl, slopes, spread
from tests.papers.refer.small import A, B, S, agent_of, build, own_batch, random_batch, scalars

POLICY, CRITIC = (S, 8, 8, A), (S + A, 8, 8, 1)
BETA, C_MAX, DECAY = 0.7, 2.5, 0.03


@pytest.mark.parametrize("rule", RULES)
def test_one_step_has_the_gradients_of_algorithm_4(rule):
    agent = agent_of("ddpg", rule=rule, weight_decay=DECAY)
    g = np.random.default_rng(5)
    for variable in (agent.weights, agent.critic_weights, agent.target_weights, agent.target_critic_weights):
        variable.assign(0.4 * g.normal(size=variable.shape))  # targets unlike what they follow
    state_mean, state_std = g.normal(size=S).astype(np.float32), g.uniform(0.5, 2, S).astype(np.float32)
    agent.set_state_statistics(state_mean, state_std)
    batch = random_batch(B, S, A)
    policy, critic, target_policy, target_critic = (
        x.numpy().astype(np.float64)
        for x in (agent.weights, agent.critic_weights, agent.target_weights, agent.target_critic_weights)
    )
    batch = batch._replace(std=np.full((B, A), 0.4, np.float32))
    own = np.tanh(network(policy, POLICY, (batch.state - state_mean) / state_std)).astype(np.float32)
    batch = batch._replace(mean=own + 0.2 * batch.mean, action=own + 0.3 * batch.action)
    agent.train(batch, *scalars(beta=BETA, c_max=C_MAX))

    batch = Minibatch(*(np.asarray(x, np.float64) for x in batch))
    standard, next_standard = ((x - state_mean) / state_std for x in (batch.state, batch.next_state))

    def m(vector, s):
        return np.tanh(network(vector, POLICY, s))

    def q(vector, s, a):
        return network(vector, CRITIC, np.concatenate([s, a], axis=1))[:, 0]

    rho, _ = ratio_and_kl(batch, m(policy, standard))
    near = (rho > 1 / C_MAX) & (rho < C_MAX)
    assert 2 < near.sum() < B - 2
    uses_rule_1, uses_rule_2 = RULES[rule]
    counts = near if uses_rule_1 else np.ones(B)
    beta = BETA if uses_rule_2 else 1.0
    next_value = np.nan_to_num(q(target_critic, next_standard, m(target_policy, next_standard)))
    target = batch.reward + batch.discount * next_value

    def critic_loss(vector):
        matrices = np.ones(len(vector), bool)
        start = 0
        for fan_in, fan_out in zip(CRITIC, CRITIC[1:]):
            start += fan_in * fan_out
            matrices[start : start + fan_out] = False  # biases do not decay
            start += fan_out
        decay = 0.5 * DECAY * np.square(vector[matrices]).sum()
        return np.mean(counts * 0.5 * (q(vector, standard, batch.action) - target) ** 2) + decay

    def policy_loss(vector):
        mean = m(vector, standard)
        _, kl = ratio_and_kl(batch, mean)
        return np.mean(-beta * counts * q(critic, standard, mean) + (1 - beta) * kl)

    for optimizer, loss, vector in (
        (agent.critic_optimizer, critic_loss, critic),
        (agent.optimizer, policy_loss, policy),
    ):
        chosen = spread(len(vector))
        found = first_gradient(optimizer)[chosen]
        np.testing.assert_allclose(found, slopes(loss, vector, chosen), rtol=1e-3, atol=1e-5)
        assert np.abs(found).max() > 1e-2


def test_the_policy_steps_by_a_tenth_of_the_critic():
    agent = agent_of("ddpg")
    before = agent.weights.numpy(), agent.critic_weights.numpy()
    agent.train(random_batch(B, S, A), *scalars(rate=4e-3))
    # Adam's first step is the learning rate
    assert np.abs(agent.weights.numpy() - before[0]).max() == pytest.approx(4e-4, rel=1e-2)
    assert np.abs(agent.critic_weights.numpy() - before[1]).max() == pytest.approx(4e-3, rel=1e-2)


def test_the_mean_is_bounded_and_so_is_the_divergence():
    """Section 5.1 gives the largest divergence, 2 A / sigma^2: 850 for the 17 actions of Humanoid."""
    agent = agent_of("ddpg")
    batch = own_batch(agent)
    agent.weights.assign(1e4 * np.ones_like(agent.weights.numpy()))
    assert np.abs(agent.forward(batch.state)[1]).max() == 1.0
    *_, means = agent.train(batch._replace(mean=-np.ones((B, A), np.float32), state=9 + 0 * batch.state), *scalars())
    assert means["kl"] == pytest.approx(2 * A / 0.2**2, rel=1e-5)


@pytest.mark.slow
def test_it_learns_to_balance(tmp_path):
    training = build(tmp_path, agent="ddpg_refer", frames=8_000)
    list(training)
    assert training.summary()["evaluation"]["mean"] > 60  # of 200; random play falls after some 5 steps


@pytest.mark.slow
@pytest.mark.parametrize("turned", ["policy", "critic"])
def test_with_a_sign_turned_it_does_not(tmp_path, monkeypatch, turned):
    right = ddpg.ddpg_loss

    def wrong(action, policies, q, q_of_mean, r, *rest):
        if turned == "policy":
            return right(action, policies, q, -q_of_mean, r, *rest)
        return right(action, policies, q, q_of_mean, -r, *rest)

    monkeypatch.setattr(ddpg, "ddpg_loss", wrong)
    training = build(tmp_path, agent="ddpg_refer", frames=4_000)
    list(training)
    assert training.summary()["evaluation"]["mean"] < 15
