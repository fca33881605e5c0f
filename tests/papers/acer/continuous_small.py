"""A small agent for continuous actions on the point mass, and random unrolls for it."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import StepType, Trajectory

from repro.acting.unrolls import UnrollGroup
from repro.networks.gaussian_actor_critic import GaussianActorCritic
from repro.optimizers.rmsprop_tf1 import RMSPropTF1
from repro.papers.acer.averaging_agent import OptimizationConfig
from repro.papers.acer.continuous_agent import ContinuousAgent
from repro.papers.acer.continuous_loss import ContinuousLossSettings
from tests.support.point_mass import PointMass

SETTINGS = ContinuousLossSettings(truncation=2.0, delta=0.3)

SETUPS = ("acer", "a3c", "trust_a3c", "tis", "trust_tis")
"""The five of Section 6."""


def make_agent(
    setup: str,
    seed: int = 0,
    *,
    settings: ContinuousLossSettings = SETTINGS,
    average_decay: float = 0.9,
    learning_rate: float = 0.01,
    clip_global_norm: float = 0.0,
    mean_bound: float = 0.0,
) -> ContinuousAgent:
    """An agent of one of `SETUPS`."""
    method, environment = setup.removeprefix("trust_"), PointMass(1, 0)
    return ContinuousAgent(
        environment.time_step_spec,
        environment.action_spec,
        method=method,
        trust_region=setup not in ("a3c", "tis"),
        network=GaussianActorCritic(2, 2, [32, 32], [16] if method == "acer" else [], seed=seed, mean_bound=mean_bound),
        std=0.3,
        dueling_samples=5,
        optimization=OptimizationConfig(RMSPropTF1(learning_rate, epsilon=0.01), 0.9, average_decay, clip_global_norm),
        loss_settings=settings,
        train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False),
        seed=seed,
    )


def random_batch(agent: ContinuousAgent, size: int, seed: int, length: int = 5) -> Trajectory:
    """[size, length + 1] of everything, with an end and a boundary row inside; the last row is poisoned."""
    rng = np.random.default_rng(seed)
    arrays = UnrollGroup(agent.collect_data_spec, size, length).arrays
    mean, std = arrays.policy_info["mean"], arrays.policy_info["std"]
    arrays.observation[:] = rng.normal(size=arrays.observation.shape)
    mean[:] = 0.2 * rng.normal(size=mean.shape)
    std[:] = 0.3
    arrays.action[:] = mean + std * rng.normal(size=mean.shape)
    arrays.reward[:] = rng.normal(size=arrays.reward.shape)
    arrays.discount[:] = 1.0
    arrays.step_type[:] = StepType.MID
    arrays.discount[0, 1] = 0.0
    arrays.step_type[1, 2] = StepType.LAST
    for last_row in (arrays.action, arrays.reward, arrays.discount, mean, std):
        last_row[:, -1] = np.nan
    return arrays


def values(variables: list[tf.Variable]) -> list[np.ndarray]:
    return [np.array(variable) for variable in variables]
