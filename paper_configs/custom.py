"""What the configurations for any Gymnasium environment share; docs/custom_environment.md."""

import ml_collections


def environment(task: str) -> ml_collections.ConfigDict:
    """The section `env` of a Gymnasium environment."""
    config = ml_collections.ConfigDict()
    config.name = "gymnasium"  # the package of environments
    config.task = task  # a registered id, or my_module:MyEnv-v0
    config.max_steps = 0  # steps of an episode, 0 = the environment's own limit
    config.kwargs = ml_collections.ConfigDict()  # keyword arguments of its constructor
    return config
