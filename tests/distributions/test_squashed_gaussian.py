"""The squashed Gaussian against numerical integrals and a change of variables in float64, and at the bounds."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

from repro.distributions import gaussian, squashed_gaussian

RNG = np.random.default_rng(0)
RAW, OTHER_RAW = RNG.normal(size=(2, 5, 3))
MEAN, OTHER_MEAN = np.tanh(RAW), np.tanh(OTHER_RAW)
STD, OTHER_STD = RNG.uniform(0.2, 1.0, size=(2, 5, 3))
ACTION = np.tanh(RNG.normal(size=(5, 3)))
normal = tfp.distributions.Normal


def log_density(a, m, s):
    """Of one component, by a central difference of the distribution function P(tanh(u) < a), in float64."""
    h = 1e-5 * (1 - abs(a))
    high, low = (scipy.stats.norm.cdf(np.arctanh(x), m, s) for x in (a + h, a - h))
    return np.log((high - low) / (2 * h))


def found_log_prob(a, m, s):
    """Of one component, for actions [N]."""
    return squashed_gaussian.log_prob(*(np.full((len(a), 1), x) for x in (m, s)), a[:, None]).numpy()


def integral(function):
    """Over (-1, 1) by Gauss's rule on pieces that grow finer towards the bounds, where what is integrated may peak."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    ends = np.tanh(np.linspace(-12, 12, 97))
    low, high = ends[:-1, None], ends[1:, None]
    at = (low + high) / 2 + nodes * (high - low) / 2
    return float(np.sum(function(at.ravel()).reshape(at.shape) * weights * (high - low) / 2))


@pytest.mark.parametrize(("m", "s"), [(0.0, 1.0), (0.7, 0.4), (-0.99, 1.0), (0.3, 0.05)])
def test_the_density_integrates_to_one(m, s):
    assert integral(lambda a: np.exp(found_log_prob(a, m, s))) == pytest.approx(1.0, abs=1e-6)


def test_log_prob_is_the_slope_of_the_distribution_function():
    found = squashed_gaussian.log_prob(MEAN, STD, ACTION)
    expected = [sum(map(log_density, *row)) for row in zip(ACTION, MEAN, STD)]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    reference = tfp.distributions.TransformedDistribution(normal(MEAN, STD), tfp.bijectors.Tanh())
    np.testing.assert_allclose(found, tf.reduce_sum(reference.log_prob(ACTION), axis=-1))


def test_divergences_are_integrals_over_actions():
    """KL between policies, and from one to a standard normal's squashed samples, by quadrature over actions."""
    for m, s, other_m, other_s in [(0.5, 0.4, -0.2, 0.7), (-0.9, 0.9, 0.0, 1.0)]:

        def integrand(a, m=m, s=s, other_m=other_m, other_s=other_s):
            log_p = found_log_prob(a, m, s)
            return np.exp(log_p) * (log_p - found_log_prob(a, other_m, other_s))

        p, q = (np.full((1, 1), x) for x in (m, s)), (np.full((1, 1), x) for x in (other_m, other_s))
        assert integral(integrand) == pytest.approx(float(gaussian.kl(*p, *q)[0]), rel=1e-5)
    rest = squashed_gaussian.kl_to_standard_normal(np.array([[-0.9]]), np.array([[0.9]]))
    assert float(rest[0]) == pytest.approx(integral(integrand), rel=1e-5)
    np.testing.assert_allclose(
        squashed_gaussian.kl_to_standard_normal(MEAN, STD),
        tf.reduce_sum(normal(MEAN, STD).kl_divergence(normal(np.zeros_like(MEAN), np.ones_like(STD))), axis=-1),
    )


def test_ratios_are_those_of_the_densities():
    """Where the Jacobian cancels."""
    found = squashed_gaussian.log_ratio(MEAN, STD, OTHER_MEAN, OTHER_STD, ACTION)
    pi, mu = (squashed_gaussian.log_prob(*x, ACTION) for x in ((MEAN, STD), (OTHER_MEAN, OTHER_STD)))
    np.testing.assert_allclose(found, pi - mu)


def test_by_hand():
    """a = 0 is u = 0, where the tanh has slope 1; a = tanh(1)."""
    zeros, ones = np.zeros((1, 2)), np.ones((1, 2))
    np.testing.assert_allclose(squashed_gaussian.log_prob(zeros, ones, zeros), [-np.log(2 * np.pi)])
    expected = 2 * (-0.5 - 0.5 * np.log(2 * np.pi) - np.log(1 - np.tanh(1) ** 2))
    np.testing.assert_allclose(squashed_gaussian.log_prob(zeros, ones, np.tanh(ones)), [expected])
    np.testing.assert_allclose(squashed_gaussian.kl_to_standard_normal(zeros, ones), [0.0], atol=1e-12)
    np.testing.assert_allclose(squashed_gaussian.kl_to_standard_normal(ones, ones), [1.0])


def test_the_std_is_the_papers_formula():
    y = np.array([-1e3, -0.7, 0.0, 0.4, 1e3])
    expected = [np.exp(-4.0 + 0.5 * (0.5 + 4.0) * (np.tanh(x) + 1)) for x in y]
    np.testing.assert_allclose(squashed_gaussian.std_from_raw(tf.constant(y), -4.0, 0.5), expected)
    np.testing.assert_allclose(expected[::4], np.exp([-4.0, 0.5]))
    np.testing.assert_allclose(squashed_gaussian.mean_from_raw(tf.constant(y)), np.tanh(y))


BOUNDS = np.array([1.0, -1.0, 1 - 2.0**-24, 1 - 2.0**-23, -1 + 2.0**-20, np.tanh(5.0)], np.float32)


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_values_and_gradients_are_finite_and_right_at_the_bounds(mode):
    """In float32, at actions that a float32 tanh gives of samples far out, against float64 of the same action."""

    def run(mean, std):
        with tf.GradientTape() as tape:
            tape.watch([mean, std])
            action = tf.constant(BOUNDS[:, None])
            found = squashed_gaussian.log_prob(mean, std, action)
            ratio = squashed_gaussian.log_ratio(mean, std, tf.zeros_like(mean), tf.ones_like(mean), action)
            total = tf.reduce_sum(found + ratio)
        return found, ratio, *tape.gradient(total, [mean, std])

    if mode != "eager":
        run = tf.function(run, jit_compile=mode == "xla", autograph=False)
    for m, s in ((0.9, 1.0), (-0.9, float(np.exp(-4)))):
        mean, std = (tf.fill([len(BOUNDS), 1], np.float32(x)) for x in (m, s))
        found, ratio, *gradients = run(mean, std)
        a = np.clip(BOUNDS.astype(np.float64), -1 + 2.0**-24, 1 - 2.0**-24)
        u = np.arctanh(a)
        expected = scipy.stats.norm.logpdf(u, m, s) - np.log1p(-a) - np.log1p(a)
        np.testing.assert_allclose(found, expected, rtol=1e-4)
        np.testing.assert_allclose(ratio, scipy.stats.norm.logpdf(u, m, s) - scipy.stats.norm.logpdf(u), rtol=1e-4)
        np.testing.assert_allclose(gradients[0][:, 0], 2 * (u - m) / s**2, rtol=1e-4)
        np.testing.assert_allclose(gradients[1][:, 0], 2 * ((u - m) ** 2 / s**3 - 1 / s), rtol=1e-4)


def test_samples_follow_the_distribution_and_the_seed():
    """Kolmogorov-Smirnov over 1e5 samples of two components."""
    mean, std = (tf.constant(np.tile(np.float32(x), (100_000, 1))) for x in ([0.5, -0.9], [0.3, 1.0]))
    samples = squashed_gaussian.sample(mean, std, [3, 4]).numpy()
    assert samples.dtype == np.float32
    assert np.abs(samples).max() <= 1.0
    for i, (m, s) in enumerate([(0.5, 0.3), (-0.9, 1.0)]):

        def cdf(a, m=m, s=s):
            return scipy.stats.norm.cdf(np.arctanh(a), m, s)

        assert scipy.stats.kstest(samples[:, i], cdf).pvalue > 0.01
        assert scipy.stats.kstest(samples[:, i], lambda a, m=m, s=s: cdf(a, m + 0.05 * s, s)).pvalue < 1e-6
    assert abs(np.corrcoef(samples.T)[0, 1]) < 0.02
    np.testing.assert_array_equal(samples, squashed_gaussian.sample(mean, std, [3, 4]))
    in_graph = tf.function(squashed_gaussian.sample, autograph=False)(mean, std, tf.constant([3, 4]))
    np.testing.assert_array_equal(samples, in_graph)
    assert (samples != squashed_gaussian.sample(mean, std, [3, 5]).numpy()).all(axis=1).mean() > 0.99


def test_more_dimensions_than_two():
    shaped = [x[np.newaxis, :, np.newaxis] for x in (MEAN, STD, ACTION)]
    expected = squashed_gaussian.log_prob(MEAN, STD, ACTION)
    np.testing.assert_allclose(squashed_gaussian.log_prob(*shaped)[0, :, 0], expected)


@pytest.mark.parametrize("name", ["log_prob", "log_ratio", "kl_to_standard_normal"])
def test_wrong_shapes_are_an_error(name):
    arguments = {
        "log_prob": [MEAN, STD, ACTION],
        "log_ratio": [MEAN, STD, OTHER_MEAN, OTHER_STD, ACTION],
        "kl_to_standard_normal": [MEAN, STD],
    }[name]
    for position in range(len(arguments)):
        for wrong in ((5, 1), (1, 3), (3, 5), ()):
            shaped = list(arguments)
            shaped[position] = np.ones(wrong)
            with pytest.raises(ValueError, match=r"^gaussian\."):
                getattr(squashed_gaussian, name)(*shaped)
