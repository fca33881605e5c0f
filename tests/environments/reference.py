"""One Atari game preprocessed by gymnasium's own wrappers, as an independent implementation of the protocol."""

from __future__ import annotations

from typing import Any

import ale_py
import gymnasium
import numpy as np
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

PROTOCOL: dict[str, Any] = {
    "task": "pong",
    "frame_skip": 4,
    "max_pool": 2,
    "grey": True,
    "height": 84,
    "width": 84,
    "stack": 4,
    "noop_max": 30,
    "life_loss_ends": True,
    "reward_clip": 1.0,
    "fire_on_reset": False,
    "sticky_probability": 0.0,
    "full_action_set": False,
    "max_frames": 108_000,
    "time_limit_is_terminal": True,
    "last_action_and_reward": False,
}


class _Beginning(gymnasium.Wrapper):
    """Presses FIRE once if asked, then waits for a given number of emulator frames, where a game begins."""

    def __init__(self, env: gymnasium.Env, fire: bool) -> None:
        super().__init__(env)
        self.fire = fire
        self.noops = 0

    def reset(self, **kwargs: Any) -> Any:
        result = self.env.reset(**kwargs)
        if self.fire:
            self.env.step(self.unwrapped.get_action_meanings().index("FIRE"))
        for _ in range(self.noops):
            self.env.step(0)
        return result


class _LastFrame(gymnasium.Wrapper):
    """Holds an action for some frames and shows the last of them."""

    def __init__(self, env: gymnasium.Env, frames: int) -> None:
        super().__init__(env)
        self.frames = frames

    def step(self, action: Any) -> Any:
        total = 0.0
        for _ in range(self.frames):
            observation, reward, over, truncated, info = self.env.step(action)
            total += float(reward)
            if over:
                break
        return observation, total, over, truncated, info


class ReferenceGame:
    """One game of `gymnasium.make`, with gymnasium's preprocessing and frame stack over it.

    Args:
        protocol: the fields of `PROTOCOL`.
        seed: ALE's seed.
    """

    def __init__(self, protocol: dict[str, Any], seed: int) -> None:
        gymnasium.register_envs(ale_py)
        name = protocol["task"].title().replace("_", "")
        env = gymnasium.make(
            f"ALE/{name}-v5",
            frameskip=1,
            repeat_action_probability=protocol["sticky_probability"],
            full_action_space=protocol["full_action_set"],
            disable_env_checker=True,
        )
        self._beginning = _Beginning(env, protocol["fire_on_reset"])
        # The preprocessing pools whenever it skips frames itself.
        pools = protocol["max_pool"] == 2
        preprocessed = AtariPreprocessing(
            self._beginning if pools else _LastFrame(self._beginning, protocol["frame_skip"]),
            noop_max=0,
            frame_skip=protocol["frame_skip"] if pools else 1,
            screen_size=(protocol["width"], protocol["height"]),
            grayscale_obs=protocol["grey"],
        )
        self._env = FrameStackObservation(preprocessed, protocol["stack"], padding_type="zero")
        self._ale = env.unwrapped.ale
        self._ale.setInt("random_seed", seed)
        env.unwrapped.load_game()

    def skip_game(self) -> None:
        """Resets the emulator and plays nothing."""
        self._ale.reset_game()

    def reset(self, noops: int) -> np.ndarray:
        """Begins a game with so many no-ops; returns the observation [H, W, C]."""
        self._beginning.noops = noops
        frames, _ = self._env.reset()
        self.lives = self._ale.lives()
        self.first_frame = self._ale.getEpisodeFrameNumber()
        self.episode_return = 0.0
        return _channels_last(frames)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool]:
        """Returns observation [H, W, C], unclipped reward, whether the game is over, whether a life was lost."""
        frames, reward, over, _, info = self._env.step(action)
        lost = info["lives"] < self.lives and not over
        self.lives = info["lives"]
        self.episode_return += float(reward)
        return _channels_last(frames), float(reward), over, lost

    @property
    def frames(self) -> int:
        """Emulator frames of this game after its no-ops."""
        return self._ale.getEpisodeFrameNumber() - self.first_frame


def _channels_last(frames: np.ndarray) -> np.ndarray:
    if frames.ndim == 3:
        return np.stack(list(frames), axis=-1)
    return np.concatenate(list(frames), axis=-1)
