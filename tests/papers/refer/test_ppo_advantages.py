"""Generalised advantages, against the written sum, identities and TF-Agents."""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.utils import value_ops

from repro.papers.refer.ppo_advantages import generalised_advantages

T, GAMMA, LAMBDA = 23, 0.9, 0.8
CUTS, FALLS = (4, 15), (9, 10, 19)  # two ends side by side among them


def _stretch(cuts=CUTS, falls=FALLS):
    g = np.random.default_rng(3)
    reward, value, next_value = (g.normal(size=T).astype(np.float32) for _ in range(3))
    last, terminated = (np.isin(np.arange(T), ends) for ends in ((*cuts, *falls), falls))
    inside = ~last[:-1]
    next_value[:-1][inside] = value[1:][inside]
    next_value[terminated] = np.nan  # must not be read
    return reward, value, next_value, last, terminated


def _double_loop(reward, value, next_value, last, terminated, discount, lambda_):
    advantages = []
    for t in range(T):
        total, weight = 0.0, 1.0
        for s in range(t, T):
            following = 0.0 if terminated[s] else float(next_value[s])
            total += weight * (reward[s] + discount * following - value[s])
            weight *= discount * lambda_
            if last[s]:
                break
        advantages.append(total)
    return np.array(advantages)


@pytest.mark.parametrize("compiled", [False, True])
def test_it_is_the_sum_over_the_rest_of_the_episode(compiled):
    stretch = _stretch()
    function = tf.function(lambda: generalised_advantages(*stretch, GAMMA, LAMBDA), jit_compile=True, autograph=False)
    found = function() if compiled else generalised_advantages(*stretch, GAMMA, LAMBDA)
    np.testing.assert_allclose(found, _double_loop(*stretch, GAMMA, LAMBDA), rtol=1e-5, atol=1e-6)


def test_a_cut_taken_for_a_fall_gives_something_else():
    reward, value, next_value, last, terminated = _stretch()
    right = generalised_advantages(reward, value, next_value, last, terminated, GAMMA, LAMBDA).numpy()
    wrong = generalised_advantages(reward, value, next_value, last, last, GAMMA, LAMBDA).numpy()
    np.testing.assert_allclose((right - wrong)[list(CUTS)], GAMMA * next_value[list(CUTS)], rtol=1e-5)
    np.testing.assert_array_equal(right[16:20], wrong[16:20])  # an episode that fell
    assert not np.isclose(right[:5], wrong[:5]).any()  # an episode that was cut


def test_lambda_1_is_the_discounted_return_and_lambda_0_one_step():
    reward, value, next_value, last, terminated = stretch = _stretch(cuts=(), falls=(T - 1,))
    full = generalised_advantages(*stretch, GAMMA, 1.0)
    returns = [sum(GAMMA ** (s - t) * reward[s] for s in range(t, T)) for t in range(T)]
    np.testing.assert_allclose(full + value, returns, rtol=1e-4, atol=1e-5)
    one_step = generalised_advantages(*stretch, GAMMA, 0.0)
    np.testing.assert_allclose(one_step, reward + GAMMA * np.nan_to_num(next_value) - value, rtol=1e-5, atol=1e-6)


def test_without_an_end_it_is_that_of_tf_agents():
    reward, value, next_value, last, terminated = stretch = _stretch(cuts=(), falls=())
    expected = value_ops.generalized_advantage_estimation(
        value[:, None], next_value[-1:], np.full((T, 1), GAMMA, np.float32), reward[:, None], LAMBDA
    )
    np.testing.assert_allclose(generalised_advantages(*stretch, GAMMA, LAMBDA), expected[:, 0], rtol=1e-4, atol=1e-5)


def test_targets_have_no_gradient():
    reward, value, *rest = _stretch()
    value = tf.constant(value)
    with tf.GradientTape() as tape:
        tape.watch(value)
        advantage = generalised_advantages(reward, value, *rest, GAMMA, LAMBDA)
    assert tape.gradient(advantage, value) is None


@pytest.mark.parametrize("wrong", range(5))
def test_a_wrong_shape_names_the_function(wrong):
    stretch = [x[:, None] if i == wrong else x for i, x in enumerate(_stretch())]
    with pytest.raises(ValueError, match="generalised_advantages"):
        generalised_advantages(*stretch, GAMMA, LAMBDA)


def test_single_numbers_are_no_steps():
    with pytest.raises(ValueError, match=r"^generalised_advantages: reward must have rank 1 or more, got shape \(\)"):
        generalised_advantages(*(x[0] for x in _stretch()), GAMMA, LAMBDA)


def test_settings_outside_their_range():
    with pytest.raises(ValueError, match=r"^generalised_advantages: discount must lie in \[0, 1\], got 1\.1$"):
        generalised_advantages(*_stretch(), 1.1, LAMBDA)
    with pytest.raises(ValueError, match=r"^generalised_advantages: lambda_ must lie in \[0, 1\], got -0\.1$"):
        generalised_advantages(*_stretch(), GAMMA, -0.1)
