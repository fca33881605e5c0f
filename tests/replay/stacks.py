"""Stacks of frames as the code stores them."""

from __future__ import annotations

import numpy as np

from repro.replay.frame_stacks import OLDER, Frames


def to_frames(stacks: np.ndarray) -> Frames:
    """`Frames` of the stacks of rows that follow each other, uint8 [B, rows, height, width, STACK]."""
    older = np.moveaxis(stacks[:, 0, ..., :OLDER], -1, 1)
    return Frames(np.concatenate([older, stacks[..., -1]], axis=1))
