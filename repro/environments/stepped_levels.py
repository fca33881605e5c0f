"""What batches of 3D levels have in common: frames, numbered episodes, and rewards that are clipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from repro.environments.reward_clips import clip_rewards
from repro.environments.stepped import SteppedEnvironment


class SteppedLevels(SteppedEnvironment):
    """A batch of one 3D level, whose episodes are numbered, so that none is played twice.

    Args:
        kind, label, tasks, step_limit, seed: as for `SteppedEnvironment`.
        size: height and width of a frame, in pixels.
        num_actions: of the level.
        frame_skip: frames of the engine for which an action is held.
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
        self._episodes = [0] * len(tasks)  # begun

    @property
    def state_size(self) -> int:
        """Raises ValueError: observations are images."""
        raise ValueError(f"{self._kind}: levels are observed by images, and this agent needs vectors.")

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Steps every level; see `SteppedEnvironment.step`.

        Rewards are clipped as the config says, `episode_return` has them as they are. `episode_frames` counts those of
        the engine, an episode's last action in full. The info also has `last_reward`, float32 [N], the reward as an
        observation shows it: clipped to [-1, 1] if rewards are clipped, in whichever way.

        Raises:
            ValueError: the actions have a wrong shape or range.
            RuntimeError: called before `reset` or `set_state`; or a level fails again and again.
        """
        frames, reward, terminated, truncated, info = super().step(actions)
        info["episode_frames"] *= self._frame_skip
        reward, info["last_reward"] = clip_rewards(self._reward_clip, reward)
        return frames, reward, terminated, truncated, info

    def get_counters(self) -> dict[str, np.ndarray]:
        """How many episodes each environment has begun; may be called while another thread steps."""
        return {"episodes": np.array(self._episodes)}

    def set_counters(self, counters: Mapping[str, np.ndarray]) -> None:
        """Goes on behind the episodes of `get_counters`; to be called before `reset`."""
        self._episodes = np.asarray(counters["episodes"]).tolist()

    def render_first(self) -> np.ndarray:
        """Returns the frame that the agent sees of the first level, uint8 [height, width, 3]."""
        return self._observation[0].copy()

    def _decode(self, actions: np.ndarray) -> Sequence[int]:
        if actions.min() < 0 or actions.max() >= self.num_actions:
            raise ValueError(f"{self._kind}: actions must lie in [0, {self.num_actions}), got {actions}.")
        return actions.tolist()
