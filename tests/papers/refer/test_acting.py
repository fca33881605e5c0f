"""Acting in NumPy and learning in TensorFlow are the same function of a state, constant inputs included."""

import numpy as np
import pytest

from repro.environments.mujoco import TASKS, make_mujoco
from repro.networks import mlp
from repro.papers import find_experiment
from tests.papers.refer.small import EXPERIMENTS

STEPS = 60
METHODS = ("vracer_refer", "ddpg_refer", "naf_refer", "lstm_refer")


def make_agent(method, environment, seed=0):
    config = EXPERIMENTS[method.split("_")[0]].get_config("smoke")
    config.agent = method
    config.runtime.compile = "graph"
    return find_experiment(config).make_agent(environment, np.random.default_rng(seed))


def rollout(environment, steps=STEPS, seed=0):
    """States [steps, S] under random actions, episodes one after the other."""
    g = np.random.default_rng(seed)
    states = [environment.reset()[0][0]]
    while len(states) < steps:
        states.append(environment.step(0.5 * g.normal(size=(1, environment.num_actions)).astype(np.float32))[0][0])
    return np.array(states)


def standardise(agent, states):
    """As `ReferMemory.state_statistics` has them."""
    mean = states.mean(axis=0, dtype=np.float64)
    std = np.sqrt(np.square(states - mean).mean(axis=0))
    agent.set_state_statistics(mean.astype(np.float32), std.astype(np.float32))
    agent.sync_acting_weights()


def largest_difference(agent, states):
    """Over values and means, of acting on an episode of these states and of learning from them."""
    agent.begin_episode()
    policy_outputs = [agent.act(state) for state in states]
    values, means = np.array([one.value for one in policy_outputs]), np.array([one.mean for one in policy_outputs])
    if hasattr(agent, "window"):
        padded = np.concatenate([np.zeros_like(states, shape=(agent.window - 1, states.shape[1])), states])
        windows = np.stack([padded[t : t + agent.window] for t in range(len(states))])
        expected = agent.forward(windows, np.minimum(np.arange(len(states)) + 1, agent.window).astype(np.int32))
    else:
        expected = agent.forward(states)
    return max(np.abs(values - expected[0]).max(), np.abs(means - expected[1]).max())


class Sizes:
    state_size, num_actions = 40, 3


@pytest.mark.parametrize("method", METHODS)
def test_constant_inputs_that_are_not_0(method):
    """Their standard deviation is 0, so they are divided by 1."""
    g = np.random.default_rng(1)
    states = g.normal(size=(20, Sizes.state_size)).astype(np.float32)
    states[:, ::2] = g.uniform(-30.0, 30.0, Sizes.state_size // 2)
    agent = make_agent(method, Sizes)
    standardise(agent, states)
    assert largest_difference(agent, states) < 1e-4


def test_taken_into_the_first_layer_the_standardisation_cancels():
    """(x - m) / d W = x (W / d) - m (W / d) in the reals alone: in float32 inputs that hardly vary leave noise."""
    g = np.random.default_rng(1)
    states = g.normal(size=(20, Sizes.state_size)).astype(np.float32)
    states[:, ::2] = g.uniform(20.0, 30.0, Sizes.state_size // 2) + 1e-5 * states[:, ::2]
    agent = make_agent("vracer_refer", Sizes)
    standardise(agent, states)
    first, bias, *rest = agent._acting
    scaled = first / agent._divisor[:, None]
    folded = [scaled, bias - agent._offset @ scaled, *rest]
    means = np.array([mlp.apply_numpy(folded, state)[1:] for state in states])
    assert np.abs(means - agent.forward(states)[1]).max() > 1e-2


@pytest.mark.parametrize("method", METHODS[:3])
@pytest.mark.parametrize("task", TASKS)
def test_every_task(task, method):
    environment = make_mujoco({"task": task, "version": "v5", "max_steps": 0}, 1, 0)
    states = rollout(environment)
    agent = make_agent(method, environment)
    standardise(agent, states[: STEPS // 2])
    assert largest_difference(agent, states) < 1e-4
    environment.close()


def test_humanoid_has_constant_inputs():
    environment = make_mujoco({"task": "Humanoid", "version": "v5", "max_steps": 0}, 1, 0)
    states = rollout(environment)
    constant = (states == states[0]).all(axis=0)
    assert (constant & (states[0] != 0.0)).sum() > 10  # what makes the test above one
    environment.close()
