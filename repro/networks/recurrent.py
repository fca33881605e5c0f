"""Recurrent cores whose state is reset at the start of an episode."""

from __future__ import annotations

import tensorflow as tf

from repro.gpus import visible_gpus
from repro.networks.initializers import GlorotUniform
from repro.networks.sequence_network import State

UNROLLED = 8
"""Maximum number of steps unrolled in a GPU's program; longer sequences are a loop. XLA compiled unrolled LSTMs of 30
steps in three quarters of a minute, and those of 100 steps not within a minute and a half."""


class ResettingLSTM(tf.keras.layers.Layer):
    """An LSTM over an unroll, whose state is zeroed before each step that begins an episode.

        (h, c) <- 0 where is_first_t
        i, g, f, o = split([x_t, h] W + b)
        c <- sigmoid(f + 1) c + sigmoid(i) tanh(g),    h <- sigmoid(o) tanh(c)

    The constant 1 on the forget gate, zero biases and a Glorot-uniform W are the defaults of TensorFlow 1's
    cells, which the paper's released code uses (assumed; not specified in the paper).

    Args:
        units: width of h and c.
        seed: integer >= 0 from which W is sampled.
    """

    def __init__(self, units: int, seed: int) -> None:
        super().__init__(name="resetting_lstm")
        self._units = units
        self._seed = seed

    def build(self, input_shape: tf.TensorShape) -> None:
        """Creates W [F + units, 4 units] and b [4 units] for inputs [B, T, F]."""
        rows = int(input_shape[-1]) + self._units
        self._kernel = self.add_weight("kernel", [rows, 4 * self._units], initializer=GlorotUniform(self._seed))
        self._bias = self.add_weight("bias", [4 * self._units], initializer="zeros")
        super().build(input_shape)

    def initial_state(self, batch_size: int | tf.Tensor) -> State:
        """(h, c), zeros, float32 [batch_size, units] each."""
        zeros = tf.zeros([batch_size, self._units], tf.float32)
        return zeros, zeros

    def call(self, inputs: tf.Tensor, is_first: tf.Tensor, state: State) -> tuple[tf.Tensor, State]:
        """Runs over time.

        Args:
            inputs: float32 [B, T, F], T known when the graph is traced; steps may be unrolled (see `UNROLLED`).
            is_first: bool [B, T], true where step t begins an episode; no gradient or value crosses it.
            state: (h, c) before step 0, float32 [B, units] each; receives gradients.

        Returns:
            h of every step, float32 [B, T, units], and (h, c) after the last.

        Raises:
            ValueError: T is not known statically.
        """
        if inputs.shape[1] is None:
            raise ValueError("ResettingLSTM: the time dimension of inputs [B, T, F] must be static.")
        w_x, w_h = tf.split(self._kernel, [inputs.shape[-1], self._units])
        projected = tf.einsum("btf,fg->btg", inputs, w_x) + self._bias  # [B, T, 4 units]
        keep = ~is_first[..., tf.newaxis]  # [B, T, 1]
        if inputs.shape[1] > UNROLLED and visible_gpus():
            return _looped(projected, keep, w_h, state)
        outputs = []
        for projected_t, keep_t in zip(tf.unstack(projected, axis=1), tf.unstack(keep, axis=1)):
            state = _step(projected_t, keep_t, w_h, state)
            outputs.append(state[0])
        return tf.stack(outputs, axis=1), state


def _step(projected: tf.Tensor, keep: tf.Tensor, w_h: tf.Tensor, state: State) -> State:
    """Returns (h, c) after a step, given x_t w_x + b [B, 4 units] and whether to keep the state, bool [B, 1]."""
    h, c = state
    h, c = tf.where(keep, h, 0.0), tf.where(keep, c, 0.0)
    i, g, f, o = tf.split(projected + h @ w_h, 4, axis=-1)
    c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(g)
    return tf.sigmoid(o) * tf.tanh(c), c


def _looped(projected: tf.Tensor, keep: tf.Tensor, w_h: tf.Tensor, state: State) -> tuple[tf.Tensor, State]:
    """Computes `ResettingLSTM.call` by a loop in the graph, for `projected` [B, T, 4 units] and `keep` [B, T, 1]."""
    length = projected.shape[1]
    in_time = [tf.TensorArray(x.dtype, length).unstack(tf.transpose(x, [1, 0, 2])) for x in (projected, keep)]
    outputs = tf.TensorArray(tf.float32, length, element_shape=state[0].shape)

    def advance(t: tf.Tensor, state: State, outputs: tf.TensorArray) -> tuple[tf.Tensor, State, tf.TensorArray]:
        projected_t, keep_t = (x.read(t) for x in in_time)
        state = _step(projected_t, keep_t, w_h, state)
        return t + 1, state, outputs.write(t, state[0])

    begin = (0, state, outputs)
    _, state, outputs = tf.while_loop(lambda t, *_: t < length, advance, begin, maximum_iterations=length)
    return tf.transpose(outputs.stack(), [1, 0, 2]), state


def beside_last_step(
    features: tf.Tensor, last_action: tf.Tensor, last_reward: tf.Tensor, num_actions: int
) -> tf.Tensor:
    """Returns a core's input: the features, the one-hot last action and the last reward, concatenated.

    Args:
        features: float32 [B, T, F].
        last_action: int32 [B, T], in [0, A).
        last_reward: float32 [B, T].
        num_actions: A.

    Returns:
        float32 [B, T, F + A + 1].
    """
    return tf.concat([features, tf.one_hot(last_action, num_actions), last_reward[..., tf.newaxis]], axis=-1)
