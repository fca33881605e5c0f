"""A small agent on Catch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from repro.environments.batched import BatchedEnvironment
from repro.networks.atari import Conv2D, Dense, FrameConv2D, ResidualBlock, Torso
from repro.networks.initializers import TruncatedNormalFanIn, distinct_seeds
from repro.networks.max_pool import MaxPool
from repro.networks.multi_head_actor_critic import MultiHeadActorCritic
from repro.optimizers.rmsprop_tf1 import RMSPropTF1
from repro.papers.stac.action_distribution import Softmax, SquashedGaussian
from repro.papers.stac.agent import StacAgent
from repro.papers.stac.loss import Hyperparameters
from repro.papers.stac.metagradient import Metaparameters
from tests.support.catch import Catch
from tests.support.training import dense_torso

STAC = ("gamma", "lambda", "alpha", "g_v", "g_p", "g_e")
OUTER = Hyperparameters(0.97, 0.9, 0.95, 0.95, 1.0, 0.25, 1.0, 0.01)
INITIAL = {"gamma": 2.0, "lambda": 1.0, "alpha": 0.5, "alpha_rho": 0.4, "alpha_c": 0.9, "truncation": 2.0} | {
    "g_v": 1.5,
    "g_p": 0.8,
    "g_e": -0.3,
}
"""Every metaparameter differs from every other and from its outer value, and no sigmoid is flat."""
RATE, DECAY, MOMENTUM, EPSILON = 0.02, 0.9, 0.3, 0.1


def conv_torso(seed: int) -> Torso:
    """Few channels of what Atari's deep torso is made of, and a convolution of stride 2 as the one of pixels has."""
    seeds = distinct_seeds(seed)

    def weights() -> TruncatedNormalFanIn:
        return TruncatedNormalFanIn(next(seeds))

    return Torso(
        [
            FrameConv2D(3, 3, padding="same", kernel_initializer=weights()),
            MaxPool(autocast=False),
            ResidualBlock(3, seeds),
            Conv2D(4, 3, strides=2, padding="same", kernel_initializer=weights()),
            tf.keras.layers.ReLU(autocast=False),
            tf.keras.layers.Flatten(autocast=False),
            Dense(12, activation="relu", kernel_initializer=weights()),
        ],
        "conv_torso",
    )


def make_agent(
    tuned: tuple[str, ...] = STAC,
    *,
    num_heads: int = 1,
    acting: str = "first",
    make_torso: Callable[[int], tf.keras.layers.Layer] = dense_torso,
    gamma_embedding: str = "none",
    seed: int = 0,
    **settings: Any,
) -> StacAgent:
    """By default eta moves by minus the metagradient, so that a test can read it; settings: `build_agent`.

    Args:
        make_torso: of a seed.
    """
    torso = make_torso(seed)
    network = MultiHeadActorCritic(
        torso,
        3,
        num_heads=num_heads,
        head_units=16,
        acting=acting,
        gamma_embedding=gamma_embedding,
        gamma_embedding_units=4,
        seed=seed,
    )
    return build_agent(Catch(1, 0), network, Softmax(3), tuned, num_heads, acting=acting, **settings)


def build_agent(
    environment: BatchedEnvironment,
    network: MultiHeadActorCritic,
    distribution: Softmax | SquashedGaussian,
    tuned: tuple[str, ...],
    num_heads: int,
    *,
    acting: str = "first",
    learning_rate: Any = RATE,
    momentum: float = MOMENTUM,
    meta_optimizer: tf.keras.optimizers.Optimizer | None = None,
    clip_global_norm: float = 40.0,
    kl_cost: float = 1.0,
    outer: Hyperparameters = OUTER,
    **settings: Any,
) -> StacAgent:
    """An agent for an environment; `settings` are the agent's own."""
    averaged = [outer._replace(g_p=0.0, g_e=0.0)] if acting == "average" else []
    return StacAgent(
        environment.time_step_spec,
        environment.action_spec,
        network=network,
        distribution=distribution,
        optimizer=RMSPropTF1(learning_rate, decay=DECAY, momentum=momentum, epsilon=EPSILON),
        metaparameters=Metaparameters(tuned, outer, num_heads, INITIAL, averaged),
        meta_optimizer=meta_optimizer or tf.keras.optimizers.SGD(1.0, jit_compile=False),
        outer=outer,
        kl_cost=kl_cost,
        clip_global_norm=clip_global_norm,
        train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False),
        **settings,
    )
