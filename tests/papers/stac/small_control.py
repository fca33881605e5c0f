"""A small recurrent agent on the point mass, and random unrolls for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import StepType, Trajectory

from repro.acting.unrolls import UnrollGroup
from repro.networks.dense import dense_torso
from repro.networks.multi_head_actor_critic import MultiHeadActorCritic
from repro.optimizers.rmsprop_tf1 import RMSPropTF1
from repro.papers.stac.action_distribution import SquashedGaussian
from repro.papers.stac.agent import StacAgent
from repro.papers.stac.loss import Hyperparameters
from repro.papers.stac.metagradient import Metaparameters
from tests.papers.stac.small import DECAY, EPSILON, INITIAL, MOMENTUM, OUTER, RATE, STAC
from tests.support.point_mass import PointMass

BURN_IN, LEARNED = 3, 5
DISTRIBUTION = SquashedGaussian(2, -1.5, 0.2)


def make_agent(
    tuned: tuple[str, ...] = STAC,
    *,
    num_heads: int = 1,
    burn_in: int = BURN_IN,
    units: int = 6,
    seed: int = 0,
    learning_rate: Any = RATE,
    momentum: float = MOMENTUM,
    meta_optimizer: tf.keras.optimizers.Optimizer | None = None,
    clip_global_norm: float = 40.0,
    kl_cost: float = 1.0,
    outer: Hyperparameters = OUTER,
) -> StacAgent:
    """By default eta moves by minus the metagradient, so that a test can read it."""
    environment = PointMass(1, 0)
    return StacAgent(
        environment.time_step_spec,
        environment.action_spec,
        network=MultiHeadActorCritic(
            dense_torso((units,), seed + 1),
            DISTRIBUTION.num_outputs,
            num_heads=num_heads,
            head_units=units,
            core_units=units,
            seed=seed,
        ),
        distribution=DISTRIBUTION,
        optimizer=RMSPropTF1(learning_rate, decay=DECAY, momentum=momentum, epsilon=EPSILON),
        metaparameters=Metaparameters(tuned, outer, num_heads, INITIAL),
        meta_optimizer=meta_optimizer or tf.keras.optimizers.SGD(1.0, jit_compile=False),
        outer=outer,
        kl_cost=kl_cost,
        clip_global_norm=clip_global_norm,
        train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False),
        burn_in=burn_in,
        greedy=True,
    )


def random_unrolls(agent: StacAgent, seed: int) -> Trajectory:
    """[3, BURN_IN + LEARNED + 1] of everything; NaN in what the burn-in, a row between two episodes and the last row
    do not need.

    The first unroll ends an episode in a learned row; the second has a row between two in the learned part, the third
    in the burn-in.
    """
    rng = np.random.default_rng(seed)
    arrays = UnrollGroup(agent.collect_data_spec, 3, BURN_IN + LEARNED).arrays
    info = arrays.policy_info
    for x in (arrays.observation, arrays.reward, *info["core_state"]):
        x[:] = rng.normal(size=x.shape)
    arrays.action[:] = np.tanh(0.8 * rng.normal(size=arrays.action.shape))
    info["mean"][:] = np.tanh(0.5 * rng.normal(size=info["mean"].shape))
    info["std"][:] = rng.uniform(0.4, 1.0, size=info["std"].shape)
    arrays.discount[:] = 1.0
    arrays.step_type[:] = StepType.MID
    arrays.discount[0, BURN_IN + 1] = 0.0
    arrays.step_type[0, BURN_IN + 2] = StepType.FIRST
    for unroll, row in ((1, BURN_IN + 2), (2, 0)):
        arrays.step_type[unroll, row : row + 2] = StepType.LAST, StepType.FIRST
    unread = (arrays.reward, arrays.discount, info["mean"], info["std"])
    for x in (*unread, arrays.action):
        x[:, :BURN_IN] = x[:, -1] = np.nan
    for x in unread:
        x[1, BURN_IN + 2] = np.nan
    for part in info["core_state"]:
        part[:, 1:] = np.nan
    return arrays
