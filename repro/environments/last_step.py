"""Observations with the last action and its reward, as inputs of recurrent networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from tf_agents.trajectories import time_step as ts

from repro.environments import specs
from repro.environments.batched import CountsEpisodes, VectorEnvironment


class WithLastStep:
    """Wraps a batch so that observations are dicts of `frame`, the wrapped observation, `last_action`, `last_reward`.

    If the wrapped observations are dicts, their entries take the place of `frame`.

    The first observation of an episode has action 0 and reward 0. The last reward is that of the wrapped step, or
    `last_reward` of its info if observations have another reward. Everything else is as in `BatchedEnvironment`.

    Args:
        env: batch of environments with Discrete actions.

    Raises:
        ValueError: the actions are not Discrete.
    """

    def __init__(self, env: VectorEnvironment) -> None:
        if not isinstance(env.single_action_space, gymnasium.spaces.Discrete):
            raise ValueError("env.last_action_and_reward needs an environment with Discrete actions.")
        self._env = env
        self.num_envs, self.num_actions, self.action_spec = env.num_envs, env.num_actions, env.action_spec
        self.metadata = env.metadata
        own = env.single_observation_space
        entries: dict[str, gymnasium.Space] = {
            **(own.spaces if isinstance(own, gymnasium.spaces.Dict) else {"frame": own}),
            "last_action": env.single_action_space,
            "last_reward": gymnasium.spaces.Box(-np.inf, np.inf, (), np.float32),
        }
        space = gymnasium.spaces.Dict(entries)
        self.time_step_spec = ts.time_step_spec(specs.tensor_spec_of(space, "observation"))
        self._over = np.zeros(env.num_envs, bool)
        self._last_action = np.zeros(env.num_envs, np.int32)
        self._last_reward = np.zeros(env.num_envs, np.float32)

    def reset(self, *, seed: int | None = None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        obs, info = self._env.reset(seed=seed)
        for array in (self._over, self._last_action, self._last_reward):
            array[:] = 0
        return self._observe(obs), info

    def step(
        self, actions: np.ndarray
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self._env.step(actions)
        self._last_action = np.where(self._over, 0, actions).astype(np.int32)
        self._last_reward = info.get("last_reward", reward).copy()  # 0 where an episode begins
        self._over = info["game_over"].copy()
        return self._observe(obs), reward, terminated, truncated, info

    def get_state(self) -> dict[str, Any]:
        own = {"over": self._over, "last_action": self._last_action, "last_reward": self._last_reward}
        return {"env": self._env.get_state(), **{name: array.copy() for name, array in own.items()}}

    def set_state(self, state: Mapping[str, Any]) -> dict[str, np.ndarray]:
        obs = self._env.set_state(state["env"])
        self._over = np.array(state["over"], bool)
        self._last_action = np.array(state["last_action"], np.int32)
        self._last_reward = np.array(state["last_reward"], np.float32)
        return self._observe(obs)

    def get_counters(self) -> dict[str, np.ndarray]:
        """Returns the counters of the wrapped environment (`CountsEpisodes`); {} if it has none."""
        return self._env.get_counters() if isinstance(self._env, CountsEpisodes) else {}

    def set_counters(self, counters: Mapping[str, np.ndarray]) -> None:
        if isinstance(self._env, CountsEpisodes):
            self._env.set_counters(counters)

    def render_first(self) -> np.ndarray:
        return self._env.render_first()

    def close(self, **kwargs: Any) -> None:
        """Closes every environment of the batch."""
        self._env.close(**kwargs)

    def _observe(self, obs: np.ndarray | dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        own = obs if isinstance(obs, dict) else {"frame": obs}
        return own | {"last_action": self._last_action.copy(), "last_reward": self._last_reward.copy()}
