"""ACER, Sections 3 to 3.2 and 5.1: bias and variance of off-policy gradients and values, on random finite MDPs.

Gradients are with respect to the logits of a softmax policy that has one for each state and action. Expectations are
sums over every path of a few steps, and the variance of a gradient is the trace of its covariance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import ml_collections
import numpy as np

from repro.papers.acer import continuous_loss, loss
from repro.tabular import mdps, paths
from repro.tabular.mdps import FiniteMDP, Problem
from repro.training.problem_study import Extreme, OnProblems

UNITS = {
    "importance_bias": "largest difference from the policy gradient",
    "importance_variance": "orders of magnitude by which Eq. (3) varies more under mu than without weights under pi",
    "truncated_variance": "orders of magnitude by which Eq. (3) varies more without truncation of its product",
    "truncated_bias": "bias over the size of the policy gradient",
    "marginal_variance": "orders of magnitude by which Eq. (3) varies more than Eq. (4)",
    "retrace_bias": "orders of magnitude between biases of the policy gradient",
    "correction_below_c": "largest correction weight",
    "truncated_weight": "largest truncated weight over c",
    "correction_weight": "largest correction weight",
    "baseline_variance": "orders of magnitude by which Eq. (9) varies more without V",
    "value_variance": "orders of magnitude by which importance sampling varies more than Eq. (14)",
}
"""Unit of each answer, by name."""
EXTREMES: dict[str, Extreme] = {
    "truncated_bias": "largest",
    "correction_below_c": "largest",
    "truncated_weight": "largest",
    "correction_weight": "largest",
}
MEANS = tuple(UNITS.keys() - EXTREMES - {"importance_bias"})
"""Answers that differ from problem to problem."""


def find_on_problem(config: ml_collections.ConfigDict, problem: Problem, rng: np.random.Generator) -> dict[str, float]:
    """Computes the answers on one problem."""
    sample = all_paths(problem.mdp, problem.mu, config.num_steps)
    return {
        **find_importance_sampling(problem, sample, config.product_truncation),
        "retrace_bias": retrace_bias(problem, sample, config.num_estimates, rng),
        **find_weights(problem, config.truncations),
        "baseline_variance": min(variance_without_baseline(problem, sample, c) for c in config.truncations),
        "value_variance": variance_of_value_by_importance_sampling(problem, sample),
    }


run = OnProblems(find_on_problem, UNITS, EXTREMES, means=MEANS)
"""Checks the statements on random problems; no trajectories are sampled."""


class Sample(NamedTuple):
    """Every path of T steps of a policy, N of them.

    x: states x_0 to x_T, int [T + 1, N].
    a: actions, int [T, N].
    probability: probability of each path, its first pair included, [N].
    """

    x: np.ndarray
    a: np.ndarray
    probability: np.ndarray

    def mean(self, estimates: np.ndarray) -> np.ndarray:
        """Expectation of estimates [N, D], one for each path: [D]."""
        return self.probability @ estimates

    def orders(self, estimates: np.ndarray) -> float:
        """log10 of the trace of the covariance of estimates [N, D]."""
        return float(np.log10(self.probability @ np.square(estimates - self.mean(estimates)).sum(axis=1)))


def all_paths(mdp: FiniteMDP, policy: np.ndarray, num_steps: int) -> Sample:
    """Every path of a policy [S, A] whose first state is sampled from `mdp.initial`."""
    (x, a), probability = paths.all_paths(mdp, policy, num_steps)
    return Sample(x, a, mdp.initial[x[0]] * policy[x[0], a[0]] * probability)


def gradient(pi: np.ndarray, x: np.ndarray, a: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """sum_t factors_t d log pi(a_t|x_t) / d logits, [N, S A], for states, actions and factors [T, N]."""
    scores = np.eye(pi.shape[1])[a] - pi[x]  # [T, N, A]
    return _in_states(len(pi), x, factors[..., None] * scores)


def gradient_from_phi(pi: np.ndarray, x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """sum_t (d phi(x_t) / d logits)^T g_t, [N, S A], for gradients g in phi [T, N, A] at states x [T, N].

    As phi is the softmax of the logits, entry a of each product is phi_a (g_a - sum_b phi_b g_b).
    """
    phi = pi[x]
    return _in_states(len(pi), x, phi * (g - (phi * g).sum(axis=-1, keepdims=True)))


def _in_states(num_states: int, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Adds rows [T, N, A] up to [N, S A], each in the entries of its state x [T, N]."""
    return np.einsum("tns,tna->nsa", np.eye(num_states)[x], rows).reshape(x.shape[1], -1)


def horizon_values(mdp: FiniteMDP, pi: np.ndarray, num_steps: int) -> np.ndarray:
    """Q^pi of the T - t steps that are left of T at step t, [T, S, A]."""
    q = [mdp.rewards]
    for _ in range(num_steps - 1):
        q.append(mdp.rewards + mdp.discount * mdp.continuing @ (pi * q[-1]).sum(axis=1))
    return np.array(q[::-1])


def policy_gradient(mdp: FiniteMDP, pi: np.ndarray, num_steps: int) -> np.ndarray:
    """Eq. (1) over T steps of pi, [S A], from the distribution of the state at each step and its exact advantages."""
    state, total = mdp.initial, np.zeros_like(pi)
    for q in horizon_values(mdp, pi, num_steps):
        total += state[:, None] * pi * (q - (pi * q).sum(axis=1, keepdims=True))
        state = np.einsum("x,xa,xay->y", state, pi, mdp.continuing)
    return total.ravel()


def returns(mdp: FiniteMDP, x: np.ndarray, a: np.ndarray) -> np.ndarray:
    """sum_i gamma^i r_{t+i} up to the end of each path, [T, N]."""
    found = mdp.rewards[x[:-1], a]
    for t in reversed(range(len(a) - 1)):
        found[t] += mdp.discount * found[t + 1]
    return found


def find_importance_sampling(problem: Problem, sample: Sample, truncation: float) -> dict[str, float]:
    """Computes the answers about Eqs. (3) and (4), and (3) with its product truncated (Section 3).

    Args:
        problem: the problem.
        sample: every path of mu.
        truncation: bound on the product of a path's weights.
    """
    (mdp, pi, mu), (x, a, _) = problem, sample
    t, x_t, expected = np.arange(len(a))[:, None], x[:-1], horizon_values(mdp, pi, len(a))
    rho, q = (pi / mu)[x_t, a], expected[t, x_t, a]  # [T, N]
    own = all_paths(mdp, pi, len(a))
    on_policy = gradient(pi, own.x[:-1], own.a, returns(mdp, own.x, own.a))
    unweighted, unweighted_q = (gradient(pi, x_t, a, factors) for factors in (returns(mdp, x, a), q))
    product = rho.prod(axis=0)[:, None]  # [N, 1]
    truncated = loss.truncated_weight(np.log(product), truncation).numpy() * unweighted
    exact, orders = policy_gradient(mdp, pi, len(a)), sample.orders(product * unweighted)
    by_trajectory = min(orders, sample.orders(product * unweighted_q))
    return {
        "importance_bias": float(np.abs(sample.mean(product * unweighted) - exact).max()),
        "importance_variance": orders - own.orders(on_policy),
        "truncated_variance": orders - sample.orders(truncated),
        "truncated_bias": float(np.linalg.norm(sample.mean(truncated) - exact) / np.linalg.norm(exact)),
        "marginal_variance": by_trajectory - sample.orders(gradient(pi, x_t, a, rho * q)),
    }


def trained_targets(problem: Problem, sample: Sample, q: np.ndarray) -> np.ndarray:
    """Q_ret of Eq. (5) on each path, [T, N], as the training loss computes it for estimates q [S, A].

    Each path is an unroll, which ends with V(x_T) of the estimates; a path of one step has r + gamma V.
    """
    (mdp, pi, mu), (x, a, _) = problem, sample
    logits, behaviour_logits = np.log(pi).astype(np.float32)[x], np.log(mu).astype(np.float32)[x[:-1]]
    rewards, discounts = mdp.rewards[x[:-1], a].astype(np.float32), np.full(a.shape, mdp.discount, np.float32)
    no_boundary = np.zeros(a.shape, bool)
    targets: np.ndarray = loss.retrace_target(
        logits, q.astype(np.float32)[x], behaviour_logits, a, rewards, discounts, no_boundary
    ).numpy()
    return targets


def trained_gradient(
    problem: Problem, x: np.ndarray, a: np.ndarray, q: np.ndarray, q_ret: np.ndarray, c: float
) -> np.ndarray:
    """Eq. (9) in phi as the training loss computes it, [T, N, A], for targets q_ret [T, N] and estimates q [S, A]."""
    _, pi, mu = problem
    logits, table, behaviour_logits = (np.asarray(y, np.float32)[x] for y in (np.log(pi), q, np.log(mu)))
    found: np.ndarray = loss.policy_gradient(logits, table, behaviour_logits, a, q_ret.astype(np.float32), c).numpy()
    return found


def retrace_bias(problem: Problem, sample: Sample, num_estimates: int, rng: np.random.Generator) -> float:
    """log10 of the bias of Eq. (4) with one-step targets over that with Q_ret (Section 3.1), mean over estimates.

    The gradient is that of the first step, Eq. (9) without truncation. Its bias is the Euclidean norm of the distance
    of its expectation from that with Q^pi. Both are linear in the errors, whose size does not matter.

    Args:
        problem: the problem.
        sample: every path of mu.
        num_estimates: number of estimates of Q, Q^pi with independent standard normal errors.
        rng: source of the errors.
    """
    (mdp, pi, _), (x, a, probability) = problem, sample
    values = mdps.action_values(mdp, pi)
    exact = (mdp.initial[:, None] * pi * (values - (pi * values).sum(axis=1, keepdims=True))).ravel()
    first, x_0, a_0 = Sample(x[:2], a[:1], probability), x[:1], a[:1]
    found = []
    for _ in range(num_estimates):
        q = values + rng.normal(size=pi.shape)
        biases = []
        for unroll in (first, sample):
            g = trained_gradient(problem, x_0, a_0, q, trained_targets(problem, unroll, q)[:1], math.inf)
            biases.append(np.linalg.norm(sample.mean(gradient_from_phi(pi, x_0, g)) - exact))
        found.append(np.log10(biases[0] / biases[1]))
    return float(np.mean(found))


def find_weights(problem: Problem, truncations: Sequence[float]) -> dict[str, float]:
    """Computes the answers about both weights of Eq. (7), the largest over all pairs and c (Section 3.2)."""
    rho = problem.pi / problem.mu
    log_rho = np.log(rho).astype(np.float32)
    truncated = [loss.truncated_weight(log_rho, c).numpy() / c for c in truncations]
    corrections = [loss.correction_weight(log_rho, c).numpy() for c in truncations]
    below = [np.where(rho <= c, correction, 0.0) for c, correction in zip(truncations, corrections, strict=True)]
    return {
        "correction_below_c": float(np.max(below)),
        "truncated_weight": float(np.max(truncated)),
        "correction_weight": float(np.max(corrections)),
    }


def variance_without_baseline(problem: Problem, sample: Sample, c: float) -> float:
    """log10 of the variance of Eq. (9) without V over that with V, given Q^pi, summed over steps (Section 3.2).

    What V adds to each step's gradient in phi is minus V times the weights of Eq. (9).
    """
    (mdp, pi, mu), (x, a, _) = problem, sample
    q, x_t = mdps.action_values(mdp, pi), x[:-1]
    value, log_rho = (pi * q).sum(axis=1), np.log(pi / mu).astype(np.float32)
    with_v = trained_gradient(problem, x_t, a, q, trained_targets(problem, sample, q), c)  # [T, N, A]
    taken = np.eye(pi.shape[1])[a] * (loss.truncated_weight(log_rho, c).numpy() / pi)[x_t]
    weights = taken + loss.correction_weight(log_rho, c).numpy()[x_t]
    without_v = with_v + value[x_t][..., None] * weights
    orders = (sample.orders(gradient_from_phi(pi, x_t, g)) for g in (without_v, with_v))
    return next(orders) - next(orders)


def variance_of_value_by_importance_sampling(problem: Problem, sample: Sample) -> float:
    """log10 of the variance of rho(a) Q^pi(x, a) over that of Eq. (14)'s target, given x = x_0 (Section 5.1).

    Both variances are means over x_0. Eq. (14) has Q^pi and V^pi, and Q_ret of the path from x_0.
    """
    (mdp, pi, mu), (x, a, probability) = problem, sample
    q, (x_0, a_0) = mdps.action_values(mdp, pi), (x[0], a[0])
    log_rho, q_0 = np.log(pi / mu)[x_0, a_0], q[x_0, a_0]
    value = (pi * q).sum(axis=1)[x_0]
    arguments = (y.astype(np.float32) for y in (log_rho, trained_targets(problem, sample, q)[0], q_0, value))
    targets = continuous_loss.value_target(*arguments).numpy()
    spreads = []
    for estimates in (np.exp(log_rho) * q_0, targets):
        means = np.bincount(x_0, probability * estimates) / np.bincount(x_0, probability)
        spreads.append(probability @ np.square(estimates - means[x_0]))
    return float(np.log10(spreads[0] / spreads[1]))
