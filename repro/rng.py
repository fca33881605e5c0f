"""Random number generators of NumPy: their states in checkpoints, and log-uniform samples."""

from __future__ import annotations

import json

import numpy as np


def pack_rng(rng: np.random.Generator) -> str:
    """Returns the state of a random number generator as text, since its 128-bit integers do not fit into an array."""
    return json.dumps(rng.bit_generator.state)


def unpack_rng(rng: np.random.Generator, state: str) -> None:
    """Restores a state from `pack_rng`."""
    rng.bit_generator.state = json.loads(str(state))


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """Returns a sample from [low, high], both above 0, whose logarithm is uniform."""
    return float(np.exp(rng.uniform(*np.log((low, high)))))
