"""The categorical distribution against its definition in probabilities, float64."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repro.distributions import categorical

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(scale=2, size=(5, 3, 4)).astype(np.float32)
OTHER = RNG.normal(scale=2, size=(5, 3, 4)).astype(np.float32)
ACTIONS = RNG.integers(4, size=(5, 3)).astype(np.int32)


def probabilities(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits.astype(np.float64))
    return weights / weights.sum(axis=-1, keepdims=True)


def taken(x: np.ndarray) -> np.ndarray:
    return np.take_along_axis(x, ACTIONS[..., np.newaxis], axis=-1)[..., 0]


EXPECTED = {
    "probs": (lambda p, q: p, lambda a, b: categorical.probs(a)),
    "log_prob": (lambda p, q: taken(np.log(p)), lambda a, b: categorical.log_prob(a, ACTIONS)),
    "entropy": (lambda p, q: -(p * np.log(p)).sum(axis=-1), lambda a, b: categorical.entropy(a)),
    "kl": (lambda p, q: (p * np.log(p / q)).sum(axis=-1), lambda a, b: categorical.kl(a, b)),
    "log_ratio": (lambda p, q: taken(np.log(p / q)), lambda a, b: categorical.log_ratio(a, b, ACTIONS)),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_equals_its_definition(name):
    expected, function = EXPECTED[name]
    actual = function(LOGITS, OTHER)
    assert actual.dtype == tf.float32
    np.testing.assert_allclose(actual, expected(probabilities(LOGITS), probabilities(OTHER)), rtol=1e-4, atol=1e-5)
    wrong = expected(probabilities(OTHER), probabilities(LOGITS))
    assert not np.allclose(actual, wrong, rtol=1e-2)


@pytest.mark.parametrize("name", EXPECTED)
def test_only_differences_of_logits_matter(name):
    _, function = EXPECTED[name]
    shifted = LOGITS + np.float32(50), OTHER - np.float32(30)
    np.testing.assert_allclose(function(*shifted), function(LOGITS, OTHER), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", EXPECTED)
def test_eager_graph_and_xla_agree(name):
    _, function = EXPECTED[name]
    for jit_compile in (False, True):
        compiled = tf.function(function, jit_compile=jit_compile, autograph=False)(LOGITS, OTHER)
        np.testing.assert_allclose(compiled, function(LOGITS, OTHER), rtol=1e-4, atol=1e-5)


def test_by_hand():
    """p = (1/4, 3/4), q = (1/2, 1/2)."""
    logits, uniform = np.log([[1.0, 3.0]]), np.zeros([1, 2])
    np.testing.assert_allclose(categorical.log_prob(logits, [1]), [np.log(0.75)], rtol=1e-6)
    np.testing.assert_allclose(categorical.entropy(uniform), [np.log(2)], rtol=1e-6)
    np.testing.assert_allclose(categorical.log_ratio(logits, uniform, [0]), [np.log(0.5)], rtol=1e-6)
    kl = 0.25 * np.log(0.5) + 0.75 * np.log(1.5)
    np.testing.assert_allclose(categorical.kl(logits, uniform), [kl], rtol=1e-6)


def test_probabilities_near_zero_stay_finite():
    logits = tf.constant([[200.0, -200.0]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        total = categorical.entropy(logits) + categorical.kl(logits, -logits)
        total += categorical.log_ratio(logits, -logits, [1])
    assert np.isfinite(total).all()
    assert np.isfinite(tape.gradient(total, logits)).all()


@pytest.mark.parametrize("name", [name for name in EXPECTED if name != "probs"])
@pytest.mark.parametrize("wanted", [0, 1])
def test_gradients_with_respect_to_each_logits(name, wanted):
    """Against central differences in float64; None where the function has no such argument."""
    expected, function = EXPECTED[name]
    logits = [tf.constant(LOGITS), tf.constant(OTHER)]
    with tf.GradientTape() as tape:
        tape.watch(logits)
        output = function(*logits)
    gradient = tape.gradient(output, logits[wanted])
    if wanted == 1 and name in ("log_prob", "entropy"):
        assert gradient is None
        return
    index, h, sums = (2, 1, 3), 1e-6, []
    for sign in (1, -1):
        shifted = [LOGITS.astype(np.float64), OTHER.astype(np.float64)]
        shifted[wanted][index] += sign * h
        sums.append(expected(*map(probabilities, shifted)).sum())
    assert gradient[index].numpy() == pytest.approx((sums[0] - sums[1]) / (2 * h), rel=1e-3, abs=1e-5)


def test_second_derivative_of_log_prob():
    """d^2 log p_a / d logits_a^2 = - p_a (1 - p_a), which metagradients through a policy update need."""
    logits, actions = tf.constant(LOGITS[:, 0]), ACTIONS[:, 0]
    one_hot = tf.one_hot(actions, 4)
    with tf.GradientTape() as outer:
        outer.watch(logits)
        with tf.GradientTape() as inner:
            inner.watch(logits)
            log_prob = categorical.log_prob(logits, actions)
        gradient = tf.reduce_sum(one_hot * inner.gradient(log_prob, logits))
    second = tf.reduce_sum(one_hot * outer.gradient(gradient, logits), axis=-1)
    p = np.take_along_axis(probabilities(LOGITS[:, 0]), actions[:, np.newaxis], axis=-1)[:, 0]
    np.testing.assert_allclose(second, -p * (1 - p), rtol=1e-4)


def test_half_precision_logits_are_computed_in_float32():
    half = tf.cast(LOGITS, tf.float16)
    np.testing.assert_array_equal(categorical.entropy(half), categorical.entropy(tf.cast(half, tf.float32)))
    assert categorical.log_prob(half, ACTIONS).dtype == tf.float32


@pytest.mark.parametrize("shape", [(5,), (5, 3, 1), (3, 5), (1, 3)])
def test_wrong_shapes_name_function_and_argument(shape):
    actions = np.zeros(shape, np.int32)
    with pytest.raises(ValueError, match=r"^categorical.log_prob: actions"):
        categorical.log_prob(LOGITS, actions)
    with pytest.raises(ValueError, match=r"^categorical.log_prob: actions"):
        categorical.log_ratio(LOGITS, OTHER, actions)
    with pytest.raises(ValueError, match=r"^categorical.log_ratio: behaviour_logits"):
        categorical.log_ratio(LOGITS, np.zeros((*shape, 4), np.float32), ACTIONS)
    with pytest.raises(ValueError, match=r"^categorical.kl: logits_q"):
        categorical.kl(LOGITS, np.zeros((*shape, 4), np.float32))
    with pytest.raises(ValueError, match=r"^categorical.log_prob: logits"):
        categorical.log_prob(0.0, 0)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_samples_follow_the_probabilities(jit_compile):
    num_samples = 100_000
    logits = tf.constant([0.0, 1.0, -3.0, 2.0])
    sample = tf.function(categorical.sample, jit_compile=jit_compile, autograph=False)
    actions = sample(tf.tile(logits[tf.newaxis], [num_samples, 1]), tf.constant([1, 2]))

    def largest_deviation(p):
        frequencies = np.bincount(actions, minlength=4) / num_samples
        return np.max(np.abs(frequencies - p) / np.sqrt(p * (1 - p) / num_samples))

    assert largest_deviation(probabilities(logits.numpy())) < 4  # in standard errors; the seed is fixed
    assert largest_deviation(np.full(4, 0.25)) > 100


def test_samples_depend_on_the_seed_and_on_nothing_else():
    def sample(seed, function=categorical.sample):
        return function(tf.zeros([50, 2, 4]), tf.constant(seed)).numpy()

    first = sample([1, 2])
    assert first.shape == (50, 2)
    assert first.dtype == np.int32
    np.testing.assert_array_equal(first, sample([1, 2]))
    np.testing.assert_array_equal(first, sample([1, 2], tf.function(categorical.sample, autograph=False)))
    assert (first != sample([1, 3])).any()
    assert (first[:, 0] != first[:, 1]).any()
    xla = tf.function(categorical.sample, jit_compile=True, autograph=False)
    np.testing.assert_array_equal(sample([1, 2], xla), sample([1, 2], xla))


def test_samples_are_the_certain_action():
    logits = tf.one_hot(ACTIONS, 4, on_value=200.0)
    np.testing.assert_array_equal(categorical.sample(logits, [3, 4]), ACTIONS)
