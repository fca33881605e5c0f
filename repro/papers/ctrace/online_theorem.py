"""C-trace, Proposition 3.4 and Theorem 3.5: alpha and Q learned online from samples converge to their limits."""

from __future__ import annotations

import ml_collections
import numpy as np

from repro.tabular import mdps, online_ctrace, operators
from repro.tabular.mdps import Problem
from repro.tabular.online_ctrace import StepSizes
from repro.training.problem_study import OnlineOnProblems

UNITS = {
    "online_phi": "distance of phi_k from phi* over that of phi_0",
    "online_values": "distance of Q_k from Q of the mixture at alpha* over that of Q_0",
}
"""Unit of each answer, by name."""
FARTHEST = 30.0
"""Bound on |phi| in the search for the root."""
BISECTIONS = 60
"""Number of halvings of the interval that contains the root."""


def find_on_problem(config: ml_collections.ConfigDict, problem: Problem, rng: np.random.Generator) -> dict[str, float]:
    """Computes the answers on one problem, each the largest over the pairs of phi_0 and Gamma."""
    left = [shares_left(config, problem, phi, rate_share, rng) for phi, rate_share in config.starts]
    return dict(zip(UNITS, map(float, np.max(left, axis=0))))


run = OnlineOnProblems(find_on_problem, UNITS, cases="starts", words="pairs of phi_0 and Gamma")
"""Learns from sampled trajectories and compares the results with their limits."""


def shares_left(
    config: ml_collections.ConfigDict, problem: Problem, phi: float, rate_share: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Returns |phi_k - phi*| / |phi_0 - phi*| and max |Q_k - Q*| / max |Q_0 - Q*|, where Q_0 = 0.

    Args:
        config: configuration of the study.
        problem: problem without terminal states.
        phi: phi_0.
        rate_share: Gamma / C_nu(1), in (0, 1).
        rng: source of all samples.
    """
    target = rate_share * average_rate(problem, 1.0)
    root = find_root(problem, target)
    step_sizes = StepSizes(*config.step_sizes)
    learned = online_ctrace.learn(problem, phi, target, config.num_trajectories, config.num_steps, step_sizes, rng)
    limit = mdps.action_values(problem.mdp, mdps.mix(problem.pi, problem.mu, sigmoid(root)))
    return abs(learned.phi - root) / abs(phi - root), float(np.abs(learned.q - limit).max() / np.abs(limit).max())


def find_root(problem: Problem, target_rate: float) -> float:
    """Finds phi*, where C_nu(alpha(phi)), which increases with phi, equals Gamma."""
    low, high = -FARTHEST, FARTHEST
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if average_rate(problem, sigmoid(middle)) < target_rate else (low, middle)
    return low


def average_rate(problem: Problem, alpha: float) -> float:
    """C_nu(alpha): C(alpha|x, a) of Eq. (5), averaged over the pair that begins a trajectory of mu."""
    rates = operators.alpha_retrace_rates(*problem, np.array([alpha]))[0]
    return float(np.sum(problem.mdp.initial[:, None] * problem.mu * rates))


def sigmoid(phi: float) -> float:
    """alpha(phi)."""
    return 1 / (1 + np.exp(-phi))
