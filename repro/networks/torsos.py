"""Torsos by the names that configurations give them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import ml_collections
import tensorflow as tf
from tf_agents.typing import types

from repro.networks import atari
from repro.networks.dense import dense_torso

TORSOS = {
    "shallow": atari.shallow_torso,
    "deep": atari.deep_torso,
    "strided": atari.strided_torso,
    "nature": atari.nature_torso,
    "nature_convolutions": atari.nature_convolutions,
}
MIN_SIZES = {"shallow": 20, "nature": 36, "nature_convolutions": 36}
"""Pixels that the convolutions without padding need in height and width; those of other torsos need 1."""
COMPUTE_DTYPES = {"float32": tf.float32, "bfloat16": tf.bfloat16}
"""`network.compute_dtype` of a torso of images."""


def make_torso(
    network: ml_collections.ConfigDict,
    seed: int,
    choices: Collection[str],
    observation_spec: types.NestedTensorSpec,
    reads_entries: bool = False,
) -> tf.keras.layers.Layer:
    """Returns a Keras layer from observations [N, ...] to features, float32 [N, F].

    Args:
        network: section of a configuration, with `torso`, and `units` of a dense one; without `compute_dtype` a torso
            computes in float32.
        seed: integer >= 0 from which its weights are sampled.
        choices: names in `TORSOS` that the experiment has, for images; every experiment has `dense`, for vectors.
        observation_spec: of one environment; an entry of rank 3 is an image.
        reads_entries: whether the network around the torso reads observations that are dicts.

    Raises:
        ValueError: observations that are dicts where none are read; not one of these names, or one for other
            observations or larger images; an unknown `compute_dtype`, or another than float32 of a dense torso.
    """
    if isinstance(observation_spec, Mapping) and not reads_entries:
        raise ValueError(
            f"the observations have the entries {', '.join(sorted(observation_spec))}, and this agent's network reads "
            "the frame alone: leave env.last_action_and_reward and env.instruction_length out, or at False and 0."
        )
    if network.torso not in (*choices, "dense"):
        raise ValueError(f"network.torso={network.torso!r}: choose {', '.join(choices)} or dense.")
    is_image = any(len(spec.shape) == 3 for spec in tf.nest.flatten(observation_spec))
    if is_image == (network.torso == "dense"):
        seen, fitting = ("images", " or ".join(choices)) if is_image else ("vectors", "dense")
        raise ValueError(f"network.torso={network.torso!r}, but the observations are {seen}: choose {fitting}.")
    for spec in tf.nest.flatten(observation_spec):
        if len(spec.shape) == 3 and min(spec.shape[:2]) < (min_size := MIN_SIZES.get(network.torso, 1)):
            raise ValueError(
                f"network.torso={network.torso} takes images of {min_size} x {min_size} pixels or more, and they have "
                f"{spec.shape[0]} x {spec.shape[1]}: choose larger ones (env.height and env.width)."
            )
    compute_dtype = network.get("compute_dtype", "float32")
    known = ("float32",) if network.torso == "dense" else tuple(COMPUTE_DTYPES)
    if compute_dtype not in known:
        raise ValueError(
            f"network.compute_dtype={compute_dtype!r}: choose {' or '.join(known)} with network.torso={network.torso}."
        )
    if network.torso == "dense":
        return dense_torso(network.units, seed)
    return TORSOS[network.torso](seed, COMPUTE_DTYPES[compute_dtype])
