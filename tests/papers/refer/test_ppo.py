"""PPO's agent: its gradient step is that of the paper, and the code around it."""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from repro.papers.refer.gaussian_policy import MeanActionPolicy
from repro.papers.refer.ppo import NAMES, Experience, Ppo, PpoSettings, RolloutBatch
from tests.papers.refer.gradients import first_gradient, network, ratio_and_kl, slopes, spread
from tests.papers.refer.small import A, S

B = 24  # steps of a rollout
CLIP, GAMMA, LAMBDA = 0.2, 0.9, 0.8
SETTINGS = PpoSettings((8, 8), 6**0.5, 0.1, 0.2, CLIP, GAMMA, LAMBDA)
ALL = np.arange(B)[None]  # one minibatch of all steps
RATES = (1e-2, 3e-2)


def _agent(compile_with_xla=False):
    agent = Ppo(S, A, SETTINGS, np.random.default_rng(0), compile_with_xla)
    g = np.random.default_rng(5)
    mean, std = g.normal(size=S).astype(np.float32), g.uniform(0.5, 2, S).astype(np.float32)
    agent.set_state_statistics(mean, std)
    agent.sync_acting_weights()
    return agent


def test_an_input_that_has_not_varied_is_not_divided_by_almost_nothing():
    agent, state = _agent(), np.random.default_rng(7).normal(size=S).astype(np.float32)
    found = []
    for first in (1.0, 0.0):
        agent.set_state_statistics(np.zeros(S), np.array([first, *np.ones(S - 1)]))
        agent.sync_acting_weights()
        found.append((agent.act(state), np.asarray(agent.forward(state[None])[1])))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


def _rollout(agent):
    """Steps of a policy near the agent's, so that ratios lie on both sides of the clip's bounds."""
    g = np.random.default_rng(6)
    state, next_state = (g.normal(size=(B, S)).astype(np.float32) for _ in range(2))
    mean = np.stack([agent.act(s) for s in state]) + 0.15 * g.normal(size=(B, A)).astype(np.float32)
    std = np.array([0.4, 0.5], np.float32)
    action = (mean + std * g.normal(size=(B, A))).astype(np.float32)
    last = np.isin(np.arange(B), (3, 7))
    return RolloutBatch(state, next_state, action, mean, std, 3 * g.normal(size=B).astype(np.float32), last, last)


def _float64(agent, rollout):
    """Weights of both networks, states as they see them, the step's normalised advantages and its targets."""
    policy, value = (flat.variable.numpy().astype(np.float64) for flat in (agent._policy, agent._value))
    mean, std = (x.numpy().astype(np.float64) for x in (agent.state_mean, agent.state_std))
    standard = (rollout.state - mean) / std
    experience = agent.experience(rollout)
    advantage, target = (x.numpy().astype(np.float64) for x in (experience.advantage, experience.target))
    return policy, value, standard, (advantage - advantage.mean()) / advantage.std(), target


def _optimizers(agent):
    return agent._policy_optimizer, agent._value_optimizer


def test_one_step_has_the_gradient_of_the_clipped_objective():
    agent = _agent()
    rollout = _rollout(agent)
    policy, value, standard, advantage, target = _float64(agent, rollout)
    scalars = agent.train(rollout, ALL, *RATES)

    def ratio(vector):
        mean = network(vector[:-A], (S, 8, 8, A), standard)
        return ratio_and_kl(rollout, mean, np.sqrt(np.log1p(np.exp(vector[-A:]))))[0]

    def objective(vector):
        rho = ratio(vector)
        return -np.mean(np.minimum(rho * advantage, np.clip(rho, 1 - CLIP, 1 + CLIP) * advantage))

    def value_loss(vector):
        return 0.5 * np.mean((network(vector, (S, 8, 8, 1), standard)[:, 0] - target) ** 2)

    above, below = ratio(policy) > 1 + CLIP, ratio(policy) < 1 - CLIP
    flat = (above & (advantage > 0)) | (below & (advantage < 0))
    kinds = [side & (sign * advantage > 0) for side in (above, below, ~above & ~below) for sign in (1, -1)]
    assert all(kind.any() for kind in kinds)
    for optimizer, function, vector in zip(_optimizers(agent), (objective, value_loss), (policy, value)):
        chosen = spread(len(vector))
        found = first_gradient(optimizer)[chosen]
        np.testing.assert_allclose(found, slopes(function, vector, chosen), rtol=2e-3, atol=1e-5)
        assert np.abs(found).max() > 1e-2
    assert scalars["policy_loss"] == pytest.approx(objective(policy), rel=1e-4)
    assert scalars["value_loss"] == pytest.approx(value_loss(value), rel=1e-4)
    assert scalars["clipped"] == pytest.approx(np.mean(above | below)) != np.mean(flat)


def test_divergence_and_std_are_those_before_the_step():
    agent = _agent()
    rollout = _rollout(agent)
    mean = np.stack([agent.act(state) for state in rollout.state])
    scalars = agent.train(rollout, ALL, *RATES)
    assert set(scalars) == set(NAMES)
    assert scalars["kl"] == pytest.approx(ratio_and_kl(rollout, mean, 0.2**0.5)[1].mean(), rel=1e-4)
    assert scalars["std"] == pytest.approx(0.2**0.5, rel=1e-5)


def test_each_network_has_its_own_learning_rate():
    agent = _agent()
    before = agent._policy.variable.numpy(), agent._value.variable.numpy()
    agent.train(_rollout(agent), ALL, *RATES)
    for flat, start, rate in zip((agent._policy, agent._value), before, RATES):
        assert np.abs(flat.variable.numpy() - start).max() == pytest.approx(rate, rel=1e-3)  # Adam's first step


def test_all_minibatches_of_a_rollout_have_the_targets_of_its_beginning():
    fused, serial = _agent(), _agent()
    rollout = _rollout(fused)
    indices = np.random.default_rng(1).permuted(np.tile(np.arange(B), (2, 1)), axis=1).reshape(-1, 4)  # of 4 steps
    fused.train(rollout, indices, *RATES)
    experience = serial.experience(rollout)
    for optimizer, rate in zip(_optimizers(serial), RATES):
        optimizer.learning_rate.assign(rate)
    for minibatch in indices:
        serial.gradient_step(Experience(*[tf.gather(x, minibatch) for x in experience]), rollout.std)
    for one, other in zip((fused._policy, fused._value), (serial._policy, serial._value)):
        np.testing.assert_allclose(one.variable.numpy(), other.variable.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_xla_gives_what_the_graph_gives():
    plain, compiled = _agent(), _agent(compile_with_xla=True)
    indices = np.arange(B).reshape(-1, 4)
    for agent in (plain, compiled):
        agent.train(_rollout(agent), indices, *RATES)
    np.testing.assert_allclose(compiled.weights.numpy(), plain.weights.numpy(), rtol=1e-4, atol=1e-5)


def test_rewards_count_in_units_of_their_root_mean_square():
    agent = _agent()
    rollout = _rollout(agent)
    experience = agent.experience(rollout)
    value = agent.forward(rollout.state)[0].numpy()
    scale = np.sqrt(np.mean(np.square(rollout.reward)))
    assert float(experience.advantage[3]) == pytest.approx(
        rollout.reward[3] / scale - value[3], rel=1e-4
    )  # it fell there
    assert float(experience.target[3]) == pytest.approx(rollout.reward[3] / scale, rel=1e-4)
    larger = agent.experience(rollout._replace(reward=100 * rollout.reward))
    np.testing.assert_allclose(larger.target, experience.target, rtol=1e-4, atol=1e-5)


def test_what_follows_counts_where_a_time_limit_cut_and_not_after_a_fall():
    agent = _agent()
    rollout = _rollout(agent)  # ends at 3 and 7
    rollout = rollout._replace(terminated=np.arange(B) == 3)
    advantage = agent.experience(rollout).advantage.numpy()
    reward = rollout.reward / np.sqrt(np.mean(np.square(rollout.reward)))
    value, following = (agent.forward(x)[0].numpy() for x in (rollout.state, rollout.next_state))
    assert abs(following[[3, 7]]).min() > 1e-3
    np.testing.assert_allclose(advantage[3], reward[3] - value[3], rtol=1e-4)
    for t in (7, B - 1):  # the cut, and the end of the rollout
        np.testing.assert_allclose(advantage[t], reward[t] + GAMMA * following[t] - value[t], rtol=1e-4)


def test_acting_is_the_policy_that_is_exported_and_learned_from_on_standardised_states():
    agent = _agent()
    rollout = _rollout(agent)
    states = rollout.state
    state_spec = tensor_spec.BoundedTensorSpec([S], tf.float32, -np.inf, np.inf)
    action_spec = tensor_spec.BoundedTensorSpec([A], tf.float32, -np.inf, np.inf)
    policy = MeanActionPolicy(ts.time_step_spec(state_spec), action_spec, agent)
    time_step = ts.restart(states, batch_size=B)
    for mean in (agent.forward(states)[1], policy.action(time_step).action):
        np.testing.assert_allclose(np.stack([agent.act(s) for s in states]), mean, rtol=1e-4, atol=1e-6)
    means = agent.gradient_step(agent.experience(rollout), rollout.std)
    np.testing.assert_allclose(dict(zip(NAMES, means))["std"], agent.std.mean(), rtol=1e-5)
    agent.set_state_statistics(np.zeros(S), np.ones(S))
    assert not np.allclose(policy.action(time_step).action, mean)
