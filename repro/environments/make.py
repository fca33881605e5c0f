"""Makes the environments of a configuration, from any of the packages."""

from __future__ import annotations

from typing import TypeVar

import ml_collections

from repro.config import of_task, tasks
from repro.environments.batched import BatchedEnvironment, VectorEnvironment
from repro.environments.last_step import WithLastStep
from repro.environments.mixed import MixedTasks, part_seeds, share_of
from repro.environments.names import IMAGE_PACKAGES, PACKAGES, VECTOR_PACKAGES, task_names

FOR_DISCRETE = "an agent of paper_configs/impala/gymnasium.py"
"""Agents with Discrete actions, for the message."""
FOR_BOX = "an agent of paper_configs/refer/gymnasium.py, or acer_continuous of paper_configs/acer/gymnasium.py"
"""Agents with Box actions, for the message."""


def make_environment(
    config: ml_collections.ConfigDict,
    num_envs: int,
    seed: int,
    is_continuous: bool | None = None,
    shard: tuple[int, int] = (0, 1),
) -> BatchedEnvironment:
    """Returns a batch of environments of the package `env.name`, with one task or several (`MixedTasks`).

    Args:
        config: configuration of an experiment; its section `env` is read, and `runtime.env_threads` for ALE's
            emulators. If `env.tasks` is not empty, its tasks are played instead of `env.task`.
        num_envs: number of environments, at least 1.
        seed: seed of the batch, at least 0; each batch of a run needs another one.
        is_continuous: whether the agent takes Box instead of Discrete actions; None for an agent that takes both.
        shard: index of the batch in its run, and number of batches of the run, for sequences of levels that the
            batches share.

    Raises:
        ValueError: the package is unknown or not installed; a field is missing, unknown or out of its range; the
            actions do not fit the agent; or several tasks cannot have equal shares or differ in observations or
            actions.
    """
    if tasks(config):
        return _make_mixed(config, num_envs, seed, is_continuous, shard)
    if config.env.name == "atari":
        from repro.environments.atari import make_atari

        games = make_atari(config.env, num_envs, seed, config.runtime.get("env_threads", 0))
        return _check_actions(games, config, is_continuous)
    environment: VectorEnvironment
    if config.env.name == "dmlab":
        from repro.environments.dmlab import make_dmlab

        environment = _check_actions(make_dmlab(config.env, num_envs, seed, shard), config, is_continuous)
    elif config.env.name == "vizdoom":
        from repro.environments.vizdoom import make_vizdoom

        environment = _check_actions(make_vizdoom(config.env, num_envs, seed), config, is_continuous)
    else:
        environment = make_vector_environment(config, num_envs, seed, is_continuous)
    if config.env.get("last_action_and_reward"):
        return WithLastStep(environment)
    return environment


def _make_mixed(
    config: ml_collections.ConfigDict, num_envs: int, seed: int, is_continuous: bool | None, shard: tuple[int, int]
) -> MixedTasks:
    """Returns a batch of this batch's share of the run's tasks, with another seed for each task."""
    names = task_names(config.env.name, tasks(config))
    if config.env.name == "atari" and not config.env.full_action_set:
        raise ValueError("env.tasks has several games, whose minimal action sets differ: set env.full_action_set=True.")
    share = share_of(len(names), num_envs, shard)
    mine = names[share.first : share.first + share.tasks]
    parts: list[BatchedEnvironment] = []
    try:
        for task, part_seed in zip(mine, part_seeds(seed, len(mine))):
            arguments = share.num_envs, part_seed, is_continuous, share.shard
            parts.append(make_environment(of_task(config, task), *arguments))
        return MixedTasks(mine, parts, share.first)
    except Exception:
        for part in parts:
            part.close()
        raise


def config_of_start(config: ml_collections.ConfigDict, start: int) -> ml_collections.ConfigDict:
    """Returns the configuration of the environments in an actor's process that may have been restarted.

    After a restart they play another level set, since it is not known how far the previous process came in its own.

    Args:
        config: configuration of an experiment.
        start: number of earlier starts of the process.
    """
    if start and config.env.get("level_set"):
        config = config.copy_and_resolve_references()
        config.env.level_set += start
    return config


def make_evaluation_environment(
    config: ml_collections.ConfigDict, num_envs: int, seed: int, env_threads: int = 0
) -> BatchedEnvironment:
    """Returns a batch as `make_environment` does, but with test levels, and without episode ends at lost lives.

    Args:
        config: configuration of an experiment.
        num_envs: number of environments, at least 1.
        seed: seed of the batch, at least 0.
        env_threads: number of threads of ALE's emulators, 0 for one per core; it replaces `runtime.env_threads`, which
            is one training actor's share.

    Raises:
        ValueError: as for `make_environment`.
    """
    config = config.copy_and_resolve_references()
    if "env_threads" in config.get("runtime", {}):
        config.runtime.env_threads = env_threads
    if "life_loss_ends" in config.env:
        config.env.life_loss_ends = False
    if config.env.name == "dmlab":
        config.env.test = True
    return make_environment(config, num_envs, seed)


def make_vector_environment(
    config: ml_collections.ConfigDict, num_envs: int, seed: int, is_continuous: bool | None = None
) -> VectorEnvironment:
    """Returns a batch of environments of one task in a package that is not one of `IMAGE_PACKAGES`.

    Arguments are as for `make_environment`.

    Raises:
        ValueError: as for `make_environment`, the configuration has several tasks, or its package gives images.
    """
    if together := tasks(config):
        raise ValueError(
            f"env.tasks={','.join(together)}: agent {config.agent} learns only env.task; leave out env.tasks."
        )
    if config.env.name in IMAGE_PACKAGES:
        raise ValueError(
            f"env.name={config.env.name!r}: agent {config.agent} learns from vectors, and these environments give "
            f"images; choose {VECTOR_PACKAGES}."
        )
    return _check_actions(_make_vectors(config.env, num_envs, seed), config, is_continuous)


def _make_vectors(env: ml_collections.ConfigDict, num_envs: int, seed: int) -> VectorEnvironment:
    if env.name == "mujoco":
        from repro.environments.mujoco import make_mujoco

        return make_mujoco(env, num_envs, seed)
    if env.name == "acer_tasks":
        from repro.environments.acer_tasks import make_acer_task

        return make_acer_task(env, num_envs, seed)
    if env.name == "dm_control":
        from repro.environments.dm_control import make_dm_control

        return make_dm_control(env, num_envs, seed)
    if env.name == "rwrl":
        from repro.environments.rwrl import make_rwrl

        return make_rwrl(env, num_envs, seed)
    if env.name == "gymnasium":
        from repro.environments.gymnasium import make_gymnasium

        return make_gymnasium(env, num_envs, seed)
    raise ValueError(f"env.name={env.name!r}: choose {PACKAGES}.")


_Environment = TypeVar("_Environment", bound=BatchedEnvironment)


def _check_actions(
    environment: _Environment, config: ml_collections.ConfigDict, is_continuous: bool | None
) -> _Environment:
    """Returns the environment if its actions fit the agent.

    Raises:
        ValueError: they do not.
    """
    discrete = environment.action_spec.dtype.is_integer
    if is_continuous is None or is_continuous != discrete:
        return environment
    number, task = environment.num_actions, config.env.task
    wanted, found, other = (
        ("Box", f"Discrete({number})", FOR_DISCRETE) if discrete else ("Discrete", f"Box({number},)", FOR_BOX)
    )
    raise ValueError(f"agent {config.agent} takes {wanted} actions, but those of {task} are {found}; take {other}.")
