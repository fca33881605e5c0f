"""Prioritised replay (PER; Schaul et al. 2016), with which Section 5 compares ReF-ER.

The step with the i-th largest absolute TD error is sampled with a probability P(i) in proportion to i**-alpha or, in
the proportional variant, to the error to the power of alpha. Steps that were never sampled have the largest of these
probabilities, and no rank. A step's loss is multiplied by its importance weight (n P(i))**-beta, divided by the largest
weight of all n steps. The TD error is that of the method's value loss: V - V_tbc for V-RACER (Eq. 9), Q minus the
one-step target for DDPG and NAF (Eq. 2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from repro.replay.refer import ReferMemory


class Prioritised(NamedTuple):
    """Fields of a configuration that prioritised sampling reads.

    alpha: exponent of the ranks or errors, at least 0 (uniform sampling).
    initial_beta: exponent of the importance weights at the first gradient step, from 0 (none) to 1 (full correction).
    annealing: fraction of the way from `initial_beta` to 1 by which the exponent moves per gradient step, at least 0.
    """

    alpha: float
    initial_beta: float
    annealing: float


def importance_exponent(step: int, settings: Prioritised) -> float:
    """beta(k) = beta_0 + (1 - beta_0) min(1, annealing k) after k >= 0 gradient steps."""
    return settings.initial_beta + (1.0 - settings.initial_beta) * min(1.0, settings.annealing * step)


def sample_minibatches(
    memory: ReferMemory, rng: np.random.Generator, batch_size: int, steps: range, settings: Prioritised
) -> tuple[np.ndarray, np.ndarray]:
    """Samples minibatches for several gradient steps, all by the current priorities.

    Args:
        memory: memory made with `prioritised`, not empty.
        rng: source of the samples, advanced by them.
        batch_size: B.
        steps: numbers of the K gradient steps; each has one sample from each of B ranges of equal probability.
        settings: see `Prioritised`.

    Returns:
        Serial numbers of the sampled steps as in `ReferMemory.sample`, int64 [K B], and their importance weights in
        (0, 1], float32 [K B].
    """
    sampled = [
        memory.sample_prioritised(rng, batch_size, settings.alpha, importance_exponent(step, settings))
        for step in steps
    ]
    indices, weights = zip(*sampled)
    return np.concatenate(indices), np.concatenate(weights)
