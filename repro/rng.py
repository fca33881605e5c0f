"""NumPy's generators of random numbers: their states in checkpoints, and samples that NumPy does not have."""

from __future__ import annotations

import json

import numpy as np


def pack_rng(rng: np.random.Generator) -> str:
    """The state of an rng as text: its 128-bit integers fit no array."""
    return json.dumps(rng.bit_generator.state)


def unpack_rng(rng: np.random.Generator, state: str) -> None:
    rng.bit_generator.state = json.loads(str(state))


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """A number in [low, high], both above 0, whose logarithm is uniform."""
    return float(np.exp(rng.uniform(*np.log((low, high)))))
