"""Every path of a few steps in a small MDP, so that a sampled target has its expectation as a finite sum.

A path ends in a step that stands for all that follows it. As an operator is the same from there on, its endless form
follows from how targets depend on that step: no sum is cut off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from repro.tabular.mdps import FiniteMDP
from repro.tabular.operators import Operator
from repro.tabular.simulation import Trajectories

ExpectedTargets = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Targets in expectation, [M, K], under K columns of estimates, [M, K], where the target of a path's last entry is
given, [M, K]. There are M entries: states for state values, pairs x A + a for action values."""


class Paths(NamedTuple):
    """Every path of T steps; probability given its first pair, [N]."""

    trajectories: Trajectories
    probability: np.ndarray

    def expectation(self, x: np.ndarray, mdp: FiniteMDP) -> np.ndarray:
        """E[x | x_0, a_0] of numbers per path, [N, ...], by first pair, [S, A, ...]."""
        pairs = mdp.rewards.size  # `all_paths` counts the first pair slowest
        weights, numbers = self.probability.reshape(pairs, 1, -1), x.reshape(pairs, len(x) // pairs, -1)
        return (weights @ numbers).reshape(*mdp.rewards.shape, *x.shape[1:])


def all_paths(mdp: FiniteMDP, mu: np.ndarray, num_steps: int) -> Paths:
    """Every path of `num_steps` steps of the behaviour policy [S, A]; there are S (A S)^T of them."""
    indices = np.indices([mdp.num_states, *[mdp.num_actions, mdp.num_states] * num_steps])
    indices = indices.reshape(len(indices), -1)
    states, actions = indices[0::2], indices[1::2]
    probability = np.prod(mdp.transitions[states[:-1], actions, states[1:]], axis=0)
    probability *= np.prod(mu[states[1:-1], actions[1:]], axis=0)
    return Paths(Trajectories(states, actions), probability)


def endless(expected: ExpectedTargets, size: int) -> Operator:
    """The operator of endless trajectories, T V = A V + b, from the expected targets of short ones.

    These are b' + A' V + K G, with G the targets at the end of a path. An endless trajectory has G = T V, so that
    T V = (I - K)^-1 (b' + A' V).

    Args:
        expected: affine in both arguments, with a K that contracts.
        size: M.
    """
    identity, zeros = np.eye(size), np.zeros((size, size))
    values = np.hstack([zeros[:, :1], identity, zeros])
    found = expected(values, np.hstack([zeros[:, :1], zeros, identity]))
    offset, changes = found[:, 0], found[:, 1:] - found[:, :1]
    total = np.linalg.inv(identity - changes[:, size:])
    return Operator(total @ changes[:, :size], total @ offset)


def sampled_rate(expected: ExpectedTargets, op: Operator, num_pairs: int, rng: np.random.Generator) -> float:
    """The largest |T V - T W| / |V - W| in sup norm over random pairs of estimates, by the expected targets.

    Args:
        expected: as for `endless`.
        op: what `endless` made of it.
        num_pairs: pairs of standard normal estimates V, W.
        rng: for the samples.
    """
    values = rng.normal(size=(len(op.offset), 2 * num_pairs))
    images = expected(values, op.matrix @ values + op.offset[:, None])
    differences = [np.abs(x[:, :num_pairs] - x[:, num_pairs:]).max(0) for x in (images, values)]
    return float(np.max(differences[0] / differences[1]))


def distance(one: Operator, other: Operator) -> float:
    """The largest difference of two operators' entries, matrix and offset."""
    return float(max(np.abs(a - b).max() for a, b in zip(one, other)))
