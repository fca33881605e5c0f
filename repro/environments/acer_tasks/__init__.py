"""The six control tasks of the ACER paper (Wang et al. 2017, Appendix E.1), on MuJoCo.

Every choice that the paper leaves open is listed in docs/acer_tasks.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from repro.environments import mujoco
from repro.environments.acer_tasks.cartpole import Cartpole
from repro.environments.acer_tasks.cheetah import Cheetah
from repro.environments.acer_tasks.fish import Fish
from repro.environments.acer_tasks.humanoid import Humanoid
from repro.environments.acer_tasks.reacher3 import Reacher3
from repro.environments.acer_tasks.task import CONTROL_COSTS, ControlTask
from repro.environments.acer_tasks.walker import Walker
from repro.environments.batched import read_config
from repro.environments.lookup import match_task

TASKS: dict[str, type[ControlTask]] = {
    "cartpole": Cartpole,
    "reacher3": Reacher3,
    "cheetah": Cheetah,
    "fish": Fish,
    "walker": Walker,
    "humanoid": Humanoid,
}
"""Classes of the tasks by the paper's names, in the paper's order."""


def task_name(task: str) -> str:
    """Returns this suite's name of a task; letter case, underscores and blanks make no difference.

    Raises:
        UnknownTaskError: no task has this name; the message lists the most similar names.
    """
    return match_task(task, tuple(TASKS), "control task of ACER")


@dataclasses.dataclass(frozen=True)
class AcerTaskConfig:
    """The protocol of a task.

    Attributes:
        task: one of `TASKS`, in any spelling that `task_name` accepts.
        max_steps: number of steps at which an episode is cut, at least 1; 500 in the paper.
        control_cost_of: the action whose control cost is charged, `executed` or `chosen` (see `ControlTask`). Configs
            older than this field lack it and were trained with `chosen`.
    """

    task: str
    max_steps: int
    control_cost_of: str = "chosen"

    def __post_init__(self) -> None:
        object.__setattr__(self, "task", task_name(self.task))
        if self.max_steps < 1:
            raise ValueError(f"MuJoCo: max_steps must be at least 1, got {self.max_steps}.")
        if self.control_cost_of not in CONTROL_COSTS:
            known = ", ".join(CONTROL_COSTS)
            raise ValueError(f"MuJoCo: control_cost_of must be one of {known}, got {self.control_cost_of!r}.")

    @property
    def label(self) -> str:
        """Name of the task that differs from the names of Gym's tasks: `acer_tasks/walker`."""
        return f"acer_tasks/{self.task}"

    @property
    def observed(self) -> str:
        """Part of the observation that is shown: all of it."""
        return "all"

    @property
    def step_limit(self) -> int:
        """Number of steps after which an episode is cut."""
        return self.max_steps

    def make_task(self) -> ControlTask:
        """Returns a new simulation of the task."""
        return TASKS[self.task](self.control_cost_of)


def make_acer_task(env_config: Mapping[str, Any], num_envs: int, seed: int) -> mujoco.MujocoEnvironment:
    """Returns a batch of one of ACER's control tasks.

    Args:
        env_config: fields of `AcerTaskConfig`; `control_cost_of` may be left out, and an entry `name` is ignored.
        num_envs: number of simulations, stepped one after the other; at least 1.
        seed: seed of the batch, at least 0; each batch of a run needs another one.

    Raises:
        ValueError: a field is missing, unknown or out of its range.
        UnknownTaskError: no task has this name.
    """
    return mujoco.MujocoEnvironment(read_config("MuJoCo", AcerTaskConfig, env_config), num_envs, seed)
