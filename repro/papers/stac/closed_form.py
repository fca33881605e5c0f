"""Answers without training: gradients of the leaky weight, the losses at the start, bounds of eta and of actions.

Each number is computed by the code that trains, on several random cases.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import ml_collections
import numpy as np
import tensorflow as tf

from repro.ops import v_targets
from repro.papers.stac.action_distribution import Softmax, SquashedGaussian
from repro.papers.stac.experiment import StacExperiment
from repro.papers.stac.loss import Hyperparameters, stac_loss
from repro.papers.stac.metagradient import SCALED, SETS, Metaparameters
from repro.training.experiment import FindExperiment
from repro.training.study import Advance, Study, StudyResult, answer_in_turn

UNITS = {
    "jump_of_derivative": "jump at rho_bar of the derivative of rho in rho_bar minus that in alpha",
    "kink_of_slope": "drop at rho_bar of the slope of rho in IS, of V-trace minus of leaky V-trace",
    "slope_above_level": "slope of rho in IS above rho_bar",
    "saturated_levels": "share of steps where rho has no gradient to rho_bar minus that where it has none to alpha",
    "initial_gradient": "norm of the difference of the inner and the outer gradient over that of the outer one",
    "metaparameter_bounds": "largest distance outside the bounds",
    "density_integral": "largest distance of the integral from 1",
    "largest_action": "largest absolute value of a component",
}
"""Unit of each answer, by name."""
MEANS = ("initial_gradient",)
"""Answers that differ from case to case, so that their mean depends on which ones are sampled."""
DIGITS = 3
"""Decimals of the answers: derivatives just beside rho_bar are differences of float32."""
STEP = 1e-3
"""How far from rho_bar, as a share of it, derivatives just above and just below are taken."""
ACTIONS = 4
"""Number of actions of the policies whose losses are compared."""
LARGEST_ETA = 50.0
"""Largest absolute value of a metaparameter before the sigmoid, which is then 1 or 0 in float32."""
SAMPLES = 1000
"""Actions sampled of each policy."""
NODES, REACH = 4001, 8.0
"""Nodes of the quadrature, and how many stds it reaches to either side; beyond is less than `DIGITS` show."""


def run(
    config: ml_collections.ConfigDict,
    seed: int,
    cores: Sequence[int],
    advance: Advance,
    find_experiment: FindExperiment,
) -> Study:
    """Computes the configuration's answers, without training. Arguments as for `RunStudy`."""
    found = _answers(config, np.random.default_rng(seed), find_experiment)
    return answer_in_turn(itertools.starmap(_result, found), config.answers, advance)


def _result(name: str, values: np.ndarray | float, protocol: str) -> tuple[str, StudyResult]:
    rounded = np.atleast_1d(values).round(DIGITS) + 0.0  # turns -0 into 0
    return name, StudyResult(UNITS[name], rounded, protocol, exact=name not in MEANS)


def _answers(
    config: ml_collections.ConfigDict, rng: np.random.Generator, find_experiment: FindExperiment
) -> Iterator[tuple[str, np.ndarray | float, str]]:
    """Names, values and protocols of all answers."""
    cases = config.evaluation.episodes
    levels, alphas = rng.uniform(0.5, 2.0, cases), rng.uniform(0.1, 0.9, cases)
    sampled = f"smallest of {cases} cases, rho_bar from 0.5 to 2 and alpha from 0.1 to 0.9"
    jumps, kinks, slopes = at_levels(levels, alphas)
    yield "jump_of_derivative", jumps.min(), f"{sampled}; the derivative in rho_bar is that of V-trace"
    yield "kink_of_slope", kinks.min(), sampled
    yield "slope_above_level", slopes.min(), sampled
    shares = more_saturated(np.exp(rng.normal(size=cases)), alphas)
    yield "saturated_levels", shares, f"{cases} ratios with a standard normal logarithm, rho_bar of 1"
    experiment = find_experiment(config.atari)
    if not isinstance(experiment, StacExperiment):
        raise TypeError(f"{type(experiment).__name__} does not make an agent of STAC.")
    metaparameters, shape = experiment.make_metaparameters(), (config.atari.learner.unroll_length, cases)
    gradients = initial_gradient_distances(metaparameters, experiment.outer, shape, rng)
    yield "initial_gradient", gradients, f"one value for each random unroll of {shape[0]} steps"
    outside = distance_outside(metaparameters, experiment.outer)
    yield "metaparameter_bounds", outside, f"largest over metaparameters and eta from -{LARGEST_ETA} to {LARGEST_ETA}"
    network = config.control.network
    policy = SquashedGaussian(1, network.log_std_min, network.log_std_max)
    outputs = rng.normal(scale=3.0, size=(cases, 2))
    integrals = [density_integral(policy, case) for case in outputs]
    yield "density_integral", np.abs(np.array(integrals) - 1).max(), f"by quadrature, for {cases} outputs of a policy"
    many = tf.constant(np.repeat(outputs, SAMPLES, axis=0), tf.float32)
    actions = policy.sample(many, tf.constant(rng.integers(2**31, size=2)))
    yield "largest_action", np.abs(actions.numpy()).max(), f"largest of {SAMPLES} samples for each of {cases} outputs"


class Derivatives(NamedTuple):
    """Derivatives of rho in IS, rho_bar and alpha_rho, [N] each."""

    slope: np.ndarray
    level: np.ndarray
    alpha: np.ndarray


def weight_derivatives(ratios: np.ndarray, levels: np.ndarray, alphas: np.ndarray) -> Derivatives:
    """Derivatives of the rho of `v_targets.vtrace` for N ratios, each with its rho_bar and alpha_rho, all [N].

    As the ratios are constants there, the slope is a difference, over half of `STEP` to either side.
    """
    level, alpha = tf.constant(levels, tf.float32), tf.constant(alphas, tf.float32)

    def rho(ratios: np.ndarray) -> tf.Tensor:
        log_rho = tf.constant(np.log(ratios)[None, None], tf.float32)  # [1, 1, N]
        zeros = tf.zeros_like(log_rho)
        rest = {"discount_t": zeros, "r_t": zeros, "v_tm1": zeros, "v_t": zeros}
        return v_targets.vtrace(log_rho, **rest, clip_rho=level, alpha_rho=alpha).rho_clipped[0, 0]

    with tf.GradientTape() as tape:
        tape.watch([level, alpha])
        total = tf.reduce_sum(rho(ratios))
    to_level, to_alpha = tape.gradient(total, [level, alpha])
    reach = STEP / 2 * levels
    slope = (rho(ratios + reach) - rho(ratios - reach)).numpy() / (2 * reach)
    return Derivatives(slope, to_level.numpy(), to_alpha.numpy())


def at_levels(levels: np.ndarray, alphas: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What happens to derivatives of rho where IS passes rho_bar, for levels rho_bar and alphas [N].

    Returns:
        By how much more V-trace's derivative in rho_bar jumps than leaky V-trace's in alpha; by how much more the slope
        in IS drops with V-trace; and the slope above rho_bar of leaky V-trace, [N] each.
    """
    below, above = (weight_derivatives(levels * x, levels, alphas) for x in (1 - STEP, 1 + STEP))
    v_trace_below, v_trace_above = (
        weight_derivatives(levels * x, levels, np.ones_like(alphas)) for x in (1 - STEP, 1 + STEP)
    )
    jump = np.abs(v_trace_above.level - v_trace_below.level) - np.abs(above.alpha - below.alpha)
    kink = (v_trace_below.slope - v_trace_above.slope) - (below.slope - above.slope)
    return jump, kink, above.slope


def more_saturated(ratios: np.ndarray, alphas: np.ndarray) -> float:
    """Share of ratios [N] where V-trace's rho has no gradient to rho_bar = 1 minus that where it has none to alpha."""
    ones = np.ones_like(alphas)
    no_level = weight_derivatives(ratios, ones, ones).level == 0.0
    no_alpha = weight_derivatives(ratios, ones, alphas).alpha == 0.0
    return float(no_level.mean() - no_alpha.mean())


def initial_gradient_distances(
    metaparameters: Metaparameters, outer: Hyperparameters, shape: tuple[int, int], rng: np.random.Generator
) -> np.ndarray:
    """|g_inner - g_outer| / |g_outer| of gradients to a policy's logits and values, for each of B random unrolls.

    Rewards, values and the logits of both policies are standard normal; actions are uniform.

    Args:
        metaparameters: metaparameters of one head.
        outer: hyper-parameters of the outer loss.
        shape: T and B.
        rng: source of the unrolls.

    Returns:
        [B].
    """
    logits, behaviour = rng.normal(size=(2, *shape, ACTIONS)).astype(np.float32)
    rewards = rng.normal(size=shape).astype(np.float32)
    values = rng.normal(size=(shape[0] + 1, shape[1], 1)).astype(np.float32)
    actions = rng.integers(ACTIONS, size=shape, dtype=np.int32)

    def gradient(zeta: Hyperparameters) -> np.ndarray:
        outputs, v_tm1 = tf.constant(logits[:, :, None]), tf.constant(values[:-1])
        with tf.GradientTape() as tape:
            tape.watch([outputs, v_tm1])
            ones, boundary = tf.ones(shape), tf.zeros(shape, tf.bool)
            data = (tf.constant(actions), tf.constant(rewards), ones, v_tm1, tf.constant(values[1:]), boundary)
            losses = stac_loss(Softmax(ACTIONS), outputs, {"logits": tf.constant(behaviour)}, *data, zeta)
            total = tf.reduce_sum(losses.total)
        to_outputs, to_values = (x[:, :, 0] for x in tape.gradient(total, [outputs, v_tm1]))
        return tf.concat([to_outputs, to_values[..., None]], axis=-1).numpy()  # [T, B, A + 1]

    inner, fixed = gradient(metaparameters.hyperparameters()), gradient(outer)
    distance: np.ndarray = np.linalg.norm(inner - fixed, axis=(0, 2)) / np.linalg.norm(fixed, axis=(0, 2))
    return distance


def distance_outside(metaparameters: Metaparameters, outer: Hyperparameters) -> np.ndarray:
    """Largest distance of a hyper-parameter from [0, 1], or from [0, its outer value] if it is scaled by it."""
    outside = []
    for eta in np.linspace(-LARGEST_ETA, LARGEST_ETA, 101):
        for variable in metaparameters.eta.values():
            variable.assign(tf.fill(variable.shape, float(eta)))
        zeta = metaparameters.hyperparameters()
        for name in metaparameters.eta:
            for field in SETS[name]:
                bound = getattr(outer, field) if name in SCALED else 1.0
                value = getattr(zeta, field).numpy()
                outside.append(np.maximum(-value, value - bound).max())
    return np.maximum(np.max(outside), 0.0)


def density_integral(policy: SquashedGaussian, outputs: np.ndarray) -> float:
    """Integral over (-1, 1) of the density of one action, given the policy's outputs [2].

    Nodes are equidistant before the squashing, where the density is smooth; the trapezoids are between actions.
    """
    info = policy.info(tf.constant(outputs[None]))
    mean, std = (float(info[name][0, 0]) for name in ("mean", "std"))
    actions = np.tanh(mean + std * np.linspace(-REACH, REACH, NODES))
    repeated = tf.constant(np.repeat(outputs[None], NODES, axis=0))
    density = np.exp(policy.log_prob(repeated, tf.constant(actions[:, None])).numpy())
    return float(np.sum(np.diff(actions) * (density[1:] + density[:-1]) / 2))
