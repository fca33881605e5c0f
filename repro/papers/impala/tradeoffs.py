"""IMPALA, Sections 4 and 5.2.2, Remark 3: bias and variance by truncation, and Retrace on-policy, on random MDPs.

The effect of the time horizon is measured on horizons that double. A variance that explodes, like that of a product of
independent weights, gains with each doubling twice as many orders of magnitude as with the one before; a variance that
settles gains ever fewer.
"""

from __future__ import annotations

from collections.abc import Sequence

import ml_collections
import numpy as np

from repro.ops import q_targets, traces
from repro.papers.impala.gradient_estimates import estimate_moments, true_gradient
from repro.tabular import mdps, paths, vtrace
from repro.tabular.mdps import Problem
from repro.tabular.vtrace import Weights
from repro.training.problem_study import Extreme, OnProblems

MORE_BY_DOUBLING = (
    "orders of magnitude that the last doubling of the horizon adds to the variance, minus the last but one"
)
MORE_BY_POLICIES = (
    "orders of magnitude by which the product of c_i varies more under mu than a quarter of the way to it"
)
MORE_WITHOUT_CLIPPING = "orders of magnitude by which the policy gradient varies more without clipping than at 1"
BIAS_OF_CLIPPING = "distance of the mean policy gradient from that of pi, clipped at 1 minus not clipped"
GROWS_BY_POLICIES = "1 if the product of c_i varies less at no quarter of the way from pi to mu, else 0"
UNITS = {
    "variance_by_c_bar": "orders of magnitude by which v_s varies more without c_bar than with 1",
    "retrace_on_policy": "largest difference of Retrace's target from the n-step return",
    "bias_by_rho_bar": "bias with rho_bar of 1 minus that with 16",
    "bias_falls": "1 if the bias rises at no doubling of rho_bar from 1 to 16, else 0",
    "variance_by_rho_bar": "orders of magnitude by which v_s varies more with rho_bar of 16 than with 1",
    "variance_grows": "1 if v_s varies less at no doubling of rho_bar from 1 to 16, else 0",
    "variance_by_horizon": MORE_BY_DOUBLING,
    "product_by_horizon": MORE_BY_DOUBLING,
    "truncated_product_by_horizon": MORE_BY_DOUBLING,
    "reduction_by_horizon": "orders of magnitude by which a c_bar of 1 reduces the variance of 32 c_i, minus of one",
    "product_by_policies": MORE_BY_POLICIES,
    "product_grows": GROWS_BY_POLICIES,
    "untruncated_by_policies": MORE_BY_POLICIES,
    "untruncated_grows": GROWS_BY_POLICIES,
    "q_by_rho_bar": "largest difference of E[q_s] from Q of pi with rho_bar of 1 minus that with 16",
    "variance_by_baseline": "orders of magnitude by which the policy gradient varies more without V than with it",
    "vtrace_gradient_variance": MORE_WITHOUT_CLIPPING,
    "vtrace_gradient_bias": BIAS_OF_CLIPPING,
    "one_step_gradient_variance": MORE_WITHOUT_CLIPPING,
    "one_step_gradient_bias": BIAS_OF_CLIPPING,
    "one_step_gap": "bias of 1-step minus that of V-trace, under mu minus a quarter of the way to it",
    "one_step_gap_grows": "1 if the bias of 1-step minus that of V-trace falls at no quarter of the way, else 0",
}
"""Unit of each answer, by name."""
EXTREMES: dict[str, Extreme] = {
    "variance_by_horizon": "largest",
    "product_by_horizon": "smallest",
    "truncated_product_by_horizon": "largest",
}
ROUNDING = 1e-5
"""Smallest change of a bias or of a variance's logarithm that counts as a rise or fall; targets are float32."""


def find_on_problem(config: ml_collections.ConfigDict, problem: Problem, rng: np.random.Generator) -> dict[str, float]:
    """Computes the answers on one problem."""
    return {
        "variance_by_c_bar": variance_without_c_bar(problem, config.num_steps),
        "retrace_on_policy": retrace_on_policy(problem, config.num_steps, rng),
        **find_by_rho_bar(problem, config.rho_bars, config.num_steps),
        **find_by_horizon(problem, config.horizons),
        **find_by_policies(problem, config.shares_of_mu, config.num_steps),
        **find_by_clipping(problem, config.num_steps),
        **find_one_step_gap(problem, config.shares_of_mu, config.num_steps),
    }


run = OnProblems(find_on_problem, UNITS, EXTREMES, means=tuple(UNITS.keys() - EXTREMES))
"""Checks the statements on random problems; no trajectories are sampled."""


def variance_without_c_bar(problem: Problem, num_steps: int) -> float:
    """log10 of the variance of v_s with no weight truncated over that with a c_bar of 1 (Section 4.1).

    V is that of the target policy, to which both converge.
    """
    return vtrace.variance_growth(problem, Weights(None, 1.0), Weights(None, None), num_steps)


def find_by_rho_bar(problem: Problem, rho_bars: Sequence[float], num_steps: int) -> dict[str, float]:
    """Computes the answers about bias and variance as rho_bar rises, with a c_bar of 1 (Remark 3, Section 4.2).

    The bias is the largest distance of V^{pi_rho_bar} from V^pi, the variance that of v_s, with V^pi as the estimate.
    """
    weights = [Weights(rho_bar, 1.0) for rho_bar in rho_bars]
    values = mdps.state_values(problem.mdp, problem.pi)
    evaluated = [mdps.state_values(problem.mdp, vtrace.evaluated_policy(problem, levels)) for levels in weights]
    bias = np.abs(np.array(evaluated) - values).max(1)
    estimates = [vtrace.expected_estimates(problem, levels, num_steps)[0] for levels in (weights[0], weights[-1])]
    q_bias = np.abs(np.array(estimates) - mdps.action_values(problem.mdp, problem.pi)).max((1, 2))
    variance = np.log10([vtrace.target_variance(problem, levels, values, num_steps) for levels in weights])
    return {
        "bias_by_rho_bar": float(bias[0] - bias[-1]),
        "bias_falls": float((np.diff(bias) < ROUNDING).all()),
        "variance_by_rho_bar": float(variance[-1] - variance[0]),
        "variance_grows": float((np.diff(variance) > -ROUNDING).all()),
        "q_by_rho_bar": float(q_bias[0] - q_bias[1]),
    }


def find_by_horizon(problem: Problem, horizons: Sequence[int]) -> dict[str, float]:
    """Computes the answers about v_s (c_bar of 1, rho not truncated) and products of c_i by horizon (Remark 3).

    V is that of the target policy.
    """
    values, weights = mdps.state_values(problem.mdp, problem.pi), Weights(None, 1.0)
    target_orders = np.log10([vtrace.chain_target_variance(problem, weights, values, n) for n in horizons])
    free, truncated = (
        np.log10([vtrace.product_variance(problem, clip_c, n) for n in horizons]) for clip_c in (None, 1.0)
    )
    return {
        "variance_by_horizon": more_by_doubling(target_orders),
        "product_by_horizon": more_by_doubling(free),
        "truncated_product_by_horizon": more_by_doubling(truncated),
        "reduction_by_horizon": float(free[-1] - truncated[-1] - (free[0] - truncated[0])),
    }


def more_by_doubling(orders: np.ndarray) -> float:
    """Returns the last doubling's gain in a logarithm by horizon, [H], minus the gain of the doubling before."""
    before, last = np.diff(orders)[-2:]
    return float(last - before)


def find_by_policies(problem: Problem, shares: Sequence[float], num_steps: int) -> dict[str, float]:
    """Computes the answers about the variance of products of c_i as the behaviour moves from pi to mu (Section 4.1).

    Args:
        problem: problem with both policies; at a share of 0 the behaviour would be pi, and the product 1.
        shares: increasing shares of mu in the behaviour policy, a mixture of pi and mu.
        num_steps: number of factors c_i.
    """
    mixtures, found = _mixtures(problem, shares), dict[str, float]()
    for clip_c, mean, share in (
        (1.0, "product_by_policies", "product_grows"),
        (None, "untruncated_by_policies", "untruncated_grows"),
    ):
        orders = np.log10([vtrace.product_variance(mixture, clip_c, num_steps) for mixture in mixtures])
        found |= {mean: float(orders[-1] - orders[0]), share: float((np.diff(orders) > -ROUNDING).all())}
    return found


def find_by_clipping(problem: Problem, num_steps: int) -> dict[str, float]:
    """Computes the answers about the policy gradient without baseline and without clipped weights (4.2, 5.2.2)."""
    clipped = estimate_moments(problem, "vtrace", 1.0, num_steps)
    without = estimate_moments(problem, "vtrace", 1.0, num_steps, subtracts_baseline=False)
    found = {"variance_by_baseline": float(np.log10(without.variance / clipped.variance))}
    for correction in ("vtrace", "one_step"):
        free, clipped = (estimate_moments(problem, correction, clip, num_steps) for clip in (None, 1.0))
        bias = [np.linalg.norm(moments.mean - true_gradient(problem)) for moments in (free, clipped)]
        found |= {
            f"{correction}_gradient_variance": float(np.log10(free.variance / clipped.variance)),
            f"{correction}_gradient_bias": float(bias[1] - bias[0]),
        }
    return found


def find_one_step_gap(problem: Problem, shares: Sequence[float], num_steps: int) -> dict[str, float]:
    """Computes by how much 1-step importance sampling is more biased than V-trace as mu moves away from pi (5.2.2).

    All weights are clipped at 1. Arguments as for `find_by_policies`.
    """
    gaps = []
    for mixture in _mixtures(problem, shares):
        one_step, vtrace_ = (estimate_moments(mixture, name, 1.0, num_steps).mean for name in ("one_step", "vtrace"))
        true = true_gradient(mixture)
        gaps.append(np.linalg.norm(one_step - true) - np.linalg.norm(vtrace_ - true))
    return {
        "one_step_gap": float(gaps[-1] - gaps[0]),
        "one_step_gap_grows": float((np.diff(gaps) > -ROUNDING).all()),
    }


def _mixtures(problem: Problem, shares: Sequence[float]) -> list[Problem]:
    """Returns the problem with mixtures of pi and mu as the behaviour policy, by the share of mu."""
    mdp, pi, mu = problem
    return [Problem(mdp, pi, mdps.mix(pi, mu, 1 - share)) for share in shares]


def retrace_on_policy(problem: Problem, num_steps: int, rng: np.random.Generator) -> float:
    """Largest difference of Retrace's target from the n-step return over all paths of pi, for a random Q (Section 4.1).

    Both bootstrap from E_{a ~ pi} Q at the end of the path, along which Retrace's coefficients are 1.
    """
    mdp, pi, _ = problem
    q = rng.normal(size=pi.shape)
    x, a = paths.all_paths(mdp, pi, num_steps).trajectories  # [T + 1, N], [T, N]
    rewards, expected = mdp.rewards[x[:-1], a], (pi * q).sum(1)[x[1:]]
    targets = q_targets.multistep_q(
        r_t=rewards,
        discount_t=np.full(a.shape, mdp.discount),
        c_t=traces.retrace(np.zeros(a.shape)),
        expected_q_t=expected,
        q_t_a=np.concatenate([q[x[1:-1], a[1:]], np.zeros((1, a.shape[1]))]),  # not read in the last row
    )
    powers = mdp.discount ** np.arange(num_steps + 1)[:, None]
    n_step = (powers[:-1] * rewards).sum(0) + powers[-1] * expected[-1]
    return float(np.abs(targets[0].numpy() - n_step).max())
