"""Errors of one update of a whole table Q, as finite sums: C-trace, Propositions 2.1 and B.2 and Theorem 2.2."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from repro.tabular import mdps, operators, paths
from repro.tabular.mdps import Problem
from repro.tabular.operators import Method
from repro.tabular.simulation import sampled_targets

METHODS = (
    Method("uncorrected", n=1),
    Method("uncorrected", n=2),
    Method("importance", n=2),
    Method("retrace"),
    Method("retrace", alpha=0.4),
    Method("tree_backup", alpha=0.4),
)
"""Update rules of `sampled_updates`."""
FAR = 20.0
"""Std of the entries of a random table far from every fixed point."""
NUM_STEPS = 2
"""Number of steps of the trajectory from each pair."""


class UpdateErrors(NamedTuple):
    """Exact quantities of a sampled update T_hat of a table Q, which approximates an operator T.

    Attributes:
        error: E||T_hat Q - Q^pi|| in sup norm.
        square: E||T_hat Q - Q^pi||^2 in Euclidean norm.
        variance: E||T_hat Q - T Q||^2 in Euclidean norm.
        rate: Gamma, the contraction rate of T.
        distance: ||Q - Q_tilde|| in sup norm, Q_tilde the fixed point of T.
        bias: ||Q_tilde - Q^pi|| in Euclidean norm.
        size: |X| |A|.
    """

    error: float
    square: float
    variance: float
    rate: float
    distance: float
    bias: float
    size: int

    @property
    def bound(self) -> float:
        """Bound on `error` (Proposition 2.1)."""
        return self.variance**0.5 + self.rate * self.distance + self.bias

    @property
    def bound_of_square(self) -> float:
        """Bound on `square` (Proposition B.2)."""
        return 3 * (self.variance + self.rate**2 * self.size * self.distance**2 + self.bias**2)


def update_errors(problem: Problem, method: Method, q: np.ndarray) -> UpdateErrors:
    """Errors of an update from independent trajectories, one from each pair, by a sum over all combinations of them.

    Args:
        problem: problem small enough for that sum.
        method: the update rule.
        q: the table, [S, A].
    """
    mdp, pi, mu = problem
    every = paths.all_paths(mdp, mu, NUM_STEPS)
    first = every.trajectories.states[0] * mdp.num_actions + every.trajectories.actions[0]
    targets = sampled_targets(mdp, every.trajectories, pi, mu, [method], q)[0]
    path_indices = [np.flatnonzero((first == pair) & (every.probability > 0)) for pair in range(mu.size)]
    picks = np.stack(np.meshgrid(*path_indices, indexing="ij"), axis=-1).reshape(-1, mu.size)
    tables, chances = targets[picks], every.probability[picks].prod(axis=1)  # [K, SA] and [K]
    op = operators.operator(mdp, pi, mu, method, horizon=NUM_STEPS)
    values, fixed = mdps.action_values(mdp, pi), operators.fixed_point(op, mdp)
    return UpdateErrors(
        error=float(chances @ np.abs(tables - values.ravel()).max(axis=1)),
        square=float(chances @ ((tables - values.ravel()) ** 2).sum(axis=1)),
        variance=float(chances @ ((tables - op(q).ravel()) ** 2).sum(axis=1)),
        rate=operators.contraction_rate(op),
        distance=float(np.abs(q - fixed).max()),
        bias=float(np.linalg.norm(fixed - values)),
        size=mu.size,
    )


def sampled_updates(problem: Problem, rng: np.random.Generator) -> Iterator[UpdateErrors]:
    """Yields the errors of updates by several methods, from Q = 0, from a random Q far away and from Q^pi."""
    far = FAR * rng.normal(size=problem.pi.shape)
    tables = (np.zeros_like(far), far, mdps.action_values(problem.mdp, problem.pi))
    return (update_errors(problem, method, q) for method in METHODS for q in tables)


RULES = ("seen", "importance", "ignoring")
"""Rules of `trade_offs` for estimating rewards: seen rewards unchanged, importance weighted, or all ignored."""
RATES = (0.0, 0.1, 0.5)
"""Contraction rates of the rules; from 0.5 on, the rate's term alone reaches the bound."""


class TradeOff(NamedTuple):
    """Both sides of Theorem 2.2 for R_max = 1, and what its proof is about.

    Attributes:
        total: first side.
        bound: second side.
        root_variance: largest root variance in the first side.
        bias: largest bias in the first side.
        error: least ratio of the larger expected error on two MDPs of the proof to (1 - delta) D / (1 - gamma).
    """

    total: float
    bound: float
    root_variance: float
    bias: float
    error: float


def trade_offs(problem: Problem, pairs: np.ndarray, samples: int) -> dict[tuple[str, float], TradeOff]:
    """Theorem 2.2 for each of `RULES` and each of `RATES`.

    Each rule knows P, sees the rewards of `samples` independent pairs, and solves for Q with estimates of all rewards:
    seen rewards unchanged and 0 for the others; seen rewards weighted by their number over its expectation (importance
    sampling, unbiased); or 0 for all. Its table is Gamma Q + (1 - Gamma) times that solution, so that Gamma is its
    contraction rate and the mean solution its fixed point. The supremum is over the two MDPs of the proof for each set
    of pairs, which have rewards of 1 or -1 in that set only.

    Args:
        problem: problem small enough to enumerate all sets of pairs; its rewards do not matter.
        pairs: probability of each pair, [SA], all above 0.
        samples: number of sampled pairs, at least 1.

    Returns:
        Both sides, by rule and rate.
    """
    mdp, pi, _ = problem
    size = len(pairs)
    successors = np.linalg.inv(np.eye(size) - operators.step_matrix(mdp, pi))  # (I - gamma P^pi)^-1
    outcomes = list(itertools.product(range(size), repeat=samples))
    chances = np.array([np.prod(pairs[list(outcome)]) for outcome in outcomes])
    counts = np.array([np.bincount(outcome, minlength=size) for outcome in outcomes])
    weights = dict(zip(RULES, (counts > 0, counts / (samples * pairs), np.zeros_like(counts))))
    found = dict.fromkeys(itertools.product(RULES, RATES), TradeOff(0.0, 0.0, 0.0, 0.0, np.inf))
    for members in itertools.product([False, True], repeat=size):
        rewards = np.array(members, float)
        delta = chances[(counts[:, members] > 0).any(axis=1)].sum()
        if not 0 < delta < 1:
            continue
        q_pi = successors @ rewards
        bound = (1 - delta) * q_pi.max()  # D / (1 - gamma) is the largest entry of Q
        for rule, rate in found:
            estimates = (weights[rule] * rewards) @ successors.T  # in the other MDP of the proof all signs are reversed
            mean = chances @ estimates
            root_variance = (1 - rate) * float(np.sqrt(chances @ ((estimates - mean) ** 2).sum(axis=1)))
            bias = float(np.linalg.norm(mean - q_pi))
            here = (root_variance + 2 * rate / (1 - mdp.discount) + bias, bound, root_variance, bias)
            error = min(larger_error(q, rate, estimates, q_pi, chances) for q in (np.zeros(size), q_pi)) / bound
            *largest, least = found[rule, rate]
            found[rule, rate] = TradeOff._make([*map(max, largest, here), min(least, error)])
    return found


def larger_error(q: np.ndarray, rate: float, estimates: np.ndarray, q_pi: np.ndarray, chances: np.ndarray) -> float:
    """The larger of E||T_hat Q - Q^pi|| in sup norm on an MDP and on the one with all signs reversed (Theorem 2.2).

    Args:
        q: Q before the update, on both MDPs, [SA].
        rate: Gamma, the weight of Q in T_hat Q.
        estimates: solution with the estimated rewards of the first MDP, for each outcome of Z, [K, SA].
        q_pi: Q^pi on the first MDP, [SA].
        chances: probability of each outcome, [K].
    """
    errors = [rate * q + sign * ((1 - rate) * estimates - q_pi) for sign in (1, -1)]
    return max(float(chances @ np.abs(error).max(axis=1)) for error in errors)
