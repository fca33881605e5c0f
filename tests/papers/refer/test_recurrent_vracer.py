"""V-RACER with an LSTM: acting equals learning on the window, gradients pass through it, memory helps."""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.trajectories import StepType
from tf_agents.trajectories import time_step as ts

from repro.distributions import gaussian
from repro.papers import find_experiment
from repro.papers.refer import loss
from repro.papers.refer.loss import Variant
from repro.papers.refer.recurrent_vracer import RecurrentVRacer, WindowBatch
from repro.papers.refer.vracer import VRacerSettings
from repro.replay.refer import ReferMemory
from repro.training.run_directory import RunDirectory
from tests.papers.refer.gradients import first_gradient, slopes, spread
from tests.papers.refer.small import A, B, S, random_batch, scalars, small_config

W, UNITS = 3, (6, 4)
SETTINGS = VRacerSettings(UNITS, 6**0.5, 0.1, 0.2, 1e-2, Variant("refer", "none", 7.0, "stored"))


def agent_of(steps_per_call=1, compile_with_xla=False, window=W, **changes):
    settings = SETTINGS._replace(variant=SETTINGS.variant._replace(**changes))
    return RecurrentVRacer(S, A, settings, np.random.default_rng(0), steps_per_call, compile_with_xla, window)


def batch_of(size=B):
    batch = random_batch(size, S, A)
    state = np.random.default_rng(7).normal(size=(size, W, S)).astype(np.float32)
    length = np.arange(size, dtype=np.int32) % W + 1
    return WindowBatch(state, length, batch.action, batch.mean, batch.std, batch.q_ret, batch.v_tbc)


def states_of(steps, seed=3):
    return np.random.default_rng(seed).normal(size=(steps, S)).astype(np.float32)


def with_statistics(agent):
    agent.set_state_statistics(np.arange(S, dtype=np.float32), np.linspace(0.5, 3, S).astype(np.float32))
    agent.sync_acting_weights()
    return agent


def assert_acts_as_learnt(agent, states):
    """Acting along an episode, step for step, against the learner's windows, one by one."""
    for t, state in enumerate(states):
        window = states[max(0, t + 1 - W) : t + 1]
        padded = np.concatenate([np.full((W - len(window), S), np.nan, np.float32), window])
        v, mean, _ = agent.forward(padded[None], np.int32([len(window)]))
        output = agent.act(state)
        np.testing.assert_allclose(output.value, v[0], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(output.mean, mean[0], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(output.std, np.sqrt(0.2), rtol=1e-6)


def test_acting_is_the_learners_function_of_the_window():
    agent = with_statistics(agent_of())
    assert_acts_as_learnt(agent, states_of(4 * W))
    agent.begin_episode()
    assert_acts_as_learnt(agent, states_of(2, seed=4))


def test_an_episode_that_is_not_begun_remembers_the_one_before():
    agent = with_statistics(agent_of())
    first, *_ = states_of(1)
    fresh = agent.act(first).mean
    again = agent.act(first).mean
    agent.begin_episode()
    np.testing.assert_array_equal(agent.act(first).mean, fresh)
    assert not np.allclose(again, fresh, rtol=1e-3)


def test_what_acting_remembers_is_kept_and_taken_over():
    agent, other = agent_of(), agent_of()
    states = states_of(7)
    for state in states[:4]:
        agent.act(state)
    kept = agent.get_acting_state()
    expected = [agent.act(state) for state in states[4:]]
    other.set_acting_state(kept)
    for state, output in zip(states[4:], expected):
        found = other.act(state)
        assert found.value == output.value
        np.testing.assert_array_equal(found.mean, output.mean)


def test_ratios_of_the_policy_that_acted_are_1_and_values_are_its_own():
    agent = with_statistics(agent_of())
    memory, g = ReferMemory(32, S, A, 16, discount=0.9), np.random.default_rng(5)
    values, last_values = [], []
    for length in (9, 2, 7):
        agent.begin_episode()
        states = states_of(length + 1, seed=length)
        policy_outputs = [agent.act(state) for state in states]
        means = np.stack([one.mean for one in policy_outputs[:-1]])
        stds = np.stack([one.std for one in policy_outputs[:-1]])
        actions = means + stds * g.normal(size=means.shape)
        rewards = g.normal(size=length)
        values += [one.value for one in policy_outputs[:-1]]
        last_values.append(policy_outputs[-1].value)
        memory.add_episode(
            states, actions, rewards, means, stds, [one.value for one in policy_outputs], terminated=False
        )
    np.testing.assert_allclose(agent.last_values(memory, np.array([8, 10, 17])), last_values, rtol=1e-4, atol=1e-6)
    batch = agent.gather(memory, np.arange(18))
    rho, value, *_, means = agent.train(batch, *scalars())
    np.testing.assert_allclose(rho, 1.0, rtol=1e-4)
    np.testing.assert_allclose(value, values, rtol=1e-4, atol=1e-5)
    assert means["kl"] == pytest.approx(0.0, abs=1e-5)
    rho, *_ = agent.train(batch, *scalars())
    assert not np.allclose(rho, 1.0, rtol=1e-3)


def network(vector, batch):
    """Outputs [B, 1 + A] in float64, from the equations of an LSTM, one window and one step after the other."""

    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    shapes, fan_in = [], S
    for units in UNITS:
        shapes += [(fan_in, 4 * units), (4 * units,), (units, 4 * units)]
        fan_in = units
    shapes += [(fan_in, 1 + A), (1 + A,), (A,)]
    ends = np.cumsum([np.prod(shape) for shape in shapes])
    assert ends[-1] == len(vector)
    weights = [part.reshape(shape) for part, shape in zip(np.split(vector, ends[:-1]), shapes)]
    outputs = []
    for window, length in zip(batch.state.astype(np.float64), batch.length):
        h, c = ([np.zeros(units) for units in UNITS] for _ in "hc")
        for x in window[W - length :]:
            for n in range(len(UNITS)):
                w_x, bias, w_h = weights[3 * n : 3 * n + 3]
                i, f, o, g = np.split(x @ w_x + bias + h[n] @ w_h, 4)
                c[n] = sigmoid(f) * c[n] + sigmoid(i) * np.tanh(g)
                x = h[n] = sigmoid(o) * np.tanh(c[n])
        outputs.append(x @ weights[-3] + weights[-2])
    return np.stack(outputs), np.sqrt(np.log1p(np.exp(weights[-1])))


def test_the_gradient_goes_through_the_whole_window():
    """Gradients of Eqs. (5) and (9), with Q_ret - V constant, against central differences."""
    agent, batch = agent_of(rule="none"), batch_of()
    before = agent.weights.numpy().astype(np.float64)
    start = network(before, batch)[0][:, 0]

    def log_density(m, s):
        return (-0.5 * ((batch.action - m) / s) ** 2 - np.log(s)).sum(1)

    def objective(vector):
        outputs, std = network(vector, batch)
        v, mean = outputs[:, 0], outputs[:, 1:]
        rho = np.exp(log_density(mean, std) - log_density(batch.mean, batch.std))
        return np.mean(-rho * (batch.q_ret - start) + 0.5 * (v - batch.v_tbc) ** 2)

    agent.train(batch, *scalars())
    found, chosen = first_gradient(agent.optimizer), spread(len(before), 60)
    expected = slopes(objective, before, chosen)
    np.testing.assert_allclose(found[chosen], expected, rtol=2e-3, atol=1e-6)
    recurrent = slice(S * 24 + 24, S * 24 + 24 + 6 * 24)  # w_h of the first layer, which only earlier steps reach
    assert np.abs(found[recurrent]).max() > 1e-5
    alone = agent_of(rule="none")
    alone.train(batch._replace(length=np.ones(B, np.int32)), *scalars())
    assert not first_gradient(alone.optimizer)[recurrent].any()


def test_k_steps_in_one_call_are_k_calls_of_one_step():
    fused, serial = agent_of(4), agent_of(1)
    batch = batch_of(4 * B)
    rho, value, *_ = fused.train(batch, np.array([1, 0.9, 0.8, 0.7]), np.full(4, 3.0), np.array([1, 2, 3, 4]) * 1e-2)
    for k in range(4):
        part = WindowBatch(*(x[k * B : (k + 1) * B] for x in batch))
        rho_k, value_k, *_ = serial.train(part, *scalars(beta=1 - k / 10, rate=(k + 1) * 1e-2))
        np.testing.assert_allclose(rho[k * B : (k + 1) * B], rho_k, rtol=1e-4)
        np.testing.assert_allclose(value[k * B : (k + 1) * B], value_k, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(fused.weights.numpy(), serial.weights.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_xla_gives_what_the_graph_gives():
    plain, compiled = agent_of(2), agent_of(2, compile_with_xla=True)
    for agent in (plain, compiled):
        agent.train(batch_of(2 * B), *scalars(2))
    np.testing.assert_allclose(compiled.weights.numpy(), plain.weights.numpy(), rtol=1e-4, atol=1e-5)


def test_ratios_are_those_of_the_learners_densities():
    agent, batch = agent_of(), batch_of()
    v, mean, _ = agent.forward(batch.state, batch.length)
    std = tf.fill([A], tf.sqrt(0.2))
    expected = tf.exp(gaussian.log_ratio(mean, std, batch.mean, batch.std, batch.action)).numpy()
    rho, value, *_ = agent.train(batch, *scalars())
    np.testing.assert_allclose(rho, expected, rtol=1e-4)
    np.testing.assert_allclose(value, v, rtol=1e-4, atol=1e-6)


# In training.


def build(path, agent="lstm_refer", **changes):
    """A small run on a pendulum whose velocities are hidden, with or without memory."""
    config = small_config(agent="lstm_refer", **changes)
    config.agent = agent
    config.learner.learning_rate = config.refer.beta_step_size = 2e-3
    return find_experiment(config).build_trainer(1, RunDirectory(path, config.to_dict(), 1), print)


def mean_return(training):
    for _ in training:
        pass
    return training.summary()["evaluation"]["mean"]


@pytest.mark.slow
def test_with_hidden_velocities_memory_balances_and_its_absence_does_not(tmp_path):
    with_memory = mean_return(build(tmp_path / "lstm", frames=8_000))
    without = mean_return(build(tmp_path / "mlp", agent="vracer_refer", frames=8_000))
    assert with_memory > 40  # of 200; random play falls after some 5 steps
    assert with_memory > 1.5 * without


@pytest.mark.slow
def test_with_the_sign_of_its_policy_gradient_turned_it_does_not_learn(tmp_path, monkeypatch):
    right = loss.off_policy_gradient_loss
    monkeypatch.setattr(loss, "off_policy_gradient_loss", lambda *arguments: -right(*arguments))
    assert mean_return(build(tmp_path, frames=4_000)) < 15


def test_each_episode_begins_without_memory(tmp_path):
    training = build(tmp_path, frames=64)
    agent, begun = training._agent, []
    begin, act = agent.begin_episode, agent.act
    agent.begin_episode = lambda: begun.append(len(training._memory)) or begin()
    agent.act = lambda state: begun.append(state) or act(state)
    for _ in training:
        assert agent._acted == training._episode.length
    marks = [i for i, entry in enumerate(begun) if isinstance(entry, int)]
    assert len(marks) == training._memory.episodes
    memory = training._memory.get_state()
    first = begun[marks[-2] + 1]  # the first state of the last whole episode
    np.testing.assert_array_equal(first, memory["state"][-int(memory["episode_length"][-1])])


def test_a_trained_policy_follows_the_window_through_episodes(tmp_path):
    training = build(tmp_path, frames=32)
    for _ in training:
        pass
    agent = training._agent
    agent.sync_acting_weights()
    config = small_config(agent="lstm_refer", frames=32)
    policy, environment, _ = find_experiment(config).load_policy(tmp_path / "checkpoints", 2, 5, print)
    state = policy.get_initial_state(2)
    states = np.random.default_rng(1).normal(size=(9, 2, environment.state_size)).astype(np.float32)
    kinds = np.full((9, 2), StepType.MID, np.int32)
    kinds[0], kinds[3, 1], kinds[4, 1] = StepType.FIRST, StepType.LAST, StepType.FIRST
    means = []
    for observation, kind in zip(states, kinds):
        step = policy.action(ts.TimeStep(kind, np.zeros(2), np.ones(2), observation), state)
        means.append(step.action.numpy())
        state = step.state
    for place in range(2):
        for t in range(9):
            if kinds[t, place] == StepType.FIRST:
                agent.begin_episode()
            expected = agent.act(states[t, place]).mean
            np.testing.assert_allclose(means[t][place], expected, rtol=1e-4, atol=1e-6)
    environment.close()
