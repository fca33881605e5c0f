"""DQN with C-trace on any Gymnasium environment with discrete actions; docs/custom_environment.md.

No paper prints these settings. They are those of `dqn.py`, sources included, but for the fields below. Budgets are in
environment steps.
"""

import ml_collections

from paper_configs import custom
from paper_configs.ctrace import dqn

SCALES = dqn.SCALES


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Settings that learn CartPole; `smoke` is shorter, `paper` the same."""
    config = dqn.get_config(scale)
    config.experiment = "gymnasium"
    del config.num_env_frames
    config.num_env_steps = 10_000 if scale == "smoke" else 100_000  # environment steps

    config.env = custom.environment("CartPole-v1")

    config.network.torso = "dense"  # dense for vectors, nature or shallow for images
    config.network.units = (64, 64)  # of the dense layers

    config.exploration.last = 0.02
    config.exploration.frames = 20_000  # steps

    config.replay.frames = 50_000  # steps
    config.replay.first_frames = 1_000  # steps

    config.learner.batch_size = 8  # sequences
    config.learner.steps_per_update = 4
    config.learner.learning_rate = 5e-4
    config.learner.target_period = 200

    config.evaluation.episodes = 100
    config.evaluation.num_envs = 10

    config.runtime.threads = 1  # of TensorFlow; matrices this small gain nothing from more
    config.runtime.checkpoint_seconds = 60.0

    config.variants = ml_collections.ConfigDict(dqn.variants(config.learner.batch_size * config.replay.steps))
    return config
