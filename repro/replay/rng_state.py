"""States of NumPy generators in checkpoints."""

from __future__ import annotations

import json

import numpy as np


def pack_rng(rng: np.random.Generator) -> str:
    """The state of an rng as text: its 128-bit integers fit no array."""
    return json.dumps(rng.bit_generator.state)


def unpack_rng(rng: np.random.Generator, state: str) -> None:
    rng.bit_generator.state = json.loads(str(state))
