"""Plain loops in which an agent plays and learns in turns, for learning tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.trajectories import Trajectory

from repro.acting.actor import Actor
from repro.acting.unrolls import UnrollGroup
from repro.acting.weights import WeightsPublisher


def play(
    agent: tf_agent.TFAgent, environment: Any, length: int, seed: int, returns: list[float], overlap: int = 0
) -> Iterator[Trajectory]:
    """Yields consecutive unrolls of all environments, [N, length + 1, ...], each played with the present policy.

    Args:
        agent: agent that plays with its collect policy.
        environment: batched environment.
        length: steps of an unroll.
        seed: seed of the actions.
        returns: list to which the returns of finished episodes are appended.
        overlap: steps that an unroll shares with the one before it.
    """
    weights = WeightsPublisher(agent.collect_policy.variables())
    actor = Actor(
        environment, agent.collect_policy, weights, length, seed, lambda episode: returns.append(episode.score), overlap
    )
    while True:
        fresh = UnrollGroup(agent.collect_data_spec, environment.num_envs, length)
        actor.collect([fresh])
        yield fresh.arrays


def sample(replay: Sequence[Trajectory], random: np.random.Generator) -> Trajectory:
    """Returns a batch whose i-th unroll is the i-th one of a random entry, for every i."""
    index = random.integers(len(replay), size=len(replay[0].reward))
    picked = [tf.nest.map_structure(lambda x, i=i: x[i], replay[j]) for i, j in enumerate(index)]
    return tf.nest.map_structure(lambda *parts: np.stack(parts), *picked)
