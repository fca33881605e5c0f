"""Point in the plane that actions push to the origin; an agent learns it in seconds."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.specs import BoundedTensorSpec
from tf_agents.trajectories import time_step as ts

STEPS, STRIDE, GOAL = 12, 0.4, 0.15


class PointMass:
    """`num_envs` points with the step contract of `repro.environments`.

    An action, clipped to [-1, 1], moves a point by `STRIDE` times the action; the reward is minus the distance that is
    left. An episode terminates within `GOAL` of the origin, and is truncated after `STEPS` steps.
    """

    def __init__(self, num_envs: int, seed: int) -> None:
        self.num_envs = num_envs
        self.num_actions = 2
        self.action_spec = BoundedTensorSpec((2,), tf.float32, -1.0, 1.0)
        self.time_step_spec = ts.time_step_spec(tf.TensorSpec((2,), tf.float32))
        self._random = np.random.default_rng(seed)
        self._position = np.zeros((num_envs, 2), np.float32)
        self._steps = np.zeros(num_envs, np.int32)
        self._return = np.zeros(num_envs, np.float32)
        self._over = np.ones(num_envs, bool)

    def reset(self, **_: Any) -> tuple[np.ndarray, dict[str, Any]]:
        self._begin(np.ones(self.num_envs, bool))
        return self._position.copy(), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        resetting = self._over.copy()
        self._position = self._position + np.float32(STRIDE) * np.clip(actions, -1.0, 1.0)
        self._steps += 1
        self._begin(resetting)
        distance = np.linalg.norm(self._position, axis=1)
        reward = np.where(resetting, 0.0, -distance).astype(np.float32)
        terminated = (distance < GOAL) & ~resetting
        truncated = (self._steps == STEPS) & ~terminated & ~resetting
        self._over = terminated | truncated
        self._return += reward
        info = {
            "game_over": self._over.copy(),
            "episode_return": self._return.copy(),
            "episode_frames": self._steps.copy(),
        }
        return self._position.copy(), reward, terminated, truncated, info

    def _begin(self, which: np.ndarray) -> None:
        count = np.count_nonzero(which)
        angle = self._random.uniform(0.0, 2.0 * np.pi, count)
        self._position[which] = 1.5 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        self._steps[which], self._return[which] = 0, 0.0
