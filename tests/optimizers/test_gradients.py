"""The clip of the summed gradient: known answers and errors. Two replicas: `test_two_replicas.py`."""

import types

import numpy as np
import pytest
import tensorflow as tf

from repro.optimizers.gradients import masked_means_over_replicas, mean_over_replicas, reduce_and_clip

GRADIENTS = [
    np.array([[3.0, 0.0], [0.0, 0.0]], np.float32),
    np.array([0.0, 4.0, 12.0], np.float32),
]  # norm 13


def call(clip, jit_compile=None):
    def clipped():
        return reduce_and_clip([tf.constant(g) for g in GRADIENTS], clip)

    return clipped() if jit_compile is None else tf.function(clipped, jit_compile=jit_compile, autograph=False)()


@pytest.mark.parametrize("jit_compile", [None, False, True])
def test_clips_the_norm_of_all_tensors_together(jit_compile):
    clipped, norm = call(6.5, jit_compile)
    assert float(norm) == pytest.approx(13.0)
    for got, gradient in zip(clipped, GRADIENTS):
        np.testing.assert_allclose(got, gradient / 2, rtol=1e-6)


@pytest.mark.parametrize("clip", [13.5, 0.0])  # 0 is none
def test_leaves_a_shorter_gradient_as_it_is(clip):
    clipped, norm = call(clip)
    assert float(norm) == pytest.approx(13.0)
    for got, gradient in zip(clipped, GRADIENTS):
        np.testing.assert_array_equal(got, gradient)


def test_clips_nothing_unless_told_to():
    clipped, norm = reduce_and_clip([tf.constant(g) for g in GRADIENTS])
    assert float(norm) == pytest.approx(13.0)
    for got, gradient in zip(clipped, GRADIENTS):
        np.testing.assert_array_equal(got, gradient)


def test_zero_gradient_stays_zero():
    clipped, norm = reduce_and_clip([tf.zeros([3])], 1.0)
    assert float(norm) == 0.0
    np.testing.assert_array_equal(clipped[0], [0.0, 0.0, 0.0])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_is_seen_in_the_norm_and_everywhere(bad):
    clipped, norm = reduce_and_clip([tf.constant([1.0, bad]), tf.constant([2.0])], 1.0)
    assert not np.isfinite(norm)
    assert all(np.isnan(g).all() for g in clipped)


@pytest.mark.parametrize("clip", [-1.0, np.inf, np.nan])
def test_refuses_a_bound_that_is_not_positive_and_finite(clip):
    with pytest.raises(ValueError, match="positive and finite"):
        call(clip)


def test_names_the_variables_without_gradient():
    with pytest.raises(ValueError, match=r"positions \[1\]"):
        reduce_and_clip([tf.ones([2]), None, tf.ones([2])], 1.0)


def test_refuses_a_cross_replica_context():
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope(), pytest.raises(RuntimeError, match="strategy.run"):
        reduce_and_clip([tf.ones([2])], 1.0)


def test_the_mean_of_losses_on_one_device():
    losses, weights = tf.constant([1.0, 2.0, 6.0]), tf.constant([2.0, 0.0, 0.5])
    assert float(mean_over_replicas(losses)) == 3.0
    assert float(mean_over_replicas(losses, weights)) == pytest.approx(5 / 3)  # not divided by the weights' sum


def test_parts_of_the_mean_add_up(monkeypatch):
    """Two replicas with two losses each."""
    monkeypatch.setattr(tf.distribute, "get_strategy", lambda: types.SimpleNamespace(num_replicas_in_sync=2))
    parts = [mean_over_replicas(tf.constant(losses)) for losses in ([1.0, 2.0], [6.0, 7.0])]
    assert [float(part) for part in parts] == [0.75, 3.25]


@pytest.mark.parametrize("jit_compile", [False, True])
def test_means_are_over_what_is_not_masked(jit_compile):
    x = {"a": np.float32([[1.0, np.nan], [3.0, 8.0]]), "b": np.float32([[-2.0, np.inf], [0.0, 5.0]])}

    def means(mask):
        return masked_means_over_replicas({name: tf.constant(rows) for name, rows in x.items()}, mask)

    means = tf.function(means, jit_compile=jit_compile, autograph=False)
    found = means(tf.constant([[True, False], [True, True]]))
    assert {name: float(mean) for name, mean in found.items()} == {"a": 4.0, "b": 1.0}
    assert {float(mean) for mean in means(tf.zeros([2, 2], tf.bool)).values()} == {0.0}
