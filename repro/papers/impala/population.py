"""The rule of population-based training (IMPALA, Appendix E), in pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import ml_collections
import numpy as np

from repro.evidence import statistics
from repro.rng import log_uniform

Hparams = dict[str, float]
"""A member's hyper-parameters by name."""


class Hparam(NamedTuple):
    """A hyper-parameter that evolves.

    fields: fields of the configuration that are set to its value.
    log_uniform: whether its initial value is sampled log-uniformly between two numbers instead of from a list.
    """

    fields: tuple[str, ...]
    log_uniform: bool


FINAL_LEARNING_RATE = "learner.final_learning_rate"
HPARAMS = {
    "entropy_cost": Hparam(("loss.entropy_cost",), log_uniform=True),
    "learning_rate": Hparam(("learner.learning_rate", FINAL_LEARNING_RATE), log_uniform=True),
    "rmsprop_epsilon": Hparam(("learner.rmsprop_epsilon",), log_uniform=False),
    "clip_global_norm": Hparam(("learner.clip_global_norm",), log_uniform=False),
}
"""Hyper-parameters that evolve, Appendices E and F. Evolution finds the learning rate's schedule (Figure E.1), so the
rate is not annealed. A search without evolution has the schedule of the agents without a population (Table F.1)."""


class PopulationSettings(NamedTuple):
    """The section `population` of a configuration. Frames are steps where the budget is in steps.

    size: number of members.
    evolves: whether members are compared and hyper-parameters change; false for a random search.
    burn_in: number of frames that each member plays, in all its tasks together, before it can evolve.
    interval: number of frames, counted likewise, between two moments at which members may be compared.
    episodes: number of returns, counted likewise, that a member collects before it is compared.
    normaliser: name of a file in `paper_configs/published/normalisers`; if empty, the fitness is the mean return.
    threshold: amount by which another member's fitness must be higher for its adoption, in units of the fitness.
    probability: probability with which each hyper-parameter changes.
    factor: factor by which a changing hyper-parameter is multiplied or divided.
    entropy_cost, learning_rate, rmsprop_epsilon, clip_global_norm: ends of a range, or a list, from which initial
        values are sampled; if empty, all members keep the configuration's value.
    """

    size: int
    evolves: bool
    burn_in: int
    interval: int
    episodes: int
    normaliser: str
    threshold: float
    probability: float
    factor: float
    entropy_cost: Sequence[float]
    learning_rate: Sequence[float]
    rmsprop_epsilon: Sequence[float]
    clip_global_norm: Sequence[float]


class Candidate(NamedTuple):
    """A member as the rule sees it.

    hparams: current hyper-parameters.
    fitness: most recent fitness; None before the first one, -inf if the member diverged.
    is_due: whether the member has passed the burn-in and has collected enough returns to be compared.
    """

    hparams: Hparams
    fitness: float | None
    is_due: bool


class Succession(NamedTuple):
    """The outcome of the rule for a member.

    opponent: index of the member that it was compared with; None if it was not due.
    parent: index of the member whose weights it adopts, the opponent; None if it keeps its own.
    hparams: hyper-parameters with which it continues.
    """

    opponent: int | None
    parent: int | None
    hparams: Hparams


def read_settings(config: ml_collections.ConfigDict) -> PopulationSettings:
    """Reads and checks the settings of a population.

    Raises:
        ValueError: a field is missing, unknown or has an impossible value; the message names it.
    """
    given, needed = set(config.population), set(PopulationSettings._fields)
    if wrong_fields := sorted(given ^ needed):
        problems = [f"population.{name} is {'missing' if name in needed else 'not a field'}" for name in wrong_fields]
        raise ValueError(
            f"{', '.join(problems)}: the fields of population are {', '.join(PopulationSettings._fields)}."
        )
    settings = PopulationSettings(**config.population)
    if settings.evolves and settings.size < 2:
        raise ValueError(f"population.size={settings.size}: evolution needs two members or more.")
    for name, lowest in (("size", 1), ("burn_in", 0), ("interval", 1), ("episodes", 1)):
        if getattr(settings, name) < lowest:
            raise ValueError(f"population.{name}={getattr(settings, name)} must be {lowest} or more.")
    if not 0 <= settings.probability <= 1:
        raise ValueError(f"population.probability={settings.probability}: choose a number from 0 to 1.")
    if not 1 <= settings.factor < math.inf:
        raise ValueError(
            f"population.factor={settings.factor} must be finite and 1 or more: a hyper-parameter is "
            "multiplied or divided by it."
        )
    for name, hparam in HPARAMS.items():
        values = getattr(settings, name)
        if hparam.log_uniform and values and not (len(values) == 2 and 0 < values[0] <= values[1]):
            raise ValueError(f"population.{name}={tuple(values)}: choose the two ends of a range above 0, or ().")
    return settings


def sample_hparams(settings: PopulationSettings, rng: np.random.Generator) -> Hparams:
    """Samples a member's initial hyper-parameters (Table C.1): log-uniformly from a range, or from a list."""
    sampled = {}
    for name, hparam in HPARAMS.items():
        values = getattr(settings, name)
        if values and hparam.log_uniform:
            sampled[name] = log_uniform(rng, *values)
        elif values:
            sampled[name] = float(rng.choice(values))
    return sampled


def compute_fitness(means: Mapping[str, float], references: Mapping[str, Mapping[str, float]]) -> float:
    """Returns the mean capped human-normalised score, Table F.1.

        (1/N) sum_l min[1, (s_l - r_l) / (h_l - r_l)]

    Args:
        means: mean return s_l by task l; at least one.
        references: `random` and `human` scores, r_l and h_l, by task; if empty, returns are neither normalised nor
            capped.

    Raises:
        ValueError: a task has no reference scores.
    """
    if not references:
        return float(np.mean(list(means.values())))
    if missing := sorted(means.keys() - references.keys()):
        raise ValueError(f"population.normaliser has no reference scores for {', '.join(missing)}.")
    scores = statistics.normalised_scores({task: [score] for task, score in means.items()}, references)
    return statistics.aggregate(scores, statistics.mean_capped)


def is_adopted(own: float, other: float | None, threshold: float) -> bool:
    """Returns whether a member of fitness `own` adopts weights and hyper-parameters of one of fitness `other`.

    It does if `other` exceeds `own` by more than `threshold`, an absolute difference of scores. A member without a
    fitness is never adopted.
    """
    return other is not None and other - own > threshold


def perturb(hparams: Hparams, probability: float, factor: float, rng: np.random.Generator) -> Hparams:
    """Multiplies or divides each hyper-parameter by `factor`, with `probability`, and returns the results.

    Both are equally probable, and hyper-parameters change independently. Values are not bounded: the ranges of the
    settings are those of initial values.
    """
    perturbed = {}
    for name, value in hparams.items():
        changes, up = rng.uniform() < probability, rng.uniform() < 0.5
        perturbed[name] = value * (factor if up else 1.0 / factor) if changes else value
    return perturbed


def evolve(members: Sequence[Candidate], settings: PopulationSettings, rng: np.random.Generator) -> list[Succession]:
    """Applies the rule of Appendix E and returns the outcome for each member.

    A member that is due is compared with a random other one, and adopts the other's weights and hyper-parameters if
    that is fitter by more than the threshold. In either case its hyper-parameters are then perturbed. Members that are
    not due keep theirs. Comparisons use the members as they were before, so their order does not affect adoption.

    Args:
        members: two members or more; those that are due have a fitness.
        settings: settings of the population.
        rng: source of all samples of this comparison.
    """
    successions = []
    for i, member in enumerate(members):
        if not member.is_due:
            successions.append(Succession(None, None, member.hparams))
            continue
        assert member.fitness is not None, "a member that is due has a fitness"
        opponent = int(rng.integers(len(members) - 1))
        opponent += opponent >= i  # any member but itself
        other = members[opponent]
        parent = opponent if is_adopted(member.fitness, other.fitness, settings.threshold) else None
        hparams = member.hparams if parent is None else other.hparams
        successions.append(Succession(opponent, parent, perturb(hparams, settings.probability, settings.factor, rng)))
    return successions
