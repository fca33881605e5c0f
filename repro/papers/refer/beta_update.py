"""The update of ReF-ER's penalty coefficient beta by the share of far-policy samples (Eq. 12)."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from repro.ops import ranges

Beta = TypeVar("Beta", float, np.ndarray)


def update_beta(beta: Beta, num_far_policy: int, num_samples: int, max_fraction: float, step_size: float) -> Beta:
    """Returns beta after one update, as it is made with every gradient step (Algorithm 1).

        beta <- (1 - eta) beta           if n_far / N > D
                (1 - eta) beta + eta     otherwise                                        (Eq. 12)

    With too many far-policy samples beta falls towards 0, and the penalty (1 - beta) KL(mu || pi) dominates;
    otherwise it rises towards 1, also where n_far / N is exactly D.

    Args:
        beta: a number or an array, in [0, 1]; 1 means no penalty.
        num_far_policy: n_far, the number of samples in the replay memory whose stored ratio is far-policy.
        num_samples: N, the number of samples in the replay memory, at least 1.
        max_fraction: D, in [0, 1].
        step_size: eta, in [0, 1]. The paper uses the network's learning rate.

    Returns:
        The new beta in [0, 1], a number or an array as given.

    Raises:
        ValueError: the memory is empty, or a number is outside its range.
    """
    ranges.assert_in("update_beta", "[1, inf)", num_samples=num_samples)
    ranges.assert_in("update_beta", "[0, 1]", beta=beta, max_fraction=max_fraction, step_size=step_size)
    shrunk = (1.0 - step_size) * beta
    return shrunk if num_far_policy / num_samples > max_fraction else shrunk + step_size
