"""Every path of a finite MDP as a batch of sequences, and the operators of the agents' targets on them."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from repro.ops import q_targets, traces
from repro.papers.ctrace import targets
from repro.papers.ctrace.alpha_update import contraction_estimate
from repro.tabular import paths
from repro.tabular.mdps import Problem
from repro.tabular.operators import Operator

Targets = Callable[[targets.Sequences], tf.Tensor]
"""Function from sequences to the targets of all their steps, [T, B]."""


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

    @property
    def discount(self) -> float:
        """Discount of the problem."""
        return self._problem.mdp.discount

    def alpha_retrace(self, alpha: float, trace_lambda: float = 1.0) -> Operator:
        """The operator of endless trajectories; a path's last target is given, as a reward that ends the episode."""
        discount = np.full(self._a.shape, self.discount)
        discount[-1] = 0.0

        def expected(q: np.ndarray, last_targets: np.ndarray) -> np.ndarray:
            sequences = self._sequences(q, discount, last_targets)
            gamma = self.discount
            return self._expectation(targets.alpha_retrace(sequences, gamma, alpha, trace_lambda).target)

        return paths.endless(expected, self._problem.pi.size)

    def truncated_retrace(self) -> Operator:
        """The operator of Retrace on T steps, which bootstraps from the state after them."""
        return self._n_step(self._retrace_target)

    def uncorrected(self, n: int) -> Operator:
        """The operator of uncorrected n-step returns, n at most T."""
        gamma = self.discount
        return self._n_step(lambda sequences: targets.n_step(sequences, gamma, n).target)

    def importance(self, n: int) -> Operator:
        """The operator of importance-weighted n-step returns, n at most T."""
        return self._n_step(functools.partial(_importance_target, n=n))

    def retrace_variance(self, q: np.ndarray) -> float:
        """Variance of Retrace on T steps (Definition 1.4) from the table q, [S, A], every first pair equally likely."""
        return self._variance(self._retrace_target, q)

    def importance_variance(self, q: np.ndarray, n: int) -> float:
        """Variance of importance-weighted n-step returns, n at most T; q and first pairs as in `retrace_variance`."""
        return self._variance(functools.partial(_importance_target, n=n), q)

    def largest_difference(self, one: Targets, other: Targets, q: np.ndarray) -> float:
        """Largest difference between two targets from the table q, [S, A], over all paths and steps."""
        sequences = self._sequences(q.reshape(-1, 1), self._constant_discount())
        return float(np.abs(one(sequences) - other(sequences)).max())

    def estimate(self, alpha: float) -> np.ndarray:
        """Expectation of C_hat over whole paths, [SA]."""
        log_rho, gamma = self._log_rho[self._x, self._next_a], self.discount
        found = contraction_estimate(log_rho, np.ones(log_rho.shape), alpha, gamma=gamma)
        return self._paths.expectation(found[0].numpy(), self._problem.mdp).ravel()

    def _n_step(self, target: Targets) -> Operator:
        discount = self._constant_discount()
        return paths.endless(
            lambda q, _: self._expectation(target(self._sequences(q, discount))), self._problem.pi.size
        )

    def _variance(self, target: Targets, q: np.ndarray) -> float:
        found = target(self._sequences(q.reshape(-1, 1), self._constant_discount()))[0].numpy().astype(np.float64)
        mean, square = (self._paths.expectation(x, self._problem.mdp) for x in (found, found**2))
        return float((square - mean**2).mean())

    def _retrace_target(self, sequences: targets.Sequences) -> tf.Tensor:
        return targets.alpha_retrace(sequences, self.discount, 1.0).target

    def _constant_discount(self) -> np.ndarray:
        return np.full(self._a.shape, self.discount)

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


def _importance_target(sequences: targets.Sequences, n: int) -> tf.Tensor:
    r_t, discount_t, q_t, _, pi_t, _, log_rho_t, _ = sequences
    means = traces.expected_value(q_t, pi_t)
    return q_targets.n_step_importance_weighted(r_t, discount_t, log_rho_t, means, n=n)
