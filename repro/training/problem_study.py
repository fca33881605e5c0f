"""A study of statements about operators on random evaluation problems; each statement must hold on every problem."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

import ml_collections
import numpy as np

from repro.tabular import mdps
from repro.tabular.mdps import Problem
from repro.training.experiment import FindExperiment
from repro.training.study import Advance, Study, StudyResult

DIGITS = 4
"""Decimals that count: operators work in float32, and anything smaller is rounding."""

Extreme = Literal["largest", "smallest"]

Find = Callable[[ml_collections.ConfigDict, Problem, np.random.Generator], Mapping[str, float]]
"""Returns the value of each answer on one problem; the rng is for everything else that is random."""


@dataclasses.dataclass(frozen=True)
class OnProblems:
    """A `RunStudy` of a configuration's statements on `config.evaluation.episodes` random problems.

    Bounds that no problem may exceed are answered by the extreme over all problems, everything else by one value for
    each problem. Such values are exact if every problem must have the same number; a mean or a share has an interval
    over problems.

    Attributes:
        find: computes the answers on one problem.
        units: unit of each answer.
        extremes: answers that are the extreme over all problems, and which extreme.
        means: answers that differ from problem to problem, so that their mean depends on which ones are sampled.
    """

    find: Find
    units: Mapping[str, str]
    extremes: Mapping[str, Extreme]
    means: Collection[str] = ()

    def __call__(
        self,
        config: ml_collections.ConfigDict,
        seed: int,
        cores: Sequence[int],
        advance: Advance,
        find_experiment: FindExperiment | None = None,
    ) -> Study:
        """Returns the answers, each value exact to `DIGITS` decimals.

        Args:
            config: configuration with `answers`, `env` (number of states and actions, least and largest discount) and
                `evaluation`.
            seed: seed of the problems and of what `find` samples.
            cores, find_experiment: not used.
            advance: called with the number of problems done and of all problems.
        """
        found = _find_on_all(config, seed, advance, self.find)
        total = len(found)
        checked = f"every expectation summed or solved for exactly, {DIGITS} decimals"
        answers = {}
        for name in config.answers:
            values = np.array([result[name] for result in found])
            if name in self.extremes:
                protocol = f"{self.extremes[name]} of {total} random problems; {checked}"
                values = (values.max if self.extremes[name] == "largest" else values.min)(keepdims=True)
            else:
                protocol = f"one value for each random problem, at most {values.max():.1e} unrounded; {checked}"
            exact = name not in self.means
            rounded = values.round(DIGITS) + 0.0  # turns -0 into 0
            answers[name] = StudyResult(self.units[name], rounded, protocol, exact=exact)
        return Study(answers, steps=0)


@dataclasses.dataclass(frozen=True)
class OnlineOnProblems:
    """A `RunStudy` that learns on random problems from samples of the behaviour policy, one value for each problem.

    Attributes:
        find: computes the answers on one problem, each the largest over the cases.
        units: unit of each answer.
        cases: field of the configuration that lists the cases.
        words: what the cases are, in the plural.
    """

    find: Find
    units: Mapping[str, str]
    cases: str
    words: str

    def __call__(
        self,
        config: ml_collections.ConfigDict,
        seed: int,
        cores: Sequence[int],
        advance: Advance,
        find_experiment: FindExperiment | None = None,
    ) -> Study:
        """Returns the answers. Arguments as for `OnProblems`; the config also has `num_trajectories`, `num_steps`."""
        found = _find_on_all(config, seed, advance, self.find)
        total, cases = len(found), len(config[self.cases])
        sampled = f"after {config.num_trajectories} trajectories of {config.num_steps} steps"
        protocol = f"one value for each of {total} random problems, the largest over {cases} {self.words}, {sampled}"
        answers = {
            name: StudyResult(unit, np.array([left[name] for left in found]), protocol)
            for name, unit in self.units.items()
        }
        return Study(answers, total * cases * config.num_trajectories * config.num_steps)


def _find_on_all(
    config: ml_collections.ConfigDict, seed: int, advance: Advance, find: Find
) -> list[Mapping[str, float]]:
    """Results of `find` on each of `config.evaluation.episodes` random problems. Arguments as for `OnProblems`."""
    env, total = config.env, config.evaluation.episodes
    found = []
    for number in range(total):
        advance(number, total)
        rng = np.random.default_rng([seed, number])
        problem = mdps.random_problem(env.num_states, env.num_actions, (env.min_discount, env.max_discount), rng)
        found.append(find(config, problem, rng))
    advance(total, total)
    return found
