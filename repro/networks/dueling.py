"""The dueling head: action values from a state's value and its actions' advantages."""

from __future__ import annotations

import tensorflow as tf

from repro.networks.initializers import TruncatedNormalFanIn, distinct_seeds


class DuelingHead(tf.keras.layers.Layer):
    """Action values from a state's value and its actions' advantages (Wang et al., 2016, Eq. 9).

        Q(x, a) = V(x) + A(x, a) - 1/|A| sum_b A(x, b)

    V and A each have one hidden layer of ReLUs. The mean of Q(x, .) over actions is V(x).

    Args:
        units: width of both hidden layers; 512 in C-trace's Appendix E.1.
        num_actions: number of actions A.
        seed: integer >= 0 from which all weights are sampled.
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
        """Maps features, float32 [N, F], to Q(x, .), float32 [N, A]."""
        value = self._value(self._value_hidden(features))  # [N, 1]
        advantage = self._advantage(self._advantage_hidden(features))  # [N, A]
        return value + advantage - tf.reduce_mean(advantage, axis=-1, keepdims=True)
