"""Canonical names of tasks in all packages of environments, and the tasks of a run."""

from __future__ import annotations

import re
from collections.abc import Sequence

import ml_collections

from repro import config as configs
from repro.environments.lookup import UnknownTaskError

PACKAGES = "atari, mujoco, acer_tasks, dm_control, rwrl, gymnasium, dmlab or vizdoom"
"""Names of packages of environments, for messages."""
IMAGE_PACKAGES = ("atari", "dmlab", "vizdoom")
"""Names of packages whose environments give nothing but images."""
VECTOR_PACKAGES = "mujoco, acer_tasks, dm_control, rwrl or gymnasium"
"""Names of the other packages, for messages."""


def task_name(package: str, task: str) -> str:
    """Returns this suite's name of a task.

    Args:
        package: name of a package of environments (`config.env.name`), one of `PACKAGES`.
        task: name of a task in any spelling that the package accepts.

    Raises:
        ValueError: the package is unknown or has no such task; the message lists similar names, or says which
          configurations have the task.
    """
    try:
        return _find(package, task)
    except UnknownTaskError as error:
        if where := _find_elsewhere(package, task):
            raise UnknownTaskError(where) from error
        raise


def _find(package: str, task: str) -> str:
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
    if package == "vizdoom":
        from repro.environments import vizdoom_scenarios

        return vizdoom_scenarios.scenario_name(task)
    raise ValueError(f"env.name={package!r}: choose {PACKAGES}.")


def _find_elsewhere(package: str, task: str) -> str:
    """Returns a sentence on an Atari game or a Gymnasium environment that another package lacks, or an empty text."""
    import gymnasium

    from repro.environments import games

    if package != "gymnasium" and (re.search(r":.+-v\d+$", task) or task in gymnasium.registry):
        return f"{task!r} is a Gymnasium environment: choose a configuration such as paper_configs/impala/gymnasium.py."
    if package == "gymnasium" and ":" not in task and games.is_game(task):
        return f"{task!r} is an Atari game: choose a configuration such as paper_configs/impala/atari_shallow.py."
    return ""


def check_package(package: str) -> None:
    """Checks that the optional module of a package of environments is installed, without importing it.

    Args:
        package: name of a package of environments (`config.env.name`).

    Raises:
        MissingModuleError: DeepMind Lab is not built, or ViZDoom is not installed; the message says how to get it.
    """
    if package == "dmlab":
        from repro.environments import dmlab_module

        dmlab_module.module_folder()
    if package == "vizdoom":
        from repro.environments import vizdoom_module

        vizdoom_module.check_module()


def task_names(package: str, tasks: Sequence[str]) -> tuple[str, ...]:
    """Returns this suite's names of several tasks, in their order; arguments as for `task_name`.

    Raises:
        ValueError: as for `task_name`, or a task occurs twice.
    """
    names = tuple(task_name(package, task) for task in tasks)
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ValueError(f"the task {name} is given twice.")
    return names


def run_task(config: ml_collections.ConfigDict, task: str) -> str:
    """Returns the task in a run's name: its only task, or the name of the set of tasks that its agent learns together.

    Args:
        config: configuration of the experiment.
        task: name of a task in any spelling; the name of a set of tasks must be exact.

    Raises:
        ValueError: as for `task_name`, or another name is given although several tasks are learned together.
    """
    together = configs.tasks(config)
    if not together:
        return task_name(config.env.name, task)
    if task != config.env.task:
        raise ValueError(
            f"{config.experiment} learns {len(together)} tasks together, so {task!r} has no run of its own: "
            "leave the task out."
        )
    return task


def configs_by_task(
    config: ml_collections.ConfigDict, chosen: Sequence[str] = ()
) -> dict[str, ml_collections.ConfigDict]:
    """Returns the configuration of each task to evaluate: the run's, or one per task that it learned together.

    Args:
        config: configuration of the run.
        chosen: names of some of several tasks, in any spelling; empty for all.

    Raises:
        ValueError: a chosen task is unknown or was not learned, or the run has one task and `chosen` is not empty.
    """
    together = configs.tasks(configs.resolve(config))
    if not together:
        if chosen:
            raise ValueError(f"--task={','.join(chosen)}: the run has one task, {config.env.task}; leave the flag out.")
        return {config.env.task: config}
    learned = task_names(config.env.name, together)
    played = task_names(config.env.name, chosen) or learned
    for task in played:
        if task not in learned:
            raise ValueError(f"--task={task}: choose from the tasks that the run learned, {', '.join(learned)}.")
    return {task: configs.of_task(config, task) for task in played}
