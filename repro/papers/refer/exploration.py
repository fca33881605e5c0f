"""Exploration noise around the mean of a policy."""

from __future__ import annotations

import numpy as np

from repro.distributions import gaussian


def explore(
    rng: np.random.Generator,
    mean: np.ndarray,
    std: np.ndarray,
    last_noise: np.ndarray,
    theta: float | None,
) -> np.ndarray:
    """Samples an action: the mean plus noise, independent or of an Ornstein-Uhlenbeck process (Appendix A).

        x_t = (1 - theta) x_{t-1} + sigma n_t,    a_t = m(s_t) + x_t

    where the components of n_t are standard normal, truncated at three stds like all sampled actions. This is the
    process of Lillicrap et al. (2016) with steps of 1, where x_0 follows a last noise of 0. Its stationary std is
    0.987 sigma / sqrt(1 - (1 - theta)^2): 0.37 for sigma 0.2 and theta 0.15.

    Args:
        rng: source of the samples, advanced by them.
        mean: m(s_t), float32 [A].
        std: sigma, [A].
        last_noise: x_{t-1}, [A]: the last action minus its mean, or 0 at the beginning of an episode.
        theta: above 0, at most 1; None for independent noise.

    Returns:
        The action, float32 [A].
    """
    centre = mean if theta is None else mean + (1.0 - theta) * last_noise
    return gaussian.sample_truncated(rng, centre, std)
