"""What a learner gets of the rewards of 3D levels."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

REWARD_CLIPS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "none": lambda reward: reward,
    "unit": lambda reward: np.clip(reward, -1.0, 1.0),
    "optimistic": lambda reward: 0.3 * np.minimum(np.tanh(reward), 0) + 5.0 * np.maximum(np.tanh(reward), 0),
    "optimistic_released": lambda reward: np.where(reward < 0, 1.5, 5.0) * np.tanh(reward / 5.0),
}
"""IMPALA's for single levels, Figure C.1's, and that of its released code."""


def check_reward_clip(kind: str, clip: str) -> None:
    """Refuses the name of no clip.

    Args:
        kind: of environment, for the message.
        clip: one of `REWARD_CLIPS`.

    Raises:
        ValueError: it is another name.
    """
    if clip not in REWARD_CLIPS:
        raise ValueError(f"{kind}: reward_clip must be one of {', '.join(REWARD_CLIPS)}, got {clip!r}.")


def clip_rewards(clip: str, reward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns rewards as they are learned from, float32 [N], and as observations show the last ones.

    Observations have them clipped to [-1, 1] wherever there is a clip, whichever it is.

    Args:
        clip: one of `REWARD_CLIPS`.
        reward: of the environment, float32 [N].
    """
    seen = "none" if clip == "none" else "unit"
    return REWARD_CLIPS[clip](reward).astype(np.float32), REWARD_CLIPS[seen](reward)
