"""Population-based training, IMPALA's Appendix E: the rule alone, in pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import ml_collections
import numpy as np

from repro.evidence import statistics
from repro.rng import log_uniform

Hparams = dict[str, float]
"""Values of a member's hyper-parameters by name."""


class Hparam(NamedTuple):
    """A hyper-parameter that evolves.

    fields: of the configuration, which all hold its value.
    log_uniform: whether its first value is sampled log-uniformly between two numbers, or else from a list.
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
"""What evolves, Appendices E and F. The learning rate is not annealed: evolution finds its schedule (Figure E.1).

A search without evolution has the schedule of the agents without a population (Table F.1)."""


class PopulationSettings(NamedTuple):
    """The section `population` of a configuration. Frames are steps where the budget is in steps.

    size: members.
    evolves: whether members are compared and hyper-parameters change; a random search otherwise.
    burn_in: frames of each member before any evolution, of all its tasks together.
    interval: frames of each member between two moments at which members may be compared, likewise.
    episodes: returns that a member collects before it is compared, likewise.
    normaliser: of `paper_configs/published/normalisers`; empty: the fitness is the mean return.
    threshold: by which another member's fitness must be higher, in units of the fitness.
    probability: of a change of a hyper-parameter.
    factor: by which it is multiplied or divided then.
    entropy_cost, learning_rate, rmsprop_epsilon, clip_global_norm: what the first values are sampled from; empty where
        all members keep the configuration's value.
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
    """What the rule reads of a member.

    hparams: its present ones.
    fitness: the last one that was calculated; None before the first, -inf where the member diverged.
    is_due: whether it has collected its returns and has passed the burn-in.
    """

    hparams: Hparams
    fitness: float | None
    is_due: bool


class Succession(NamedTuple):
    """How a member goes on.

    opponent: the member that it was compared with; None where it was not due.
    parent: the opponent where its weights are adopted; None otherwise.
    hparams: from now on.
    """

    opponent: int | None
    parent: int | None
    hparams: Hparams


def read_settings(config: ml_collections.ConfigDict) -> PopulationSettings:
    """Returns the settings of a population.

    Raises:
        ValueError: a value is impossible; the message names its field.
    """
    given, needed = set(config.population), set(PopulationSettings._fields)
    if odd := sorted(given ^ needed):
        lacks = [f"population.{name} is {'missing' if name in needed else 'no field'}" for name in odd]
        raise ValueError(f"{', '.join(lacks)}: the section has {', '.join(PopulationSettings._fields)}.")
    settings = PopulationSettings(**config.population)
    if settings.evolves and settings.size < 2:
        raise ValueError(f"population.size={settings.size}: evolution needs two members or more.")
    for name, lowest in (("size", 1), ("burn_in", 0), ("interval", 1), ("episodes", 1)):
        if getattr(settings, name) < lowest:
            raise ValueError(f"population.{name}={getattr(settings, name)} must be {lowest} or more.")
    if not 0 <= settings.probability <= 1:
        raise ValueError(f"population.probability={settings.probability} is no probability.")
    if not 1 <= settings.factor < math.inf:
        raise ValueError(f"population.factor={settings.factor} must be 1 or more; its inverse is as probable.")
    for name, hparam in HPARAMS.items():
        values = getattr(settings, name)
        if hparam.log_uniform and values and not (len(values) == 2 and 0 < values[0] <= values[1]):
            raise ValueError(f"population.{name}={tuple(values)}: give the ends of a range above 0, or nothing.")
    return settings


def sample_hparams(settings: PopulationSettings, rng: np.random.Generator) -> Hparams:
    """Returns the first hyper-parameters of a member, Table C.1: log-uniform in a range, or one of a list."""
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
        means: task l to its mean return s_l; at least one.
        references: task to its `random` and `human` score, r_l and h_l; empty: returns count as they are, uncapped.

    Raises:
        ValueError: a task has no reference.
    """
    if not references:
        return float(np.mean(list(means.values())))
    if missing := sorted(means.keys() - references.keys()):
        raise ValueError(f"population.normaliser has no scores of {', '.join(missing)}.")
    scores = statistics.normalised_scores({task: [score] for task, score in means.items()}, references)
    return statistics.aggregate(scores, statistics.mean_capped)


def is_adopted(own: float, other: float | None, threshold: float) -> bool:
    """Returns whether the weights and hyper-parameters of another member are adopted.

    That is where its fitness is more than `threshold` above the own one; both are differences of scores, no shares.
    A member without a fitness is never adopted.
    """
    return other is not None and other - own > threshold


def perturb(hparams: Hparams, probability: float, factor: float, rng: np.random.Generator) -> Hparams:
    """Returns hyper-parameters of which each is, with `probability`, multiplied by `factor` or divided by it.

    Both are as probable, and hyper-parameters change independently. There is no bound: the ranges are of first values.
    """
    perturbed = {}
    for name, value in hparams.items():
        changes, up = rng.uniform() < probability, rng.uniform() < 0.5
        perturbed[name] = value * (factor if up else 1.0 / factor) if changes else value
    return perturbed


def evolve(members: Sequence[Candidate], settings: PopulationSettings, rng: np.random.Generator) -> list[Succession]:
    """Returns how each member goes on, Appendix E.

    A member that is due is compared with a random other one and adopts its weights and hyper-parameters where that is
    better by the threshold. Adopted or not, its hyper-parameters are then perturbed. Those of members that are not due
    stay. All see the members as they were before, so that their order makes no difference to what is adopted.

    Args:
        members: at least two; those that are due have a fitness.
        settings: of the population.
        rng: of this comparison.
    """
    successions = []
    for i, member in enumerate(members):
        if not member.is_due:
            successions.append(Succession(None, None, member.hparams))
            continue
        assert member.fitness is not None, "a member that is due has a fitness"
        opponent = int(rng.integers(len(members) - 1))
        opponent += opponent >= i  # any but itself
        other = members[opponent]
        parent = opponent if is_adopted(member.fitness, other.fitness, settings.threshold) else None
        hparams = member.hparams if parent is None else other.hparams
        successions.append(Succession(opponent, parent, perturb(hparams, settings.probability, settings.factor, rng)))
    return successions
