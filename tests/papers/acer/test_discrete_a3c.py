"""A3C for discrete actions, against its sums written out in float64, and the agent around it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from paper_configs.acer import atari
from repro.optimizers.rmsprop_tf1 import RMSPropTF1
from repro.papers import find_experiment
from repro.papers.acer.a3c_agent import A3cAgent
from repro.papers.acer.averaging_agent import OptimizationConfig
from repro.papers.acer.baselines import discrete_a3c_loss
from repro.papers.impala.loss import VtraceLossSettings, impala_loss
from repro.training.learner import Learner
from tests.papers.acer import test_loss
from tests.papers.acer.test_loss import A, B, T, softmax
from tests.support.batches import random_batch
from tests.support.catch import Catch
from tests.support.learning import play
from tests.support.training import make_network

ENTROPY_COST = 0.1
ENVIRONMENTS, UNROLL, SEED = 8, 10, 1


def data(seed: int = 0) -> dict[str, np.ndarray]:
    x = test_loss.data(seed)
    values = np.random.default_rng(seed + 100).normal(size=(T + 1, B)).astype(np.float32)
    names = ("actions", "r_t", "discount_t", "is_boundary")
    return {"logits": x["logits"][:-1], "values": values, **{name: x[name] for name in names}}


def returns_by_hand(x: dict[str, np.ndarray]) -> np.ndarray:
    """R_s, reward by reward, to the end of the unroll or of the episode."""
    returns = np.zeros((T, B))
    for b in range(B):
        for s in range(T):
            weight = 1.0
            for t in range(s, T):
                if x["is_boundary"][t, b]:  # a time limit came before: V of the game's last observation
                    break
                returns[s, b] += weight * x["r_t"][t, b]
                weight *= x["discount_t"][t, b]
                after = t + 1
            if not x["is_boundary"][s, b]:
                returns[s, b] += weight * x["values"][after, b]
    return returns


def loss_of(x, **changes):
    return discrete_a3c_loss(**{**x, **changes}, entropy_cost=ENTROPY_COST)


def gradients(x, term):
    logits, values = tf.constant(x["logits"]), tf.constant(x["values"])
    with tf.GradientTape() as tape:
        tape.watch([logits, values])
        loss = tf.reduce_sum(getattr(loss_of(x, logits=logits, values=values), term))
    return tape.gradient(loss, [logits, values])


@pytest.mark.parametrize("seed", range(3))
def test_losses_by_hand(seed):
    x = data(seed)
    returns, pi, live = returns_by_hand(x), softmax(x["logits"]), ~x["is_boundary"]
    error = np.where(live, returns - x["values"][:-1], 0.0)
    log_prob = np.log(np.take_along_axis(pi, x["actions"][..., np.newaxis], -1))[..., 0]
    entropy = -(pi * np.log(pi)).sum(-1)
    found = loss_of(x)
    np.testing.assert_allclose(found.policy_gradient, -error * log_prob, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.critic, 0.5 * error**2, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.entropy, np.where(live, -ENTROPY_COST * entropy, 0.0), rtol=1e-5)
    np.testing.assert_allclose(found.total, found.policy_gradient + found.critic + found.entropy, rtol=1e-6)
    assert set(found.extras) == {"entropy", "value"}


def test_gradients_by_hand_and_dead_ones():
    """(R - V)(phi - e_a) and V - R; an advantage that were no constant would move V as well."""
    x = data()
    error = np.where(x["is_boundary"], 0.0, returns_by_hand(x) - x["values"][:-1])
    of_logits, of_values = gradients(x, "policy_gradient")
    expected = error[..., np.newaxis] * (softmax(x["logits"]) - np.eye(A)[x["actions"]])
    np.testing.assert_allclose(of_logits, expected, rtol=1e-4, atol=1e-5)
    assert of_values is None
    of_logits, of_values = gradients(x, "critic")
    assert of_logits is None
    np.testing.assert_allclose(of_values[:-1], -error, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(of_values[-1], 0.0)
    assert gradients(x, "entropy")[1] is None


def test_rows_that_are_no_transition_are_not_read():
    x, poisoned = data(), data()
    for name in ("r_t", "discount_t"):
        poisoned[name] = np.where(x["is_boundary"], np.nan, x[name]).astype(np.float32)
    np.testing.assert_array_equal(loss_of(poisoned).total, loss_of(x).total)
    np.testing.assert_array_equal(loss_of(x).total.numpy()[x["is_boundary"]], 0.0)


def test_it_is_impalas_loss_without_correction():
    x = data()
    settings = VtraceLossSettings(
        correction="none",
        lambda_=1.0,
        clip_rho=1.0,
        clip_c=1.0,
        clip_pg_rho=1.0,
        alpha_rho=1.0,
        alpha_c=1.0,
        entropy_cost=ENTROPY_COST,
        baseline_cost=1.0,
        half_baseline=True,
    )
    other = impala_loss(
        target_logits=x["logits"],
        behaviour_logits=x["logits"],
        actions=x["actions"],
        r_t=x["r_t"],
        discount_t=x["discount_t"],
        v_tm1=x["values"][:-1],
        v_t=x["values"][1:],
        is_boundary=x["is_boundary"],
        settings=settings,
    )
    np.testing.assert_allclose(loss_of(x).total, other.total, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_graph_and_xla_agree_with_eager(jit_compile):
    x = data()
    compiled = tf.function(lambda: loss_of(x).total, jit_compile=jit_compile, autograph=False)
    np.testing.assert_allclose(compiled(), loss_of(x).total, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["logits", "values", "actions", "r_t", "discount_t", "is_boundary"])
def test_a_wrong_shape_is_an_error(name):
    x = data()
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        loss_of(x, **{name: x[name][..., np.newaxis]})


def test_a_negative_weight_of_the_entropy_is_an_error():
    with pytest.raises(ValueError, match="entropy_cost"):
        discrete_a3c_loss(**data(), entropy_cost=-0.1)


def make_agent(learning_rate: float = 0.03) -> A3cAgent:
    environment = Catch(1, 0)
    return A3cAgent(
        environment.time_step_spec,
        environment.action_spec,
        network=make_network(SEED),
        optimization=OptimizationConfig(RMSPropTF1(learning_rate, epsilon=1e-5), 0.99, 0.0, 40.0),
        entropy_cost=0.03,
        train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False),
    )


def test_the_agents_loss_is_a_sum_over_time_and_a_mean_over_unrolls():
    agent = make_agent()
    batch = random_batch(agent, 4, seed=0)
    steps = range(batch.action.shape[1])
    outputs = [agent._network(batch.observation[:, t : t + 1], None)[:2] for t in steps]
    logits, values = (np.stack([output[i][:, 0] for output in outputs]) for i in (0, 1))
    by_hand = discrete_a3c_loss(
        logits[:-1],
        values,
        batch.action.T[:-1],
        batch.reward.T[:-1],
        np.float32(0.99) * batch.discount.T[:-1],
        batch.step_type.T[:-1] == 2,
        entropy_cost=0.03,
    )
    loss, extra = agent.loss(tf.nest.map_structure(tf.constant, batch))
    np.testing.assert_allclose(loss, np.sum(by_hand.total) / 4, rtol=1e-4)
    assert set(extra) == {"entropy", "value", "critic_loss"}
    assert agent.acting_variables == agent.learned_variables


@pytest.mark.parametrize(
    ("sign", "low", "high"), [(1.0, 0.0, 1.0), pytest.param(-1.0, -1.0, -0.7, marks=pytest.mark.slow)]
)
def test_it_learns_catch_and_with_the_sign_reversed_unlearns_it(monkeypatch, sign, low, high):
    agent, games = make_agent(), list[float]()
    per_step_loss = agent._per_step_loss

    def signed(experience):
        losses = per_step_loss(experience)
        return losses._replace(total=losses.total + (sign - 1.0) * losses.policy_gradient)

    monkeypatch.setattr(agent, "_per_step_loss", signed)
    learner = Learner(agent, tf.distribute.get_strategy())
    for fresh in itertools.islice(play(agent, Catch(ENVIRONMENTS, SEED), UNROLL, SEED, games), 250):
        learner.step(fresh)
    assert -0.9 < np.mean(games[:50]) < -0.3  # random play catches one ball in five
    assert low < np.mean(games[-200:]) <= high


@pytest.mark.parametrize(("section", "field", "value"), [("replay", "ratio", 4.0), ("loss", "trust_region", True)])
def test_what_acer_has_besides_is_an_error(section, field, value):
    config = atari.get_config("smoke")
    config.agent = "a3c"
    config.variants.a3c[section][field] = value
    experiment = find_experiment(config)
    with pytest.raises(ValueError, match="choose replay.ratio=0, loss.trust_region=False"):
        experiment.make_agent(Catch(1, 0), 0)


def test_the_experiment_builds_policy_and_value_on_the_papers_torso():
    """Section 4: convolutions and a layer of 512, here with V in place of Q, and the entropy's weight."""
    config = atari.get_config("paper")
    config.agent = "a3c"
    experiment = find_experiment(config)
    environment = experiment.make_environment(1, 0)
    agent = experiment.make_agent(environment, 0)
    environment.close()
    shapes = [tuple(variable.shape) for variable in agent.learned_variables]
    assert shapes[-4:] == [(512, environment.num_actions), (environment.num_actions,), (512, 1), (1,)]
    assert [shape[-1] for shape in shapes[:-4]] == [32, 32, 64, 64, 64, 64, 512, 512]
    assert (agent._entropy_cost, agent._optimization.discount) == (0.001, 0.99)
