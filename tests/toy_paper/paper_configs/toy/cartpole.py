"""A one-step advantage actor-critic on CartPole."""

import ml_collections

from paper_configs import custom
from repro.config import SCALES, unknown_scale


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    if scale not in SCALES:
        raise unknown_scale(scale)
    config = ml_collections.ConfigDict()
    config.paper, config.experiment, config.agent, config.scale = "toy", "cartpole", "slow", scale
    config.algorithm = "toy.discrete"
    config.num_env_steps = 6_400
    config.variants = ml_collections.ConfigDict({"slow": {}, "fast": {"learner": {"learning_rate": 1e-2}}})
    config.env = custom.environment("CartPole-v1")
    config.network = ml_collections.ConfigDict({"torso": "dense", "units": (16,)})
    config.learner = ml_collections.ConfigDict({"unroll_length": 10, "batch_size": 8, "learning_rate": 1e-3})
    config.runtime = ml_collections.ConfigDict(
        {"num_actors": 1, "envs_per_actor": 8, "schedule": "lockstep", "lockstep_lag": 0, "checkpoint_seconds": 60.0}
    )
    config.evaluation = ml_collections.ConfigDict({"episodes": 10, "num_envs": 10})
    return config
