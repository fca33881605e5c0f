"""Torsos by their names in configurations."""

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
"""Minimum height and width, in pixels, of torsos whose convolutions have no padding; others need 1."""
COMPUTE_DTYPES = {"float32": tf.float32, "bfloat16": tf.bfloat16}
"""Types by the values of `network.compute_dtype` that torsos for images accept."""


def make_torso(
    network: ml_collections.ConfigDict,
    seed: int,
    choices: Collection[str],
    observation_spec: types.NestedTensorSpec,
    reads_entries: bool = False,
) -> tf.keras.layers.Layer:
    """Returns a Keras layer from observations [N, ...] to features, float32 [N, F].

    Args:
        network: the configuration's section, with `torso`, for a dense torso also `units`, and optionally
            `compute_dtype`, float32 by default.
        seed: integer >= 0 from which the weights are sampled.
        choices: names in `TORSOS` that the experiment offers for images; every experiment has `dense`, for vectors.
        observation_spec: spec of one environment's observations; an entry of rank 3 is an image.
        reads_entries: whether the network around the torso reads observations that are dicts.

    Raises:
        ValueError: the observations are dicts, which the network does not read; the torso is unknown or does not fit
            the observations or the size of their images; or `compute_dtype` is unknown, or not float32 with a dense
            torso.
    """
    if isinstance(observation_spec, Mapping) and not reads_entries:
        raise ValueError(
            f"the observations have the entries {', '.join(sorted(observation_spec))}, and this agent's network reads "
            "only the frame: set env.last_action_and_reward=False and env.instruction_length=0, or leave them out."
        )
    if network.torso not in (*choices, "dense"):
        raise ValueError(f"network.torso={network.torso!r}: choose {', '.join(choices)} or dense.")
    is_image = any(len(spec.shape) == 3 for spec in tf.nest.flatten(observation_spec))
    if is_image == (network.torso == "dense"):
        seen, fitting = ("images", " or ".join(choices)) if is_image else ("vectors", "dense")
        raise ValueError(f"network.torso={network.torso!r}, but the observations are {seen}: choose {fitting}.")
    unlimited = [f"network.torso={name}" for name in choices if name not in MIN_SIZES]
    for spec in tf.nest.flatten(observation_spec):
        if len(spec.shape) == 3 and min(spec.shape[:2]) < (min_size := MIN_SIZES.get(network.torso, 1)):
            raise ValueError(
                f"network.torso={network.torso} needs images of {min_size} x {min_size} pixels or more, got "
                f"{spec.shape[0]} x {spec.shape[1]}: choose {' or '.join(['larger ones', *unlimited])}."
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
