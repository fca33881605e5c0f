"""ACER's printed results on finite MDPs: the operators of Eqs. (20) and (21), and the identities of (7) and (13)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import ml_collections
import numpy as np
import tensorflow as tf

from repro.networks import stochastic_dueling
from repro.ops import q_targets
from repro.papers.acer import loss
from repro.tabular import mdps, operators, paths
from repro.tabular.mdps import Problem
from repro.tabular.operators import Method
from repro.tabular.paths import ExpectedTargets
from repro.training.problem_study import Extreme, OnProblems

UNITS = {
    "contraction": "contraction rate over gamma",
    "fixed_point": "distance of its fixed point from Q^pi",
    "retrace": "largest difference",
    "bellman": "largest difference",
    "importance_sampling": "largest difference",
    "unbiased": "largest difference",
    "consistent": "largest difference",
    "opc_close": "contraction rate",
    "opc_far": "contraction rate",
}
"""Unit of each answer, by name."""
EXTREMES: dict[str, Extreme] = {"contraction": "largest", "opc_close": "largest", "opc_far": "largest"}
HIDDEN = 8
"""Number of hidden units of the random advantage network."""


def find_on_problem(config: ml_collections.ConfigDict, problem: Problem, rng: np.random.Generator) -> dict[str, float]:
    """Computes the answers on one problem; `contraction` to `retrace` and `unbiased` are the largest over the c."""
    mdp, pi, mu = problem
    batch, size = Batch(problem, config.num_steps), pi.size
    rates, distances, differences = [], [], []
    for c in config.truncations:
        expected = batch.corrected(c)
        op = paths.endless(expected, size)
        rates += [operators.contraction_rate(op), paths.sampled_rate(expected, op, config.pairs, rng)]
        distances.append(np.abs(operators.fixed_point(op, mdp) - mdps.action_values(mdp, pi)).max())
        differences.append(paths.distance(op, paths.endless(batch.retrace(c), size)))
        if c == 1.0:
            differences.append(paths.distance(op, paths.endless(batch.trained_retrace, size)))
    bellman = operators.operator(mdp, pi, mu, Method("uncorrected", n=1))
    importance = paths.endless(batch.importance_sampling, size)
    return {
        "contraction": max(rates) / mdp.discount,
        "fixed_point": float(max(distances)),
        "retrace": max(differences),
        "bellman": paths.distance(paths.endless(batch.corrected(0.0), size), bellman),
        "importance_sampling": paths.distance(paths.endless(batch.corrected(math.inf), size), importance),
        "unbiased": max(gradient_bias(problem, c) for c in config.truncations),
        "consistent": dueling_difference(problem, config.dueling_samples, rng),
        "opc_close": opc_rate(Problem(mdp, pi, close_behaviour(problem, config.closeness))),
        "opc_far": opc_rate(problem),
    }


run = OnProblems(find_on_problem, UNITS, EXTREMES)
"""Checks the statements on random problems; no trajectories are sampled."""


def gradient_bias(problem: Problem, c: float) -> float:
    """Largest bias of the gradient of Eq. (9) in phi, given Q^pi: its expectation over mu minus pi's gradient.

    Pi's gradient is E_pi[d log f(a|phi) / d phi (Q^pi(x, a) - V^pi(x))], whose entry a is Q^pi(x, a) - V^pi(x).
    """
    mdp, pi, mu = problem
    q = mdps.action_values(mdp, pi).reshape(pi.shape)
    actions = np.broadcast_to(np.arange(pi.shape[1]), pi.shape)  # [S, A], each in every state
    tables = np.array([np.log(pi), q, np.log(mu)], np.float32)
    logits, table, behaviour = (np.repeat(x[:, None], pi.shape[1], axis=1) for x in tables)
    gradient = loss.policy_gradient(logits, table, behaviour, actions, q.astype(np.float32), c).numpy()  # [S, A, A]
    expected = np.einsum("xa,xab->xb", mu, gradient)
    return float(np.abs(expected - (q - (pi * q).sum(axis=1, keepdims=True))).max())


def opc_rate(problem: Problem) -> float:
    """Contraction rate of Q(lambda) with off-policy corrections, Eq. (21), whose traces are 1; 1 or more: none."""
    return operators.contraction_rate(operators.operator(*problem, Method("q_lambda")))


def close_behaviour(problem: Problem, closeness: float) -> np.ndarray:
    """Returns the mixture of pi and mu, [S, A], at most `closeness` (1 - gamma) / gamma from pi in every state.

    The distance is that of L1. Harutyunyan et al. (2016) prove a contraction for distances below (1 - gamma) / gamma.
    """
    mdp, pi, mu = problem
    bound = closeness * (1 - mdp.discount) / mdp.discount
    return mdps.mix(pi, mu, max(0.0, 1 - bound / np.abs(pi - mu).sum(axis=1).max()))


def dueling_difference(problem: Problem, num_samples: int, rng: np.random.Generator) -> float:
    """Largest distance from V^pi of Eq. (13)'s expectation over a, u_1, ..., u_n ~ pi, for random advantages.

    Actions are points in [-1, 1]; the expectation is a sum over all possible samples.
    """
    mdp, pi, _ = problem
    (states, actions), shapes = pi.shape, ((len(pi) + 1, HIDDEN), (HIDDEN,), (HIDDEN, 1), (1,))
    weights = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    value = (pi * mdps.action_values(mdp, pi).reshape(pi.shape)).sum(axis=1)
    chosen = np.array(list(itertools.product(range(actions), repeat=num_samples)))  # [A^n, n]
    x, u = np.repeat(np.arange(states), len(chosen)), np.tile(chosen, (states, 1))  # [N], [N, n]
    points = np.linspace(-1.0, 1.0, actions, dtype=np.float32)[:, None]
    q = stochastic_dueling.stochastic_q(
        weights,
        np.eye(states, dtype=np.float32)[x],
        value[x].astype(np.float32),
        np.repeat(points[None], len(x), axis=0),
        points[u],
    ).numpy()  # [N, A]
    mean = np.bincount(x, pi[x[:, None], u].prod(axis=1) * (pi[x] * q).sum(axis=1))
    return float(np.abs(mean - value).max())


class Batch:
    """Every path of a problem as a sequence; the last row ends the episode with the given target as its reward.

    Each method maps action values [SA, K] and last targets [SA, K] to the expected targets of the first pair, [SA, K];
    `corrected` and `retrace` return such a function for a truncation c.
    """

    def __init__(self, problem: Problem, num_steps: int) -> None:
        self._problem = mdp, pi, mu = problem
        self._paths = paths.all_paths(mdp, mu, num_steps)
        self._x, self._a = self._paths.trajectories  # [T + 1, N], [T, N]
        self._pairs = self._x[:-1] * mdp.num_actions + self._a  # [T, N]
        self._discount = np.full(self._a.shape, mdp.discount)
        self._discount[-1] = 0.0
        self._log_rho = np.log(pi / mu).astype(np.float32)

    def corrected(self, c: float) -> ExpectedTargets:
        """B of Eq. (20): training's recursion without Q(x_{t+1}, a_{t+1}), on the corrected part of E_pi Q."""
        weights = loss.correction_weight(self._log_rho, c).numpy() * self._problem.pi
        return self._multistep(c, weights, lambda q: np.zeros_like(q))

    def retrace(self, c: float) -> ExpectedTargets:
        """Retrace with traces min(c, rho)."""
        return self._multistep(c, self._problem.pi, lambda q: q)

    def _multistep(
        self, c: float, weights: np.ndarray, subtracted: Callable[[np.ndarray], np.ndarray]
    ) -> ExpectedTargets:
        """Builds `multistep_q` with sum_a weights(x, a) Q(x, a) as the expectation and `subtracted` for Q(x, a)."""
        c_t = self._next(loss.truncated_weight(self._log_rho, c).numpy().ravel()[self._pairs])

        def expected(q: np.ndarray, last_targets: np.ndarray) -> np.ndarray:
            means = np.einsum("xa,xak->xk", weights, q.reshape(*weights.shape, -1))
            r_t, discount_t, coefficients = self._rows(last_targets, c_t)
            next_q = self._next(subtracted(q)[self._pairs])
            targets = q_targets.multistep_q(r_t, discount_t, coefficients, means[self._x[1:]], next_q)
            return self._expectation(targets)

        return expected

    def trained_retrace(self, q: np.ndarray, last_targets: np.ndarray) -> np.ndarray:
        """Q_ret as the training loss computes it, from logits."""
        (_, pi, mu), columns = self._problem, q.shape[1]
        tables = np.moveaxis(q.reshape(*pi.shape, columns), 2, 1)  # [S, K, A]
        logits, behaviour_logits = (np.repeat(np.log(p)[:, None], columns, axis=1) for p in (pi, mu))
        r_t, discount_t, actions = self._rows(last_targets, self._a)
        taken, rewards, discounts = (x.reshape(len(x), -1) for x in (actions, r_t, discount_t))  # [T, N K]
        states = (tables[self._x], logits[self._x], behaviour_logits[self._x[:-1]])
        q_t, pi_t, mu_t = (tf.constant(x.reshape(len(x), -1, x.shape[-1]), tf.float32) for x in states)
        no_boundary = np.zeros(taken.shape, bool)
        targets = loss.retrace_target(pi_t, q_t, mu_t, taken, rewards, discounts, no_boundary)
        return self._expectation(tf.reshape(targets, r_t.shape))

    def importance_sampling(self, q: np.ndarray, last_targets: np.ndarray) -> np.ndarray:
        """The importance-weighted return, which reads no Q."""
        next_log_rho = self._next(self._log_rho.ravel()[self._pairs])
        r_t, discount_t, log_rho_t = self._rows(last_targets, next_log_rho)
        targets = q_targets.n_step_importance_weighted(
            r_t, discount_t, log_rho_t, np.zeros_like(r_t), n=len(self._pairs)
        )
        return self._expectation(targets)

    def _rows(self, last_targets: np.ndarray, extra: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns rewards, discounts and `extra` [T, N], repeated for every column, each [T, N, K]."""
        shape = (*self._pairs.shape, last_targets.shape[1])
        rewards = self._problem.mdp.rewards.ravel()[self._pairs]
        r_t, discount_t, extra = (np.broadcast_to(x[..., None], shape) for x in (rewards, self._discount, extra))
        return np.concatenate([r_t[:-1], last_targets[self._pairs[-1:]]]), discount_t, extra

    def _next(self, x: np.ndarray) -> np.ndarray:
        """Returns x with row s + 1 at row s and 0 in the last row."""
        return np.concatenate([x[1:], np.zeros_like(x[:1])])

    def _expectation(self, targets: tf.Tensor) -> np.ndarray:
        mean = self._paths.expectation(targets[0].numpy(), self._problem.mdp)
        return mean.reshape(self._problem.mdp.rewards.size, -1)
