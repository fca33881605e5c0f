"""Random batches of unrolls on Catch, and of a recurrent agent."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.trajectories import StepType, Trajectory

from repro.acting.unrolls import UnrollGroup


def random_batch(agent: tf_agent.TFAgent, size: int, seed: int, length: int = 5) -> Trajectory:
    """Returns unrolls [size, length + 1] of noise, with an end and a boundary row inside; the last row is poisoned.

    Args:
        agent: agent whose policy reports its `logits`.
        size: number of unrolls.
        seed: seed of the noise.
        length: steps of an unroll.
    """
    rng = np.random.default_rng(seed)
    arrays = UnrollGroup(agent.collect_data_spec, size, length).arrays
    arrays.observation[:] = rng.integers(256, size=arrays.observation.shape)
    arrays.action[:] = rng.integers(3, size=arrays.action.shape)
    arrays.policy_info["logits"][:] = rng.normal(size=arrays.policy_info["logits"].shape)
    arrays.reward[:] = rng.normal(size=arrays.reward.shape)
    arrays.discount[:] = 1.0
    arrays.step_type[:] = StepType.MID
    arrays.discount[0, 1] = 0.0
    arrays.step_type[1, 2] = StepType.LAST
    arrays.reward[:, -1] = arrays.discount[:, -1] = arrays.policy_info["logits"][:, -1] = np.nan
    return arrays


def recurrent_batch(agent: tf_agent.TFAgent, size: int, seed: int, ends: bool = True) -> Trajectory:
    """Returns unrolls [size, 5] of noise, with frames, last actions, last rewards and the core's state on every row.

    Args:
        agent: agent with a recurrent core and three actions.
        size: number of unrolls.
        seed: seed of the noise.
        ends: whether the first two unrolls have an end and a beginning inside.
    """
    rng = np.random.default_rng(seed)
    arrays = UnrollGroup(agent.collect_data_spec, size, 4).arrays
    for leaf in tf.nest.flatten(arrays):
        leaf[:] = rng.integers(3, size=leaf.shape) if leaf.dtype.kind in "iu" else rng.normal(size=leaf.shape)
    arrays.step_type[:] = StepType.MID
    arrays.discount[:] = 1.0
    if ends:
        arrays.step_type[:2, 1] = StepType.LAST
        arrays.step_type[:2, 2] = StepType.FIRST
        arrays.discount[:2, 0] = 0.0
    return arrays
