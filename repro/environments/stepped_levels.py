"""The common base of batches of 3D levels: frames, numbered episodes and clipped rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from repro.environments.reward_clips import clip_rewards
from repro.environments.stepped import SteppedEnvironment


class SteppedLevels(SteppedEnvironment):
    """A batch of one 3D level with numbered episodes, so that none is played twice.

    Args:
        kind, label, tasks, step_limit, seed: as for `SteppedEnvironment`.
        size: height and width of a frame in pixels.
        num_actions: number of actions of the level.
        frame_skip: number of the engine's frames for which an action is held.
        reward_clip: one of `reward_clips.REWARD_CLIPS`.
    """

    def __init__(
        self,
        kind: str,
        label: str,
        tasks: Sequence[Any],
        size: tuple[int, int],
        num_actions: int,
        step_limit: int,
        seed: int,
        frame_skip: int,
        reward_clip: str,
    ) -> None:
        frames = spaces.Box(0, 255, (*size, 3), np.uint8)
        super().__init__(kind, label, tasks, frames, spaces.Discrete(num_actions), step_limit, seed)
        self._frame_skip, self._reward_clip = frame_skip, reward_clip
        self._episodes = [0] * len(tasks)  # number of episodes begun

    @property
    def state_size(self) -> int:
        """Raises ValueError, because observations are images."""
        raise ValueError(f"{self._kind}: levels are observed by images, and this agent needs vectors.")

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Steps every level; see `SteppedEnvironment.step`.

        Rewards are clipped as configured, while `episode_return` sums unclipped rewards. `episode_frames` counts the
        engine's frames, with the full frame skip for an episode's last action. The info also contains `last_reward`,
        float32 [N], the reward for observations: clipped to [-1, 1] with any clip.

        Raises:
            ValueError: the actions have a wrong shape or range.
            RuntimeError: `step` was called before `reset` or `set_state`, or a level fails repeatedly.
        """
        frames, reward, terminated, truncated, info = super().step(actions)
        info["episode_frames"] *= self._frame_skip
        reward, info["last_reward"] = clip_rewards(self._reward_clip, reward)
        return frames, reward, terminated, truncated, info

    def get_counters(self) -> dict[str, np.ndarray]:
        """Returns the number of episodes that each environment has begun; may be called while another thread steps."""
        return {"episodes": np.array(self._episodes)}

    def set_counters(self, counters: Mapping[str, np.ndarray]) -> None:
        """Continues after the episodes that `get_counters` counted; call it before `reset`."""
        self._episodes = np.asarray(counters["episodes"]).tolist()

    def render_first(self) -> np.ndarray:
        """Returns the first level's frame as the agent observes it, uint8 [height, width, 3]."""
        return self._observation[0].copy()

    def _decode(self, actions: np.ndarray) -> Sequence[int]:
        if actions.min() < 0 or actions.max() >= self.num_actions:
            raise ValueError(f"{self._kind}: actions must lie in [0, {self.num_actions}), got {actions}.")
        return actions.tolist()
