"""Action values from one torso, with a linear or a dueling head: the network of DQN."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from repro.networks.initializers import TruncatedNormalFanIn, distinct_seeds


class DuelingHead(tf.keras.layers.Layer):
    """Action values from a state's value and its actions' advantages (Wang et al., 2016, Eq. 9).

        Q(x, a) = V(x) + A(x, a) - 1/|A| sum_b A(x, b)

    V and A have a hidden layer of rectified units each. The mean of Q(x, .) is V(x).

    Args:
        units: width of both hidden layers; 512 in C-trace's Appendix E.1.
        num_actions: number of actions A.
        seed: integer >= 0 from which all weights are drawn.
    """

    def __init__(self, units: int, num_actions: int, seed: int) -> None:
        super().__init__(name="dueling_head")
        seeds = distinct_seeds(seed)

        def dense(width: int, name: str, activation: str | None = None) -> tf.keras.layers.Dense:
            initializer = TruncatedNormalFanIn(next(seeds))
            return tf.keras.layers.Dense(width, activation, kernel_initializer=initializer, name=name)

        self._value_hidden = dense(units, "value_hidden", "relu")
        self._value = dense(1, "value")
        self._advantage_hidden = dense(units, "advantage_hidden", "relu")
        self._advantage = dense(num_actions, "advantage")

    def call(self, features: tf.Tensor) -> tf.Tensor:
        """float32 [N, F] to Q(x, .), float32 [N, A]."""
        value = self._value(self._value_hidden(features))  # [N, 1]
        advantage = self._advantage(self._advantage_hidden(features))  # [N, A]
        return value + advantage - tf.reduce_mean(advantage, axis=-1, keepdims=True)


class QNetwork(tf.keras.Model):
    """DQN's network: a torso and a head with a value for every action.

    C-trace's DQN agents have the linear head (Appendix E.2). It is called like a feed-forward `ActorCritic`.

    Args:
        torso: a Keras layer from one observation's batch [N, ...] to float32 [N, F].
        num_actions: A, width of the head.
        dueling_units: width of the hidden layers of a `DuelingHead`; None for one linear layer.
        seed: integer >= 0 from which the weights of the head are drawn (the torso has its own).
    """

    def __init__(
        self, torso: tf.keras.layers.Layer, num_actions: int, dueling_units: int | None = None, *, seed: int
    ) -> None:
        super().__init__(name="q_network")
        head_seed = next(distinct_seeds(seed))
        self._num_actions = num_actions
        self._torso = torso
        self._head: tf.keras.layers.Layer
        if dueling_units is None:
            self._head = tf.keras.layers.Dense(
                num_actions, kernel_initializer=TruncatedNormalFanIn(head_seed), name="q"
            )
        else:
            self._head = DuelingHead(dueling_units, num_actions, head_seed)

    @property
    def num_actions(self) -> int:
        """A, width of the head."""
        return self._num_actions

    def initial_state(self, batch_size: int | tf.Tensor) -> tuple[()]:
        """(): the network has no recurrent core."""
        return ()

    def build_variables(self, observation_spec: tf.TensorSpec) -> None:
        """Creates every variable, under the caller's strategy scope if there is one.

        Args:
            observation_spec: of one observation, without batch and time.
        """
        self(tf.zeros([1, 1, *observation_spec.shape], observation_spec.dtype), tf.zeros([1, 1], tf.int32))

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
        batch_and_time = tf.shape(observation)[:2]
        q = self._head(self._torso(tf.reshape(observation, [-1, *observation.shape[2:]])))  # [B T, A]
        return tf.reshape(q, tf.concat([batch_and_time, [self._num_actions]], axis=0)), ()
