"""Batches of tasks that are stepped by the calling thread, with the state of their episodes."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from repro.aligned import aligned_empty
from repro.environments.batched import check_reset

DEFAULT_FPS = 30
"""Number of steps in a second of play for tasks without `render_fps`."""


class SteppedEnvironment(gymnasium.vector.VectorEnv):
    """A batch of one task, stepped by the calling thread. Subclasses begin, step and save a task.

    Episodes follow each other as in Gymnasium's NEXT_STEP mode: the step after the end of an episode ignores its action
    and returns the first observation of the next episode with reward 0.

    An instance may be used by one thread at a time; different threads may step different instances.

    Args:
        kind: kind of environment, for messages.
        label: name of the task, which a saved state shares with environments that can restore it.
        tasks: the N simulations of the task, at least 1.
        observation_space, action_space: the learner's spaces for one task.
        step_limit: number of steps after which an episode is cut; 0 for no limit.
        seed: seed of the batch, at least 0.

    Attributes:
        num_actions: number of Discrete actions, or of components of a Box action.
    """

    def __init__(
        self,
        kind: str,
        label: str,
        tasks: Sequence[Any],
        observation_space: gymnasium.spaces.Box,
        action_space: gymnasium.Space,
        step_limit: int,
        seed: int,
    ) -> None:
        from tf_agents.trajectories import time_step as ts  # names of tasks are found without TensorFlow

        from repro.environments import specs

        self.num_envs = n = len(tasks)
        self.single_observation_space, self.single_action_space = observation_space, action_space
        self.observation_space, self.action_space = batch_space(observation_space, n), batch_space(action_space, n)
        self.num_actions = gymnasium.spaces.utils.flatdim(action_space)
        fps = tasks[0].metadata.get("render_fps") or DEFAULT_FPS
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_fps": fps}
        self.observation_spec = specs.tensor_spec_of(observation_space, "observation")
        self.action_spec = specs.tensor_spec_of(action_space, "action")
        self.time_step_spec = ts.time_step_spec(self.observation_spec)

        self._kind, self._label = kind, label
        self._tasks = list(tasks)
        self._action_dtype = np.int32 if isinstance(action_space, gymnasium.spaces.Discrete) else np.float32
        self._step_limit = step_limit or math.inf
        self._seed = seed
        self._is_reset = False
        self._observation = np.zeros((n, *observation_space.shape), observation_space.dtype)
        # Lists, because Python's numbers are several times faster than elements of arrays.
        self._over = [False] * n
        self._steps = [0] * n
        self._returns = [0.0] * n

    def _episode_seed(self, row: int) -> int:
        """Returns the seed of one task's rng for `reset`."""
        return int(np.random.SeedSequence((self._seed, row)).generate_state(1)[0])

    @abc.abstractmethod
    def _begin(self, row: int, seed: int | None) -> np.ndarray:
        """Begins an episode of one task; returns its first observation in the learner's space.

        Args:
            row: index of the task.
            seed: new seed of the task's rng; None continues with the current rng.
        """

    @abc.abstractmethod
    def _decode(self, actions: np.ndarray) -> Sequence[Any] | np.ndarray:
        """Checks the learner's actions [N, ...]; returns one action for each task.

        Raises:
            ValueError: an action is outside its range.
        """

    def _dispatch(self, actions: Sequence[Any] | np.ndarray | None) -> None:
        """Starts the next step of all tasks that run in other processes, for which `_begin` and `_advance` then wait.

        Args:
            actions: one action for each task, as `_decode` returns them; None if all tasks begin an episode.
        """

    @abc.abstractmethod
    def _advance(self, row: int, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        """Steps a task; returns the observation in the learner's space, reward, terminated, truncated by the task."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode in every task and seeds the task's rng.

        Args:
            seed: new seed of the batch; None uses the current seed again.
            options: no options are supported.

        Returns:
            observation: [N, ...].
            info: empty.

        Raises:
            ValueError: an option was given, the seed is negative, or an observation does not fit its space.
        """
        check_reset(self._kind, seed, options)
        if seed is not None:
            self._seed = seed
        n = self.num_envs
        self._dispatch(None)
        for row in range(n):
            self._observation[row] = self._begin(row, self._episode_seed(row))
        self._over, self._steps, self._returns = [False] * n, [0] * n, [0.0] * n
        self._is_reset = True
        return self._observation.copy(), {}

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Steps every task.

        Args:
            actions: the learner's actions, int32 [N] or float32 [N, A]; ignored where the previous step ended an
              episode.

        Returns:
            observation: [N, ...], in new memory. Do not write to it before the next step, since `get_state` reads it.
              The step that ends an episode returns its last observation.
            reward: the task's reward, float32 [N]; 0 where an episode begins.
            terminated: bool [N], whether the task ended, for example by a fall; the value of what follows is then 0.
            truncated: bool [N], whether a time limit or the task cut the episode without ending it; the value of the
              observation then counts.
            info: `game_over` bool [N], whether this step ended the episode in either way; `episode_return`
              float32 [N], the sum of its rewards so far; `episode_frames` int32 [N], the number of its steps so far.

        Raises:
            ValueError: the actions have a wrong shape or range, or an observation does not fit its space.
            RuntimeError: `step` was called before `reset` or `set_state`.
        """
        if not self._is_reset:
            raise RuntimeError(f"{self._kind}: step was called before reset.")
        actions = np.asarray(actions, self._action_dtype)
        if actions.shape != self.action_space.shape:
            shape = self.action_space.shape
            raise ValueError(f"{self._kind}: actions must have shape {shape}, got {actions.shape}.")
        decoded = self._decode(actions)
        self._dispatch(decoded)
        n = self.num_envs
        observation = aligned_empty(self._observation.shape, self._observation.dtype)
        reward, episode_return = np.zeros(n, np.float32), np.zeros(n, np.float32)
        terminated, truncated, game_over = np.zeros(n, bool), np.zeros(n, bool), np.zeros(n, bool)
        episode_frames = np.zeros(n, np.int32)
        for row in range(n):
            if self._over[row]:
                observation[row] = self._begin(row, None)
                self._over[row], self._steps[row], self._returns[row] = False, 0, 0.0
                continue
            observation[row], step_reward, step_terminated, step_truncated = self._advance(row, decoded[row])
            self._steps[row] = steps = self._steps[row] + 1
            self._returns[row] = total = self._returns[row] + float(step_reward)
            reward[row], episode_return[row], episode_frames[row] = step_reward, total, steps
            if step_terminated or step_truncated or steps >= self._step_limit:
                (terminated if step_terminated else truncated)[row] = game_over[row] = self._over[row] = True
        self._observation = observation
        info = {"game_over": game_over, "episode_return": episode_return, "episode_frames": episode_frames}
        return observation, reward, terminated, truncated, info

    def get_state(self) -> dict[str, Any]:
        """Returns what `set_state` needs to continue exactly from here: NumPy arrays, numbers and strings."""
        return {
            "task": self._label,
            "seed": self._seed,
            "observation": self._observation.copy(),
            "over": np.array(self._over),
            "steps": np.array(self._steps),
            "returns": np.array(self._returns),
        }

    def set_state(self, state: Mapping[str, Any]) -> Any:
        """Restores the state of the episodes from `get_state`; subclasses also restore the tasks.

        Args:
            state: state from `get_state` of a batch of the same task and size.

        Returns:
            The current observation, as `step` or `reset` returned it.

        Raises:
            ValueError: the state is of another task, another number of environments or other observations.
        """
        kind, observation = self._kind, np.asarray(state["observation"])
        if str(state["task"]) != self._label:
            raise ValueError(f"{kind}: the state is of {state['task']}, the environment is {self._label}.")
        if len(observation) != self.num_envs:
            raise ValueError(f"{kind}: the state is of {len(observation)} environments, the batch has {self.num_envs}.")
        if observation.shape != self._observation.shape:
            raise ValueError(
                f"{kind}: the state has observations of shape {observation.shape[1:]}, "
                f"the environment of {self._observation.shape[1:]}."
            )
        self._seed = int(state["seed"])
        self._observation = observation.astype(self._observation.dtype)
        self._over, self._steps, self._returns = (
            np.asarray(state[name]).tolist() for name in ("over", "steps", "returns")
        )
        self._is_reset = True
        return self._observation.copy()

    def render_first(self) -> np.ndarray:
        """Returns an RGB picture of the current state of the first task, uint8 [H, W, 3].

        Raises:
            RenderError: the task cannot be rendered.
        """
        from repro.environments.rendering import render_task

        return render_task(self._tasks[0], f"{self._kind}: {self._label}")

    def close(self, **kwargs: Any) -> None:
        """Closes every task."""
        for task in self._tasks:
            task.close()
