"""The Gaussian against TensorFlow Probability, sampling, hand cases and finite differences, in float64."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

from repro.distributions import gaussian

RNG = np.random.default_rng(0)
ACTION, MEAN, OTHER_MEAN = RNG.normal(size=(3, 5, 4))
STD, OTHER_STD = RNG.uniform(0.2, 2.0, size=(2, 5, 4))

FUNCTIONS = {
    "log_prob": (gaussian.log_prob, [MEAN, STD, ACTION]),
    "log_ratio": (gaussian.log_ratio, [MEAN, STD, OTHER_MEAN, OTHER_STD, ACTION]),
    "kl": (gaussian.kl, [MEAN, STD, OTHER_MEAN, OTHER_STD]),
}


def tfp_normal(mean, std):
    return tfp.distributions.MultivariateNormalDiag(mean, std * np.ones_like(mean))


@pytest.mark.parametrize("shared", [False, True])
def test_equals_tensorflow_probability(shared):
    std, other = (STD[0], OTHER_STD[0]) if shared else (STD, OTHER_STD)
    p, q = tfp_normal(MEAN, std), tfp_normal(OTHER_MEAN, other)
    np.testing.assert_allclose(gaussian.log_prob(MEAN, std, ACTION), p.log_prob(ACTION))
    ratio = gaussian.log_ratio(MEAN, std, OTHER_MEAN, other, ACTION)
    np.testing.assert_allclose(ratio, p.log_prob(ACTION) - q.log_prob(ACTION))
    divergence = gaussian.kl(MEAN, std, OTHER_MEAN, other)
    np.testing.assert_allclose(divergence, p.kl_divergence(q))
    assert not np.allclose(divergence, q.kl_divergence(p), rtol=0.05)


def test_divergence_is_the_mean_log_ratio_under_the_first():
    """Over 1e6 actions of p; the other order is far outside the interval."""
    num_samples, rng = 1_000_000, np.random.default_rng(1)
    m_p, s_p, m_q, s_q = MEAN[:1], STD[:1], OTHER_MEAN[:1], OTHER_STD[:1]
    actions = rng.normal(m_p, s_p, size=(num_samples, 4))

    def rows(x):
        return np.repeat(x, num_samples, axis=0)

    ratios = gaussian.log_ratio(rows(m_p), s_p[0], rows(m_q), s_q[0], actions).numpy()
    error = ratios.std() / num_samples**0.5
    assert abs(ratios.mean() - gaussian.kl(m_p, s_p, m_q, s_q)[0]) < 4 * error
    assert abs(ratios.mean() - gaussian.kl(m_q, s_q, m_p, s_p)[0]) > 20 * error


def test_by_hand():
    """N(0, 1) and N(1, 2^2), in two equal components; a = 1."""
    zeros, ones = np.zeros((1, 2)), np.ones((1, 2))
    density = np.exp(-0.5) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(gaussian.log_prob(zeros, ones, ones), [2 * np.log(density)])
    np.testing.assert_allclose(gaussian.log_ratio(zeros, ones, ones, 2 * ones, ones), [2 * (np.log(2) - 0.5)])
    np.testing.assert_allclose(gaussian.kl(zeros, ones, ones, 2 * ones), [2 * (np.log(2) + 2 / 8 - 0.5)])
    np.testing.assert_allclose(gaussian.kl(ones, 2 * ones, zeros, ones), [2 * (-np.log(2) + 5 / 2 - 0.5)])


def test_a_distribution_against_itself():
    np.testing.assert_array_equal(gaussian.kl(MEAN, STD, MEAN, STD), np.zeros(5))
    np.testing.assert_array_equal(gaussian.log_ratio(MEAN, STD, MEAN, STD, ACTION), np.zeros(5))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_against_finite_differences(name):
    function, arguments = FUNCTIONS[name]
    tensors = [tf.constant(x) for x in arguments]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        output = function(*tensors)
    for position, gradient in enumerate(tape.gradient(output, tensors)):
        index, h, sums = (2, 1), 1e-6, []
        for sign in (1, -1):
            shifted = [x.copy() for x in arguments]
            shifted[position][index] += sign * h
            sums.append(function(*shifted).numpy().sum())
        assert gradient[index].numpy() == pytest.approx((sums[0] - sums[1]) / (2 * h), rel=1e-6)
        assert gradient[index] != 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_eager_graph_and_xla_agree_in_float32(name):
    function, arguments = FUNCTIONS[name]
    single = [x.astype(np.float32) for x in arguments]
    for jit_compile in (False, True):
        output = tf.function(function, jit_compile=jit_compile, autograph=False)(*single)
        assert output.dtype == tf.float32
        np.testing.assert_allclose(output, function(*arguments), rtol=1e-4)


@pytest.mark.parametrize("name", ["log_prob", "log_ratio", "kl"])
def test_wrong_shapes_name_function_and_argument(name):
    function, arguments = FUNCTIONS[name]
    for position in range(1, len(arguments)):
        for wrong in ((5, 1), (1, 4), (4, 5), (5,), ()):
            shaped = list(arguments)
            shaped[position] = np.ones(wrong)
            with pytest.raises(ValueError, match=rf"^gaussian\.{name}: "):
                function(*shaped)
    with pytest.raises(ValueError, match=r"^gaussian\.kl: std_q must have the shape of mean_p, got \(5, 1\)"):
        gaussian.kl(MEAN, STD, MEAN, STD[:, :1])


def test_softplus_gives_the_variance():
    raw = gaussian.raw_from_variance(0.2)
    assert gaussian.std_from_raw(tf.constant(raw, tf.float64)).numpy() ** 2 == pytest.approx(0.2, rel=1e-12)
    assert gaussian.std_from_raw(tf.constant(0.0)).numpy() == pytest.approx(np.sqrt(np.log(2)), rel=1e-6)
    raw = np.linspace(-20, 200, 221, dtype=np.float32)  # whose exponential is infinite from 89 on
    std = gaussian.std_from_raw_numpy(raw)
    np.testing.assert_allclose(std, gaussian.std_from_raw(raw), rtol=1e-6)
    assert (std.dtype, std[raw == 196.0]) == (np.float32, 14.0)
    assert np.isnan(gaussian.std_from_raw_numpy(np.array([np.nan], np.float32)))


def test_samples_follow_the_truncated_normal():
    """Kolmogorov-Smirnov over 1e5 samples per component; without the cut some 270 of them lie beyond."""
    mean, std = np.full((100_000, 2), [1.0, -2.0], np.float32), np.array([0.5, 3.0], np.float32)
    actions = gaussian.sample_truncated(np.random.default_rng(3), mean, std)
    assert actions.dtype == np.float32
    assert actions.shape == mean.shape
    noise = (actions - mean) / std
    assert 2.99 < np.abs(noise).max() < 3.0 + 1e-5
    for component in noise.T:
        assert scipy.stats.kstest(component, scipy.stats.truncnorm(-3, 3).cdf).pvalue > 0.01
        assert scipy.stats.kstest(component, scipy.stats.truncnorm(-2, 2).cdf).pvalue < 1e-6
        assert (np.abs(component) > 2.9).any()
    assert np.count_nonzero(np.abs(noise) > 3.0 - 1e-4) < 10  # resampled; clipped, all of the 540 would lie there


def test_samples_depend_on_the_generator_alone():
    def sample(seed):
        return gaussian.sample_truncated(np.random.default_rng(seed), np.zeros(500), np.ones(500))

    np.testing.assert_array_equal(sample(0), sample(0))
    assert (sample(0) != sample(1)).all()
    assert sample(0).shape == (500,)


def test_ratios_of_truncated_densities_are_those_without_the_cut():
    """Where the action lies within three standard deviations of both means, as the module says."""
    action, mean, other = np.array([[0.3]]), np.array([[0.0]]), np.array([[0.5]])
    p = scipy.stats.truncnorm(-3, 3, loc=0.0, scale=1.0)
    q = scipy.stats.truncnorm(-3, 3, loc=0.5, scale=0.4)
    expected = p.logpdf(0.3) - q.logpdf(0.3)
    np.testing.assert_allclose(gaussian.log_ratio(mean, np.ones(1), other, np.array([0.4]), action)[0], expected)
