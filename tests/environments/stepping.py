"""Helpers that tests of batched environments share."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from repro.training import checkpoint


def flat(step: tuple) -> dict[str, np.ndarray]:
    observation, reward, terminated, truncated, info = step
    named = {"observation": observation, "reward": reward, "terminated": terminated, "truncated": truncated}
    return {**named, **info}


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    """As a checkpoint keeps it: flattened, saved and loaded without pickle, and nested again."""
    file = io.BytesIO()
    np.savez(file, **dict(checkpoint._flatten(state)))
    file.seek(0)
    with np.load(file, allow_pickle=False) as loaded:
        return checkpoint._unflatten(dict(loaded))
