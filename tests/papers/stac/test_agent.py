"""The agent: modes, replicas, heads, acting, and its baselines."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.trajectories import StepType
from tf_agents.trajectories import time_step as ts

from repro.acting.weights import WeightsPublisher
from repro.distributions import categorical
from repro.optimizers.fused_adam import FusedAdam
from repro.papers.impala.agent import ImpalaAgent
from repro.training.learner import Learner
from tests.papers.stac.small import INITIAL, OUTER, STAC, make_agent
from tests.support import two_replicas
from tests.support.batches import random_batch
from tests.support.catch import Catch


def variables_of(agent):
    eta = list(agent._metaparameters.eta.values())
    return [v.numpy() for v in [*agent._network.variables, *eta]]


def step(agent, batch, mode="graph"):
    if mode == "eager":
        info = agent.train(tf.nest.map_structure(tf.constant, batch))
        return {name: float(value) for name, value in (info.extra | {"loss": info.loss}).items()}
    learner = Learner(agent, tf.distribute.get_strategy(), jit_compile=mode == "xla")
    return learner.step(learner.to_device(batch)).scalars


@pytest.mark.slow
@pytest.mark.parametrize(("acting", "gamma_embedding"), [("first", "shared"), ("average", "none")])
def test_eager_graph_and_xla_make_the_same_update(acting, gamma_embedding):
    """Of weights and, with a step of 1 along the metagradient, of eta."""
    results, scalars = [], []
    for mode in ("eager", "graph", "xla"):
        agent = make_agent(num_heads=2, acting=acting, gamma_embedding=gamma_embedding, clip_global_norm=2.0)
        begin = variables_of(agent)
        scalars.append(step(agent, random_batch(agent, 4, seed=0), mode))
        results.append(variables_of(agent))
    for eager, *others, start in zip(*results, begin, strict=True):
        for compiled in others:
            np.testing.assert_allclose(compiled, eager, rtol=1e-5, atol=1e-6)
        assert np.abs(eager - start).max() > 1e-6
    for compiled in scalars[1:]:
        assert set(compiled) == set(scalars[0])
        for name, value in scalars[0].items():
            assert compiled[name] == pytest.approx(value, rel=1e-4, abs=1e-5), name


@pytest.mark.parametrize("tuned", [(), STAC])
def test_a_clip_of_0_is_none(tuned):
    results = []
    for clip in (0.0, 1e9, 0.01):
        agent = make_agent(tuned, clip_global_norm=clip)
        step(agent, random_batch(agent, 4, seed=0), "eager")
        results.append(np.concatenate([np.ravel(x) for x in variables_of(agent)]))
    none, far, near = results
    np.testing.assert_array_equal(none, far)
    assert np.abs(none - near).max() > 1e-3


def test_two_replicas_make_the_update_of_one_device_with_the_whole_batch(tmp_path):
    result = two_replicas.run("tests.papers.stac.two_replicas", tmp_path)
    two_replicas.assert_same_updates(result, loss_rtol=1e-4)
    for name in ("outer_loss", "kl", "gradient_norm", "metagradient_norm"):
        np.testing.assert_allclose(result[f"one_{name}"], result[f"two_{name}"], rtol=1e-4, atol=1e-7, err_msg=name)
    for name in STAC:
        assert np.abs(result[f"eta_{name}"] - INITIAL[name]).max() > 5e-4, name


def test_an_unroll_without_transitions_changes_nothing_in_the_log():
    found = []
    for size in (2, 1):
        agent = make_agent(num_heads=2, acting="average")
        batch = random_batch(agent, 2, seed=0)
        batch.step_type[1] = StepType.LAST
        found.append(step(agent, tf.nest.map_structure(lambda x: x[:size], batch), "eager"))
    assert {"entropy", "rho", "value", "kl"} <= set(found[1])
    assert found[0] == pytest.approx(found[1], rel=1e-4, abs=1e-7)
    assert found[0]["kl"] > 1e-5


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bits():
    """However many layers there were before, whose number Keras has in its names.

    Under XLA runs of one seed are compared in `test_experiment.py`, whose second agent has higher numbers too.
    """
    found = []
    for others in (0, 8):
        tf.keras.backend.reset_uids()
        for _ in range(others):
            tf.keras.Sequential([tf.keras.layers.Dense(1)])
        agent = make_agent(num_heads=3)
        learner = Learner(agent, tf.distribute.get_strategy())
        for i in range(3):
            learner.step(learner.to_device(random_batch(agent, 4, seed=i)))
        found.append(variables_of(agent))
    for first, second in zip(*found, strict=True):
        np.testing.assert_array_equal(second, first)


def test_without_metaparameters_and_with_one_head_the_update_is_impalas():
    """Of the same network, with V-trace and 0.25 (v - V)^2 = 0.5 * 1/2 (v - V)^2."""
    outer = OUTER._replace(gamma=0.99, lambda_=1.0, alpha_rho=1.0, alpha_c=1.0)
    agent = make_agent((), outer=outer)
    batch = random_batch(agent, 4, seed=0)
    found = step(agent, batch)

    other = make_agent((), outer=outer)
    impala = impala_with(other)
    expected = step(impala, batch)
    for name in ("loss", "gradient_norm", "entropy", "value"):
        assert found[name] == pytest.approx(expected[name], rel=1e-5), name
    assert found["rho"] == pytest.approx(expected["rho_clipped"], rel=1e-5)
    for a, b in zip(agent._network.trainable_variables, other._network.trainable_variables, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def impala_with(agent):
    """IMPALA with the only head of another agent's network."""
    from repro.papers.impala.loss import VtraceLossSettings

    class OneHead(tf.keras.Model):
        num_actions = 3

        def build_variables(self, spec):
            pass

        def initial_state(self, batch_size):
            return ()

        def call(self, observation, step_type, state=()):
            _, logits, values, _ = agent._network(observation, step_type)
            return logits[:, :, 0], values[..., 0], ()

    network = OneHead()
    network.inner = agent._network
    environment = Catch(1, 0)
    return ImpalaAgent(
        environment.time_step_spec,
        environment.action_spec,
        network=network,
        optimizer=agent._optimizer,
        discount=0.99,
        loss_settings=VtraceLossSettings("vtrace", 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.01, 0.5, True),
        clip_global_norm=40.0,
        train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False),
    )


def test_the_inner_loss_is_the_mean_over_heads():
    """Line 11. With equal heads it is the loss of one."""
    agent = make_agent((), num_heads=3)
    batch = random_batch(agent, 4, seed=0)
    tensors = tf.nest.map_structure(tf.constant, batch)
    network = agent._network
    for heads in (network._policies, network._values):
        for head in heads[1:]:
            for variable, first in zip(head.variables, heads[0].variables):
                variable.assign(first)
    one = make_agent((), num_heads=1)
    sources = (network._torso, network._policies[0], network._values[0])
    targets = (one._network._torso, one._network._policies[0], one._network._values[0])
    for source, target in zip(sources, targets):
        for variable, value in zip(target.variables, source.variables):
            variable.assign(value)
    assert float(agent.loss(tensors).loss) == pytest.approx(float(one.loss(tensors).loss), rel=1e-5)


def test_weights_scale_the_loss_of_each_unroll():
    agent = make_agent(num_heads=2)
    batch = tf.nest.map_structure(tf.constant, random_batch(agent, 3, seed=0))
    parts = [float(agent.loss(batch, weights=tf.one_hot(i, 3)).loss) for i in range(3)]
    assert sum(parts) == pytest.approx(float(agent.loss(batch).loss), rel=1e-5)
    weighted = float(agent.loss(batch, weights=tf.constant([1.0, 0.0, -2.5])).loss)
    assert weighted == pytest.approx(parts[0] - 2.5 * parts[2], rel=1e-4)


# Acting


def time_step(size, seed=0):
    rng = np.random.default_rng(seed)
    observation = rng.integers(256, size=(size, 6, 5, 1)).astype(np.uint8)
    return ts.restart(tf.constant(observation), batch_size=size)


def test_head_1_acts_alone():
    agent = make_agent(num_heads=3)
    step_ = time_step(5)
    logits = agent._network(step_.observation[:, None], None)[1][:, 0]  # [B, P, A]
    info = agent.collect_policy.action(step_, seed=[1, 2]).info
    np.testing.assert_array_equal(info["logits"], logits[:, 0])
    assert np.abs(logits[:, 0] - logits[:, 1]).max() > 0.01


def test_the_average_acts_with_the_mean_of_the_logits_and_has_a_value_of_its_own():
    agent = make_agent(num_heads=3, acting="average")
    step_ = time_step(5)
    _, logits, values, _ = agent._network(step_.observation[:, None], None)
    assert logits.shape == (5, 1, 4, 3)
    assert values.shape == (5, 1, 4)
    np.testing.assert_allclose(logits[:, 0, 3], tf.reduce_mean(logits[:, 0, :3], axis=1), rtol=1e-5, atol=1e-6)
    assert np.abs(values[..., 3] - tf.reduce_mean(values[..., :3], axis=-1)).max() > 0.01
    info = agent.collect_policy.action(step_, seed=[1, 2]).info
    np.testing.assert_array_equal(info["logits"], logits[:, 0, 3])


@pytest.mark.parametrize("acting", ["first", "average"])
def test_actors_play_with_the_gammas_of_the_last_update(acting):
    """They come with the weights; eta moves as in a run, by Adam."""

    def made():
        return make_agent(
            ("gamma", "g_e"),
            num_heads=2,
            acting=acting,
            gamma_embedding="separate",
            meta_optimizer=FusedAdam(0.05, epsilon=1e-4),
        )

    agent, actor = made(), made()
    alone = [OUTER.gamma] if acting == "average" else []
    weights, step_ = WeightsPublisher(agent.collect_policy.variables()), time_step(5)
    learner = Learner(agent, tf.distribute.get_strategy())
    for i in range(3):
        sigma = 1 / (1 + np.exp(-agent._metaparameters.eta["gamma"].numpy()))
        assert list(agent._network.gammas.numpy()) == pytest.approx([*sigma, *alone], rel=1e-6)
        weights.publish(i)
        for variable, value in zip(actor.collect_policy.variables(), weights.latest.values, strict=True):
            variable.assign(value)
        logits, *_ = agent._network(step_.observation[:, None], None)
        info = actor.collect_policy.action(step_, seed=[1, 2]).info
        np.testing.assert_array_equal(info["logits"], logits[:, 0, 0])
        learner.step(learner.to_device(random_batch(agent, 4, seed=i)))
    assert np.abs(sigma - 1 / (1 + np.exp(-INITIAL["gamma"]))).min() > 1e-3


def test_a_random_head_acts_and_says_its_own_logits():
    agent, size = make_agent(num_heads=3, acting="random"), 600
    step_ = time_step(1)
    step_ = tf.nest.map_structure(lambda x: tf.repeat(x, size, axis=0), step_)
    logits = agent._network(step_.observation[:1, None], None)[1][0, 0].numpy()  # [P, A]
    for seed in ([1, 2], None):
        action = agent.collect_policy.action(step_, seed=seed)
        distances = np.abs(action.info["logits"].numpy()[:, None] - logits).max(-1)  # [B, P]
        assert (distances.min(-1) < 1e-6).all()
        counts = np.bincount(distances.argmin(-1), minlength=3)
        assert (np.abs(counts / size - 1 / 3) < 0.08).all()  # four standard deviations
        head_0 = distances.argmin(-1) == 0
        share = np.bincount(action.action.numpy()[head_0], minlength=3) / head_0.sum()
        np.testing.assert_allclose(share, categorical.probs(logits[0]), atol=0.15)
    greedy = agent.policy.action(step_, seed=[1, 2])
    assert greedy.action.dtype == tf.int32


@pytest.mark.slow
def test_scalars_of_an_update():
    agent = make_agent(num_heads=2)
    scalars = step(agent, random_batch(agent, 4, seed=0))
    for name in STAC:
        for head in (1, 2):
            assert scalars[f"{name}_{head}"] == pytest.approx(1 / (1 + np.exp(-INITIAL[name])), rel=1e-5)
            moved = INITIAL[name] - float(agent._metaparameters.eta[name][head - 1])  # by a step of 1
            assert scalars[f"metagradient_{name}_{head}"] == pytest.approx(moved, rel=1e-3, abs=3e-7)
    assert {"outer_loss", "kl", "entropy", "gradient_norm", "metagradient_norm", "value"} <= set(scalars)
    assert scalars["kl"] > 0
    untuned = make_agent(())
    assert "outer_loss" not in step(untuned, random_batch(untuned, 4, seed=0), "eager")
    assert int(agent.train_step_counter) == 1
