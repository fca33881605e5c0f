"""Canonical names of tasks, whatever package of environments they belong to."""

from __future__ import annotations


def task_name(package: str, task: str) -> str:
    """Returns this suite's name of a task.

    Args:
        package: `config.env.name`: atari, mujoco, acer_tasks, dm_control, rwrl, gymnasium or dmlab.
        task: in any spelling that the package knows.

    Raises:
        ValueError: an unknown package, or a task that it does not have; the message lists the nearest names.
    """
    if package == "atari":
        from repro.environments import games

        return games.game_name(task)
    if package == "mujoco":
        from repro.environments import mujoco

        return mujoco.task_name(task)
    if package == "acer_tasks":
        from repro.environments import acer_tasks

        return acer_tasks.task_name(task)
    if package == "dm_control":
        from repro.environments import dm_control

        return dm_control.task_name(task)
    if package == "rwrl":
        from repro.environments import rwrl

        return rwrl.task_name(task)
    if package == "gymnasium":
        from repro.environments import gymnasium

        return gymnasium.task_name(task)
    if package == "dmlab":
        from repro.environments import dmlab_levels

        return dmlab_levels.level_name(task)
    raise ValueError(f"env.name={package!r}: choose atari, mujoco, acer_tasks, dm_control, rwrl, gymnasium or dmlab.")
