"""Batches of MuJoCo tasks with exact save and restore; Gym's tasks through gymnasium."""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import gymnasium
import mujoco
import numpy as np
from gymnasium.envs import registration
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from tf_agents.trajectories import time_step as ts

from repro.environments import specs
from repro.environments.batched import check_batch, check_reset, read_config

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
"""Versions of gymnasium that run with the installed MuJoCo. Observations and rewards differ between them."""

OBSERVED = ("all", "positions")
"""What of an observation is shown."""

_STATE = mujoco.mjtState.mjSTATE_INTEGRATION

# Body positions stay those of the last substep's beginning, and some tasks compute the next reward from them, so
# they are part of a state though MuJoCo could compute them (as those of the step's end, which is not the same).
_POSES = ("xpos", "xipos")

# MuJoCo otherwise prints its warnings and appends them to a file in the working directory. Counts of warnings,
# of unstable simulations above all, stay readable in `MjData.warning`.
mujoco.set_mju_user_warning(lambda message: None)


class UnknownTaskError(ValueError):
    """No MuJoCo task has the name that was asked for; the message lists the nearest names."""


def task_name(task: str) -> str:
    """Returns this suite's name of a MuJoCo task; letter case, underscores and blanks make no difference.

    Args:
        task: `HalfCheetah`, `halfcheetah`, `half_cheetah`. The version is a field of its own.

    Returns:
        One of `TASKS`, gymnasium's name without the version.

    Raises:
        UnknownTaskError: no task has this name.
    """
    return match_task(task, TASKS, "MuJoCo task")


def match_task(task: str, tasks: Sequence[str], kind: str) -> str:
    """Returns the one of `tasks` that `task` spells; letter case and all but letters and digits make no difference.

    Args:
        task: a name in any spelling.
        tasks: the names to choose from.
        kind: what they are, for the message.

    Raises:
        UnknownTaskError: none of them has this name.
    """
    known = {name.lower(): name for name in tasks}
    wanted = re.sub(r"[^a-z0-9]", "", task.lower())
    if wanted in known:
        return known[wanted]
    near = [known[name] for name in difflib.get_close_matches(wanted, known, n=3, cutoff=0.5)]
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(tasks)}."
    raise UnknownTaskError(f"No {kind} is called {task!r}; {hint}")


class TaskConfig(Protocol):
    """What a batch needs to know of the task that it repeats."""

    @property
    def label(self) -> str:
        """Name and version, which a saved state must share with the environment that takes it up."""

    @property
    def observed(self) -> str:
        """One of `OBSERVED`."""

    @property
    def step_limit(self) -> int:
        """Steps after which an episode is cut."""

    def make_task(self) -> gymnasium.Env:
        """A task on MuJoCo with `model` and `data` and a `Box` of actions centred at 0. It knows no time limit."""


@dataclasses.dataclass(frozen=True)
class MujocoConfig:
    """The protocol, one field an item.

    Attributes:
        task: one of `TASKS`, in any spelling that `task_name` knows.
        version: gymnasium's version of the task, one of `VERSIONS`.
        max_steps: an episode is cut at this many steps; 0 for the task's own limit (50 for Reacher, else 1000).
        observed: one of `OBSERVED`: the whole observation, or its positions alone, so that one observation does not
            say where the task is going.
    """

    task: str
    version: str
    max_steps: int
    observed: str = "all"

    def __post_init__(self) -> None:
        object.__setattr__(self, "task", task_name(self.task))
        if self.version not in VERSIONS:
            raise ValueError(f"MuJoCo: version must be one of {', '.join(VERSIONS)}, got {self.version!r}.")
        if self.max_steps < 0:
            raise ValueError(f"MuJoCo: max_steps must be at least 0, got {self.max_steps}.")
        if self.observed not in OBSERVED:
            raise ValueError(f"MuJoCo: observed must be one of {', '.join(OBSERVED)}, got {self.observed!r}.")

    @property
    def label(self) -> str:
        """Gymnasium's name and version: `HalfCheetah-v5`."""
        return f"{self.task}-{self.version}"

    @property
    def step_limit(self) -> int:
        """Steps after which an episode is cut."""
        return self.max_steps or int(gymnasium.spec(self.label).max_episode_steps or 0)

    def make_task(self) -> gymnasium.Env:
        """One simulation, without gymnasium's wrappers: their checks cost a fifth of a step."""
        spec = gymnasium.spec(self.label)
        create: Callable[..., Any] = registration.load_env_creator(str(spec.entry_point))
        return create(**spec.kwargs)


def make_mujoco(env_config: Mapping[str, Any], num_envs: int, seed: int) -> MujocoEnvironment:
    """Returns a batched MuJoCo environment.

    Args:
        env_config: every field of `MujocoConfig`; an entry `name` is allowed and not read, and `observed` may be left
            out, as older configurations do.
        num_envs: number of simulations stepped one after the other, at least 1.
        seed: the run's seed, at least 0. Environments of one run need seeds of their own.

    Raises:
        ValueError: a field is missing, unknown or out of its range.
        UnknownTaskError: no task has this name.
    """
    return MujocoEnvironment(read_config("MuJoCo", MujocoConfig, env_config), num_envs, seed)


class MujocoEnvironment(gymnasium.vector.VectorEnv):
    """A batch of one MuJoCo task, stepped in the calling thread.

    An episode that ended is followed by the next one in NEXT_STEP fashion: the step after the end takes no
    action and returns the first observation of the new episode with reward 0.

    Actions are the learner's, unbounded, and scaled linearly (ReF-ER, Appendix B):
        action of the task = action (high - low) / 2
    All tasks have symmetric bounds, so there is no centre to add. MuJoCo clips what exceeds them. The control costs
    of Gym's tasks are those of the action before that clip; ACER's tasks say themselves which they charge.

    One instance belongs to one thread at a time; several instances may be stepped by as many threads.

    Attributes:
        config: the protocol.
        num_actions: components of an action, A.
        state_size: entries of an observation, as far as they are shown.
        max_steps: steps after which an episode is cut.
        action_scale: (high - low) / 2, float32 [A].
    """

    def __init__(self, config: TaskConfig, num_envs: int, seed: int) -> None:
        check_batch("MuJoCo", num_envs, seed)
        self.config = config
        self.num_envs = num_envs
        self._tasks: list[Any] = [config.make_task() for _ in range(num_envs)]
        self.max_steps = config.step_limit
        bounds = self._tasks[0].action_space
        if not np.array_equal(bounds.low, -bounds.high):
            raise ValueError(f"MuJoCo: {config.label} has actions that are not centred at 0.")
        self.action_scale: np.ndarray = ((bounds.high - bounds.low) / 2).astype(np.float32)
        self.num_actions = int(bounds.shape[0])
        self.state_size = width = self._shown_entries()
        self.single_observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (width,), np.float32)
        self.single_action_space = gymnasium.spaces.Box(-np.inf, np.inf, (self.num_actions,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.observation_spec = specs.tensor_spec_of(self.single_observation_space, "observation")
        self.action_spec = specs.tensor_spec_of(self.single_action_space, "action")
        self.time_step_spec = ts.time_step_spec(self.observation_spec)

        self._seed = seed
        self._is_reset = False
        self._observation = np.zeros((num_envs, width), np.float32)
        # Lists: Python's numbers are several times faster than elements of arrays.
        self._over = [False] * num_envs
        self._steps = [0] * num_envs
        self._returns = [0.0] * num_envs

    def _shown_entries(self) -> int:
        """How many entries of an observation are shown, the first ones.

        An observation that is no longer than the positions and velocities of the model together is made of
        positions, less those along which the task moves freely, and then of all the velocities.

        Raises:
            ValueError: positions are asked for, and the task's observation has another form.
        """
        width, model = int(self._tasks[0].observation_space.shape[0]), self._tasks[0].model
        if self.config.observed == "all":
            return width
        if width > model.nq + model.nv:
            raise ValueError(
                f"MuJoCo: {self.config.label} cannot be observed by its positions alone: its observation is not "
                "made of positions and then velocities, as those of HalfCheetah, Hopper, InvertedPendulum, Swimmer, "
                "Walker2d and Ant-v4 are."
            )
        return width - int(model.nv)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins an episode in every environment, each with a random generator of its own, seeded anew.

        Args:
            seed: replaces the run's seed; None takes it again.
            options: none are known.

        Returns:
            observation: float32 [N, observations]; an info that is empty.

        Raises:
            ValueError: an option was given or the seed is negative.
        """
        check_reset("MuJoCo", seed, options)
        if seed is not None:
            self._seed = seed
        for row, task in enumerate(self._tasks):
            sequence = np.random.SeedSequence((self._seed, row))
            observation, _ = task.reset(seed=int(sequence.generate_state(1)[0]))
            self._observation[row] = observation[: self.state_size]
        self._over, self._steps, self._returns = [False] * self.num_envs, [0] * self.num_envs, [0.0] * self.num_envs
        self._is_reset = True
        return self._observation.copy(), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Makes one step of every task.

        Args:
            actions: the learner's, float32 [N, A]. Not read where the last step ended an episode.

        Returns:
            observation: float32 [N, observations], new memory that is read again by `get_state`, and so not to
              be written to before the next step. A step that ends an episode returns its last.
            reward: as the task gives it, float32 [N]. 0 where an episode begins.
            terminated: bool [N], the task ended (a fall): what follows is worth 0.
            truncated: bool [N], the time limit was reached and the task had not ended: the observation's value
              counts.
            info: `game_over` bool [N], this step ended the episode, either way; `episode_return` float32 [N],
              the sum of its rewards so far; `episode_frames` int32 [N], its steps so far.

        Raises:
            ValueError: the actions have a wrong shape.
            RuntimeError: called before `reset` or `set_state`.
        """
        if not self._is_reset:
            raise RuntimeError("MuJoCo: step was called before reset.")
        n = self.num_envs
        actions = np.asarray(actions, np.float32)
        if actions.shape != (n, self.num_actions):
            raise ValueError(f"MuJoCo: actions must have shape ({n}, {self.num_actions}), got {actions.shape}.")
        controls = actions * self.action_scale
        observation = np.empty(self._observation.shape, np.float32)
        reward, episode_return = np.zeros(n, np.float32), np.zeros(n, np.float32)
        terminated, truncated, game_over = np.zeros(n, bool), np.zeros(n, bool), np.zeros(n, bool)
        episode_frames = np.zeros(n, np.int32)
        for row, task in enumerate(self._tasks):
            if self._over[row]:
                whole, _ = task.reset()
                observation[row] = whole[: self.state_size]
                self._over[row], self._steps[row], self._returns[row] = False, 0, 0.0
                continue
            whole, gain, ended, _, _ = task.step(controls[row])
            observation[row] = whole[: self.state_size]
            self._steps[row] = steps = self._steps[row] + 1
            self._returns[row] = total = self._returns[row] + float(gain)
            reward[row], episode_return[row], episode_frames[row] = gain, total, steps
            if ended or steps >= self.max_steps:
                (terminated if ended else truncated)[row] = game_over[row] = self._over[row] = True
        self._observation = observation
        info = {"game_over": game_over, "episode_return": episode_return, "episode_frames": episode_frames}
        return observation, reward, terminated, truncated, info

    def get_state(self) -> dict[str, Any]:
        """Returns what `set_state` needs to go on exactly here: numpy arrays and strings."""
        tasks = {}
        for row, task in enumerate(self._tasks):
            simulation = np.empty(mujoco.mj_stateSize(task.model, _STATE))
            mujoco.mj_getState(task.model, task.data, simulation, _STATE)
            poses = {name: getattr(task.data, name).copy() for name in _POSES}
            # 128-bit integers fit no array, so the generator's state is kept as text.
            generator = json.dumps(task.np_random.bit_generator.state)
            tasks[str(row)] = {"simulation": simulation, **poses, "generator": generator}
        return {
            "task": self.config.label,
            "seed": self._seed,
            "observation": self._observation.copy(),
            "over": np.array(self._over),
            "steps": np.array(self._steps),
            "returns": np.array(self._returns),
            "tasks": tasks,
        }

    def set_state(self, state: Mapping[str, Any]) -> np.ndarray:
        """Brings every simulation to where `get_state` was called: all that follows is equal to the bit.

        Args:
            state: from `get_state` of an environment of the same task, version and number of environments.

        Returns:
            The current observation, as `step` or `reset` returned it.

        Raises:
            ValueError: the state is of another task, of another number of environments, or shows other entries.
        """
        if str(state["task"]) != self.config.label:
            raise ValueError(f"MuJoCo: the state is of {state['task']}, the environment of {self.config.label}.")
        if len(state["tasks"]) != self.num_envs:
            raise ValueError(
                f"MuJoCo: the state is of {len(state['tasks'])} environments, the environment of {self.num_envs}."
            )
        shown = np.shape(state["observation"])[1]
        if shown != self.state_size:
            raise ValueError(f"MuJoCo: the state shows {shown} entries, the environment {self.state_size}.")
        for row, task in enumerate(self._tasks):
            kept = state["tasks"][str(row)]
            task.reset(seed=0)
            mujoco.mj_setState(task.model, task.data, kept["simulation"], _STATE)
            for name in _POSES:
                getattr(task.data, name)[:] = kept[name]
            task.np_random.bit_generator.state = json.loads(str(kept["generator"]))
        self._seed = int(state["seed"])
        self._observation = np.array(state["observation"], np.float32)
        self._over, self._steps, self._returns = (state[name].tolist() for name in ("over", "steps", "returns"))
        self._is_reset = True
        return self._observation.copy()

    def close(self, **kwargs: Any) -> None:
        """Frees the simulations."""
        for task in self._tasks:
            task.close()
