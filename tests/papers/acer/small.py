"""A small ACER agent on Catch, and random unrolls for it."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import StepType, Trajectory

from repro.networks.policy_q import PolicyQ
from repro.optimizers.rmsprop_tf1 import RMSPropTF1
from repro.papers.acer.agent import AcerAgent
from repro.papers.acer.loss import LossSettings
from repro.papers.acer.unroll_agent import Learning
from repro.runtime.unrolls import UnrollGroup
from tests.support.catch import Catch
from tests.support.training import dense_torso

SETTINGS = LossSettings(truncation=1.5, delta=0.3, entropy_cost=0.01)


def make_agent(
    seed: int = 0,
    *,
    trust_region: bool = True,
    settings: LossSettings = SETTINGS,
    average_decay: float = 0.9,
    learning_rate: float = 0.005,
    epsilon: float = 0.01,
    clip_global_norm: float = 40.0,
) -> AcerAgent:
    environment = Catch(1, 0)
    return AcerAgent(
        environment.time_step_spec,
        environment.action_spec,
        network=PolicyQ(dense_torso(seed), 3, seed=seed),
        average_network=PolicyQ(dense_torso(99), 3, seed=99) if trust_region else None,
        learning=Learning(RMSPropTF1(learning_rate, epsilon=epsilon), 0.99, average_decay, clip_global_norm),
        loss_settings=settings,
        train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False),
    )


def random_batch(agent: AcerAgent, size: int, seed: int, length: int = 5) -> Trajectory:
    """[size, length + 1] of everything, with an end and a boundary row inside; the last row is poisoned."""
    rng = np.random.default_rng(seed)
    arrays = UnrollGroup(agent.collect_data_spec, size, length).arrays
    arrays.observation[:] = rng.integers(256, size=arrays.observation.shape)
    arrays.action[:] = rng.integers(3, size=arrays.action.shape)
    arrays.policy_info["logits"][:] = rng.normal(size=arrays.policy_info["logits"].shape)
    arrays.reward[:] = rng.normal(size=arrays.reward.shape)
    arrays.discount[:] = 1.0
    arrays.step_type[:] = StepType.MID
    arrays.discount[0, 1] = 0.0
    arrays.step_type[1, 2] = StepType.LAST
    arrays.reward[:, -1] = arrays.discount[:, -1] = arrays.policy_info["logits"][:, -1] = np.nan
    return arrays


def values(variables: list[tf.Variable]) -> list[np.ndarray]:
    return [variable.numpy() for variable in variables]
