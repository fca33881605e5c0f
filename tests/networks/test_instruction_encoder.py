"""The encoder of instructions against a loop over their words, and that it does not encode repetitions."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from repro.networks import instruction_encoder
from repro.networks.instruction_encoder import FEW, InstructionEncoder
from tests.networks.test_recurrent import sigmoid

B, T, L, VOCABULARY, EMBEDDING, UNITS = 3, 12, 5, 11, 4, 6


def make(seed=0):
    encoder = InstructionEncoder(VOCABULARY, EMBEDDING, UNITS, seed)
    encoder(tf.zeros([1, 1, L], tf.int32))
    rng = np.random.default_rng(0)
    for variable in encoder.trainable_variables:
        variable.assign_add(0.3 * rng.normal(size=variable.shape))
    return encoder


def instructions(most_runs):
    """Runs of equal instructions of 0 to L words [B, T, L]: one in the first row, `most_runs` in the last.

    All begin with the same word.
    """
    rng = np.random.default_rng(1)
    found = np.zeros((B, T, L), np.int32)
    for row, runs in enumerate(np.linspace(1, most_runs, B).astype(int)):
        for number, steps in enumerate(np.array_split(np.arange(T), runs)):
            words = (row + number) % (L + 1)
            found[row, steps, :words] = rng.integers(1, VOCABULARY, words)
            found[row, steps, :1] = min(words, 1)
    return found


def by_loop(encoder, instruction):
    """The docstring's lines, one step and one word at a time, float64; what is behind the last word is never read."""
    embedding, kernel, bias = (v.numpy().astype(np.float64) for v in encoder.trainable_variables)
    outputs = np.zeros((*instruction.shape[:2], UNITS))
    for b, t in np.ndindex(*instruction.shape[:2]):
        h = c = np.zeros(UNITS)
        for word in instruction[b, t]:
            if word == 0:
                break
            i, g, f, o = np.split(np.concatenate([embedding[word], h]) @ kernel + bias, 4)
            c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        outputs[b, t] = h
    return outputs


@functools.cache
def compiled(mode):
    """An encoder and its call, compiled once for all instructions of a shape."""
    encoder = make()
    return encoder, encoder if mode == "eager" else tf.function(encoder, jit_compile=mode == "xla", autograph=False)


@pytest.mark.parametrize("most_runs", [1, 3, FEW, FEW + 1, T])
@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_equals_a_loop_over_words(mode, most_runs):
    (encoder, run), instruction = compiled(mode), instructions(most_runs)
    found = run(tf.constant(instruction))
    assert found.shape == (B, T, UNITS)
    np.testing.assert_allclose(found, by_loop(encoder, instruction), atol=1e-5)


def test_an_empty_instruction_is_zeros_and_padding_changes_nothing():
    encoder = make()
    assert not np.any(encoder(tf.zeros([2, 3, L], tf.int32)))
    words = np.array([[[3, 7, 0, 0, 0]]], np.int32)
    before = encoder(tf.constant(words)).numpy()
    assert np.abs(before).max() > 0.01
    embedding = encoder.trainable_variables[0]
    embedding.scatter_nd_update([[0]], [np.full(EMBEDDING, 9.0)])
    np.testing.assert_array_equal(encoder(tf.constant(words)), before)


def test_the_order_of_words_matters():
    encoder = make()
    one, other = (encoder(tf.constant([[[*words, 0, 0]]])).numpy() for words in ([3, 7, 5], [7, 3, 5]))
    assert np.abs(one - other).max() > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("most_runs", [3, T])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_gradient_is_that_of_every_step_encoded_alone(most_runs, jit_compile):
    """It reaches the embeddings of the words that occur, and no others."""
    encoder, instruction = make(), instructions(most_runs)
    weights = np.random.default_rng(2).normal(size=(B, T, UNITS)).astype(np.float32)

    def gradients(encode):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weights * encode(tf.constant(instruction)))
        return tape.gradient(loss, encoder.trainable_variables)

    def one_by_one(x):
        return tf.concat([encoder(x[:, t : t + 1]) for t in range(T)], axis=1)

    found = tf.function(gradients, jit_compile=jit_compile, autograph=False)(encoder)
    for a, b in zip(found, gradients(one_by_one), strict=True):
        assert isinstance(a, tf.Tensor)  # not `IndexedSlices`, which RMSProp refuses
        np.testing.assert_allclose(a, b, atol=1e-4)
    read = {int(word) for word in instruction.ravel()} - {0}
    assert set(np.flatnonzero(np.abs(found[0]).max(axis=1))) == read
    assert most_runs == T or len(read) < VOCABULARY - 1


@pytest.mark.parametrize(("most_runs", "encoded"), [(1, B * FEW), (FEW, B * FEW), (FEW + 1, B * T)])
def test_what_repeats_is_encoded_once(monkeypatch, most_runs, encoded):
    encoder, sizes = make(), []
    fold = instruction_encoder.fold_time
    monkeypatch.setattr(instruction_encoder, "fold_time", lambda x: sizes.append(x.shape[0] * x.shape[1]) or fold(x))
    encoder(tf.constant(instructions(most_runs)))
    assert sizes == [encoded]


def test_weights_follow_from_the_seed():
    encoders = [InstructionEncoder(VOCABULARY, EMBEDDING, UNITS, seed) for seed in (1, 1, 2)]
    for encoder in encoders:
        encoder(tf.zeros([1, 1, L], tf.int32))
    first, again, other = (encoder.get_weights() for encoder in encoders)
    for a, b, c in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.ndim == 1 or not np.array_equal(a, c)


def test_embeddings_begin_as_a_truncated_normal_of_the_vocabulary():
    encoder = InstructionEncoder(1000, 20, 64, 0)
    encoder(tf.zeros([1, 1, L], tf.int32))
    embedding = encoder.trainable_variables[0].numpy() * 1000**0.5
    assert embedding.shape == (1000, 20)
    assert abs(embedding.mean()) < 4 / 20_000**0.5
    assert abs(embedding.std() - 0.8796) < 0.02  # of a standard normal cut at two
    assert 1.95 < np.abs(embedding).max() < 2
