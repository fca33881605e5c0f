"""Torsos by the names that configurations give them."""

from __future__ import annotations

from collections.abc import Collection

import ml_collections
import tensorflow as tf

from repro.networks import atari
from repro.networks.dense import dense_torso

TORSOS = {
    "shallow": atari.shallow_torso,
    "deep": atari.deep_torso,
    "nature": atari.nature_torso,
    "nature_convolutions": atari.nature_convolutions,
}


def make_torso(network: ml_collections.ConfigDict, seed: int, choices: Collection[str]) -> tf.keras.layers.Layer:
    """Returns a Keras layer from observations [N, ...] to features, float32 [N, F].

    Args:
        network: section of a configuration, with `torso`, and `units` of a dense one.
        seed: integer >= 0 from which its weights are sampled.
        choices: names in `TORSOS` that the experiment has, for images; every experiment has `dense`, for vectors.

    Raises:
        ValueError: not one of these.
    """
    if network.torso == "dense":
        return dense_torso(network.units, seed)
    if network.torso not in choices:
        raise ValueError(f"network.torso={network.torso!r}: choose {', '.join(choices)} or dense.")
    return TORSOS[network.torso](seed=seed)
