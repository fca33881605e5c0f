"""Code that DDPG and NAF share: fused steps, targets, ratios, acting; V-RACER has its own file."""

import numpy as np
import pytest

from repro.papers.refer.fused import FlatWeights, flatten
from repro.replay.refer import Minibatch
from tests.papers.refer.small import AGENTS, A, B, S, agent_of, own_batch, random_batch, scalars

BOTH = pytest.mark.parametrize("name", AGENTS)


def variables(agent):
    names = ("weights", "critic_weights", "target_weights", "target_critic_weights")
    return {name: getattr(agent, name).numpy() for name in names if hasattr(agent, name)}


@BOTH
def test_k_steps_in_one_call_are_k_calls_of_one_step(name):
    fused, serial = agent_of(name, 4), agent_of(name)
    batch = random_batch(4 * B, S, A)
    rates = np.array([1, 2, 3, 4]) * 1e-2
    rho, value, advantage, *_ = fused.train(batch, np.array([1, 0.9, 0.8, 0.7]), np.full(4, 3.0), rates)
    assert not advantage.any()  # none is fitted
    for k in range(4):
        part = Minibatch(*(x[k * B : (k + 1) * B] for x in batch))
        rho_k, value_k, *_ = serial.train(part, *scalars(beta=1 - k / 10, rate=(k + 1) * 1e-2))
        np.testing.assert_allclose(rho[k * B : (k + 1) * B], rho_k, rtol=1e-4)
        np.testing.assert_allclose(value[k * B : (k + 1) * B], value_k, rtol=1e-4, atol=1e-6)
    for key, expected in variables(serial).items():
        np.testing.assert_allclose(variables(fused)[key], expected, rtol=1e-4, atol=1e-5, err_msg=key)


@pytest.mark.slow
@BOTH
def test_xla_gives_what_the_graph_gives(name):
    plain, compiled = agent_of(name, 2), agent_of(name, 2, compile_with_xla=True)
    for agent in (plain, compiled):
        agent.train(random_batch(2 * B, S, A), *scalars(2))
    for key, expected in variables(plain).items():
        np.testing.assert_allclose(variables(compiled)[key], expected, rtol=1e-4, atol=1e-5, err_msg=key)


@BOTH
def test_ratios_of_the_policy_that_acted_are_1(name):
    agent = agent_of(name)
    batch = own_batch(agent)
    rho, *_, means = agent.train(batch, *scalars())
    np.testing.assert_allclose(rho, 1.0, rtol=1e-5)
    assert means["kl"] == pytest.approx(0.0, abs=1e-6)
    assert means["near"] == 1.0
    rho, *_ = agent.train(batch, *scalars())
    assert not np.allclose(rho, 1.0, rtol=1e-3)


@BOTH
def test_values_are_those_of_the_mean_action_before_the_step(name):
    agent, batch = agent_of(name), random_batch(B, S, A)
    expected = agent.forward(batch.state)[0].numpy()
    _, value, *_, means = agent.train(batch, *scalars())
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-7)
    assert not np.allclose(agent.forward(batch.state)[0], expected)
    assert tuple(means) == agent.NAMES
    assert all(np.isfinite(list(means.values())))


@BOTH
def test_targets_move_by_a_hundredth_of_the_way_before_the_step(name):
    agent, batch = agent_of(name), random_batch(B, S, A)
    first = variables(agent)
    agent.train(batch, *scalars())
    second = variables(agent)
    agent.train(batch, *scalars())
    third = variables(agent)
    targets = [key for key in first if key.startswith("target")]
    assert len(targets) == {"ddpg": 2, "naf": 1}[name]
    for target in targets:
        trained = target.removeprefix("target_")
        assert not np.array_equal(first[trained], second[trained])
        np.testing.assert_array_equal(second[target], first[trained])  # both began as the same
        expected = 0.99 * first[trained] + 0.01 * second[trained]
        np.testing.assert_allclose(third[target], expected, rtol=1e-5, atol=1e-8)


@BOTH
def test_acting_is_the_network_on_standardised_states(name):
    agent, states = agent_of(name), random_batch(4, S, A).state
    agent.set_state_statistics(np.arange(S, dtype=np.float32), np.linspace(0.5, 3, S).astype(np.float32))
    agent.sync_acting_weights()
    for state in states:
        value, mean = agent.forward(state[None])[:2]
        output = agent.act(state)
        np.testing.assert_allclose(output.value, value[0], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(output.mean, mean[0], rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(output.std, np.float32([0.2, 0.2]))


@BOTH
def test_an_input_that_has_not_varied_is_not_divided_by_almost_nothing(name):
    agent, state = agent_of(name), random_batch(1, S, A).state[0]
    std = np.ones(S, np.float32)
    agent.set_state_statistics(np.zeros(S, np.float32), std)
    expected = agent.act(state).mean, np.asarray(agent.forward(state[None])[1])
    std[0] = 1e-9
    agent.set_state_statistics(np.zeros(S, np.float32), std)
    found = agent.act(state).mean, np.asarray(agent.forward(state[None])[1])
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


@BOTH
def test_acting_follows_the_weights_only_when_synced(name):
    agent, batch = agent_of(name), random_batch(B, S, A)
    before = agent.act(batch.state[0])
    agent.train(batch, *scalars())
    assert agent.act(batch.state[0]).value == before.value
    agent.sync_acting_weights()
    assert agent.act(batch.state[0]).value != before.value
    assert not np.array_equal(agent.act(batch.state[0]).mean, before.mean)


@BOTH
def test_a_checkpoint_holds_all_that_learning_needs(name, tmp_path):
    agent, again, batch = agent_of(name), agent_of(name), random_batch(B, S, A)
    agent.set_state_statistics(np.ones(S, np.float32), np.full(S, 2.0, np.float32))
    for _ in range(2):  # the first step leaves the targets where they were
        agent.train(batch, *scalars())
    again.checkpoint().read(agent.checkpoint().write(str(tmp_path / "agent"))).assert_consumed()
    for one in (agent, again):
        one.train(batch, *scalars())
    for key, expected in variables(agent).items():
        np.testing.assert_array_equal(variables(again)[key], expected, err_msg=key)


def test_flat_weights_give_back_their_arrays():
    arrays = [np.arange(6, dtype=np.float32).reshape(2, 3), np.float32([7, 8, 9]), np.ones((3, 1), np.float32)]
    flat = FlatWeights(arrays, "flat")
    for found in (flat.numpy(), flat.parts(flat.variable)):
        for array, expected in zip(found, arrays, strict=True):
            np.testing.assert_array_equal(array, expected)
    np.testing.assert_array_equal(flatten(flat.parts(flat.variable)), flat.variable)
