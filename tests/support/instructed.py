"""Level in which only the instruction tells which action has a reward."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from repro.environments import specs

INSTRUCTIONS = np.array([[1, 2, 3], [2, 1, 3], [3, 0, 0]], np.int32)
"""Instruction of each action with a reward; the first two differ only in the order of their words."""
VOCABULARY = 4


class Instructed(gymnasium.vector.VectorEnv):
    """Episodes of one step with the contract of `repro.environments`: reward 1 for the asked action, 0 for the others.

    Args:
        num_envs: number of environments.
        seed: seed of the actions that are asked for.
        told: whether observations have the instruction; the scene is always the same.
    """

    single_action_space = spaces.Discrete(len(INSTRUCTIONS))
    metadata: dict[str, Any] = {}

    def __init__(self, num_envs: int, seed: int, told: bool) -> None:
        frames = spaces.Box(0, 255, (2, 2, 1), np.uint8)
        words = spaces.Box(0, VOCABULARY - 1, INSTRUCTIONS.shape[1:], np.int32)
        self.single_observation_space: gymnasium.Space = (
            spaces.Dict(frame=frames, instruction=words) if told else frames
        )
        self.num_envs, self.num_actions, self._told = num_envs, len(INSTRUCTIONS), told
        self.action_spec = specs.tensor_spec_of(self.single_action_space, "action")
        self._random = np.random.default_rng(seed)
        self._over = np.zeros(num_envs, bool)

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        self._asked = self._random.integers(self.num_actions, size=self.num_envs)
        return self._observe(), {}

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        begins, self._over = self._over, ~self._over
        reward = np.where(begins, 0.0, actions == self._asked).astype(np.float32)
        self._asked = np.where(begins, self._random.integers(self.num_actions, size=self.num_envs), self._asked)
        info = {
            "game_over": self._over.copy(),
            "episode_return": reward,
            "episode_frames": np.ones(self.num_envs, np.int32),
        }
        return self._observe(), reward, self._over.copy(), np.zeros(self.num_envs, bool), info

    def _observe(self) -> Any:
        frames = np.full((self.num_envs, 2, 2, 1), 255, np.uint8)
        return {"frame": frames, "instruction": INSTRUCTIONS[self._asked]} if self._told else frames
