"""The contract between environments and the runtime."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from tf_agents.specs import BoundedTensorSpec
from tf_agents.trajectories import time_step as ts


class BatchedEnvironment(Protocol):
    """A batched gymnasium `VectorEnv` of `num_envs` games with its TF-Agents specs.

    A game that is over stays at its last observation for one step: the next step ignores that game's action and
    returns the first observation of a new one, with reward 0. An episode may end for learning (a lost life)
    without a reset.
    """

    num_envs: int
    num_actions: int

    @property
    def time_step_spec(self) -> ts.TimeStep:
        """Of one environment, without the batch."""

    @property
    def action_spec(self) -> BoundedTensorSpec:
        """Of one environment, without the batch."""

    def reset(self) -> tuple[Any, dict[str, Any]]:
        """Starts a game everywhere; returns observations [N, ...] and an info."""

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Steps every game.

        Args:
            actions: int32 [N].

        Returns:
            observation: [N, ...]; the memory may be used again by the next step.
            reward: for learning, float32 [N].
            terminated: bool [N], the episode ended for learning; the value of what follows is 0.
            truncated: bool [N], cut by a time limit; the value of the observation counts.
            info: `game_over` bool [N], and where it is true `episode_return` float32 [N], the whole game's
                unclipped return, and `episode_frames` int32 [N].
        """

    def get_state(self) -> dict[str, Any]:
        """Nested dictionaries of arrays, numbers and strings from which `set_state` continues bit for bit."""

    def set_state(self, state: dict[str, Any]) -> Any:
        """Restores; returns the current observations."""
