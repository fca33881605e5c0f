"""Records one game of a policy as a video."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tf_agents.policies import tf_policy

from repro.acting.rollout import CompiledPolicy, Episode, Rollout
from repro.acting.video_file import LIMITS, resize, write_video
from repro.environments.batched import BatchedEnvironment

MAX_SECONDS = 30
"""Largest length of a video; a longer game is cut, but still played to its end."""

MAX_FPS = 30
"""Largest frame rate; if a second has more steps, only every second or third of them is shown, and so on."""


class Recording(NamedTuple):
    """A recorded game.

    score: return of the game.
    seconds: length of the whole game, at the environment's own speed.
    shown_seconds: length of the part that the video shows, from the beginning.
    """

    score: float
    seconds: float
    shown_seconds: float

    @property
    def extent(self) -> str:
        """What the video shows, in words."""
        if self.shown_seconds < self.seconds:
            return f"the first {_count(self.shown_seconds)} of the {_count(self.seconds)} seconds of an episode"
        return f"an episode of {_count(self.seconds)} seconds"


def _count(seconds: float) -> str:
    """Seconds as text, with two digits if they are few."""
    return f"{seconds:.0f}" if seconds >= 9.5 else f"{seconds:.2g}"


def record_game(policy: tf_policy.TFPolicy, environment: BatchedEnvironment, seed: int, path: Path) -> Recording:
    """Plays one game and writes it to a video, at the speed of the environment.

    Args:
        policy: chooses the actions.
        environment: batch of one environment.
        seed: seed of the policy's sampling.
        path: ends in one of `video_file.CODECS`; overwritten.

    Raises:
        OSError: the folder of `path` cannot be made.
        RenderError: the environment cannot be shown.
        ValueError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    rollout = Rollout(environment, CompiledPolicy(policy, 1, seed))
    rollout.reset()
    steps_per_second = environment.metadata["render_fps"]
    stride = math.ceil(steps_per_second / MAX_FPS)
    size = LIMITS[0][0]
    pictures: list[np.ndarray] = []
    finished: list[tuple[int, Episode]] = []
    steps = 0
    while not finished:
        if steps % stride == 0 and steps < MAX_SECONDS * steps_per_second:
            pictures.append(resize(environment.render_first(), size))
        finished = rollout.step().episodes
        steps += 1
    if steps < MAX_SECONDS * steps_per_second:
        pictures.append(resize(environment.render_first(), size))
    fps = steps_per_second / stride
    shown = write_video(path, pictures, fps)
    seconds = steps / steps_per_second
    return Recording(finished[0][1].score, seconds, min(seconds, shown / fps))
