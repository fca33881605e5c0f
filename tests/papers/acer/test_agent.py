"""The agent around the loss: reduction, average policy, replicas, compilation, checkpoint, drivers."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.drivers.dynamic_step_driver import DynamicStepDriver
from tf_agents.environments import random_py_environment, tf_py_environment
from tf_agents.replay_buffers import tf_uniform_replay_buffer
from tf_agents.specs.tensor_spec import to_nest_array_spec

from repro.papers.acer.loss import acer_loss
from repro.training.learner import Learner
from tests.papers.acer.small import SETTINGS, make_agent, values
from tests.support import two_replicas
from tests.support.batches import random_batch


def learner_step(agent, jit_compile=False):
    """A compiled step of one agent: from the seed of a batch to the scalars."""
    learner = Learner(agent, tf.distribute.get_strategy(), jit_compile)
    return lambda seed: learner.step(learner.to_device(random_batch(agent, 4, seed))).scalars


def tensors(batch):
    return tf.nest.map_structure(tf.constant, batch)


def on_network(agent, batch):
    """The loss's arguments, taken from the unrolls one by one, time-major."""
    batch = tf.nest.map_structure(np.asarray, batch)
    steps = np.arange(batch.action.shape[1])
    per_step = [[agent._network(batch.observation[:, t : t + 1], None)[i][:, 0] for t in steps] for i in (0, 1)]
    average = [agent._average_network(batch.observation[:, t : t + 1], None)[0][:, 0] for t in steps[:-1]]
    return {
        "logits": np.stack(per_step[0]),
        "q": np.stack(per_step[1]),
        "average_logits": np.stack(average),
        "behaviour_logits": batch.policy_info["logits"].transpose(1, 0, 2)[:-1],
        "actions": batch.action.T[:-1],
        "r_t": batch.reward.T[:-1],
        "discount_t": np.float32(0.99) * batch.discount.T[:-1],
        "is_boundary": batch.step_type.T[:-1] == 2,
    }


def test_the_loss_is_a_sum_over_time_and_a_mean_over_unrolls():
    agent = make_agent()
    for variable in agent._average_network.variables:
        variable.assign_add(0.3 * np.random.default_rng(0).normal(size=variable.shape))
    batch = random_batch(agent, 4, seed=0)
    arguments = on_network(agent, batch)
    by_hand = acer_loss(**arguments, settings=SETTINGS)
    loss, extra = agent.loss(tensors(batch))
    np.testing.assert_allclose(loss, np.sum(by_hand.total) / 4, rtol=1e-4)
    live = ~arguments["is_boundary"]
    assert set(extra) == set(by_hand.extras) | {"critic_loss"}
    for name, value in extra.items():
        per_step = by_hand.critic if name == "critic_loss" else by_hand.extras[name]
        np.testing.assert_allclose(value, per_step.numpy()[live].mean(), rtol=1e-4, err_msg=name)
    assert 0 < extra["trust_region_active"] < 1
    twice = tf.nest.map_structure(lambda x: np.concatenate([x, x]), batch)
    np.testing.assert_allclose(agent.loss(tensors(twice)).loss, loss, rtol=1e-5)


def test_weights_scale_the_loss_of_each_unroll():
    agent = make_agent()
    batch = tensors(random_batch(agent, 3, seed=0))
    parts = [agent.loss(batch, weights=tf.one_hot(i, 3)).loss for i in range(3)]
    np.testing.assert_allclose(sum(parts), agent.loss(batch).loss, rtol=1e-5)


def test_the_average_policy_follows_the_updated_weights():
    agent = make_agent(average_decay=0.9)
    network, average = agent._network.variables, agent._average_network.variables
    expected = values(network)
    for a, b in zip(values(average), expected, strict=True):
        np.testing.assert_array_equal(a, b)
    for i in range(3):
        before = values(network)
        agent.train(tensors(random_batch(agent, 4, seed=i)))
        expected = [0.9 * a + 0.1 * b for a, b in zip(expected, values(network))]
        for a, b, c in zip(values(average), expected, before):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
            assert np.abs(a - c).max() > 1e-5
    assert int(agent.train_step_counter) == 3


def test_without_a_trust_region_there_is_no_average_network():
    agent = make_agent(trust_region=False)
    assert len(make_agent().variables) == len(agent.variables) + len(agent._network.variables)
    assert not {"kl", "trust_region_active"} & set(agent.train(tensors(random_batch(agent, 4, seed=0))).extra)

    def matrix_products(agent):
        train = tf.function(agent.train, autograph=False).get_concrete_function(tensors(random_batch(agent, 4, seed=0)))
        graph = train.graph.as_graph_def()
        nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
        return sum(node.op == "MatMul" for node in nodes)

    # Three layers forwards (one of them the torso's); backwards two products each, but one at the frames.
    assert matrix_products(agent) == 3 + 5
    assert matrix_products(make_agent()) > 3 + 5


def test_the_trust_region_changes_the_update():
    """As soon as the average policy lags behind."""
    results = []
    for trust_region in (False, True):
        agent = make_agent(trust_region=trust_region, settings=SETTINGS._replace(delta=0.01))
        for i in range(2):
            agent.train(tensors(random_batch(agent, 4, seed=i)))
        results.append(values(agent._network.variables))
    assert max(np.abs(a - b).max() for a, b in zip(*results)) > 1e-4


@pytest.mark.parametrize("clip", [0.0, 1e-3])
def test_the_gradient_is_clipped_unless_the_bound_is_0(clip):
    agent = make_agent(clip_global_norm=clip, learning_rate=1.0, epsilon=1e6)
    before = values(agent._network.variables)
    norm = agent.train(tensors(random_batch(agent, 4, seed=0))).extra["gradient_norm"]
    assert norm > 0.1
    # With so large an epsilon RMSProp is gradient descent at a rate of 1 / sqrt(1e6 + 1).
    moves = [1e3 * (a - b) for a, b in zip(values(agent._network.variables), before)]
    moved = np.sqrt(sum((move**2).sum() for move in moves))
    np.testing.assert_allclose(moved, clip or norm, rtol=2e-2, atol=1e-4)


def test_two_replicas_make_the_update_of_one_device_with_the_whole_batch(tmp_path):
    result = two_replicas.run("tests.papers.acer.two_replicas", tmp_path)
    two_replicas.assert_same_updates(result, loss_rtol=1e-4)
    assert result["count"] == 2 * 6
    for i in range(result["count"]):
        np.testing.assert_array_equal(*result[f"two_{i}"])
    for i in range(result["count"]):
        for replica in result[f"acting_two_{i}"]:
            np.testing.assert_allclose(replica, result[f"acting_one_{i}"][0], rtol=1e-5, atol=1e-5)
    assert np.abs(result["acting_one_0"] - result["one_0"]).max() > 1e-4
    start = make_agent(seed=3)
    for i, variables in ((0, start._network.variables), (6, start._average_network.variables)):
        assert np.abs(result[f"one_{i}"] - variables[0]).max() > 1e-4


def test_graph_and_xla_make_the_same_update():
    results = []
    for jit_compile in (False, True):
        agent = make_agent(seed=1)
        step = learner_step(agent, jit_compile)
        for i in range(2):
            step(i)
        results.append(values(agent.variables))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def acted_elsewhere(agent):
    """Values of the acting variables that are not the present ones."""
    rng = np.random.default_rng(5)
    return tuple(tf.constant(v.numpy() + 0.1 * rng.normal(size=v.shape), v.dtype) for v in agent.acting_variables)


@pytest.mark.slow
def test_an_on_policy_step_at_the_present_weights_is_an_off_policy_one():
    """In a graph; the tests around this one compare XLA's updates of both kinds with a graph's."""
    batch, results = random_batch(make_agent(seed=1), 4, 0), []
    for on_policy in (False, True):
        agent = make_agent(seed=1)
        learner = Learner(agent, tf.distribute.get_strategy())
        acting = [tuple(v.read_value() for v in agent.acting_variables)] if on_policy else []
        learner = learner.with_train(agent.train_on_policy) if on_policy else learner
        learner.step(learner.to_device(batch), *acting)
        results.append(values(agent.variables))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_graph_and_xla_make_the_same_on_policy_update():
    results = []
    for jit_compile in (False, True):
        agent = make_agent(seed=1)
        acting, batch = acted_elsewhere(agent), random_batch(agent, 4, 0)
        learner = Learner(agent, tf.distribute.get_strategy(), jit_compile, agent.train_on_policy)
        for _ in range(2):
            learner.step(learner.to_device(batch), acting)
        results.append(values(agent.variables))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    agent = make_agent(seed=1)
    agent.train(tensors(random_batch(agent, 4, 0)))
    agent.train(tensors(random_batch(agent, 4, 0)))
    assert max(np.abs(a - b).max() for a, b in zip(values(agent.variables), results[0], strict=True)) > 1e-3


def test_a_checkpoint_continues_bit_for_bit(tmp_path):
    agent = make_agent(seed=1)
    first, second = (tensors(random_batch(agent, 4, seed)) for seed in range(2))
    agent.train(first)
    path = tf.train.Checkpoint(agent=agent).write(str(tmp_path / "checkpoint"))
    agent.train(second)
    other = make_agent(seed=2)
    tf.train.Checkpoint(agent=other).read(path).assert_consumed()
    other.train(second)
    for a, b in zip(values(agent.variables), values(other.variables), strict=True):
        np.testing.assert_array_equal(a, b)


def test_collects_through_a_tf_agents_driver_and_learns_from_its_replay_buffer():
    agent = make_agent()
    environment = tf_py_environment.TFPyEnvironment(
        random_py_environment.RandomPyEnvironment(
            to_nest_array_spec(agent.time_step_spec.observation),
            to_nest_array_spec(agent.action_spec),
            episode_end_probability=0.3,
        )
    )
    buffer = tf_uniform_replay_buffer.TFUniformReplayBuffer(agent.collect_data_spec, batch_size=1, max_length=50)
    DynamicStepDriver(environment, agent.collect_policy, [buffer.add_batch], num_steps=40).run()
    batch, _ = next(iter(buffer.as_dataset(sample_batch_size=4, num_steps=6)))
    info = agent.train(batch)
    assert np.isfinite(info.loss)
    np.testing.assert_allclose(info.extra["rho_clipped"], 1.0, rtol=1e-4)  # on-policy: mu is what was stored
    np.testing.assert_allclose(info.extra["kl"], 0.0, atol=1e-5)
