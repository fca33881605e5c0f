"""The agent around the continuous losses: reduction, samples, average policy, replicas, compilation, checkpoint."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats
from tf_agents.drivers.dynamic_step_driver import DynamicStepDriver
from tf_agents.environments import random_py_environment, tf_py_environment
from tf_agents.policies.policy_saver import PolicySaver
from tf_agents.replay_buffers import tf_uniform_replay_buffer
from tf_agents.specs.tensor_spec import to_nest_array_spec

from repro.networks import mlp
from repro.networks.gaussian_actor_critic import GaussianActorCritic
from repro.papers.acer import continuous_agent
from repro.papers.acer.averaging_agent import OptimizationConfig
from repro.papers.acer.baselines import a3c_loss, tis_loss
from repro.papers.acer.continuous_agent import ContinuousAgent
from repro.papers.acer.continuous_loss import Steps
from repro.training import checkpoint
from repro.training.learner import Learner
from tests.papers.acer.continuous_small import SETTINGS, SETUPS, make_agent, random_batch, values
from tests.support import two_replicas
from tests.support.point_mass import PointMass


def learner_step(agent, jit_compile=False):
    """A compiled step of one agent: from the seed of a batch to the scalars."""
    learner = Learner(agent, tf.distribute.get_strategy(), jit_compile)
    return lambda seed: learner.step(learner.to_device(random_batch(agent, 4, seed))).scalars


def tensors(batch):
    return tf.nest.map_structure(tf.constant, batch)


def steps_by_hand(agent, batch):
    """The fields of `Steps`, from the unrolls one time row at a time."""
    rows = range(batch.action.shape[1])
    network = agent._network
    mean, value = ([f(batch.observation[:, t]).numpy() for t in rows] for f in (network.mean, network.value))
    average = [
        mlp.apply_mlp(agent._average_policy, batch.observation[:, t]).numpy()
        for t in rows[:-1]
        if agent._average_policy
    ]
    return Steps(
        action=batch.action[:, :-1].transpose(1, 0, 2),
        mean=np.stack(mean[:-1]),
        std=np.full_like(mean[:-1], 0.3),
        behaviour_mean=batch.policy_info["mean"][:, :-1].transpose(1, 0, 2),
        behaviour_std=batch.policy_info["std"][:, :-1].transpose(1, 0, 2),
        average_mean=np.stack(average) if agent._average_policy else None,
        r_t=batch.reward[:, :-1].T,
        discount_t=np.float32(0.9) * batch.discount[:, :-1].T,
        v_tm1=np.stack(value[:-1]),
        v_t=np.stack(value[1:]),
        is_boundary=batch.step_type[:, :-1].T == 2,
    )


def leave_average(agent):
    """Moves the average policy away from the policy, and both from where they began."""
    rng = np.random.default_rng(0)
    for variable in [*agent._average_policy, *agent._network.policy_weights]:
        variable.assign_add(0.2 * rng.normal(size=variable.shape).astype(np.float32))


def test_policy_and_average_policy_have_the_same_bound():
    """Both begin with the same weights, so nothing lies between them; without the bound something would."""
    agent = make_agent("acer", mean_bound=0.2)
    for pair in zip(agent._network.policy_weights, agent._average_policy):
        for variable in pair:
            variable.assign(3 * variable)
    batch = random_batch(agent, 4, seed=0)
    assert agent.loss(tensors(batch)).extra["kl"].numpy() == 0
    mean = agent._network.mean(batch.observation).numpy()
    assert np.abs(mean).max() < 0.2
    agent._network.mean_bound = 0.4
    assert np.abs(agent._network.mean(batch.observation).numpy() - 2 * mean).max() < 1e-6


@pytest.mark.parametrize(
    ("method", "per_step_loss"),
    [("a3c", a3c_loss), ("trust_a3c", a3c_loss), ("tis", tis_loss), ("trust_tis", tis_loss)],
)
def test_the_loss_is_a_sum_over_time_and_a_mean_over_unrolls(method, per_step_loss):
    agent = make_agent(method)
    leave_average(agent)
    batch = random_batch(agent, 4, seed=0)
    steps = steps_by_hand(agent, batch)
    by_hand = per_step_loss(Steps(*(None if x is None else tf.constant(x) for x in steps)), SETTINGS)
    loss, extra = agent.loss(tensors(batch))
    np.testing.assert_allclose(loss, np.sum(by_hand.total) / 4, rtol=1e-4)
    assert set(extra) == set(by_hand.extras) | {"critic_loss"}
    for name, value in extra.items():
        per_step = by_hand.critic if name == "critic_loss" else by_hand.extras[name]
        np.testing.assert_allclose(value, per_step.numpy()[~steps.is_boundary].mean(), rtol=1e-4, err_msg=name)
    assert ("trust_region_active" in extra) == method.startswith("trust_")
    assert 0 < extra.get("trust_region_active", 0.5) < 1
    assert 0 < extra.get("importance_weight", 1.0) < 2
    twice = tf.nest.map_structure(lambda x: np.concatenate([x, x]), batch)
    np.testing.assert_allclose(agent.loss(tensors(twice)).loss, loss, rtol=1e-5)


def test_acers_loss_is_given_q_of_the_action_taken_and_of_the_first_sample(monkeypatch):
    agent = make_agent("acer")
    batch = random_batch(agent, 3, seed=0)
    given = {}

    def spy(steps, q, sampled_action, sampled_q, settings):
        given.update(steps=steps, q=q, sampled_action=sampled_action, sampled_q=sampled_q)
        return original(steps, q, sampled_action, sampled_q, settings)

    original = continuous_agent.continuous_acer_loss
    monkeypatch.setattr(continuous_agent, "continuous_acer_loss", spy)
    sampled = agent._sample(agent._network.mean(batch.observation[:, :-1].transpose(1, 0, 2))).numpy()
    agent.loss(tensors(batch))
    for field, expected in steps_by_hand(agent, batch)._asdict().items():
        np.testing.assert_allclose(getattr(given["steps"], field), expected, rtol=1e-5, atol=1e-6, err_msg=field)
    np.testing.assert_allclose(given["sampled_action"], sampled[:, :, 0], rtol=1e-5)

    def advantage(state, action):
        return mlp.apply_numpy([w.numpy() for w in agent._network.advantage_weights], np.concatenate([state, action]))

    for t, b in np.ndindex(5, 3):
        state = batch.observation[b, t]
        baseline = given["steps"].v_tm1[t, b] - np.mean([advantage(state, u) for u in sampled[t, b, 1:]])
        for name, action in (("q", batch.action[b, t]), ("sampled_q", sampled[t, b, 0])):
            np.testing.assert_allclose(
                given[name][t, b], (baseline + advantage(state, action))[0], rtol=1e-3, atol=1e-5
            )


def test_samples_are_the_policys_and_new_in_every_update():
    agent = make_agent("acer")
    mean = tf.random.stateless_normal([40, 50, 2], [0, 0])
    first = agent._sample(mean)
    assert first.shape == (40, 50, 6, 2)
    noise = (first - mean[:, :, None]) / 0.3
    assert stats.kstest(noise.numpy().ravel(), "norm").pvalue > 1e-3
    np.testing.assert_array_equal(agent._sample(mean), first)
    agent.train_step_counter.assign_add(1)
    for other in (agent, make_agent("acer", seed=1)):
        assert np.mean(other._sample(mean) == first) < 0.01


def test_weights_scale_the_loss_of_each_unroll():
    agent = make_agent("a3c")
    batch = tensors(random_batch(agent, 3, seed=0))
    parts = [agent.loss(batch, weights=tf.one_hot(i, 3)).loss for i in range(3)]
    np.testing.assert_allclose(sum(parts), agent.loss(batch).loss, rtol=1e-5)


@pytest.mark.parametrize("method", SETUPS)
def test_the_average_policy_follows_where_there_is_a_trust_region(method):
    agent = make_agent(method)
    weights = agent._network.policy_weights
    history, extras = [values(weights)], []
    for seed in range(2):
        extras.append(agent.train(tensors(random_batch(agent, 4, seed))).extra)
        history.append(values(weights))
    if method in ("a3c", "tis"):
        assert agent._average_policy == []
        assert "kl" not in extras[0]
        return
    for average, *weight in zip(values(agent._average_policy), *history):
        np.testing.assert_allclose(average, 0.81 * weight[0] + 0.09 * weight[1] + 0.1 * weight[2], rtol=1e-4, atol=1e-6)
    assert extras[0]["kl"] == extras[0]["trust_region_active"] == 0.0
    assert extras[1]["kl"] > 1e-6


@pytest.mark.parametrize("method", SETUPS)
def test_every_weight_moves_and_the_counter_counts(method):
    agent = make_agent(method)
    variables = agent._network.trainable_variables
    before = values(variables)
    extra = agent.train(tensors(random_batch(agent, 4, seed=0))).extra
    still = {v.name for v, a in zip(variables, before) if np.abs(v - a).max() < 1e-7}
    assert still <= {"advantage_3:0"}  # the last bias of A, which Eq. 13 cancels
    assert int(agent.train_step_counter) == 1
    assert {"critic_loss", "value", "gradient_norm"} <= set(extra)


def test_the_gradient_is_clipped():
    moves, norms = [], []
    for clip in (0.0, 1e-4):
        agent = make_agent("a3c", clip_global_norm=clip)
        before = values(agent._network.trainable_variables)
        norms.append(agent.train(tensors(random_batch(agent, 4, seed=0))).extra["gradient_norm"])
        moves.append(max(np.abs(v - a).max() for v, a in zip(agent._network.trainable_variables, before)))
    assert norms[0] == norms[1] > 1.0
    assert moves[1] < 1e-5 < moves[0]


@pytest.mark.slow
def test_graph_and_xla_make_the_same_updates():
    """A3C has another loss alone, which `test_baselines.py` compares."""
    results = []
    for jit_compile in (False, True):
        agent = make_agent("trust_tis", seed=1)
        step = learner_step(agent, jit_compile)
        step(0)
        step(1)
        results.append(values([*agent._network.trainable_variables, *agent._average_policy]))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_acer_learns_under_xla_too():
    """XLA gives other samples: the value's target on average, and the terms without samples, are as in a graph."""
    scalars = [learner_step(make_agent("acer", seed=1), jit_compile)(0) for jit_compile in (False, True)]
    assert scalars[0]["value"] == pytest.approx(scalars[1]["value"], rel=1e-4)
    assert scalars[0]["importance_weight"] == pytest.approx(scalars[1]["importance_weight"], rel=1e-4)
    assert scalars[0]["critic_loss"] == pytest.approx(scalars[1]["critic_loss"], rel=0.2)


def test_two_replicas_make_the_update_of_one_device_with_the_whole_batch(tmp_path):
    result = two_replicas.run("tests.papers.acer.two_replicas_continuous", tmp_path)
    two_replicas.assert_same_updates(result, loss_rtol=1e-4, rtol=1e-3)
    begin = make_agent("trust_tis", seed=3)._network.trainable_variables
    assert np.abs(result["one_0"] - begin[0]).max() > 1e-4
    acer = [result[name] for name in result.files if name.startswith("acer_")]
    assert len(acer) > 16
    for replicas in acer:
        np.testing.assert_array_equal(*replicas)
    first, second = result["samples"]
    assert (first != second).all()


def test_a_checkpoint_continues_bit_for_bit(tmp_path):
    def step(agent, seed):
        agent.train(tensors(random_batch(agent, 4, seed)))
        return values([*agent._network.trainable_variables, *agent._average_policy, *agent._optimizer.variables])

    agent, resumed = make_agent("acer"), make_agent("acer")
    step(agent, 0)
    checkpoint.save(tmp_path, 1, tf.train.Checkpoint(agent=agent), {})
    expected = step(agent, 1)
    for seed in (7, 8):
        step(resumed, seed)
    checkpoint.restore(tmp_path, tf.train.Checkpoint(agent=resumed), pytest.fail)
    for a, b in zip(step(resumed, 1), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_collects_through_a_tf_agents_driver_and_learns_from_its_replay_buffer():
    agent = make_agent("acer")
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


def test_the_saved_policy_loads_in_plain_tensorflow_and_takes_the_mean(tmp_path):
    agent = make_agent("acer")
    PolicySaver(agent.policy, batch_size=None).save(str(tmp_path / "policy"))
    code = (
        "import collections, tensorflow as tf\n"
        f"policy = tf.saved_model.load({str(tmp_path / 'policy')!r})\n"
        "TimeStep = collections.namedtuple('TimeStep', 'step_type reward discount observation')\n"
        "step = policy.action(TimeStep(tf.ones([3], tf.int32), tf.zeros([3]), tf.ones([3]), tf.ones([3, 2])), ())\n"
        "assert 'tf_agents' not in __import__('sys').modules\n"
        "print(step.action.numpy().tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    np.testing.assert_allclose(eval(done.stdout), agent._network.mean(tf.ones([3, 2])), rtol=1e-5)


def test_errors():
    environment = PointMass(1, 0)
    with pytest.raises(ValueError, match="loss.method='ddpg': choose acer, a3c, tis"):
        make_agent("ddpg")
    with pytest.raises(ValueError, match="loss.traces='both': choose root, plain"):
        make_agent("acer", settings=SETTINGS._replace(traces="both"))
    with pytest.raises(ValueError, match="loss.policy_target='q': choose q_opc, q_ret"):
        make_agent("acer", settings=SETTINGS._replace(policy_target="q"))
    agent = make_agent("a3c")
    for method, advantage_hidden in (("acer", []), ("a3c", [4])):
        with pytest.raises(ValueError, match=method):
            ContinuousAgent(
                environment.time_step_spec,
                environment.action_spec,
                method=method,
                trust_region=False,
                network=GaussianActorCritic(2, 2, [4], advantage_hidden, seed=0),
                std=0.3,
                dueling_samples=5,
                optimization=OptimizationConfig(agent._optimizer, 0.9, 0.9, 0.0),
                loss_settings=SETTINGS,
                train_step_counter=agent.train_step_counter,
                seed=0,
            )
