"""ACER's trust region without training (Section 3.3): its closed form against a numerical minimum, and its cost.

Each number is computed by the code that trains, on several cases. All cases must agree, except for the cost, which
depends on the game.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import ml_collections
import numpy as np
from scipy import optimize

from repro.papers.acer import trust_region
from repro.papers.acer.experiments.discrete import DiscreteExperiment
from repro.training.experiment import Experiment, FindExperiment
from repro.training.graph_cost import batch_spec, operations
from repro.training.study import Advance, Study, StudyResult, answer_in_turn

DIGITS = 5
"""Decimals of the answers: the projection works in float32, and the minimum is found to about as many."""
UNITS = {
    "solution": "distance from the minimum",
    "unchanged": "largest change of the gradient",
    "orthogonal": "change orthogonal to k over the size of the gradient",
    "scaled_down": "share of the cases with a smaller part along k",
    "added_operations": "operations that the trust region adds over those of a backward pass",
}
"""Unit of each answer, by name."""


class Case(NamedTuple):
    """A gradient g and k, float64 [N], and delta."""

    g: np.ndarray
    k: np.ndarray
    delta: float

    @property
    def violated(self) -> bool:
        """Whether g violates the constraint of Eq. (11)."""
        return bool(self.k @ self.g > self.delta)

    def project(self) -> np.ndarray:
        """z* of Eq. (12), float64 [N], as it trains."""
        z: np.ndarray = trust_region.project(self.g, self.k, self.delta).numpy().astype(float)
        return z


def run(
    config: ml_collections.ConfigDict,
    seed: int,
    cores: Sequence[int],
    advance: Advance,
    find_experiment: FindExperiment,
) -> Study:
    """Computes the configuration's answers, without training. Arguments as for `RunStudy`."""
    found = _answers(config, seed, find_experiment)
    answers = ((name, StudyResult(UNITS[name], values, protocol, exact=True)) for name, values, protocol in found)
    return answer_in_turn(answers, config.answers, advance)


def _answers(
    config: ml_collections.ConfigDict, seed: int, find_experiment: FindExperiment
) -> Iterator[tuple[str, np.ndarray, str]]:
    """Name, values and protocol of each answer."""
    rng, count = np.random.default_rng(seed), config.evaluation.episodes
    violated, satisfied = sample_cases(config, count, rng)
    either = [pair[number % 2] for number, pair in enumerate(zip(violated, satisfied, strict=True))]
    sampled = f"one value for each of {{}}, with standard normal g and k, {DIGITS} decimals"
    protocol = sampled.format(f"{count} cases, half of which violate the constraint")
    yield "solution", np.array([distance_from_minimum(case) for case in either]).round(DIGITS), protocol
    changes = [np.abs(case.project() - case.g.astype(np.float32)).max() for case in satisfied]
    yield "unchanged", np.array(changes).round(DIGITS), sampled.format(f"{count} cases that satisfy the constraint")
    protocol = sampled.format(f"{count} cases that violate the constraint")
    yield "orthogonal", np.array([orthogonal_change(case) for case in violated]).round(DIGITS), protocol
    smaller = [float(case.k @ case.project() < case.k @ case.g) for case in violated]
    yield "scaled_down", np.array(smaller), protocol
    ratios = [added_operations(config, game, seed, find_experiment) for game in config.games]
    protocol = "floating-point operations of the matrix products and convolutions of an update of one unroll"
    yield "added_operations", np.array(ratios), f"{protocol}; one value for each of {', '.join(config.games)}"


def sample_cases(
    config: ml_collections.ConfigDict, count: int, rng: np.random.Generator
) -> tuple[list[Case], list[Case]]:
    """Samples cases until `count` violate the constraint and as many satisfy it.

    Args:
        config: configuration of the study.
        count: number of cases of each kind.
        rng: source of sizes, g, k and delta.

    Returns:
        Cases that violate the constraint, and cases that satisfy it.
    """
    found: dict[bool, list[Case]] = {True: [], False: []}
    while min(map(len, found.values())) < count:
        size = rng.integers(2, config.max_statistics, endpoint=True)
        g, k = rng.normal(size=(2, size))
        case = Case(g, k, rng.uniform(0.0, config.max_delta))
        found[case.violated].append(case)
    return found[True][:count], found[False][:count]


def distance_from_minimum(case: Case) -> float:
    """Largest difference of z* from the minimum of Eq. (11), which sequential quadratic programming finds.

    Raises:
        RuntimeError: it does not find the minimum.
    """
    solved = optimize.minimize(
        lambda z: 0.5 * np.sum((case.g - z) ** 2),
        np.zeros_like(case.g),
        jac=lambda z: z - case.g,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda z: case.delta - case.k @ z, "jac": lambda _: -case.k},
        options={"ftol": 1e-14},
    )
    if not solved.success:
        raise RuntimeError(f"distance_from_minimum: {solved.message}")
    return float(np.abs(case.project() - solved.x).max())


def orthogonal_change(case: Case) -> float:
    """|the part of z* - g that is orthogonal to k| / |g|."""
    change = case.project() - case.g
    rest = change - (change @ case.k) / (case.k @ case.k) * case.k
    return float(np.linalg.norm(rest) / np.linalg.norm(case.g))


def added_operations(config: ml_collections.ConfigDict, game: str, seed: int, find_experiment: FindExperiment) -> float:
    """Operations that the trust region adds to an update over those of a backward pass through the network."""
    with_region, without = (
        update_operations(find_experiment(_of_game(config[name], game)), seed)
        for name in ("trust_region", "no_trust_region")
    )
    return (with_region.update - without.update) / (without.update - without.forward)


class Operations(NamedTuple):
    """Floating-point operations of an update, and of the forward pass of its network."""

    update: int
    forward: int


def update_operations(experiment: Experiment, seed: int) -> Operations:
    """Counts the operations of an update, from a batch of unrolls.

    Args:
        experiment: experiment of ACER for discrete actions.
        seed: seed of the agent.

    Raises:
        TypeError: the experiment is another one.
    """
    if not isinstance(experiment, DiscreteExperiment):
        raise TypeError(f"{type(experiment).__name__} does not make an agent of ACER for discrete actions.")
    learner, environment = experiment.config.learner, experiment.make_environment(1, seed)
    agent, network = experiment.make_agent(environment, seed), experiment.make_network(environment, seed)
    environment.close()
    experience = batch_spec(agent.collect_data_spec, learner.batch_size, learner.unroll_length + 1)
    forward = operations(lambda x: network(x.observation, x.step_type)[:2], experience)
    return Operations(operations(agent.train, experience), forward)


def _of_game(config: ml_collections.ConfigDict, game: str) -> ml_collections.ConfigDict:
    """Returns a copy of a configuration with the given game."""
    of_game = config.copy_and_resolve_references()
    of_game.env.task = game
    return of_game
