"""Catch: a ball falls and a paddle must be under it; an agent learns it in seconds."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import tensorflow as tf
from tf_agents.specs import BoundedTensorSpec
from tf_agents.trajectories import time_step as ts

ROWS, COLUMNS = 6, 5


class Catch(gymnasium.vector.VectorEnv):
    """`num_envs` games with the step contract of `repro.environments`; returns are -1 or 1."""

    def __init__(self, num_envs: int, seed: int) -> None:
        self.num_envs = num_envs
        self.num_actions = 3
        self.action_spec = BoundedTensorSpec((), tf.int32, 0, 2)
        self.time_step_spec = ts.time_step_spec(BoundedTensorSpec((ROWS, COLUMNS, 1), tf.uint8, 0, 255))
        self._random = np.random.default_rng(seed)
        self._ball = np.zeros((num_envs, 2), np.int64)
        self._paddle = np.zeros(num_envs, np.int64)
        self._over = np.ones(num_envs, bool)

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[np.ndarray, dict[str, Any]]:
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self._begin(np.ones(self.num_envs, bool))
        return self._observe(), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        resetting = self._over.copy()
        self._paddle = np.clip(self._paddle + actions - 1, 0, COLUMNS - 1)
        self._ball[:, 0] += 1
        self._begin(resetting)
        over = (self._ball[:, 0] == ROWS - 1) & ~resetting
        caught = np.where(self._ball[:, 1] == self._paddle, 1.0, -1.0)
        reward = np.where(over, caught, 0.0).astype(np.float32)
        self._over = over
        info = {
            "game_over": over,
            "episode_return": reward,
            "episode_frames": np.full(self.num_envs, ROWS - 1, np.int32),
        }
        return self._observe(), reward, over, np.zeros_like(over), info

    def get_state(self) -> dict[str, Any]:
        bits = self._random.bit_generator.state["state"]
        return {
            "ball": self._ball.copy(),
            "paddle": self._paddle.copy(),
            "over": self._over.copy(),
            "random": {key: str(value) for key, value in bits.items()},
        }

    def set_state(self, state: dict[str, Any]) -> np.ndarray:
        self._ball, self._paddle, self._over = state["ball"], state["paddle"], state["over"]
        bits = self._random.bit_generator.state
        bits["state"] = {key: int(value) for key, value in state["random"].items()}
        self._random.bit_generator.state = bits
        return self._observe()

    def _begin(self, which: np.ndarray) -> None:
        """Begins new games; the random generator is used only for these."""
        for i in np.flatnonzero(which):
            self._ball[i] = 0, self._random.integers(COLUMNS)
            self._paddle[i] = COLUMNS // 2
        self._over[which] = False

    def _observe(self) -> np.ndarray:
        frames = np.zeros((self.num_envs, ROWS, COLUMNS, 1), np.uint8)
        every = np.arange(self.num_envs)
        frames[every, self._ball[:, 0], self._ball[:, 1]] = 255
        frames[every, ROWS - 1, self._paddle] = 255
        return frames
