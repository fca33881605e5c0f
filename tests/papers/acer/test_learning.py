"""ACER learns Catch, with replay from fewer frames; with the policy's gradient reversed it unlearns it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from repro.papers.acer import loss
from repro.papers.acer.loss import AcerLossSettings
from repro.training.learner import Learner
from tests.papers.acer.small import make_agent, values
from tests.support.catch import Catch
from tests.support.learning import play, sample

ENVIRONMENTS, UNROLL, SEED = 8, 10, 1
SETTINGS = AcerLossSettings(truncation=10.0, delta=1.0, entropy_cost=0.03)


def train(iterations: int, *, trust_region: bool, replay_ratio: int = 4):
    """Algorithm 1, all environments at once: the scores of finished games, in order, and the agent."""
    agent = make_agent(
        SEED, trust_region=trust_region, settings=SETTINGS, average_decay=0.99, learning_rate=0.03, epsilon=1e-5
    )
    games: list[float] = []
    learner = Learner(agent, tf.distribute.get_strategy())
    random = np.random.default_rng(SEED)
    replay = []
    for fresh in itertools.islice(play(agent, Catch(ENVIRONMENTS, SEED), UNROLL, SEED, games), iterations):
        learner.step(fresh)
        replay.append(fresh)
        for _ in range(random.poisson(replay_ratio)):
            learner.step(sample(replay, random))
    return np.array(games), agent


@pytest.mark.parametrize("trust_region", [True, False])
def test_learns_catch(trust_region):
    games, _ = train(120, trust_region=trust_region)
    assert -0.9 < games[:50].mean() < -0.3  # random play catches one ball in five
    assert games[-200:].mean() > 0.85


@pytest.mark.slow
def test_without_replay_the_same_frames_teach_less():
    games, _ = train(120, trust_region=True, replay_ratio=0)
    assert games[-200:].mean() < 0.3


def test_with_the_sign_of_the_policy_gradient_reversed_it_gets_worse_than_random(monkeypatch):
    surrogate = loss.surrogate
    monkeypatch.setattr(loss, "surrogate", lambda z, phi: -surrogate(z, phi))
    games, _ = train(80, trust_region=False)
    assert games[-200:].mean() < -0.85


@pytest.mark.slow
def test_the_same_seed_gives_the_same_weights():
    first, second = (train(4, trust_region=True)[1] for _ in range(2))
    for a, b in zip(values(first.variables), values(second.variables), strict=True):
        np.testing.assert_array_equal(a, b)
