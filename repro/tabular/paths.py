"""Every path of a few steps in a small MDP, over which the expectation of a sampled target is a finite sum.

The last step of a path represents all later ones. As the operator is the same from there on, its form for endless
trajectories follows from the dependence of targets on that step, without truncation of a sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from repro.tabular.mdps import FiniteMDP
from repro.tabular.operators import Operator
from repro.tabular.simulation import Trajectories

ExpectedTargets = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Function from estimates and from the targets at the end of a path to expected targets, all [M, K], in K columns.
The M entries are states for state values, pairs x A + a for action values."""


class Paths(NamedTuple):
    """Every path of T steps, and the probability of each given its first pair, [N]."""

    trajectories: Trajectories
    probability: np.ndarray

    def expectation(self, x: np.ndarray, mdp: FiniteMDP) -> np.ndarray:
        """E[x | x_0, a_0], [S, A, ...], of values x for each path, [N, ...]."""
        pairs = mdp.rewards.size  # the first pair varies slowest in `all_paths`
        weights, numbers = self.probability.reshape(pairs, 1, -1), x.reshape(pairs, len(x) // pairs, -1)
        return (weights @ numbers).reshape(*mdp.rewards.shape, *x.shape[1:])


def all_paths(mdp: FiniteMDP, mu: np.ndarray, num_steps: int) -> Paths:
    """Enumerates every path of `num_steps` steps of the behaviour policy mu [S, A]; there are S (A S)^T of them."""
    indices = np.indices([mdp.num_states, *[mdp.num_actions, mdp.num_states] * num_steps])
    indices = indices.reshape(len(indices), -1)
    states, actions = indices[0::2], indices[1::2]
    probability = np.prod(mdp.transitions[states[:-1], actions, states[1:]], axis=0)
    probability *= np.prod(mu[states[1:-1], actions[1:]], axis=0)
    return Paths(Trajectories(states, actions), probability)


def endless(expected: ExpectedTargets, size: int) -> Operator:
    """Computes the operator of endless trajectories, T V = A V + b, from the expected targets of short ones.

    These are b' + A' V + K G, with G the targets at the end of a path. On an endless trajectory G = T V, so that
    T V = (I - K)^-1 (b' + A' V).

    Args:
        expected: expected targets, affine in both arguments, with a K that contracts.
        size: M.
    """
    identity, zeros = np.eye(size), np.zeros((size, size))
    values = np.hstack([zeros[:, :1], identity, zeros])
    found = expected(values, np.hstack([zeros[:, :1], zeros, identity]))
    offset, changes = found[:, 0], found[:, 1:] - found[:, :1]
    total = np.linalg.inv(identity - changes[:, size:])
    return Operator(total @ changes[:, :size], total @ offset)


def truncated(expected: ExpectedTargets, size: int) -> Operator:
    """Computes the operator of trajectories that end with their path, T V = b' + (A' + K) V, see `endless`.

    The target at the end of a path is the estimate there, G = V. Arguments as for `endless`.
    """
    values = np.hstack([np.zeros((size, 1)), np.eye(size)])
    found = expected(values, values)
    return Operator(found[:, 1:] - found[:, :1], found[:, 0])


def sampled_rate(expected: ExpectedTargets, op: Operator, num_pairs: int, rng: np.random.Generator) -> float:
    """The largest |T V - T W| / |V - W| in sup norm over random pairs of estimates, from the expected targets.

    Args:
        expected: as for `endless`.
        op: result of `endless` for `expected`.
        num_pairs: number of pairs of standard normal estimates V, W.
        rng: source of all samples.
    """
    values = rng.normal(size=(len(op.offset), 2 * num_pairs))
    images = expected(values, op.matrix @ values + op.offset[:, None])
    differences = [np.abs(x[:, :num_pairs] - x[:, num_pairs:]).max(0) for x in (images, values)]
    return float(np.max(differences[0] / differences[1]))


def distance(one: Operator, other: Operator) -> float:
    """The largest difference between the entries of two operators, in matrix and offset."""
    return float(max(np.abs(a - b).max() for a, b in zip(one, other)))
