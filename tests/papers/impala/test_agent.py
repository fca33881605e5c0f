"""The agent as a TF-Agents agent: update, replicas, compilation, drivers, saved policy."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.drivers.dynamic_step_driver import DynamicStepDriver
from tf_agents.environments import random_py_environment, tf_py_environment
from tf_agents.policies.policy_saver import PolicySaver
from tf_agents.replay_buffers import tf_uniform_replay_buffer
from tf_agents.specs.tensor_spec import to_nest_array_spec
from tf_agents.trajectories import StepType

from repro.papers.impala.loss import impala_loss
from repro.training.learner import Learner
from tests.support import two_replicas
from tests.support.batches import random_batch, recurrent_batch
from tests.support.catch import COLUMNS, ROWS, Catch
from tests.support.training import SETTINGS, make_agent, make_recurrent_agent


def step(agent, batch, jit_compile=False):
    learner = Learner(agent, tf.distribute.get_strategy(), jit_compile)
    return learner.step(learner.to_device(batch)).scalars


def test_two_replicas_make_the_update_of_one_device_with_the_whole_batch(tmp_path):
    result = two_replicas.run("tests.papers.impala.two_replicas", tmp_path)
    two_replicas.assert_same_updates(result, loss_rtol=1e-5)
    assert np.abs(result["one_0"] - make_agent(Catch(1, 0), seed=3).trainable_variables[0]).max() > 1e-4
    prefix = "recurrent_"
    recurrent = {name.removeprefix(prefix): result[name] for name in result if name.startswith(prefix)}
    assert recurrent["count"] > result["count"]
    two_replicas.assert_same_updates(recurrent, loss_rtol=1e-5)


def test_graph_and_xla_make_the_same_update():
    results, begin = [], [v.numpy() for v in make_agent(Catch(1, 0), seed=1).trainable_variables]
    for jit_compile in (False, True):
        agent = make_agent(Catch(1, 0), seed=1)
        step(agent, random_batch(agent, 4, seed=0), jit_compile)
        results.append([v.numpy() for v in agent.trainable_variables])
    for a, b, start in zip(*results, begin, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
        assert np.abs(a - start).max() > 1e-4


@pytest.mark.slow
def test_graph_and_xla_make_the_same_update_of_a_recurrent_agent():
    results = []
    for jit_compile in (False, True):
        agent = make_recurrent_agent()
        begin = [v.numpy() for v in agent.trainable_variables]
        step(agent, recurrent_batch(agent, 3, seed=0), jit_compile)
        results.append([v.numpy() for v in agent.trainable_variables])
    for a, b, start in zip(*results, begin, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
        assert np.abs(a - start).max() > 1e-5


def losses_by_hand(agent, batch):
    """The loss of every step [T, B], its arguments taken from the unrolls one observation at a time, time-major."""
    steps = range(batch.action.shape[1])
    outputs = [agent._network(batch.observation[:, t : t + 1], None) for t in steps]
    logits, values = (np.stack([output[i][:, 0] for output in outputs]) for i in (0, 1))
    return impala_loss(
        target_logits=tf.constant(logits[:-1]),
        behaviour_logits=tf.constant(batch.policy_info["logits"].transpose(1, 0, 2)[:-1]),
        actions=tf.constant(batch.action.T[:-1]),
        r_t=tf.constant(batch.reward.T[:-1]),
        discount_t=tf.constant(np.float32(0.99) * batch.discount.T[:-1]),
        v_tm1=tf.constant(values[:-1]),
        v_t=tf.constant(values[1:]),
        is_boundary=tf.constant(batch.step_type.T[:-1] == StepType.LAST),
        settings=SETTINGS,
    )


def test_the_loss_is_a_sum_over_batch_and_time():
    agent = make_agent(Catch(1, 0))
    batch = random_batch(agent, 4, seed=0)
    by_hand = losses_by_hand(agent, batch)
    assert by_hand.total.shape == (5, 4)
    info = agent.loss(tf.nest.map_structure(tf.constant, batch))
    np.testing.assert_allclose(info.loss, np.sum(by_hand.total), rtol=1e-5)
    for name in ("policy_gradient", "baseline", "entropy"):
        np.testing.assert_allclose(info.extra[f"{name}_loss"], np.sum(getattr(by_hand, name)), rtol=1e-4)
    transitions = batch.step_type.T[:-1] != StepType.LAST
    assert transitions.sum() == transitions.size - 1
    for name, of_steps in (("entropy", "entropy"), ("rho_clipped", "rho_clipped"), ("value", "values")):
        of_transitions = by_hand.extras[of_steps].numpy()[transitions]
        np.testing.assert_allclose(info.extra[name], of_transitions.mean(), rtol=1e-5, atol=1e-6)


def test_weights_scale_the_loss_of_each_unroll():
    agent = make_agent(Catch(1, 0))
    batch = tf.nest.map_structure(tf.constant, random_batch(agent, 3, seed=0))
    parts = [agent.loss(batch, weights=tf.one_hot(i, 3)).loss for i in range(3)]
    np.testing.assert_allclose(sum(parts), agent.loss(batch).loss, rtol=1e-5)
    weighted = agent.loss(batch, weights=tf.constant([1.0, 0.0, -2.5])).loss
    np.testing.assert_allclose(weighted, parts[0] - 2.5 * parts[2], rtol=1e-4)
    assert abs(float(parts[1])) > 0.1


def test_the_gradient_is_clipped_and_the_counter_counts():
    """The first step of RMSProp is rate g / sqrt(0.99 + 0.01 g^2 + 0.01), of the gradient scaled to a norm of 40."""
    agent = make_agent(Catch(1, 0), settings=SETTINGS._replace(baseline_cost=1e3), learning_rate=0.5)
    batch, variables = random_batch(agent, 4, seed=0), agent.trainable_variables
    before = [v.numpy() for v in variables]
    with tf.GradientTape() as tape:
        loss = agent.loss(tf.nest.map_structure(tf.constant, batch)).loss
    gradients = [g.numpy() for g in tape.gradient(loss, variables)]
    norm = np.sqrt(sum(np.sum(g.astype(float) ** 2) for g in gradients))
    assert norm > 400.0
    scalars = step(agent, batch)
    assert scalars["gradient_norm"] == pytest.approx(norm, rel=1e-4)
    for variable, old, g in zip(variables, before, gradients):
        clipped = 40.0 / norm * g
        np.testing.assert_allclose(
            old - variable, 0.5 * clipped / np.sqrt(1.0 + 0.01 * clipped**2), rtol=1e-3, atol=1e-5
        )
        unclipped = 0.5 * g / np.sqrt(1.0 + 0.01 * g**2)
        assert not np.allclose(old - variable, unclipped, rtol=0.1, atol=1e-5)
    assert int(agent.train_step_counter) == 1


@pytest.mark.slow
def test_a_clip_of_0_is_none():
    results = []
    for clip in (0.0, 1e9, 40.0):
        agent = make_agent(Catch(1, 0), settings=SETTINGS._replace(baseline_cost=1e3), learning_rate=0.5)
        agent._clip_global_norm = clip
        step(agent, random_batch(agent, 4, seed=0))
        results.append(np.concatenate([v.numpy().ravel() for v in agent.trainable_variables]))
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5)
    assert np.abs(results[0] - results[2]).max() > 0.1


def test_a_recurrent_core_starts_from_the_state_before_the_unroll():
    agent = make_recurrent_agent()
    batch = recurrent_batch(agent, 3, seed=0, ends=False)

    def value_of(changed_row):
        """The mean of V over the unroll, once the state of one row is another."""
        state = tuple(part.copy() for part in batch.policy_info["core_state"])
        for part in state:
            part[:, changed_row] += 1.0
        changed = batch._replace(policy_info=batch.policy_info | {"core_state": state})
        return float(agent.loss(tf.nest.map_structure(tf.constant, changed)).extra["value"])

    h, c = (tf.constant(part[:, 0] + 1.0) for part in batch.policy_info["core_state"])
    _, values, _ = agent._network(batch.observation, tf.constant(batch.step_type), (h, c))
    assert value_of(0) == pytest.approx(float(tf.reduce_mean(values[:, :-1])), rel=1e-5)
    assert value_of(1) == pytest.approx(value_of(3), rel=1e-5)
    assert value_of(0) != pytest.approx(value_of(1), rel=1e-2)


def test_an_end_inside_an_unroll_makes_two_unrolls_of_it():
    """Loss and gradient are those of the rows up to the end and of the rows after it, which begin without memory."""
    agent = make_recurrent_agent()
    batch = recurrent_batch(agent, 2, seed=0)  # an end in row 1 and a beginning in row 2

    def loss_and_gradient(unrolls):
        with tf.GradientTape() as tape:
            loss = agent.loss(tf.nest.map_structure(tf.constant, unrolls)).loss
        return loss.numpy(), [gradient.numpy() for gradient in tape.gradient(loss, agent.trainable_variables)]

    before, after = (tf.nest.map_structure(lambda x: x[:, rows].copy(), batch) for rows in (slice(2), slice(2, 5)))
    after.step_type[:] = StepType.MID
    for state in after.policy_info["core_state"]:
        state[:] = 0.0
    whole, *pieces = map(loss_and_gradient, (batch, before, after))
    assert whole[0] == pytest.approx(sum(loss for loss, _ in pieces), rel=1e-5)
    for gradient, first, second in zip(whole[1], pieces[0][1], pieces[1][1], strict=True):
        np.testing.assert_allclose(gradient, first + second, rtol=1e-4, atol=1e-5)
    batch.step_type[:, 2] = StepType.MID  # as if the state were kept
    assert abs(loss_and_gradient(batch)[0] - whole[0]) > 0.01


def test_collects_through_a_tf_agents_driver_and_learns_from_its_replay_buffer():
    agent = make_agent(Catch(1, 0))
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
    assert set(info.extra) >= {"policy_gradient_loss", "baseline_loss", "entropy_loss", "entropy"}


@pytest.mark.slow
def test_saved_policy_loads_in_plain_tensorflow_and_acts(tmp_path):
    agent = make_agent(Catch(1, 0))
    PolicySaver(agent.policy, batch_size=None).save(str(tmp_path / "policy"))
    code = (
        "import collections, tensorflow as tf\n"
        f"policy = tf.saved_model.load({str(tmp_path / 'policy')!r})\n"
        "TimeStep = collections.namedtuple('TimeStep', 'step_type reward discount observation')\n"
        "for n in (1, 5):\n"
        f"    obs = tf.zeros([n, {ROWS}, {COLUMNS}, 1], tf.uint8)\n"
        "    step = policy.action(TimeStep(tf.ones([n], tf.int32), tf.zeros([n]), tf.ones([n]), obs), ())\n"
        "    assert step.action.shape == (n,), step\n"
        "    print(*step.action.numpy())\n"
        "assert 'tf_agents' not in __import__('sys').modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert set(done.stdout.split()) <= {"0", "1", "2"}
