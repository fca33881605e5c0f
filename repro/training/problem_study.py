"""A study of statements about operators on random evaluation problems, each of which every problem must bear out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import ml_collections
import numpy as np

from repro.tabular import mdps
from repro.tabular.mdps import Problem
from repro.training.study import Advance, Study, StudyResult

DIGITS = 4
"""Decimals that count: operators work in float32, and what they leave below is rounding."""

Extreme = Literal["largest", "smallest"]

Find = Callable[[ml_collections.ConfigDict, Problem, np.random.Generator], Mapping[str, float]]
"""What a paper's statements are about, by answer, on one problem; the rng decides what else is random."""


def find_on_all(
    config: ml_collections.ConfigDict, seed: int, advance: Advance, find: Find
) -> list[Mapping[str, float]]:
    """What `find` says of each of `config.evaluation.episodes` random problems. Arguments as for `run_on_problems`."""
    env, total = config.env, config.evaluation.episodes
    found = []
    for number in range(total):
        advance(number, total)
        rng = np.random.default_rng([seed, number])
        problem = mdps.random_problem(env.num_states, env.num_actions, (env.min_discount, env.max_discount), rng)
        found.append(find(config, problem, rng))
    advance(total, total)
    return found


def run_on_problems(
    config: ml_collections.ConfigDict,
    seed: int,
    advance: Advance,
    find: Find,
    units: Mapping[str, str],
    extremes: Mapping[str, Extreme],
) -> Study:
    """Answers a configuration's statements on `config.evaluation.episodes` random problems.

    What no problem may exceed is answered by the extreme of them all, anything else by one value for each problem.

    Args:
        config: with `answers`, `env` (number of states and actions, least and largest discount) and `evaluation`.
        seed: of problems and of what `find` samples.
        advance: called with the problems done and all of them.
        find: works out the answers on one problem.
        units: of each answer.
        extremes: which value of all problems answers, where not every one does.

    Returns:
        The answers, each exact to `DIGITS` decimals.
    """
    found = find_on_all(config, seed, advance, find)
    total = len(found)
    checked = f"every expectation summed or solved for exactly, {DIGITS} decimals"
    answers = {}
    for name in config.answers:
        values = np.array([result[name] for result in found])
        if name in extremes:
            protocol = f"{extremes[name]} of {total} random problems; {checked}"
            values = (values.max if extremes[name] == "largest" else values.min)(keepdims=True)
        else:
            protocol = f"one value for each random problem, at most {values.max():.1e} unrounded; {checked}"
        answers[name] = StudyResult(units[name], values.round(DIGITS), protocol, exact=True)
    return Study(answers, steps=0)
