"""Initial weights: their distribution, and that they depend only on the passed seed."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from repro.networks.initializers import GlorotUniform, TruncatedNormalFanIn, distinct_seeds


@pytest.mark.parametrize(("shape", "fan_in"), [((400, 300), 400), ((8, 8, 4, 64), 256)])
def test_truncated_normal_fan_in_has_sonnets_law(shape, fan_in):
    values = TruncatedNormalFanIn(7)(shape).numpy()
    std = fan_in**-0.5
    assert np.abs(values).max() <= 2 * std
    assert np.abs(values).max() > 1.9 * std
    # A standard normal cut at two standard deviations has standard deviation 0.8796; 16 384 samples give it to 1 %.
    assert values.std() == pytest.approx(0.8796 * std, rel=0.02)
    assert abs(values.mean()) < 0.03 * std


def test_glorot_uniform_fills_its_interval():
    values = GlorotUniform(7)((100, 300)).numpy()
    limit = (6 / 400) ** 0.5
    assert 0.99 * limit < np.abs(values).max() <= limit
    assert values.std() == pytest.approx(limit / 3**0.5, rel=0.02)


@pytest.mark.parametrize("initializer", [TruncatedNormalFanIn, GlorotUniform])
def test_values_follow_from_the_seed_alone(initializer):
    tf.random.set_seed(1)
    first = initializer(3)((5, 6))
    tf.random.set_seed(2)
    again = initializer.from_config(initializer(3).get_config())((5, 6))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, initializer(4)((5, 6)))


def test_seeds_are_a_reproducible_stream_without_repeats():
    def take(seed):
        return list(itertools.islice(distinct_seeds(seed), 200))

    assert take(0) == take(0)
    assert len(set(take(0) + take(1))) == 400
    assert all(0 <= seed < 2**31 for seed in take(0))
