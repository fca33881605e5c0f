"""Noise around the mean: independent and truncated, or an Ornstein-Uhlenbeck process."""

import numpy as np
import pytest

from repro.distributions import gaussian
from repro.papers.refer.exploration import explore
from tests.papers.refer.small import build

TRUNCATED = 0.98658  # standard deviation of a standard normal number that is truncated at 3
MEAN, STD = np.float32([0.5, -1.0]), np.float32([0.2, 0.2])


def _process(theta, steps=20_000):
    rng, noise = np.random.default_rng(0), np.zeros(2, np.float32)
    noises = np.empty((steps, 2))
    for t in range(steps):
        noises[t] = noise = explore(rng, MEAN, STD, noise, theta) - MEAN
    return noises


def test_the_process_has_its_std_and_memory():
    noises = _process(0.15)
    assert noises.std(axis=0) == pytest.approx(0.2 * TRUNCATED / (1 - 0.85**2) ** 0.5, rel=0.05)
    for lag in (1, 5):
        correlation = (noises[lag:] * noises[:-lag]).mean() / np.square(noises).mean()
        assert correlation == pytest.approx(0.85**lag, abs=0.03)
    innovations = noises[1:] - 0.85 * noises[:-1]
    assert innovations.std() == pytest.approx(0.2 * TRUNCATED, rel=0.01)


def test_what_enters_the_process_is_truncated_at_three_stds():
    """Not the process, which reaches farther."""
    noises = _process(0.15)
    innovations = np.abs(noises[1:] - 0.85 * noises[:-1])
    assert 0.59 < innovations.max() <= 0.6 + 1e-6
    assert np.abs(noises).max() > 1.0


def test_without_theta_it_is_the_truncated_normal():
    last = np.float32([5.0, 5.0])
    found = explore(np.random.default_rng(1), MEAN, STD, last, None)
    np.testing.assert_array_equal(found, gaussian.sample_truncated(np.random.default_rng(1), MEAN, STD))
    noises = _process(None)
    assert np.abs(noises).max() <= 0.6 + 1e-6
    assert abs((noises[1:] * noises[:-1]).mean()) < 1e-3


@pytest.mark.parametrize(("agent", "correlation"), [("ddpg_er", 0.85), ("ddpg_refer", 0.0), ("naf_er", 0.0)])
def test_only_ddpg_without_refer_has_correlated_noise(tmp_path, monkeypatch, agent, correlation):
    last_noises = []

    def noting(rng, mean, std, last_noise, theta):
        last_noises.append(last_noise)
        return explore(rng, mean, std, last_noise, theta)

    monkeypatch.setattr("repro.papers.refer.training.explore", noting)
    training = build(tmp_path, agent=agent, frames=16, task="HalfCheetah", max_steps=100)
    list(training)
    state = training._memory.get_state()
    noise = (state["action"] - state["mean"]).reshape(-1, 100, 6)  # episodes of 100 steps
    found = (noise[:, 1:] * noise[:, :-1]).mean() / np.square(noise).mean()
    assert found == pytest.approx(correlation, abs=0.06)
    np.testing.assert_array_equal(state["std"], np.float32(0.2))
    assert noise[:, 0].std() == pytest.approx(0.2, rel=0.3)  # each episode begins without any
    last = np.reshape(last_noises[: noise[..., 0].size], noise.shape)
    np.testing.assert_array_equal(last[:, 0], 0.0)
    np.testing.assert_array_equal(last[:, 1:], noise[:, :-1])
    assert np.abs(state["mean"]).max() > 0.01  # or the action itself would be the noise
