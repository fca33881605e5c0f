"""Small problems, every path of a few steps in them, and each method's target written out from the paper's sums."""

from __future__ import annotations

import numpy as np

from repro.tabular import mdps, paths
from repro.tabular.mdps import Problem
from repro.tabular.operators import Method


def random_problem(seed: int, num_states: int = 4, num_actions: int = 3, discount: float = 0.9) -> Problem:
    rng = np.random.default_rng(seed)
    mdp = mdps.dirichlet_uniform(num_states, num_actions, discount, rng)
    return Problem(mdp, mdps.dirichlet_policy(mdp, rng), mdps.dirichlet_policy(mdp, rng))


def chain_problem(seed: int, num_states: int = 3, discount: float = 0.9) -> Problem:
    """A chain, with its terminal state, and random policies."""
    rng = np.random.default_rng(seed)
    mdp = mdps.chain(num_states, discount)
    return Problem(mdp, mdps.dirichlet_policy(mdp, rng), mdps.dirichlet_policy(mdp, rng))


def all_paths(problem: Problem, num_steps: int) -> paths.Paths:
    return paths.all_paths(problem.mdp, problem.mu, num_steps)


def coefficient(problem: Problem, method: Method, x: int, a: int) -> float:
    """c of one step, as the papers print it."""
    pi, mu, alpha = problem.pi[x, a], problem.mu[x, a], method.alpha
    ratio = (alpha * pi + (1 - alpha) * mu) / mu
    return (
        method.lambda_
        * {
            "retrace": (1 - alpha) + alpha * min(1.0, pi / mu),  # Eq. (5)
            "tree_backup": alpha * pi + (1 - alpha) * mu,
            "acer": min(1.0, ratio ** (1 / method.dimension)),
            "q_lambda": 1.0,
            "importance_sampling": ratio,
        }[method.rule]
    )


def printed_target(problem: Problem, method: Method, q: np.ndarray, states: np.ndarray, actions: np.ndarray) -> float:
    """The target of one trajectory: Eqs. (2), (3), (4) of C-trace as double loops, to the trajectory's end."""
    mdp, pi, mu = problem
    gamma, length = mdp.discount, len(actions)

    def mean_q(policy: np.ndarray, x: int) -> float:
        return 0.0 if mdp.terminal[x] else sum(policy[x, a] * q[x, a] for a in range(mdp.num_actions))

    def value(x: int, a: int) -> float:
        return 0.0 if mdp.terminal[x] else q[x, a]

    total = 0.0
    if method.rule in ("uncorrected", "importance"):
        n = min(method.n, length)

        def rho(first: int, last: int) -> float:
            product = 1.0
            for u in range(first, last + 1):
                if method.rule == "importance":
                    product *= pi[states[u], actions[u]] / mu[states[u], actions[u]]
            return product

        for s in range(n):
            total += rho(1, s) * gamma**s * mdp.rewards[states[s], actions[s]]
        return total + rho(1, n - 1) * gamma**n * mean_q(pi, states[n])
    target_policy = method.alpha * pi + (1 - method.alpha) * mu
    for s in range(length):
        product = 1.0
        for u in range(1, s + 1):
            product *= coefficient(problem, method, states[u], actions[u])
        delta = mdp.rewards[states[s], actions[s]] + gamma * mean_q(target_policy, states[s + 1])
        total += gamma**s * product * (delta - value(states[s], actions[s]))
    return value(states[0], actions[0]) + total


METHODS = (
    Method("uncorrected", n=1),
    Method("uncorrected", n=3),
    Method("importance", n=2),
    Method("importance", n=3),
    Method("retrace"),
    Method("retrace", alpha=0.3),
    Method("retrace", alpha=0.0),
    Method("retrace", alpha=0.6, lambda_=0.7),
    Method("tree_backup"),
    Method("tree_backup", alpha=0.4),
    Method("acer", dimension=3),
    Method("q_lambda", lambda_=0.5),
    Method("importance_sampling"),
)
