"""Eq. 12 against a numerical quadratic programme, and how a given gradient passes through a network."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy.optimize import minimize

from repro.papers.acer.trust_region import project, surrogate

DELTA = 0.7


def sample(shape, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape).astype(np.float32) * 2 for _ in range(2))


def test_constraint_holds_and_is_tight_where_it_acts():
    g, k = sample((400, 5))
    z = project(g, k, DELTA).numpy()
    before, after = (g * k).sum(-1), (z * k).sum(-1)
    active = before > DELTA
    assert 100 < active.sum() < 300
    np.testing.assert_allclose(after[active], DELTA, atol=1e-4)
    np.testing.assert_array_equal(z[~active], g[~active])
    assert np.abs(z - g)[active].max(-1).min() > 0


@pytest.mark.parametrize("seed", range(8))
def test_equals_the_quadratic_programme(seed):
    g, k = (x[0].astype(float) for x in sample((1, 4), seed))
    k *= np.sign(g @ k)
    delta = 0.3 * g @ k
    solved = minimize(
        lambda z: 0.5 * np.sum((g - z) ** 2),
        np.zeros(4),
        jac=lambda z: z - g,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda z: delta - k @ z, "jac": lambda _: -k},
        options={"ftol": 1e-14},
    )
    assert solved.success
    np.testing.assert_allclose(project(g, k, delta), solved.x, atol=1e-5)
    assert np.abs(solved.x - g).max() > 1e-2  # the programme does something


def test_hand_case():
    # k.g = 5, |k|^2 = 5, so that z = g - (5 - 1) / 5 k
    np.testing.assert_allclose(project([[3.0, 1.0]], [[1.0, 2.0]], 1.0), [[2.2, -0.6]], rtol=1e-6)
    np.testing.assert_array_equal(project([[3.0, 1.0]], [[1.0, 2.0]], 5.0), [[3.0, 1.0]])
    np.testing.assert_array_equal(project([[3.0, 1.0]], [[-1.0, -2.0]], 1.0), [[3.0, 1.0]])


@pytest.mark.parametrize("delta", [0.0, 1.0])
def test_no_divergence_no_constraint(delta):
    g, _ = sample((3, 4))
    np.testing.assert_array_equal(project(g, np.zeros((3, 4)), delta), g)


@pytest.mark.parametrize("scale", [1e-37, 1e-20, 1e15, 1e30, 1e37])
def test_gradients_of_any_size_are_safe(scale):
    k, g = np.array([[1.0, -2.0, 0.5]]) * scale, np.array([[2.0, -1.0, 3.0]])
    z = project(g, k, DELTA).numpy().astype(float)
    assert np.isfinite(z).all()
    if scale < 1:
        np.testing.assert_array_equal(z, g)
    else:  # delta / |k| vanishes: only what is orthogonal to k is left
        np.testing.assert_allclose(z @ [1.0, -2.0, 0.5], 0, atol=1e-5)


def test_every_step_is_its_own_programme():
    g, k = sample((2, 3, 4))
    z = project(g, k, DELTA).numpy()
    for index in np.ndindex(2, 3):
        np.testing.assert_allclose(z[index], project(g[index], k[index], DELTA), rtol=1e-6)


def test_surrogate_is_the_product_with_the_jacobian():
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(6, 3)).astype(np.float32), rng.normal(size=(6, 4)).astype(np.float32)
    weights = tf.Variable(rng.normal(size=(3, 4)).astype(np.float32))
    with tf.GradientTape(persistent=True) as tape:
        phi = tf.nn.softmax(x @ weights)
        loss = tf.reduce_sum(surrogate(z, phi))
    jacobian = tape.jacobian(phi, weights, experimental_use_pfor=False)  # [6, 4, 3, 4]
    np.testing.assert_allclose(tape.gradient(loss, weights), -np.einsum("in,injk->jk", z, jacobian), atol=1e-5)


def test_live_and_dead_gradients():
    g, k = (tf.constant(x) for x in sample((3, 4)))
    phi = tf.nn.softmax(g)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([g, k, phi])
        z = project(g, k, DELTA)
        loss = surrogate(g, phi)
    assert tape.gradient(z, [g, k]) == [None, None]
    assert tape.gradient(loss, g) is None
    np.testing.assert_array_equal(tape.gradient(loss, phi), -g)


def test_wrong_arguments_are_errors():
    with pytest.raises(ValueError, match="project: k must have the shape of g"):
        project(tf.zeros([3, 4]), tf.zeros([3, 1]), DELTA)
    with pytest.raises(ValueError, match="project: g must have rank 1"):
        project(tf.zeros([]), tf.zeros([]), DELTA)
    with pytest.raises(ValueError, match=r"delta must lie in \[0, inf\]"):
        project(tf.zeros([3]), tf.zeros([3]), -0.1)
    with pytest.raises(ValueError, match="surrogate: phi must have the shape of z"):
        surrogate(tf.zeros([3, 4]), tf.zeros([4]))
    for function, names in (
        (lambda x: project(x, x, DELTA), "project: g"),
        (lambda x: surrogate(x, x), "surrogate: z"),
    ):
        with pytest.raises(ValueError, match=f"^{names} must be float32, got float64; convert it by tf.cast"):
            function(tf.zeros([3], tf.float64))


def test_eager_graph_and_xla_agree():
    g, k = sample((7, 5))
    eager = project(g, k, DELTA)
    for jit_compile in (False, True):
        compiled = tf.function(lambda a, b: project(a, b, DELTA), jit_compile=jit_compile, autograph=False)
        np.testing.assert_allclose(compiled(g, k), eager, rtol=1e-5, atol=1e-6)
