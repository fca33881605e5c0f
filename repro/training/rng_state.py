"""States of NumPy generators in checkpoints."""

from __future__ import annotations

import json

import numpy as np


def pack_rng(generator: np.random.Generator) -> str:
    """The state of a generator as text: its 128-bit integers fit no array."""
    return json.dumps(generator.bit_generator.state)


def unpack_rng(generator: np.random.Generator, state: str) -> None:
    generator.bit_generator.state = json.loads(str(state))
