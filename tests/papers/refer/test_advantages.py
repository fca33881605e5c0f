"""Closed-form advantages: definitions by loops, expectations by sampling and by hand, sizes, gradients."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repro.papers.refer.advantages import LowerTriangular, advantage, num_coefficients

RNG = np.random.default_rng(0)
B, A = 6, 3
ACTION, MEAN = RNG.normal(size=(2, B, A))
STD = RNG.uniform(0.3, 1.5, size=(B, A))
COEFFICIENTS = {form: RNG.normal(size=(B, num_coefficients(form, A))) for form in ("quadratic", "gaussian")}


def softplus(x):
    return np.log1p(np.exp(x))


def matrix_of(entries, size):
    matrix, place = np.zeros((size, size)), 0
    for i in range(size):
        for j in range(i + 1):
            matrix[i, j] = softplus(entries[place]) if i == j else entries[place]
            place += 1
    return matrix


def f(form, coefficients, u):
    """Eq. (18) or (20), for actions u = a - m, [..., A]."""
    size = u.shape[-1]
    if form == "quadratic":
        matrix = matrix_of(coefficients, size)
        return -0.5 * np.einsum("...i,ij,...j->...", u, matrix @ matrix.T, u)
    k, above, below = np.split(softplus(coefficients), [1, 1 + size])
    exponent = np.maximum(u, 0) ** 2 @ (1 / above) + np.minimum(u, 0) ** 2 @ (1 / below)
    return k[0] * np.exp(-0.5 * exponent)


@pytest.mark.parametrize("form", COEFFICIENTS)
def test_f_minus_its_expectation_by_sampling(form):
    """Against f's definition with E[f] over 2e5 actions; so the advantage's mean under pi is 0 too."""
    actual = advantage(form, COEFFICIENTS[form], ACTION, MEAN, STD).numpy()
    for b in range(B):
        noise = np.random.default_rng(b).normal(size=(100_000, A)) * STD[b]
        samples = f(form, COEFFICIENTS[form][b], np.concatenate([noise, -noise]))
        error = samples.std() / len(samples) ** 0.5
        expected = f(form, COEFFICIENTS[form][b], ACTION[b] - MEAN[b]) - samples.mean()
        assert abs(actual[b] - expected) < 4 * error
        # Eq. (19) as printed lacks the factor -1/2, which moves the advantage by 3 / 2 Tr[L L' Sigma].
        assert abs(samples.mean()) > 20 * error


@pytest.mark.parametrize("form", COEFFICIENTS)
def test_mean_under_the_policy_is_zero(form):
    num_samples = 200_000
    actions = np.random.default_rng(5).normal(MEAN[0], STD[0], size=(num_samples, A))
    rows = [np.repeat(x[:1], num_samples, axis=0) for x in (COEFFICIENTS[form], MEAN)]
    values = advantage(form, rows[0], actions, rows[1], STD[0]).numpy()
    assert abs(values.mean()) < 4 * values.std() / num_samples**0.5
    assert values.std() > 0.05
    wider = advantage(form, rows[0], actions, rows[1], 1.2 * STD[0]).numpy()
    assert abs(wider.mean()) > 10 * wider.std() / num_samples**0.5


def test_expectations_by_hand():
    """At a = m, f is 0 (quadratic) or K (gaussian), so the advantage is -E[f] or K - E[f]."""
    raw_one = np.log(np.expm1(1.0))  # softplus gives 1
    quadratic = np.array([[raw_one, 2.0, raw_one]])  # L = [[1, 0], [2, 1]], L L' = [[1, 2], [2, 5]]
    std = np.array([2.0, 3.0])
    zeros = np.zeros((1, 2))
    np.testing.assert_allclose(advantage("quadratic", quadratic, zeros, zeros, std), [0.5 * (1 * 4 + 5 * 9)])
    gaussian = np.full((1, 5), raw_one)  # K = L_+ = L_- = 1
    expected = 1 - np.sqrt(1 / 5) * np.sqrt(1 / 10)
    np.testing.assert_allclose(advantage("gaussian", gaussian, zeros, zeros, std), [expected])


def test_the_two_sides_of_the_asymmetric_gaussian():
    """L_+ rules actions above the mean, L_- those below."""
    coefficients, std = np.array([[2.0, 5.0, -1.0]]), np.array([1.0])  # K, wide above, narrow below
    above, below = (
        advantage("gaussian", coefficients, np.array([[a]]), np.zeros((1, 1)), std).numpy()[0] for a in (1.0, -1.0)
    )
    expected = softplus(2.0) * (np.exp(-0.5 / softplus(5)) - np.exp(-0.5 / softplus(-1)))
    assert above - below == pytest.approx(expected)


@pytest.mark.parametrize("form", COEFFICIENTS)
def test_largest_at_the_mean(form):
    best = advantage(form, COEFFICIENTS[form], MEAN, MEAN, STD).numpy()
    assert (best > advantage(form, COEFFICIENTS[form], ACTION, MEAN, STD).numpy()).all()


def test_numbers_of_outputs():
    """Appendix E: 153 and 35 for the 17 actions of Humanoid."""
    assert num_coefficients("quadratic", 17) == 153
    assert num_coefficients("gaussian", 17) == 35
    assert num_coefficients("none", 17) == 0
    with pytest.raises(KeyError, match="cubic"):
        num_coefficients("cubic", 17)


def test_products_with_the_triangular_matrix():
    entries, u, variance = RNG.normal(size=(B, 6)), RNG.normal(size=(B, A)), RNG.uniform(size=(B, A))
    lower = LowerTriangular(tf.constant(entries), A)
    product, trace = lower.transposed_product(tf.constant(u)), lower.trace(tf.constant(variance))
    for b in range(B):
        matrix = matrix_of(entries[b], A)
        np.testing.assert_allclose(product[b], matrix.T @ u[b])
        np.testing.assert_allclose(trace[b], np.trace(matrix @ matrix.T @ np.diag(variance[b])))


def test_without_an_advantage():
    np.testing.assert_array_equal(advantage("none", np.zeros((B, 0)), ACTION, MEAN, STD), np.zeros(B))


@pytest.mark.parametrize("form", COEFFICIENTS)
def test_gradients_reach_the_coefficients_alone(form):
    coefficients, others = tf.constant(COEFFICIENTS[form]), [tf.constant(x) for x in (ACTION, MEAN, STD)]
    with tf.GradientTape() as tape:
        tape.watch([coefficients, *others])
        output = advantage(form, coefficients, *others)
    gradient, *dead = tape.gradient(output, [coefficients, *others])
    assert dead == [None, None, None]
    for index in ((1, 0), (2, 3), (4, 5)):
        h, sums = 1e-6, []
        for sign in (1, -1):
            shifted = COEFFICIENTS[form].copy()
            shifted[index] += sign * h
            sums.append(advantage(form, shifted, ACTION, MEAN, STD).numpy().sum())
        assert gradient[index].numpy() == pytest.approx((sums[0] - sums[1]) / (2 * h), rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("form", COEFFICIENTS)
def test_eager_graph_and_xla_agree(form):
    arguments = [x.astype(np.float32) for x in (COEFFICIENTS[form], ACTION, MEAN, STD)]
    expected = advantage(form, *arguments)
    for jit_compile in (False, True):
        compiled = tf.function(lambda *x: advantage(form, *x), jit_compile=jit_compile, autograph=False)
        np.testing.assert_allclose(compiled(*arguments), expected, rtol=1e-4, atol=1e-6)


def test_wrong_shapes():
    coefficients = COEFFICIENTS["gaussian"]
    with pytest.raises(ValueError, match=r"^advantage: gaussian with 3 actions takes 7 coefficients, got shape \(6, 6"):
        advantage("gaussian", coefficients[:, :6], ACTION, MEAN, STD)
    with pytest.raises(ValueError, match=r"^advantage: mean must have the shape of action"):
        advantage("gaussian", coefficients, ACTION, MEAN[:, :1], STD)
    with pytest.raises(ValueError, match=r"^advantage: std must have the shape of action"):
        advantage("gaussian", coefficients, ACTION, MEAN, STD[:, :1])
