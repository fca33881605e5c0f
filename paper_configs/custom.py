"""Shared settings of the configurations for any Gymnasium environment; docs/custom_environment.md."""

import ml_collections


def environment(task: str) -> ml_collections.ConfigDict:
    """Returns the section `env` for a Gymnasium environment."""
    config = ml_collections.ConfigDict()
    config.name = "gymnasium"  # environment suite
    config.task = task  # a registered id, or my_module:MyEnv-v0
    config.max_steps = 0  # longest episode in steps, 0 = the environment's own limit
    config.kwargs = ml_collections.ConfigDict()  # keyword arguments of its constructor
    return config
