"""One game as a video."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from tf_agents.policies import tf_policy

from repro.acting.rollout import CompiledPolicy, Episode, Rollout
from repro.environments.batched import BatchedEnvironment

SCALE = 4
"""Pixels on the screen per pixel that the agent sees."""

STEPS_PER_SECOND = 15
"""Agent steps; of four frames each, at the console's 60 frames a second."""


def record_game(policy: tf_policy.TFPolicy, environment: BatchedEnvironment, seed: int, path: Path) -> float:
    """Plays one game and writes what the agent saw last at each step to an .mp4 file; returns the game's return.

    Args:
        policy: chooses the actions.
        environment: of one game, with image observations [1, H, W, C].
        seed: of the policy's sampling.
        path: overwritten.

    Raises:
        OSError: its folder cannot be made.
        ValueError: the file cannot be written, or the observations are no images.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    rollout = Rollout(environment, CompiledPolicy(policy, 1, seed))
    rollout.reset()
    if isinstance(rollout.observation, np.ndarray) and rollout.observation.ndim != 4:
        raise ValueError("a video shows what the agent sees, and this one sees no images.")
    height, width = newest_frame(rollout.observation).shape
    size = (width * SCALE, height * SCALE)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), STEPS_PER_SECOND, size)
    if not writer.isOpened():
        raise ValueError(f"--video={path} cannot be written.")
    finished: list[tuple[int, Episode]] = []
    while not finished:
        picture = cv2.resize(newest_frame(rollout.observation), size, interpolation=cv2.INTER_NEAREST)
        writer.write(cv2.cvtColor(picture, cv2.COLOR_GRAY2BGR))
        finished = rollout.step().episodes
    writer.release()
    return finished[0][1].score


def newest_frame(observation: np.ndarray | dict[str, np.ndarray]) -> np.ndarray:
    """The last grey frame of the first game's stack, uint8 [H, W]."""
    frames = observation["frame"] if isinstance(observation, dict) else observation
    return np.ascontiguousarray(frames[0, ..., -1])
