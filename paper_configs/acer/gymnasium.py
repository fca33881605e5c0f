"""ACER on any Gymnasium environment with discrete or continuous actions; docs/custom_environment.md.

No paper prints these settings: they are those of `atari.py` and `continuous.py`, with their sources, except the fields
below. Budgets are in environment steps.
"""

import ml_collections

from paper_configs import custom
from paper_configs.acer import atari, continuous


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns settings that learn CartPole with agent `acer`; `smoke` is shorter, on 4 environments."""
    config = atari.get_config(scale)
    config.experiment = "gymnasium"
    config.agent = "acer"  # for discrete actions; acer_continuous for continuous ones
    del config.num_env_frames
    config.num_env_steps = 16_000 if scale == "smoke" else 300_000  # environment steps
    config.window_frames = 10_000  # last steps; the result is the mean return of episodes that end in them

    config.env = custom.environment("CartPole-v1")

    config.network.torso = "dense"  # dense for vectors, nature or shallow for images
    config.network.units = (64, 64)  # widths of the dense layers

    config.replay.frames = 50_000  # capacity in steps
    config.learner.batch_size = 8
    config.learner.learning_rate = 2e-3
    config.learner.rmsprop_epsilon = 0.1

    config.runtime.threads = 1  # TensorFlow's, 0 = one per core; matrices this small gain nothing from more
    config.runtime.compile = "xla"  # faster for small networks, on a CPU too

    config.variants = ml_collections.ConfigDict({"acer": {}, "acer_continuous": continuous_actions(scale)})
    return config


def continuous_actions(scale: str) -> ml_collections.ConfigDict:
    """Returns the fields of agent `acer_continuous`: those of `continuous.py`, with values in place of its sweep.

    Its replay and its runtime, with one replayed unroll per compiled call, are those of `acer`.
    """
    config = continuous.get_config(scale)
    config.learner.learning_rate = 1e-3
    config.loss.delta = 1.0  # trust-region bound, in nats
    own = ml_collections.ConfigDict({"algorithm": config.algorithm})
    for section in ("network", "loss", "learner"):
        own[section] = config[section]
    return own
