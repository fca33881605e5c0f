"""Rank-based prioritised replay (PER; Schaul et al. 2016), with which Section 5 compares ReF-ER.

Of rank i of the size of the temporal-difference error, a step is sampled with P(i) = i**-alpha / sum_j j**-alpha, and
its loss is multiplied by its importance weight (n P(i))**-beta over the largest of all n steps. The error is that of
the method's own value loss: V - V_tbc of V-RACER (Eq. 9), Q minus the one-step target of DDPG and NAF (Eq. 2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from repro.replay.refer import ReferMemory


class Prioritised(NamedTuple):
    """Fields of a configuration that prioritised sampling reads.

    alpha: exponent of ranks, 0 (uniform) or more.
    initial_beta: exponent of importance weights at the first gradient step, 0 (none) to 1 (full correction).
    annealing: what it moves of the way from `initial_beta` to 1 with each gradient step, 0 or more.
    """

    alpha: float
    initial_beta: float
    annealing: float


def importance_exponent(step: int, settings: Prioritised) -> float:
    """beta(k) = beta_0 + (1 - beta_0) min(1, annealing k), with k >= 0 gradient steps made before."""
    return settings.initial_beta + (1.0 - settings.initial_beta) * min(1.0, settings.annealing * step)


def sample_minibatches(
    memory: ReferMemory, rng: np.random.Generator, batch_size: int, steps: range, settings: Prioritised
) -> tuple[np.ndarray, np.ndarray]:
    """Minibatches for some gradient steps, by the priorities in force now.

    Args:
        memory: made with `prioritised=True`; not empty.
        rng: advanced by the samples.
        batch_size: B.
        steps: numbers of the K gradient steps; each has samples of its own, one step from each of B ranges of ranks
            of equal probability.
        settings: see `Prioritised`.

    Returns:
        int64 [K B] serial numbers as from `ReferMemory.sample`, and float32 [K B] importance weights in (0, 1].
    """
    sampled = [
        memory.sample_prioritised(rng, batch_size, settings.alpha, importance_exponent(step, settings))
        for step in steps
    ]
    indices, weights = zip(*sampled)
    return np.concatenate(indices), np.concatenate(weights)
