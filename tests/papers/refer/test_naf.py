"""NAF: its gradient against the paper's objective, and that it learns."""

import numpy as np
import pytest

from repro.papers.refer import naf
from repro.papers.refer.refer_rules import RULES
from repro.replay.refer import Minibatch
from tests.papers.refer.gradients import first_gradient, network, ratio_and_kl, slopes, spread
from tests.papers.refer.small import A, B, S, agent_of, build, random_batch, scalars

SIZES = (S, 8, 8, 1 + A + 3)
BETA, C_MAX = 0.7, 2.5


@pytest.mark.parametrize("rule", RULES)
def test_one_step_has_the_gradient_of_equations_2_4_and_10(rule):
    agent = agent_of("naf", rule=rule)
    g = np.random.default_rng(5)
    for variable in (agent.weights, agent.target_weights):
        variable.assign(0.4 * g.normal(size=variable.shape))  # a target unlike what it follows
    state_mean, state_std = g.normal(size=S).astype(np.float32), g.uniform(0.5, 2, S).astype(np.float32)
    agent.set_state_statistics(state_mean, state_std)
    weights, target_weights = (x.numpy().astype(np.float64) for x in (agent.weights, agent.target_weights))
    batch = random_batch(B, S, A)
    own = agent.forward(batch.state)[1].numpy()
    batch = batch._replace(
        mean=own + 0.2 * batch.mean, action=own + 0.3 * batch.action, std=np.full((B, A), 0.4, np.float32)
    )
    agent.train(batch, *scalars(beta=BETA, c_max=C_MAX))

    batch = Minibatch(*(np.asarray(x, np.float64) for x in batch))
    standard, next_standard = ((x - state_mean) / state_std for x in (batch.state, batch.next_state))
    next_value = np.nan_to_num(network(target_weights, SIZES, next_standard)[:, 0])
    target = batch.reward + batch.discount * next_value
    rho, _ = ratio_and_kl(batch, network(weights, SIZES, standard)[:, 1 : 1 + A])
    near = (rho > 1 / C_MAX) & (rho < C_MAX)
    assert 2 < near.sum() < B - 2
    uses_rule_1, uses_rule_2 = RULES[rule]
    counts = near if uses_rule_1 else np.ones(B)
    beta = BETA if uses_rule_2 else 1.0

    def loss(vector):
        outputs = network(vector, SIZES, standard)
        v, mean, (first, low, last) = outputs[:, 0], outputs[:, 1:3], outputs[:, 3:].T
        u = batch.action - mean
        first, last = np.log1p(np.exp(first)), np.log1p(np.exp(last))  # the diagonal of L
        q = v - (first * u[:, 0] + low * u[:, 1]) ** 2 - (last * u[:, 1]) ** 2  # |L' u|^2
        _, kl = ratio_and_kl(batch, mean)
        return np.mean(beta * counts * 0.5 * (q - target) ** 2 + (1 - beta) * kl)

    chosen = spread(len(weights))
    found = first_gradient(agent.optimizer)[chosen]
    np.testing.assert_allclose(found, slopes(loss, weights, chosen), rtol=1e-3, atol=1e-5)
    assert np.abs(found).max() > 1e-2


def test_a_step_has_the_learning_rate_of_its_call():
    agent = agent_of("naf")
    before = agent.weights.numpy()
    agent.train(random_batch(B, S, A), *scalars(rate=4e-3))
    assert agent._settings.learning_rate == 1e-2
    assert np.abs(agent.weights.numpy() - before).max() == pytest.approx(4e-3, rel=1e-2)  # Adam's first step


def test_the_mean_has_no_bounds():
    agent = agent_of("naf")
    agent.weights.assign(np.ones_like(agent.weights.numpy()))
    assert np.abs(agent.forward(random_batch(B, S, A).state)[1]).max() > 2


@pytest.mark.slow
def test_it_learns_to_balance(tmp_path):
    training = build(tmp_path, agent="naf_refer", frames=8_000)
    list(training)
    assert training.summary()["evaluation"]["mean"] > 60  # of 200; random play falls after some 5 steps


@pytest.mark.slow
def test_with_the_sign_of_its_rewards_turned_it_does_not(tmp_path, monkeypatch):
    right = naf.naf_loss

    def wrong(action, policies, q, r, *rest):
        return right(action, policies, q, -r, *rest)

    monkeypatch.setattr(naf, "naf_loss", wrong)
    training = build(tmp_path, agent="naf_refer", frames=4_000)
    list(training)
    assert training.summary()["evaluation"]["mean"] < 15
