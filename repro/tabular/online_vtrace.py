"""V-trace learned online from sampled trajectories with decreasing step sizes: IMPALA, Appendix A.2."""

from __future__ import annotations

import numba
import numpy as np

from repro.tabular import vtrace
from repro.tabular.mdps import Problem
from repro.tabular.simulation import cumulative, follow
from repro.tabular.vtrace import Weights


def learn(
    problem: Problem, weights: Weights, num_trajectories: int, num_steps: int, power: float, rng: np.random.Generator
) -> np.ndarray:
    """Learns V_k of IMPALA's Theorem 2, [S], from k trajectories of the behaviour policy and V_0 = 0.

    Each trajectory updates every state x_s that it visits, using V_k before the trajectory (Eq. 7):

        V_{k+1}(x_s) = V_k(x_s) + alpha_k(x_s) sum_{t >= s} gamma^{t-s} (c_s .. c_{t-1}) rho_t
                       (r_t + gamma V_k(x_{t+1}) - V_k(x_t))

    The sum is read as starting at t = s, as in Eq. (1), and ends with the trajectory, which does not move the fixed
    point. alpha_k(x) = n^-power at the n-th visit of x; for powers in (1/2, 1] these have an infinite sum and a finite
    sum of squares (Robbins and Monro).

    Args:
        problem: problem without terminal states.
        weights: truncation levels.
        num_trajectories: k.
        num_steps: length of each trajectory.
        power: exponent of the step sizes.
        rng: source of all samples.
    """
    mdp, _, mu = problem
    rho, c = (weighted / mu for weighted in vtrace.expected_weights(problem, weights))
    values, visits = np.zeros(mdp.num_states), np.zeros(mdp.num_states)
    uniforms = rng.random((num_trajectories, 2 * num_steps + 1))
    chances = cumulative(mdp.initial), cumulative(mu), cumulative(mdp.transitions)
    _learn(values, visits, *chances, mdp.rewards, mdp.discount, rho, c, uniforms, power)
    return values


@numba.njit(nogil=True, cache=True)
def corrections(
    values: np.ndarray,
    rewards: np.ndarray,
    discount: float,
    rho: np.ndarray,
    c: np.ndarray,
    states: np.ndarray,
    actions: np.ndarray,
) -> np.ndarray:
    """v_s - V(x_s) at each step of a trajectory that ends with a bootstrap, [T].

    Args:
        values: V, [S].
        rewards, rho, c: rewards and weights of each state and action, [S, A].
        discount: gamma.
        states, actions: trajectory, int [T + 1] and [T].
    """
    found = np.empty(len(actions))
    following = 0.0
    for s in range(len(actions) - 1, -1, -1):
        x, a = states[s], actions[s]
        error = rewards[x, a] + discount * values[states[s + 1]] - values[x]
        following = rho[x, a] * error + discount * c[x, a] * following
        found[s] = following
    return found


@numba.njit(nogil=True)  # not cached: Numba does not see a change of `follow`, which is in another file
def _learn(
    values: np.ndarray,
    visits: np.ndarray,
    initial: np.ndarray,
    choices: np.ndarray,
    moves: np.ndarray,
    rewards: np.ndarray,
    discount: float,
    rho: np.ndarray,
    c: np.ndarray,
    uniforms: np.ndarray,
    power: float,
) -> None:
    num_steps = uniforms.shape[1] // 2
    states, actions = np.empty(num_steps + 1, np.int64), np.empty(num_steps, np.int64)
    for row in uniforms:
        follow(initial, choices, moves, row, states, actions)
        moved = corrections(values, rewards, discount, rho, c, states, actions)
        for s in range(num_steps):
            x = states[s]
            visits[x] += 1.0
            values[x] += moved[s] * visits[x] ** -power
