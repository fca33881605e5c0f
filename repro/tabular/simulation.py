"""Trajectories of a finite MDP, simulated side by side, and the sampled targets of every method on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np

from repro.tabular.mdps import FiniteMDP, mix
from repro.tabular.operators import (
    IMPORTANCE,
    TRACES,
    UNCORRECTED,
    Method,
    n_step_length,
    operator,
    ratio,
    trace_coefficients,
)


class Trajectories(NamedTuple):
    """N trajectories of T steps; one that ends early stays in its terminal state.

    states: int [T + 1, N]; actions: int [T, N].
    """

    states: np.ndarray
    actions: np.ndarray


def simulate(
    mdp: FiniteMDP,
    mu: np.ndarray,
    num_trajectories: int,
    num_steps: int,
    rng: np.random.Generator,
    first: tuple[int, int] | None = None,
) -> Trajectories:
    """Simulates trajectories of the behaviour policy.

    Args:
        mdp: the MDP.
        mu: behaviour policy, [S, A].
        num_trajectories: N.
        num_steps: T.
        rng: source of all samples.
        first: (x_0, a_0) of all trajectories; None samples x_0 from `mdp.initial` and a_0 from mu.
    """
    choices, moves = cumulative(mu), cumulative(mdp.transitions)
    states = np.empty((num_steps + 1, num_trajectories), np.int64)
    actions = np.empty((num_steps, num_trajectories), np.int64)
    uniforms = rng.random((num_steps + 1, 2, num_trajectories))
    states[0] = sample(cumulative(mdp.initial), uniforms[-1, 0]) if first is None else first[0]
    for t in range(num_steps):
        actions[t] = sample(choices[states[t]], uniforms[t, 0])
        if first is not None and t == 0:
            actions[0] = first[1]
        states[t + 1] = sample(moves[states[t], actions[t]], uniforms[t, 1])
    return Trajectories(states, actions)


@numba.njit(nogil=True, cache=True)
def follow(
    initial: np.ndarray,
    choices: np.ndarray,
    moves: np.ndarray,
    uniforms: np.ndarray,
    states: np.ndarray,
    actions: np.ndarray,
) -> None:
    """Fills `states` [T + 1] and `actions` [T] with one trajectory, for use in compiled loops.

    Args:
        initial, choices, moves: `cumulative` probabilities of the first state, of the policy and of the transitions.
        uniforms: uniform samples, [2 T + 1], the last one for the first state.
        states, actions: arrays to fill, int.
    """
    states[0] = np.searchsorted(initial, uniforms[-1], side="right")
    for t in range(len(actions)):
        actions[t] = np.searchsorted(choices[states[t]], uniforms[2 * t], side="right")
        states[t + 1] = np.searchsorted(moves[states[t], actions[t]], uniforms[2 * t + 1], side="right")


def sampled_targets(
    mdp: FiniteMDP,
    trajectories: Trajectories,
    pi: np.ndarray,
    mu: np.ndarray,
    methods: Sequence[Method],
    q: np.ndarray,
) -> np.ndarray:
    """Computes each method's target of Q(x_0, a_0) on each trajectory (update rules of Definition 1.1), [M, N].

    Trace rules sum all T temporal differences of a trajectory, and an n-step return with n above T uses T steps.

    Args:
        mdp: the MDP.
        trajectories: trajectories from `simulate`.
        pi: target policy before mixing, [S, A].
        mu: behaviour policy, [S, A].
        methods: M methods.
        q: current estimate, [S, A]; values of terminal states are replaced by 0.

    Raises:
        ValueError: a rule is unknown, or an n-step rule has an n below 1.
    """
    states, actions = trajectories
    length = len(actions)
    q = np.where(mdp.terminal[:, None], 0.0, q)
    pairs = states[:-1] * mdp.num_actions + actions  # [T, N]
    discounts = mdp.discount ** np.arange(length + 1)
    rewards = discounts[:-1, None] * mdp.rewards.ravel()[pairs]
    surprises = rewards - discounts[:-1, None] * q.ravel()[pairs]
    ratios = ratio(pi, mu)

    def bootstraps(target: np.ndarray) -> np.ndarray:
        return discounts[1:, None] * np.einsum("xa,xa->x", target, q)[states[1:]]  # [T, N]

    returns: dict[str, np.ndarray] = {}
    targets = np.empty((len(methods), states.shape[1]))
    for i, method in enumerate(methods):
        if method.rule in TRACES:
            v = bootstraps(mix(pi, mu, method.alpha))
            products = _products(trace_coefficients(pi, mu, method), pairs)
            targets[i] = q.ravel()[pairs[0]] + np.einsum("tn,tn->n", products, surprises + v)
            continue
        n = min(n_step_length(method), length)
        if method.rule not in returns:
            weights = {UNCORRECTED: np.ones_like(pi), IMPORTANCE: ratios}[method.rule]
            products = _products(weights, pairs)
            returns[method.rule] = np.cumsum(products * rewards, axis=0) + products * bootstraps(pi)  # row n - 1
        targets[i] = returns[method.rule][n - 1]
    return targets


def variances(
    mdp: FiniteMDP,
    trajectories: Trajectories,
    pi: np.ndarray,
    mu: np.ndarray,
    methods: Sequence[Method],
    q: np.ndarray,
) -> np.ndarray:
    """Estimates Definition 1.4: the mean squared distance of each method's targets from its exact T Q, [M].

    T is the operator for the simulated length. An update changes only Q(x_0, a_0), so its norm is that of this entry;
    the distribution of (x_0, a_0) is that of the trajectories.

    Args:
        mdp, trajectories, pi, mu, methods, q: as for `sampled_targets`.
    """
    length = len(trajectories.actions)
    targets = sampled_targets(mdp, trajectories, pi, mu, methods, q)
    first = trajectories.states[0], trajectories.actions[0]
    return np.array(
        [np.mean((t - operator(mdp, pi, mu, m, horizon=length)(q)[first]) ** 2) for t, m in zip(targets, methods)]
    )


def _products(table: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """c_1 .. c_t along each trajectory, [T, N]; 1 at t = 0."""
    factors = table.ravel()[pairs]
    factors[0] = 1.0
    return np.cumprod(factors, axis=0, out=factors)


def cumulative(probabilities: np.ndarray) -> np.ndarray:
    """Cumulative probabilities along the last axis, the last set to exactly 1."""
    total = np.cumsum(probabilities, axis=-1)
    total[..., -1] = 1.0
    return total


def sample(bounds: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """Maps uniform samples in [0, 1), [N], to indices, [N], by `cumulative` probabilities [K] or [N, K]."""
    return (uniforms[:, None] >= bounds).sum(-1)
