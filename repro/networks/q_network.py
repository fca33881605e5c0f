"""Action values from one torso: the network of DQN."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from repro.networks.initializers import TruncatedNormalFanIn, distinct_seeds
from repro.networks.sequence_network import SequenceNetwork, fold_time, unfold_time


class QNetwork(SequenceNetwork):
    """DQN's network (C-trace, Appendix E.2): a torso and a linear head with a value for every action.

    It is called like a feed-forward `ActorCritic`.

    Args:
        torso: a Keras layer from one observation's batch [N, ...] to float32 [N, F].
        num_actions: A, width of the head.
        seed: integer >= 0 from which the weights of the head are sampled (the torso has its own).
    """

    def __init__(self, torso: tf.keras.layers.Layer, num_actions: int, *, seed: int) -> None:
        super().__init__(name="q_network")
        self._torso = torso
        initializer = TruncatedNormalFanIn(next(distinct_seeds(seed)))
        self._head = tf.keras.layers.Dense(num_actions, kernel_initializer=initializer, name="q")

    def call(self, observation: Any, step_type: tf.Tensor, state: tuple[()] = ()) -> tuple[tf.Tensor, tuple[()]]:
        """Action values of every observation of a sequence.

        Args:
            observation: [B, T, ...].
            step_type: int32 [B, T]; not read.
            state: ().

        Returns:
            q: Q(x, .), float32 [B, T, A].
            state: ().
        """
        return unfold_time(self._head(self._torso(fold_time(observation))), observation), ()
