"""A small ACER agent on Catch."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from repro.networks.policy_q import PolicyQ
from repro.optimizers.rmsprop_tf1 import RMSPropTF1
from repro.papers.acer.agent import AcerAgent
from repro.papers.acer.averaging_agent import OptimizationConfig
from repro.papers.acer.loss import AcerLossSettings
from tests.support.catch import Catch
from tests.support.training import dense_torso

SETTINGS = AcerLossSettings(truncation=1.5, delta=0.3, entropy_cost=0.01)


def make_agent(
    seed: int = 0,
    *,
    trust_region: bool = True,
    settings: AcerLossSettings = SETTINGS,
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
        optimization=OptimizationConfig(
            RMSPropTF1(learning_rate, epsilon=epsilon), 0.99, average_decay, clip_global_norm
        ),
        loss_settings=settings,
        train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False),
    )


def values(variables: list[tf.Variable]) -> list[np.ndarray]:
    return [variable.numpy() for variable in variables]
