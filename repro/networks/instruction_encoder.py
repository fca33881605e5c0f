"""The language channel of IMPALA's network: an LSTM over the words of an instruction."""

from __future__ import annotations

import tensorflow as tf

from repro.networks.initializers import TruncatedNormalFanIn, distinct_seeds
from repro.networks.recurrent import ResettingLSTM
from repro.networks.sequence_network import fold_time, unfold_time

FEW = 8
"""Maximum number of instructions of an unroll that are encoded once each; with more, every step is encoded."""


class InstructionEncoder(tf.keras.layers.Layer):
    """Encodes the instruction of every step of an unroll (Figure 4).

        e_i = E[word_i],    h_i = LSTM(e_i, h_{i-1}),    output h_n after the last of n words, 0 for no word

    An instruction stays the same for many steps, so only the first of a run of equal ones is encoded.

    E begins as a truncated normal of std 1 / sqrt(vocabulary), the default of Sonnet 1 at the time, and the LSTM as in
    `ResettingLSTM` (assumed: as in the released code, not specified in the paper).

    Args:
        vocabulary: number of word ids, including 0 for no word; see `repro.environments.dmlab_language`.
        embedding_units: width of e; 20 in the paper.
        units: width of h; 64 in the paper.
        seed: integer >= 0 from which all weights are sampled.
    """

    def __init__(self, vocabulary: int, embedding_units: int, units: int, seed: int) -> None:
        super().__init__(name="instruction_encoder")
        seeds = distinct_seeds(seed)
        self._embedding_shape = [vocabulary, embedding_units]
        self._embedding_initializer = TruncatedNormalFanIn(next(seeds))
        self._lstm = ResettingLSTM(units, next(seeds))

    def build(self, input_shape: tf.TensorShape) -> None:
        """Creates E [vocabulary, embedding_units] and the LSTM's weights, outside of the branches that use them."""
        self._embedding = self.add_weight("embedding", self._embedding_shape, initializer=self._embedding_initializer)
        self._lstm.build(tf.TensorShape([None, input_shape[-1], self._embedding_shape[-1]]))
        super().build(input_shape)

    def call(self, instruction: tf.Tensor) -> tf.Tensor:
        """Encodes instructions.

        Args:
            instruction: word ids, int32 [B, T, L] in [0, vocabulary), zeros after the last word; T and L known when the
                graph is traced.

        Returns:
            float32 [B, T, units].
        """
        if instruction.shape[1] <= FEW:
            return self._encode(instruction)
        changed = tf.reduce_any(instruction[:, 1:] != instruction[:, :-1], axis=-1)  # [B, T - 1]
        run = tf.pad(tf.cumsum(tf.cast(changed, tf.int32), axis=1), [[0, 0], [1, 0]])  # [B, T], counted from 0
        is_of_run = tf.range(FEW)[:, tf.newaxis] == run[:, tf.newaxis]  # [B, FEW, T]
        first = tf.argmax(tf.cast(is_of_run, tf.int32), axis=-1)  # [B, FEW]
        return tf.cond(
            tf.reduce_max(run) < FEW,
            lambda: tf.gather(self._encode(tf.gather(instruction, first, batch_dims=1)), run, batch_dims=1),
            lambda: self._encode(instruction),
        )

    def _encode(self, instruction: tf.Tensor) -> tf.Tensor:
        """Encodes every instruction [B, K, L], float32 [B, K, units]."""
        words = fold_time(instruction)  # [B K, L]
        embedded = tf.gather(1.0 * self._embedding, words)  # [B K, L, embedding_units]; the product's gradient is dense
        begins = tf.zeros_like(words, tf.bool)  # nowhere but at the initial state
        outputs, _ = self._lstm(embedded, begins, self._lstm.initial_state(tf.shape(words)[0]))  # [B K, L, units]
        length = tf.reduce_sum(tf.cast(words != 0, tf.int32), axis=-1)  # [B K]
        is_last = tf.one_hot(length - 1, words.shape[-1])  # [B K, L], zeros without a word
        return unfold_time(tf.einsum("nl,nlu->nu", is_last, outputs), instruction)
