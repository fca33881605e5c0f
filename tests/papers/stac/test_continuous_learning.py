"""A recurrent STAC with continuous actions learns to push a point to the origin, from overlapping unrolls."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from repro.training.learner import Learner
from tests.papers.stac.small import OUTER
from tests.papers.stac.small_control import make_agent
from tests.support.learning import play
from tests.support.point_mass import PointMass

POINTS, UNROLL, OVERLAP, SEED = 16, 12, 4, 1


@pytest.mark.slow
def test_the_point_is_pushed_to_the_origin():
    """A straight way has a return of -3, standing still -18."""
    outer = OUTER._replace(gamma=0.9, lambda_=1.0, alpha_rho=1.0, alpha_c=1.0, truncation=1.0)
    agent = make_agent(
        seed=SEED,
        units=24,
        burn_in=OVERLAP,
        learning_rate=0.01,
        momentum=0.0,
        outer=outer,
        meta_optimizer=tf.keras.optimizers.Adam(0.01, epsilon=1e-4, jit_compile=False),
    )
    returns: list[float] = []
    learner = Learner(agent, tf.distribute.get_strategy())
    for fresh in itertools.islice(play(agent, PointMass(POINTS, SEED), UNROLL, SEED, returns, OVERLAP), 120):
        scalars = learner.step(fresh).scalars
    assert np.mean(returns[:50]) < -12
    assert np.mean(returns[-200:]) > -4
    assert abs(scalars["gamma_1"] - 1 / (1 + np.exp(-2.0))) > 1e-3
