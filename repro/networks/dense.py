"""A torso of dense layers for vector observations."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from repro.networks.atari import Torso
from repro.networks.initializers import TruncatedNormalFanIn, distinct_seeds


def dense_torso(units: Sequence[int], seed: int) -> Torso:
    """Returns a torso from vectors, float32 [N, S], to features, float32 [N, units[-1]].

        x_0 = observation,    x_l = ReLU(W_l x_(l-1) + b_l)

    Weights begin as a truncated normal of std 1 / sqrt(fan in), biases at 0, as in `repro.networks.atari`. Observations
    are not scaled.

    Args:
        units: width of each layer, one or more, each at least 1.
        seed: integer >= 0 from which all weights are sampled.

    Raises:
        ValueError: there is no layer, or one without units.
    """
    if not units or min(units) < 1:
        raise ValueError(f"dense_torso: units must have one layer or more, each of 1 unit or more, got {tuple(units)}.")
    seeds = distinct_seeds(seed)
    layers = [
        tf.keras.layers.Dense(width, "relu", kernel_initializer=TruncatedNormalFanIn(next(seeds))) for width in units
    ]
    return Torso(layers, name="dense_torso")
