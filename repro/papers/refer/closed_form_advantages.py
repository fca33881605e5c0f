"""Answers about the closed-form advantages of Appendix E: their means, concavity, maxima, slopes and L_Q.

Random functions f(s, a) have coefficients from standard normal outputs of the network. Differences of f over actions
are those of the advantage, since E[f] does not depend on the action.
"""

from __future__ import annotations

from collections.abc import Iterator

import ml_collections
import numpy as np
import tensorflow as tf

from repro.distributions import gaussian
from repro.papers.refer.advantages import LowerTriangular, advantage, num_coefficients
from repro.training.study import StudyResult

DIGITS = 9
"""Decimals of answers in float64."""
NODES, REACH = 60, 9.0
"""Nodes of a quadrature on either side of the mean, and how many stds it reaches; beyond is less than `DIGITS` show."""
ACTIONS = 256
"""Random actions at which each function is checked."""
SHORT = 0.1
"""Length of the step d of a second difference, in stds."""
TINY = 1e-6
"""Step over which a slope is taken."""


def shape_answers(config: ml_collections.ConfigDict, rng: np.random.Generator) -> Iterator[tuple[str, StudyResult]]:
    """Yields what both forms of f are: concave, largest at the mean, differentiable, and one L_Q for each L_Q L_Q'.

    Args:
        config: configuration of the study, with `advantage_actions` (d_A), the first variance and `evaluation`.
        rng: source of the network's outputs and of the actions.
    """
    num_actions, cases = config.advantage_actions, config.evaluation.episodes
    std = config.vracer.network.initial_variance**0.5
    of_all = f"largest of {cases} samples of the network's outputs, {num_actions} actions"
    for form in ("quadratic", "gaussian"):
        found = np.array([second_differences(rng, form, num_actions, std).max() for _ in range(cases)])
        protocol = f"{of_all}; {ACTIONS} steps of {SHORT} stds around actions of the policy in each"
        unit = "second difference over the range"
        yield f"{form}_concavity", StudyResult(unit, _largest(found), protocol, exact=True)
        found = np.array([above_the_mean(rng, form, num_actions, std).max() for _ in range(cases)])
        protocol = f"{of_all}; {ACTIONS} actions in each, up to {gaussian.TRUNCATION:g} stds from the mean"
        yield f"{form}_maximum", StudyResult("f(a) - f(m)", _largest(found), protocol, exact=True)
        found = np.array([slope_jumps(rng, form, num_actions, std).max() for _ in range(cases)])
        protocol = f"{of_all}; in each action at the mean and in each output at 0, over steps of {TINY:g}"
        yield f"{form}_kinks", StudyResult("jump of the slope", _largest(found), protocol, exact=True)
    protocol = "largest difference of an entry, one value for each sample of the network's outputs"
    yield "cholesky_bijection", StudyResult("value", factor_errors(rng, num_actions, cases), protocol, exact=True)


def mean_advantages(rng: np.random.Generator, form: str, cases: int) -> np.ndarray:
    """|E_{a ~ pi}[A(s, a)]| of a form in `advantages.FORMS` (Appendix E) for two actions and random network outputs.

    The expectation is a sum over Gauss-Legendre nodes up to `REACH` stds on either side of the mean, where f may have a
    kink.

    Args:
        rng: source of the outputs, means and stds.
        form: `quadratic` or `gaussian`.
        cases: number of samples.

    Returns:
        [cases], rounded to `DIGITS`.
    """
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    side = 0.5 * REACH * (nodes + 1)  # from 0 to `REACH`
    u = np.concatenate([-side, side])
    of_one = np.tile(0.5 * REACH * weights, 2) * np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi)
    grid = np.stack(np.meshgrid(u, u), axis=-1).reshape(-1, 2)  # [N, 2], in stds
    density = np.outer(of_one, of_one).reshape(-1)
    found = np.empty(cases)
    for case in range(cases):
        coefficients = rng.normal(size=(1, num_coefficients(form, 2))).repeat(len(grid), axis=0)
        mean, std = rng.normal(size=(1, 2)).repeat(len(grid), axis=0), rng.uniform(0.2, 1.0, 2)
        found[case] = density @ advantage(form, coefficients, mean + std * grid, mean, std).numpy()
    means: np.ndarray = np.abs(found).round(DIGITS)
    return means


def second_differences(rng: np.random.Generator, form: str, num_actions: int, std: float) -> np.ndarray:
    """Second differences of one random f(s, a) on short lines through actions of the policy, relative to its range.

        [f(a + d) - 2 f(a) + f(a - d)] / (largest - smallest of the three),    |d| = SHORT * std

    They lie between -2 and 2, and are at most 0 where f is concave on the line.

    Args:
        rng: source of the outputs, the actions and the directions.
        form: `quadratic` or `gaussian`.
        num_actions: d_A.
        std: std of each component of the policy.

    Returns:
        [ACTIONS].
    """
    mean, coefficients = _random_state(rng, form, num_actions)
    centre = gaussian.sample_truncated(rng, np.broadcast_to(mean, (ACTIONS, num_actions)), np.full(num_actions, std))
    direction = rng.normal(size=centre.shape)
    step = SHORT * std * direction / np.linalg.norm(direction, axis=1, keepdims=True)  # [ACTIONS, d_A]
    f = np.stack([_values(form, coefficients, centre + k * step, mean, std) for k in (-1, 0, 1)])  # [3, ACTIONS]
    return relative_second_difference(f)


def relative_second_difference(f: np.ndarray) -> np.ndarray:
    """Second differences over the range, [N], of f at a - d, a and a + d, [3, N]; 0 on a line."""
    differences: np.ndarray = (f[0] - 2 * f[1] + f[2]) / np.ptp(f, axis=0)
    return differences


def above_the_mean(rng: np.random.Generator, form: str, num_actions: int, std: float) -> np.ndarray:
    """f(s, a) - f(s, m) of one random f at random actions, at all distances from the mean up to the truncation.

    Arguments as for `second_differences`; returns [ACTIONS].
    """
    mean, coefficients = _random_state(rng, form, num_actions)
    direction = rng.uniform(-1.0, 1.0, (ACTIONS, num_actions))
    distance = gaussian.TRUNCATION * std * np.geomspace(1e-3, 1.0, ACTIONS)[:, np.newaxis]
    actions = np.concatenate([mean, mean + distance * direction])
    f = _values(form, coefficients, actions, mean, std)
    return f[1:] - f[0]


def slope_jumps(rng: np.random.Generator, form: str, num_actions: int, std: float) -> np.ndarray:
    """|right slope - left slope| of one random advantage where it may have kinks.

    These are each component of the action at the mean, on whose sides Eq. (20) differs, and each output of the network
    at 0, where rectifiers other than Softplus have theirs. All other components and outputs are random.

    Arguments as for `second_differences`; returns [d_A + num_coefficients].
    """
    mean, coefficients = _random_state(rng, form, num_actions)
    point = np.concatenate([mean + std * rng.normal(size=mean.shape), coefficients], axis=1)[0]
    kink = np.concatenate([mean[0], np.zeros(coefficients.size)])
    at_kink = np.where(np.eye(point.size, dtype=bool), kink, point)  # [d_A + coefficients, the same]
    sides = [at_kink + k * TINY * np.eye(point.size) for k in (-1, 0, 1)]
    left, middle, right = (_values(form, side[:, num_actions:], side[:, :num_actions], mean, std) for side in sides)
    return np.abs((right - middle) / TINY - (middle - left) / TINY)


def factor_errors(rng: np.random.Generator, num_actions: int, cases: int) -> np.ndarray:
    """Largest difference of L_Q from the Cholesky factor of L_Q L_Q', the one factor with a positive diagonal.

    Args:
        rng: source of the network's outputs.
        num_actions: d_A.
        cases: number of samples.

    Returns:
        [cases], rounded to `DIGITS`.
    """
    lower = factor_of(rng.normal(size=(cases, num_coefficients("quadratic", num_actions))), num_actions)
    recovered = np.linalg.cholesky(lower @ lower.swapaxes(1, 2))
    errors: np.ndarray = np.abs(recovered - lower).max(axis=(1, 2)).round(DIGITS)
    return errors


def factor_of(entries: np.ndarray, num_actions: int) -> np.ndarray:
    """L_Q [N, d_A, d_A] of the network's outputs [N, (d_A^2 + d_A) / 2]; its rows are L' e_i."""
    matrix = LowerTriangular(tf.constant(entries), num_actions)
    units = np.eye(num_actions)[:, np.newaxis].repeat(len(entries), axis=1)  # [d_A, N, d_A]
    return np.stack([matrix.transposed_product(tf.constant(unit)).numpy() for unit in units], axis=1)


def _random_state(rng: np.random.Generator, form: str, num_actions: int) -> tuple[np.ndarray, np.ndarray]:
    """A standard normal mean [1, d_A] and standard normal outputs for f, [1, num_coefficients]."""
    return rng.normal(size=(1, num_actions)), rng.normal(size=(1, num_coefficients(form, num_actions)))


def _values(form: str, coefficients: np.ndarray, actions: np.ndarray, mean: np.ndarray, std: float) -> np.ndarray:
    """A(s, a) [N], which is f(s, a) but for E[f]; mean [1, d_A], coefficients [N or 1, num_coefficients]."""
    count, num_actions = actions.shape
    coefficients = np.broadcast_to(coefficients, (count, coefficients.shape[1]))
    values: np.ndarray = advantage(
        form, coefficients, actions, np.broadcast_to(mean, actions.shape), np.full(num_actions, std)
    ).numpy()
    return values


def _largest(found: np.ndarray) -> np.ndarray:
    return found.max(keepdims=True).round(DIGITS) + 0.0  # turns -0 into 0
