"""C-trace learned online from sampled trajectories, alpha and Q together with decreasing step sizes: Section 3.2."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from repro.tabular.mdps import Problem
from repro.tabular.simulation import cumulative, follow


class StepSizes(NamedTuple):
    """epsilon_k = first / (1 + k / period)^power, Robbins-Monro step sizes for a power in (1/2, 1]."""

    first: float
    period: float
    power: float


class Learned(NamedTuple):
    """phi_k and Q_k, [S, A]."""

    phi: float
    q: np.ndarray


def learn(
    problem: Problem,
    phi: float,
    target_rate: float,
    num_trajectories: int,
    num_steps: int,
    step_sizes: StepSizes,
    rng: np.random.Generator,
) -> Learned:
    """Learns phi_k of Proposition 3.4 and Q_k of Theorem 3.5 from k trajectories of the behaviour policy and Q_0 = 0.

    A trajectory updates phi by the contraction rate of its first pair, and each pair that it visits, at every visit, by
    alpha-Retrace, both computed from the values before the trajectory, with alpha = sigmoid(phi_k):

        phi_{k+1}         = phi_k - epsilon_k (C_hat(alpha) - Gamma)                                         (Eq. 6)
        Q_{k+1}(x_s, a_s) = Q_k(x_s, a_s) + epsilon_k sum_{t >= s} gamma^{t-s} c_{s+1} .. c_t Delta_t

    Args:
        problem: problem without terminal states.
        phi: phi_0.
        target_rate: Gamma.
        num_trajectories: k.
        num_steps: length of each trajectory. C_hat lacks the later terms of Eq. (5), at most gamma^num_steps in all;
            the sum in Q's correction ends there, too, which does not move the fixed point.
        step_sizes: epsilon_k, for both.
        rng: source of all samples.
    """
    mdp, pi, mu = problem
    q = np.zeros_like(mu)
    uniforms = rng.random((num_trajectories, 2 * num_steps + 1))
    chances = cumulative(mdp.initial), cumulative(mu), cumulative(mdp.transitions)
    phi = _learn(phi, q, *chances, mdp.rewards, mdp.discount, pi, mu, uniforms, target_rate, *step_sizes)
    return Learned(phi, q)


@numba.njit(nogil=True, cache=True)
def corrections(
    q: np.ndarray,
    policy: np.ndarray,
    c: np.ndarray,
    rewards: np.ndarray,
    discount: float,
    states: np.ndarray,
    actions: np.ndarray,
) -> np.ndarray:
    """Retrace's target minus Q(x_s, a_s) at each step of a trajectory that ends with a bootstrap, [T].

    Args:
        q, policy, c, rewards: action values, target policy, trace coefficients and rewards, [S, A] each.
        discount: gamma.
        states, actions: trajectory, int [T + 1] and [T].
    """
    values = (policy * q).sum(axis=1)
    found = np.empty(len(actions))
    following = 0.0
    for s in range(len(actions) - 1, -1, -1):
        x, a = states[s], actions[s]
        following = rewards[x, a] + discount * values[states[s + 1]] - q[x, a] + discount * following
        found[s] = following
        following *= c[x, a]
    return found


@numba.njit(nogil=True, cache=True)
def contraction_estimate(c: np.ndarray, discount: float, states: np.ndarray, actions: np.ndarray) -> float:
    """C_hat for a trajectory's first pair, with as many terms of Eq. (5) as it has steps; arguments as above."""
    weight, total = 1.0, 1.0
    for s in range(1, len(actions)):
        weight *= discount * c[states[s], actions[s]]
        total += weight
    return 1.0 - (1.0 - discount) * total


@numba.njit(nogil=True)  # not cached: Numba does not see a change of `follow`, which is in another file
def _learn(
    phi: float,
    q: np.ndarray,
    initial: np.ndarray,
    choices: np.ndarray,
    moves: np.ndarray,
    rewards: np.ndarray,
    discount: float,
    pi: np.ndarray,
    mu: np.ndarray,
    uniforms: np.ndarray,
    target_rate: float,
    first: float,
    period: float,
    power: float,
) -> float:
    num_steps = uniforms.shape[1] // 2
    states, actions = np.empty(num_steps + 1, np.int64), np.empty(num_steps, np.int64)
    truncated = np.minimum(1.0, pi / mu)
    for k in range(len(uniforms)):
        follow(initial, choices, moves, uniforms[k], states, actions)
        alpha = 1.0 / (1.0 + np.exp(-phi))
        c = 1.0 - alpha + alpha * truncated
        moved = corrections(q, alpha * pi + (1.0 - alpha) * mu, c, rewards, discount, states, actions)
        step_size = first * (1.0 + k / period) ** -power
        phi -= step_size * (contraction_estimate(c, discount, states, actions) - target_rate)
        for s in range(num_steps):
            q[states[s], actions[s]] += step_size * moved[s]
    return phi
