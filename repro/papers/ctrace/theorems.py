"""C-trace's printed results on finite MDPs: Section 2, Propositions 2.1, 3.2, 3.3, B.1 and B.2 and Theorem 2.2."""

from __future__ import annotations

from collections.abc import Callable

import ml_collections
import numpy as np
import tensorflow as tf

from repro.ops import q_targets, traces
from repro.papers.ctrace import targets, update_errors
from repro.papers.ctrace.alpha_update import contraction_estimate
from repro.tabular import mdps, operators, paths
from repro.tabular.mdps import FiniteMDP, Problem
from repro.tabular.operators import Method, Operator
from repro.training.problem_study import Extreme, OnProblems

UNITS = {
    "rate": "largest difference",
    "estimate": "largest difference",
    "least_rate": "contraction rate at alpha = 0",
    "largest_rate": "contraction rate over gamma",
    "growth": "slope of the contraction rate in alpha",
    "growth_printed": "slope of the contraction rate in alpha",
    "growth_on_policy": "slope of the contraction rate in alpha",
    "truncated": "contraction rate over gamma^N",
    "truncated_on_policy": "largest difference",
    "greedy": "contraction rate over that of Retrace",
    "uncorrected": "largest difference",
    "importance": "largest difference",
    "periodic_policy": "distance of its fixed point from Q of the periodic policy",
    "mixture": "distance of its fixed point from Q of the mixture",
    "error": "error over its bound",
    "squared_error": "squared error over its bound",
    "trade_off": "root variance, contraction and bias over their bound",
}
"""Unit of each answer, by name."""
EXTREMES: dict[str, Extreme] = {
    "largest_rate": "largest",
    "growth": "smallest",
    "growth_on_policy": "largest",
    "truncated": "smallest",
    "greedy": "largest",
    "error": "largest",
    "squared_error": "largest",
    "trade_off": "smallest",
}
HALVINGS = 30
"""Maximum number of halvings of 1 - alpha in the search for an alpha-Retrace that keeps the greedy policy."""


def find_on_problem(config: ml_collections.ConfigDict, problem: Problem, rng: np.random.Generator) -> dict[str, float]:
    """Computes the answers on one problem, each the worst over the values of alpha, n, (x, a) and the update rules."""
    mdp, pi, mu = problem
    batch, alphas = Batch(problem, config.num_steps), np.array(config.alphas)
    retraces = [batch.alpha_retrace(alpha) for alpha in alphas]
    rates = np.array([operators.contraction_rates(op) for op in retraces])  # [K, SA]
    estimates = np.array([batch.estimate(alpha) for alpha in alphas])
    mixtures = [mdps.action_values(mdp, mdps.mix(pi, mu, alpha)) for alpha in alphas]
    on_policy = Batch(Problem(mdp, mu, mu), config.num_steps)
    lowest = mdp.discount**config.num_steps
    returns = [batch.uncorrected(n) for n in config.n]
    small = mdps.random_problem(config.update_states, config.update_actions, (mdp.discount, mdp.discount), rng)
    updates = list(update_errors.sampled_updates(small, rng))
    pairs = rng.dirichlet(np.full(small.pi.size, config.pairs_concentration))
    trades = [found for k in config.samples for found in update_errors.trade_offs(small, pairs, k).values()]
    return {
        "rate": _largest(rates - np.array([printed_rates(problem, alpha) for alpha in alphas])),
        "estimate": _largest(estimates - np.array([printed_rates(problem, a, config.num_steps) for a in alphas])),
        "least_rate": rates[alphas == 0.0].max(),
        "largest_rate": rates.max() / mdp.discount,
        "growth": slopes(rates, alphas).min(),
        "growth_printed": growth_unvisited(problem, alphas, config.num_steps),
        "growth_on_policy": _largest(
            slopes(np.array([operators.contraction_rates(on_policy.alpha_retrace(a)) for a in alphas]), alphas)
        ),
        "truncated": operators.contraction_rate(batch.truncated_retrace()) / lowest,
        "truncated_on_policy": _largest(operators.contraction_rates(on_policy.truncated_retrace()) - lowest),
        "greedy": greedy_rate(problem),
        "uncorrected": max(paths.distance(op, power(problem, mu, n)) for op, n in zip(returns, config.n)),
        "importance": max(paths.distance(batch.importance(n), power(problem, pi, n)) for n in config.n),
        "periodic_policy": max(
            _largest(operators.fixed_point(op, mdp) - periodic_values(problem, n)) for op, n in zip(returns, config.n)
        ),
        "mixture": max(_largest(operators.fixed_point(op, mdp) - q) for op, q in zip(retraces, mixtures)),
        "error": max(found.error / found.bound for found in updates),
        "squared_error": max(found.square / found.bound_of_square for found in updates),
        "trade_off": min(found.total / found.bound for found in trades),
    }


run = OnProblems(find_on_problem, UNITS, EXTREMES)
"""Checks the statements on random problems; no trajectories are sampled."""


def printed_rates(problem: Problem, alpha: float, num_terms: int | None = None) -> np.ndarray:
    """C(alpha|x, a) of Eq. (5) as printed, [SA]: 1 - (1 - gamma) times a sum over t, or over its first terms only."""
    mdp, pi, mu = problem
    step = operators.step_matrix(mdp, mu * ((1 - alpha) + alpha * np.minimum(1.0, pi / mu)))
    total = np.linalg.inv(np.eye(mu.size) - step)
    if num_terms is not None:
        total = total @ (np.eye(mu.size) - np.linalg.matrix_power(step, num_terms))
    return 1 - (1 - mdp.discount) * total.sum(axis=1)


def slopes(rates: np.ndarray, alphas: np.ndarray) -> np.ndarray:
    """Slopes of each rate, [K, SA], between successive alphas [K], which increase: [K - 1, SA]."""
    return np.diff(rates, axis=0) / np.diff(alphas)[:, None]


def growth_unvisited(problem: Problem, alphas: np.ndarray, num_steps: int) -> float:
    """Largest slope of the rate in state 0 on a problem where only there pi and mu differ and no step leads there.

    The visitation distribution includes the first state, so that the policies are distinguishable by Definition 3.1.
    """
    mdp, pi, mu = problem
    transitions, pi = mdp.transitions.copy(), np.concatenate([pi[:1], mu[1:]])
    transitions[..., 1] += transitions[..., 0]
    transitions[..., 0] = 0.0
    left = Problem(FiniteMDP(transitions, mdp.rewards, mdp.discount, mdp.terminal, mdp.initial), pi, mu)
    batch = Batch(left, num_steps)
    rates = np.array([operators.contraction_rates(batch.alpha_retrace(alpha)) for alpha in alphas])
    return float(slopes(rates, alphas)[:, : mdp.num_actions].max())


def greedy_rate(problem: Problem) -> float:
    """Proposition 3.3: rate of an alpha-Retrace that keeps the greedy policy, divided by the rate of Retrace.

    Alpha is the first of 1/2, 3/4, 7/8, .. that keeps the policy. Returns 1 if none of those tried does.
    """
    mdp, pi, mu = problem
    greedy = mdps.action_values(mdp, pi).argmax(axis=1)
    retrace = operators.contraction_rate(operators.operator(mdp, pi, mu, Method("retrace")))
    for halving in range(1, HALVINGS):
        op = operators.operator(mdp, pi, mu, Method("retrace", alpha=1 - 0.5**halving))
        if np.array_equal(operators.fixed_point(op, mdp).argmax(axis=1), greedy):
            return operators.contraction_rate(op) / retrace
    return 1.0


def power(problem: Problem, policy: np.ndarray, n: int) -> Operator:
    """(T^policy)^(n-1) T^pi, by applying one Bellman operator after the other."""
    mdp, pi, _ = problem

    def bellman(followed: np.ndarray, q: np.ndarray) -> np.ndarray:
        return mdp.rewards[..., None] + mdp.discount * mdp.transitions @ np.einsum("xa,xak->xk", followed, q)

    columns = np.hstack([np.zeros((pi.size, 1)), np.eye(pi.size)]).reshape(*pi.shape, -1)
    q = bellman(pi, columns)
    for _ in range(n - 1):
        q = bellman(policy, q)
    offset, *images = q.reshape(pi.size, -1).T
    return Operator(np.array(images).T - offset[:, None], offset)


def periodic_values(problem: Problem, n: int) -> np.ndarray:
    """Q of the periodic policy that after the first action takes n - 1 actions of mu, then one of pi, .. (B.1), [S, A].

    Solved over pairs and phases at once: in phase i, i + 1 steps after the first action, policy i acts.
    """
    mdp, pi, mu = problem
    size, policies = pi.size, [mu] * (n - 1) + [pi]
    matrix = np.eye(n * size)
    for i, policy in enumerate(policies):
        following = (i + 1) % n
        rows, columns = slice(i * size, (i + 1) * size), slice(following * size, (following + 1) * size)
        matrix[rows, columns] -= operators.step_matrix(mdp, policy)
    return np.linalg.solve(matrix, np.tile(mdp.rewards.ravel(), n))[:size].reshape(pi.shape)


class Batch:
    """Every path of a problem as sequences of T rows, in the format of the agents' targets."""

    def __init__(self, problem: Problem, num_steps: int) -> None:
        self._problem = mdp, pi, mu = problem
        self._paths = paths.all_paths(mdp, mu, num_steps)
        x, self._a = self._paths.trajectories  # [T + 1, N], [T, N]
        self._x = x[1:]
        self._pairs = x[:-1] * mdp.num_actions + self._a  # [T, N]
        self._next_a = np.concatenate([self._a[1:], np.zeros_like(self._a[:1])])  # the last row is not read
        self._log_rho = np.log(pi / mu)

    def alpha_retrace(self, alpha: float) -> Operator:
        """The operator of endless trajectories; a path's last target is given, as a reward that ends the episode."""
        discount = np.full(self._a.shape, self._problem.mdp.discount)
        discount[-1] = 0.0

        def expected(q: np.ndarray, last_targets: np.ndarray) -> np.ndarray:
            sequences = self._sequences(q, discount, last_targets)
            return self._expectation(targets.alpha_retrace(sequences, self._problem.mdp.discount, alpha).target)

        return paths.endless(expected, self._problem.pi.size)

    def truncated_retrace(self) -> Operator:
        """The operator of Retrace on T steps, which bootstraps from the state after them."""
        gamma = self._problem.mdp.discount
        return self._n_step(lambda sequences: targets.alpha_retrace(sequences, gamma, 1.0).target)

    def uncorrected(self, n: int) -> Operator:
        """The operator of uncorrected n-step returns, n at most T."""
        gamma = self._problem.mdp.discount
        return self._n_step(lambda sequences: targets.n_step(sequences, gamma, n).target)

    def importance(self, n: int) -> Operator:
        """The operator of importance-weighted n-step returns, n at most T."""

        def target(sequences: targets.Sequences) -> tf.Tensor:
            r_t, discount_t, q_t, _, pi_t, _, log_rho_t, _ = sequences
            means = traces.expected_value(q_t, pi_t)
            return q_targets.n_step_importance_weighted(r_t, discount_t, log_rho_t, means, n=n)

        return self._n_step(target)

    def estimate(self, alpha: float) -> np.ndarray:
        """Expectation of C_hat over whole paths, [SA]."""
        log_rho, gamma = self._log_rho[self._x, self._next_a], self._problem.mdp.discount
        found = contraction_estimate(log_rho, np.ones(log_rho.shape), alpha, gamma=gamma)
        return self._paths.expectation(found[0].numpy(), self._problem.mdp).ravel()

    def _n_step(self, target: Callable[[targets.Sequences], tf.Tensor]) -> Operator:
        discount = np.full(self._a.shape, self._problem.mdp.discount)
        return paths.endless(
            lambda q, _: self._expectation(target(self._sequences(q, discount))), self._problem.pi.size
        )

    def _sequences(
        self, q: np.ndarray, discount: np.ndarray, last_targets: np.ndarray | None = None
    ) -> targets.Sequences:
        """Returns a sequence for every path and column of q [SA, K]; `last_targets` replace the last rewards."""
        mdp, pi, mu = self._problem
        columns, num_rows = q.shape[1], len(self._a)

        def repeated(rows: np.ndarray) -> np.ndarray:
            """Repeats [T, N, ...] to [T, N K, ...]."""
            return np.repeat(rows, columns, axis=1).astype(np.float32)

        rewards = repeated(mdp.rewards.ravel()[self._pairs])
        if last_targets is not None:
            rewards[-1] = last_targets[self._pairs[-1]].ravel()
        tables = np.moveaxis(q.reshape(*pi.shape, columns), 2, 1)  # [S, K, A]
        q_t = tables[self._x].reshape(num_rows, -1, mdp.num_actions).astype(np.float32)  # [T, N K, A]
        return targets.Sequences(
            r_t=rewards,
            discount_t=repeated(discount),
            q_t=q_t,
            q_t_a=tf.gather(q_t, np.repeat(self._next_a, columns, axis=1), batch_dims=2),
            pi_t=repeated(pi[self._x]),
            mu_t=repeated(mu[self._x]),
            log_rho_t=repeated(self._log_rho[self._x, self._next_a]),
            is_boundary=np.zeros(rewards.shape, bool),
        )

    def _expectation(self, target: tf.Tensor) -> np.ndarray:
        """Returns the expected targets of the first pairs, [SA, K], from targets [T, N K]."""
        first = target[0].numpy().reshape(self._pairs.shape[1], -1)
        return self._paths.expectation(first, self._problem.mdp).reshape(self._problem.pi.size, -1)


def _largest(differences: np.ndarray) -> float:
    return float(np.abs(differences).max())
