"""Policy logits and a value for every action from one torso."""

from __future__ import annotations

import tensorflow as tf

from repro.networks.initializers import TruncatedNormalFanIn, distinct_seeds
from repro.networks.sequence_network import SequenceNetwork, fold_time, unfold_time


class PolicyQ(SequenceNetwork):
    """ACER's network (Section 3.1): a torso with two linear heads, the policy and Q.

    It is called like a feed-forward `ActorCritic`, with Q(x, .) in place of V(x), so both act through the same policy
    class.

    Args:
        torso: a Keras layer from one observation's batch [N, ...] to float32 [N, F].
        num_actions: A, width of both heads.
        seed: integer >= 0 from which the weights of the heads are sampled (the torso has its own).
    """

    def __init__(self, torso: tf.keras.layers.Layer, num_actions: int, *, seed: int) -> None:
        super().__init__(name="policy_q")
        seeds = distinct_seeds(seed)
        self._torso = torso
        self._policy_head = tf.keras.layers.Dense(
            num_actions, kernel_initializer=TruncatedNormalFanIn(next(seeds)), name="policy"
        )
        self._q_head = tf.keras.layers.Dense(
            num_actions, kernel_initializer=TruncatedNormalFanIn(next(seeds)), name="q"
        )

    def call(
        self, observation: tf.Tensor, step_type: tf.Tensor, state: tuple[()] = ()
    ) -> tuple[tf.Tensor, tf.Tensor, tuple[()]]:
        """Policy and action values of every observation of an unroll.

        Args:
            observation: [B, T, ...].
            step_type: int32 [B, T]; not read.
            state: ().

        Returns:
            logits: float32 [B, T, A].
            q: Q(x, .), float32 [B, T, A].
            state: ().
        """
        features = self._torso(fold_time(observation))  # [B T, F]
        logits, q = (unfold_time(head(features), observation) for head in (self._policy_head, self._q_head))
        return logits, q, ()
