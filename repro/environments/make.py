"""Environments from a configuration, whatever package they belong to."""

from __future__ import annotations

import ml_collections

from repro.environments.batched import BatchedEnvironment


def make_environment(
    env: ml_collections.ConfigDict, num_envs: int, seed: int, num_threads: int = 0
) -> BatchedEnvironment:
    """Returns a batch of environments of the package `env.name`.

    Args:
        env: section `env` of a configuration; its other fields are the package's.
        num_envs: environments side by side, at least 1.
        seed: at least 0. Environments of one run need seeds of their own.
        num_threads: of ALE's emulators, 0 for one a usable core; other packages step in the caller's thread.

    Raises:
        ValueError: an unknown package, or a field that is missing, unknown or out of its range.
    """
    if env.name == "atari":
        from repro.environments.atari import make_atari

        return make_atari(env, num_envs, seed, num_threads)
    if env.name == "mujoco":
        from repro.environments.mujoco import make_mujoco

        return make_mujoco(env, num_envs, seed)
    if env.name == "acer_tasks":
        from repro.environments.acer_tasks import make_acer_task

        return make_acer_task(env, num_envs, seed)
    raise ValueError(f"env.name={env.name!r}: choose atari, mujoco or acer_tasks.")


def make_evaluation_environment(
    env: ml_collections.ConfigDict, num_envs: int, seed: int, num_threads: int = 0
) -> BatchedEnvironment:
    """Returns a batch of environments as `make_environment` does, where a lost life changes nothing."""
    env = env.copy_and_resolve_references()
    if "life_loss_ends" in env:
        env.life_loss_ends = False
    return make_environment(env, num_envs, seed, num_threads)
