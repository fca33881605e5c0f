"""Clipping of the rewards of 3D levels."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

REWARD_CLIPS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "none": lambda reward: reward,
    "unit": lambda reward: np.clip(reward, -1.0, 1.0),
    "optimistic": lambda reward: 0.3 * np.minimum(np.tanh(reward), 0) + 5.0 * np.maximum(np.tanh(reward), 0),
    "optimistic_released": lambda reward: np.where(reward < 0, 1.5, 5.0) * np.tanh(reward / 5.0),
}
"""Clips by name: `unit` is IMPALA's for single levels, `optimistic` that of Figure C.1, and `optimistic_released` that
of IMPALA's released code."""


def check_reward_clip(kind: str, clip: str) -> None:
    """Checks the name of a clip.

    Args:
        kind: kind of environment, for the message.
        clip: name of a clip, one of `REWARD_CLIPS`.

    Raises:
        ValueError: no clip has this name.
    """
    if clip not in REWARD_CLIPS:
        raise ValueError(f"{kind}: reward_clip must be one of {', '.join(REWARD_CLIPS)}, got {clip!r}.")


def clip_rewards(clip: str, reward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns rewards for learning and rewards for observations, both float32 [N].

    Rewards in observations are clipped to [-1, 1] with any clip, and not clipped with `none`.

    Args:
        clip: name of a clip, one of `REWARD_CLIPS`.
        reward: rewards of the environment, float32 [N].
    """
    seen = "none" if clip == "none" else "unit"
    return REWARD_CLIPS[clip](reward).astype(np.float32), REWARD_CLIPS[seen](reward)
