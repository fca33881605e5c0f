"""Small finite Markov decision processes in which expectations over trajectories are computed exactly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class FiniteMDP(NamedTuple):
    """transition: p(y|x,a), [S, A, S]; reward: r(x,a), [S, A]; gamma: discount in [0, 1)."""

    transition: np.ndarray
    reward: np.ndarray
    gamma: float

    def value(self, policy: np.ndarray) -> np.ndarray:
        """V of `policy` [S, A], by solving its Bellman equation, [S]."""
        transition = np.einsum("xa,xay->xy", policy, self.transition)
        reward = np.einsum("xa,xa->x", policy, self.reward)
        return np.linalg.solve(np.eye(len(reward)) - self.gamma * transition, reward)


class Paths(NamedTuple):
    """Every trajectory of n steps from every state.

    states: int [n + 1, N]; actions: int [n, N]; probability: [N], summing to 1 over the paths from each state.
    """

    states: np.ndarray
    actions: np.ndarray
    probability: np.ndarray

    def expectation(self, x: np.ndarray) -> np.ndarray:
        """E[x | x_0] of a quantity per path, [N], by first state, [S]."""
        return np.bincount(self.states[0], weights=self.probability * x)


def random_mdp(num_states: int, num_actions: int, gamma: float, rng: np.random.Generator) -> FiniteMDP:
    """Transitions uniform on the simplex, standard normal rewards."""
    transition = rng.dirichlet(np.ones(num_states), size=(num_states, num_actions))
    return FiniteMDP(transition, rng.normal(size=(num_states, num_actions)), gamma)


def all_paths(mdp: FiniteMDP, behaviour: np.ndarray, num_steps: int) -> Paths:
    """Every path of `num_steps` steps of `behaviour` [S, A]; there are S (A S)^n of them."""
    num_states, num_actions = mdp.reward.shape
    shape = [num_states, *([num_actions, num_states] * num_steps)]
    indices = np.indices(shape).reshape(len(shape), -1)
    states, actions = indices[0::2], indices[1::2]
    probability = np.ones(states.shape[1])
    for x, a, y in zip(states[:-1], actions, states[1:]):
        probability *= behaviour[x, a] * mdp.transition[x, a, y]
    return Paths(states, actions, probability)
