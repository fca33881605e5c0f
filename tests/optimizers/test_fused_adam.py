"""Adam in one kernel is Keras's Adam or, with the corrected epsilon, that of Kingma & Ba (2015)."""

import numpy as np
import pytest
import tensorflow as tf

from repro.optimizers.fused_adam import FusedAdam


@pytest.mark.parametrize("epsilon", [1e-8, 1e-3])
@pytest.mark.parametrize("jit", [False, True])
def test_steps_are_those_of_keras(epsilon, jit):
    rng = np.random.default_rng(0)
    shapes = [(3, 4), (5,), ()]
    first = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    sides = []
    for make in (FusedAdam, tf.keras.optimizers.Adam):
        variables, optimizer = [tf.Variable(x) for x in first], make(0.01, 0.8, 0.99, epsilon)
        optimizer.build(variables)
        step = tf.function(
            lambda g, o=optimizer, v=variables: o.apply_gradients(zip(g, v)), jit_compile=jit, autograph=False
        )
        sides.append((variables, optimizer, step))
    for t in range(20):
        gradients = [tf.constant(10.0**-t * rng.normal(size=shape), tf.float32) for shape in shapes]
        for _, _, step in sides:
            step(gradients)
        for ours, theirs in zip(sides[0][0], sides[1][0], strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert int(sides[0][1].iterations) == 20


def test_each_variable_may_have_a_rate_of_its_own():
    rng, scales = np.random.default_rng(0), (1.0, 0.1)
    first = [rng.normal(size=3).astype(np.float32) for _ in scales]
    ours, theirs = ([tf.Variable(x) for x in first] for _ in range(2))
    optimizer, keras = FusedAdam(0.01, scales=scales), [tf.keras.optimizers.Adam(0.01 * scale) for scale in scales]
    optimizer.build(ours)
    for _ in range(5):
        gradients = [tf.constant(rng.normal(size=3), tf.float32) for _ in scales]
        optimizer.apply_gradients(zip(gradients, ours))
        for one, gradient, variable in zip(keras, gradients, theirs, strict=True):
            one.apply_gradients([(gradient, variable)])
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("jit", [False, True])
def test_with_the_corrected_epsilon_steps_are_those_of_algorithm_1(jit):
    """Algorithm 1 in float64. Gradients are of the size of epsilon: the first step is rate g / (|g| + epsilon)."""
    rng, rate, beta_1, beta_2, epsilon = np.random.default_rng(0), 0.1, 0.9, 0.999, 1e-4
    variable, optimizer = tf.Variable(tf.zeros(5)), FusedAdam(rate, beta_1, beta_2, epsilon, epsilon_is_corrected=True)
    optimizer.build([variable])
    step = tf.function(lambda g: optimizer.apply_gradients([(g, variable)]), jit_compile=jit, autograph=False)
    w = m = v = np.zeros(5)
    for t in range(1, 6):
        g = rng.normal(size=5) * 1e-4
        m, v = beta_1 * m + (1 - beta_1) * g, beta_2 * v + (1 - beta_2) * g**2
        w = w - rate * (m / (1 - beta_1**t)) / (np.sqrt(v / (1 - beta_2**t)) + epsilon)
        step(tf.constant(g, tf.float32))
        np.testing.assert_allclose(variable, w, rtol=2e-4, atol=1e-6)
        if t == 1:
            np.testing.assert_allclose(w, -rate * g / (np.abs(g) + epsilon), rtol=1e-9)
    assert np.abs(w).min() > 1e-3


def test_sparse_gradients_are_refused():
    variable, optimizer = tf.Variable(tf.zeros([3, 2])), FusedAdam(0.1)
    optimizer.build([variable])
    with pytest.raises(TypeError, match="is sparse"):
        optimizer.apply_gradients([(tf.IndexedSlices(tf.ones([1, 2]), tf.constant([1])), variable)])
