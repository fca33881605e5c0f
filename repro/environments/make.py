"""Environments from a configuration, whatever package they belong to."""

from __future__ import annotations

import ml_collections

from repro.environments.batched import BatchedEnvironment, VectorEnvironment
from repro.environments.last_step import WithLastStep


def make_environment(config: ml_collections.ConfigDict, num_envs: int, seed: int) -> BatchedEnvironment:
    """Returns a batch of environments of the package `env.name`.

    Args:
        config: of an experiment; `env` is read, and `runtime.env_threads` for ALE's emulators.
        num_envs: environments side by side, at least 1.
        seed: at least 0. Environments of one run need seeds of their own.

    Raises:
        ValueError: an unknown package, or a field that is missing, unknown or out of its range.
    """
    if config.env.name == "atari":
        from repro.environments.atari import make_atari

        return make_atari(config.env, num_envs, seed, config.runtime.get("env_threads", 0))
    environment = make_vector_environment(config, num_envs, seed)
    if config.env.get("last_action_and_reward"):
        return WithLastStep(environment)
    return environment


def make_evaluation_environment(config: ml_collections.ConfigDict, num_envs: int, seed: int) -> BatchedEnvironment:
    """Returns a batch of environments as `make_environment` does, where a lost life changes nothing."""
    config = config.copy_and_resolve_references()
    if "life_loss_ends" in config.env:
        config.env.life_loss_ends = False
    return make_environment(config, num_envs, seed)


def make_vector_environment(config: ml_collections.ConfigDict, num_envs: int, seed: int) -> VectorEnvironment:
    """Returns a batch of environments that need not have images; arguments as for `make_environment`.

    Raises:
        ValueError: an unknown package, or a field that is missing, unknown or out of its range.
    """
    env = config.env
    if env.name == "mujoco":
        from repro.environments.mujoco import make_mujoco

        return make_mujoco(env, num_envs, seed)
    if env.name == "acer_tasks":
        from repro.environments.acer_tasks import make_acer_task

        return make_acer_task(env, num_envs, seed)
    if env.name == "gymnasium":
        from repro.environments.gymnasium import make_gymnasium

        return make_gymnasium(env, num_envs, seed)
    raise ValueError(f"env.name={env.name!r}: choose atari, mujoco, acer_tasks or gymnasium.")
