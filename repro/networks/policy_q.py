"""Policy logits and a value for every action from one torso."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from repro.networks.initializers import TruncatedNormalFanIn, distinct_seeds


class PolicyQ(tf.keras.Model):
    """ACER's network (Section 3.1): a torso with two linear heads, the policy and Q.

    It is called like a feed-forward `ActorCritic`, with Q(x, .) in place of V(x), so that the same policy class acts
    with it.

    Args:
        torso: a Keras layer from one observation's batch [N, ...] to float32 [N, F].
        num_actions: A, width of both heads.
        seed: integer >= 0 from which the weights of the heads are drawn (the torso has its own).
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

    def initial_state(self, batch_size: int | tf.Tensor) -> tuple[()]:
        """(): the network has no recurrent core."""
        return ()

    def build_variables(self, observation_spec: tf.TensorSpec) -> None:
        """Creates every variable, under the caller's strategy scope if there is one.

        Args:
            observation_spec: of one observation, without batch and time.
        """
        self(tf.zeros([1, 1, *observation_spec.shape], observation_spec.dtype), tf.zeros([1, 1], tf.int32))

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
        features = self._torso(tf.reshape(observation, [-1, *observation.shape[2:]]))  # [B T, F]
        batch_and_time = tf.shape(observation)[:2]

        def unfold(x: Any) -> tf.Tensor:
            return tf.reshape(x, tf.concat([batch_and_time, x.shape[-1:]], axis=0))

        return unfold(self._policy_head(features)), unfold(self._q_head(features)), ()
