"""Metaparameters move where they must on Catch, whose reward comes with the last of six steps.

With the metagradient reversed, by a negative rate of the meta-optimiser, a discount moves the other way.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from repro.training.learner import Learner
from tests.papers.stac.small import OUTER, make_agent
from tests.support.catch import Catch
from tests.support.learning import play

ENVIRONMENTS, UNROLL, SEED = 16, 10, 1


def train(iterations, initial, *, meta_rate=0.05, outer=OUTER, num_heads=1):
    """Tunes the metaparameters in `initial`, from their values there before the sigmoid: every game's score, the agent.

    The outer loss has V-trace with gamma 0.97; RMSProp's momentum and rate are made for so few updates.
    """
    outer = outer._replace(lambda_=1.0, alpha_rho=1.0, alpha_c=1.0, truncation=1.0)
    agent = make_agent(
        tuple(initial),
        num_heads=num_heads,
        seed=SEED,
        learning_rate=0.01,
        meta_optimizer=tf.keras.optimizers.Adam(meta_rate, epsilon=1e-4, jit_compile=False),
        outer=outer,
    )
    for name, value in initial.items():
        agent._metaparameters.eta[name].assign(tf.fill([num_heads], value))
    games = []
    learner = Learner(agent, tf.distribute.get_strategy())
    for fresh in itertools.islice(play(agent, Catch(ENVIRONMENTS, SEED), UNROLL, SEED, games), iterations):
        learner.step(fresh)
    return np.array(games), agent


def value_of(agent, name):
    return float(agent._metaparameters.scalars()[f"{name}_1"])


@pytest.mark.slow
def test_a_discount_that_is_too_small_rises_and_the_task_is_learned():
    """gamma begins at 0.12, with which a step that is two before the end hardly knows of the reward."""
    games, agent = train(150, {"gamma": -2.0})
    assert games[:50].mean() < -0.2
    assert value_of(agent, "gamma") > 0.8
    assert games[-200:].mean() > 0.9
    _, agent = train(150, {"gamma": -2.0}, meta_rate=-0.05)
    assert value_of(agent, "gamma") < 0.02


@pytest.mark.slow
def test_an_entropy_weight_falls_where_reward_is_what_counts_and_rises_where_entropy_is():
    """The inner loss begins with half the weight of the outer. With the metagradient reversed it goes the other way."""

    def end(weight, meta_rate):
        _, agent = train(120, {"g_e": 0.0}, meta_rate=meta_rate, outer=OUTER._replace(g_e=weight))
        return value_of(agent, "g_e")

    assert end(0.01, 0.05) < 0.4
    assert end(0.01, -0.05) > 0.6
    assert end(1.0, 0.05) > 0.6


@pytest.mark.slow
def test_the_heads_of_stacx_tune_their_discounts_apart():
    games, agent = train(150, {"gamma": -2.0}, num_heads=3)
    gammas = [float(x) for x in agent._metaparameters.scalars().values()]
    assert min(gammas) > 0.8
    assert max(gammas) - min(gammas) > 1e-3
    assert games[-200:].mean() > 0.8
