"""STAC and STACX on any Gymnasium environment with discrete actions; docs/custom_environment.md.

No paper prints these settings: they are those of `atari.py`, with their sources, except the fields below.
Budgets are in environment steps.
"""

import ml_collections

from paper_configs import custom
from paper_configs.stac import atari


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns settings with which `stac` learns CartPole; `smoke` is shorter, `paper` the same as `desk`."""
    config = atari.get_config(scale)
    config.experiment = "gymnasium"
    config.agent = "stac"  # assumed: auxiliary heads diverge on CartPole; repro/papers/stac/README.md
    del config.num_env_frames
    config.num_env_steps = 20_000 if scale == "smoke" else 500_000  # environment steps

    config.env = custom.environment("CartPole-v1")

    config.network.torso = "dense"  # dense for vectors, shallow or deep for images
    config.network.units = (64, 64)  # widths of the dense layers
    config.network.head_units = 64  # width of the hidden layers of each head's policy and value

    config.loss.discount = 0.99  # gamma of control tasks; Table 3

    config.learner.batch_size = 8
    config.learner.learning_rate = 2e-3
    config.learner.rmsprop_epsilon = 0.1

    config.runtime.num_actors = 1
    config.runtime.envs_per_actor = 16
    config.runtime.threads = 1  # TensorFlow's, 0 = one per core; matrices this small gain nothing from more
    config.runtime.compile = "xla"  # faster for small networks, on a CPU too

    config.evaluation.episodes = 100
    config.evaluation.num_envs = 10
    return config
