"""Batches of MuJoCo tasks with exact save and restore, with Gym's tasks from Gymnasium."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import gymnasium
import mujoco
import numpy as np
from gymnasium.envs import registration

from repro.environments.batched import check_batch, read_config
from repro.environments.lookup import match_task
from repro.environments.stepped import SteppedEnvironment
from repro.rng import pack_rng, unpack_rng

KIND = "MuJoCo"
"""Name of this kind of environments in messages."""

TASKS = (
    "Ant",
    "HalfCheetah",
    "Hopper",
    "Humanoid",
    "HumanoidStandup",
    "InvertedDoublePendulum",
    "InvertedPendulum",
    "Reacher",
    "Swimmer",
    "Walker2d",
)
"""The tasks of the ReF-ER paper, in this suite's spelling."""

VERSIONS = ("v5", "v4")
"""Gymnasium's versions of the tasks that run with the installed MuJoCo; their observations and rewards differ."""

OBSERVED = ("all", "positions")
"""Parts of an observation that can be shown."""

_STATE = mujoco.mjtState.mjSTATE_INTEGRATION

# After a step, body positions are those at the beginning of its last substep, and some tasks compute the next reward
# from them. They are therefore part of a state: MuJoCo could only recompute those at the end of the step.
_POSES = ("xpos", "xipos")

_first_instability = threading.Lock()


def _show_instability(message: str) -> None:
    """Prints MuJoCo's first warning of an unstable simulation in this process, and no other warning.

    By default, MuJoCo prints every warning and appends it to a file in the working directory. `MjData.warning` counts
    all of them.
    """
    if "unstable" in message and _first_instability.acquire(blocking=False):
        with contextlib.suppress(Exception):  # an exception in this callback of C code would end the process
            print(f"MuJoCo: {message.strip()} Later warnings are not shown.", file=sys.stderr, flush=True)


mujoco.set_mju_user_warning(_show_instability)


def task_name(task: str) -> str:
    """Returns this suite's name of a MuJoCo task; letter case, underscores and blanks make no difference.

    Args:
        task: name of a task without the version, such as `HalfCheetah`, `halfcheetah` or `half_cheetah`.

    Returns:
        One of `TASKS`, Gymnasium's name without the version.

    Raises:
        UnknownTaskError: no task has this name.
    """
    return match_task(task, TASKS, "MuJoCo task")


class TaskConfig(Protocol):
    """Parts of a protocol that `MujocoEnvironment` reads."""

    @property
    def label(self) -> str:
        """Name and version of the task, which a saved state shares with environments that can restore it."""

    @property
    def observed(self) -> str:
        """Part of an observation that is shown, one of `OBSERVED`."""

    @property
    def step_limit(self) -> int:
        """Number of steps after which an episode is cut."""

    def make_task(self) -> gymnasium.Env:
        """Returns a MuJoCo task without a time limit, with `model`, `data` and a `Box` of actions centred at 0."""


@dataclasses.dataclass(frozen=True)
class MujocoConfig:
    """The protocol of a task.

    Attributes:
        task: one of `TASKS`, in any spelling that `task_name` accepts.
        version: Gymnasium's version of the task, one of `VERSIONS`.
        max_steps: number of steps at which an episode is cut; 0 for the task's limit (50 for Reacher, else 1000).
        observed: part of an observation that is shown, one of `OBSERVED`: all of it, or its positions only, so that the
            velocities cannot be read from one observation.

    Raises:
        ValueError: a field is out of its range.
        UnknownTaskError: no task has this name.
    """

    task: str
    version: str
    max_steps: int
    observed: str = "all"

    def __post_init__(self) -> None:
        object.__setattr__(self, "task", task_name(self.task))
        if self.version not in VERSIONS:
            raise ValueError(f"{KIND}: version must be one of {', '.join(VERSIONS)}, got {self.version!r}.")
        if self.max_steps < 0:
            raise ValueError(f"{KIND}: max_steps must be at least 0, got {self.max_steps}.")
        if self.observed not in OBSERVED:
            raise ValueError(f"{KIND}: observed must be one of {', '.join(OBSERVED)}, got {self.observed!r}.")

    @property
    def label(self) -> str:
        """Name and version in Gymnasium, such as `HalfCheetah-v5`."""
        return f"{self.task}-{self.version}"

    @property
    def step_limit(self) -> int:
        """Number of steps after which an episode is cut."""
        return self.max_steps or int(gymnasium.spec(self.label).max_episode_steps or 0)

    def make_task(self) -> gymnasium.Env:
        """Returns a simulation without Gymnasium's wrappers, whose checks take a fifth of a step's time."""
        spec = gymnasium.spec(self.label)
        create: Callable[..., Any] = registration.load_env_creator(str(spec.entry_point))
        return create(**spec.kwargs)


def make_mujoco(env_config: Mapping[str, Any], num_envs: int, seed: int) -> MujocoEnvironment:
    """Returns a batched MuJoCo environment.

    Args:
        env_config: fields of `MujocoConfig`; `observed` may be left out, as in older configurations, and an entry
            `name` is ignored.
        num_envs: number of simulations, stepped one after the other; at least 1.
        seed: seed of the batch, at least 0; each batch of a run needs another one.

    Raises:
        ValueError: a field is missing, unknown or out of its range.
        UnknownTaskError: no task has this name.
    """
    return MujocoEnvironment(read_config(KIND, MujocoConfig, env_config), num_envs, seed)


class MujocoEnvironment(SteppedEnvironment):
    """A batch of one MuJoCo task; see `SteppedEnvironment` for how it is stepped.

    Actions of the learner are unbounded and scaled linearly (ReF-ER, Appendix B):
        action of the task = action (high - low) / 2
    All tasks have symmetric bounds, so there is no centre to add. MuJoCo clips actions beyond the bounds. Gym's tasks
    compute control costs from the action before clipping; ACER's tasks have a setting for it.

    Everything that follows a restored state is bit-identical to what followed the saved one.

    Args:
        config: the protocol.
        num_envs: number of simulations, stepped one after the other; at least 1.
        seed: seed of the batch, at least 0.

    Attributes:
        config: the protocol.
        state_size: number of entries of an observation that are shown.
        max_steps: number of steps after which an episode is cut.
        action_scale: (high - low) / 2, float32 [A].

    Raises:
        ValueError: `num_envs` or `seed` is out of its range, the bounds of actions are not symmetric, or the
            observation cannot be restricted to positions.
    """

    def __init__(self, config: TaskConfig, num_envs: int, seed: int) -> None:
        check_batch(KIND, num_envs, seed)
        self.config = config
        self.max_steps = config.step_limit
        tasks: list[Any] = [config.make_task() for _ in range(num_envs)]
        bounds = tasks[0].action_space
        if not np.array_equal(bounds.low, -bounds.high):
            raise ValueError(
                f"{KIND}: {config.label} has actions whose bounds are not symmetric about 0, as they must be."
            )
        self.action_scale: np.ndarray = ((bounds.high - bounds.low) / 2).astype(np.float32)
        self.state_size = shown_entries(tasks[0], config)
        observations = gymnasium.spaces.Box(-np.inf, np.inf, (self.state_size,), np.float32)
        actions = gymnasium.spaces.Box(-np.inf, np.inf, bounds.shape, np.float32)
        super().__init__(KIND, config.label, tasks, observations, actions, config.step_limit, seed)
        mujoco.set_mju_user_warning(_show_instability)  # importing TF-Agents, done above, may set another one

    def _begin(self, row: int, seed: int | None) -> np.ndarray:
        obs: np.ndarray = self._tasks[row].reset(seed=seed)[0]
        return obs[: self.state_size]

    def _decode(self, actions: np.ndarray) -> np.ndarray:
        return actions * self.action_scale

    def _advance(self, row: int, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool]:
        obs, reward, terminated, _, _ = self._tasks[row].step(action)
        return obs[: self.state_size], reward, terminated, False

    def get_state(self) -> dict[str, Any]:
        tasks = {}
        for row, task in enumerate(self._tasks):
            simulation = np.empty(mujoco.mj_stateSize(task.model, _STATE))
            mujoco.mj_getState(task.model, task.data, simulation, _STATE)
            poses = {name: getattr(task.data, name).copy() for name in _POSES}
            tasks[str(row)] = {"simulation": simulation, **poses, "rng": pack_rng(task.np_random)}
        return super().get_state() | {"tasks": tasks}

    def set_state(self, state: Mapping[str, Any]) -> np.ndarray:
        observation = super().set_state(state)
        for row, task in enumerate(self._tasks):
            saved = state["tasks"][str(row)]
            task.reset(seed=0)
            mujoco.mj_setState(task.model, task.data, saved["simulation"], _STATE)
            for name in _POSES:
                getattr(task.data, name)[:] = saved[name]
            unpack_rng(task.np_random, saved["rng"])
        return observation


def shown_entries(task: Any, config: TaskConfig) -> int:
    """Returns the number of an observation's first entries that are shown.

    An observation that is not longer than the model's positions and velocities together consists of the positions,
    without those along which the task moves freely, followed by all velocities.

    Args:
        task: one simulation.
        config: the protocol.

    Raises:
        ValueError: only positions are to be shown, and the task's observation has another form.
    """
    width, model = int(task.observation_space.shape[0]), task.model
    if config.observed == "all":
        return width
    if width > model.nq + model.nv:
        raise ValueError(
            f"{KIND}: {config.label} cannot be observed by its positions alone: its observation is not "
            "made of positions and then velocities, as those of HalfCheetah, Hopper, InvertedPendulum, Swimmer, "
            "Walker2d and Ant-v4 are."
        )
    return width - int(model.nv)
