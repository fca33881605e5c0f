"""What the networks with one output an action share: they take sequences, and fold time into the batch."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

State = tuple[tf.Tensor, ...]


class SequenceNetwork(tf.keras.Model):
    """A Keras model that is called with observations [B, T, ...], step types int32 [B, T] and a core's state.

    Its last output is the core's state after the last step. Subclasses with a core replace `initial_state`.

    Args:
        num_actions: A.
        name: of the model.
    """

    def __init__(self, num_actions: int, name: str) -> None:
        super().__init__(name=name)
        self._num_actions = num_actions

    @property
    def num_actions(self) -> int:
        """A, width of the head that says something of every action."""
        return self._num_actions

    def initial_state(self, batch_size: int | tf.Tensor) -> State:
        """The core's state before an episode, float32 [batch_size, units] each; () without a core."""
        return ()

    def build_variables(self, observation_spec: Any) -> None:
        """Creates every variable, under the caller's strategy scope if there is one.

        Args:
            observation_spec: nest of `tf.TensorSpec` of one observation, without batch and time.
        """
        observation = tf.nest.map_structure(lambda spec: tf.zeros([1, 1, *spec.shape], spec.dtype), observation_spec)
        self(observation, tf.zeros([1, 1], tf.int32), self.initial_state(1))


def fold_time(x: tf.Tensor) -> tf.Tensor:
    """[B, T, ...] to [B T, ...]."""
    return tf.reshape(x, [-1, *x.shape[2:]])


def unfold_time(x: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """[B T, F] to [B, T, F], with B and T of `like`, [B, T, ...]."""
    return tf.reshape(x, tf.concat([tf.shape(like)[:2], x.shape[-1:]], axis=0))
