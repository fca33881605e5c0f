"""C-trace, Figures 1 and 5 to 8: contraction rate, fixed-point bias and variance on random problems."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import ml_collections
import numpy as np

from repro.papers.ctrace import figures
from repro.runtime.study import Advance, Answer, Study, map_pieces
from repro.tabular import mdps, operators, simulation
from repro.tabular.operators import IMPORTANCE, UNCORRECTED, Method

FAMILIES = (UNCORRECTED, IMPORTANCE, "retrace", "tree_backup")
"""Methods of a figure; a family's place here is its number in the records' series."""

BIAS_DIGITS = 9
"""Decimals of a recorded bias: what is smaller is rounding of the linear solver."""


class Problem(NamedTuple):
    """An evaluation problem: MDP, target policy pi and behaviour policy mu, both [S, A]."""

    mdp: mdps.FiniteMDP
    pi: np.ndarray
    mu: np.ndarray


def run(config: ml_collections.ConfigDict, seed: int, cores: Sequence[int], advance: Advance) -> Study:
    """Answers the configuration's statements on random problems, and draws the figure of the first one.

    Args:
        config: of `paper_configs/ctrace/tabular_fig1.py` or one of its kin.
        seed: of everything drawn.
        cores: numbers of the processor cores to use.
        advance: called with the pieces of work done and all of them.
    """
    pairings = [p[0] for p in config.problem.pairings]
    pieces = [
        (config, seed, letter, start, start + config.evaluation.num_envs)
        for letter in pairings
        for start in range(0, config.evaluation.episodes, config.evaluation.num_envs)
    ]
    found = map_pieces(findings, pieces, cores, advance)
    per_pairing = len(found) // len(pairings)
    answers = {}
    for i, letter in enumerate(pairings):
        problems = list(itertools.chain(*found[i * per_pairing : (i + 1) * per_pairing]))
        suffix = f"_{letter}" if len(pairings) > 1 else ""
        for name in problems[0]:
            answers[name + suffix] = Answer(UNITS[name], np.array([p[name] for p in problems]), PROTOCOL)
    points = {letter: tradeoffs(config, seed, letter) for letter in pairings}
    answers[config.agent] = answers[config.agent]._replace(series=_series(points))
    steps = len(pairings) * config.variance.trajectories * config.variance.steps
    return Study({name: answers[name] for name in config.answers}, steps, figures.draw_tradeoffs(config, points))


PROTOCOL = "one value for each random problem; exact operators, no simulation"

UNITS = {
    "pareto_share": "1 if alpha-Retrace has less bias than every n-step return, n >= 2, of equal contraction, else 0",
    "pareto_bias_ratio": "bias of alpha-Retrace / bias of the n-step return of equal contraction, mean over n >= 2",
    "importance_bias": "largest fixed-point bias over n",
    "importance_variance_growth": "log10 of the variance's factor from n = 2 to 3, minus that of uncorrected returns",
    "retrace_equivalent_n": "steps n with gamma^n equal to Retrace's contraction rate",
    "tree_backup_gain": "contraction gained by alpha-TreeBackup at its best alpha / gained by alpha-Retrace",
    "tree_backup_bias": "fixed-point bias at alpha = 0 / norm of Q^pi",
}
"""Unit of each finding."""


def findings(
    config: ml_collections.ConfigDict, seed: int, letter: str, start: int, stop: int
) -> list[dict[str, float]]:
    """What the configuration asks about the problems start to stop - 1 of a pairing, in the units of `UNITS`."""
    wanted = [find for name, find in FINDINGS.items() if any(answer.startswith(name) for answer in config.answers)]
    found = []
    for draw in range(start, stop):
        problem = make_problem(config, seed, letter, draw)
        found.append({name: value for find in wanted for name, value in find(config, problem).items()})
    return found


def pareto_ratios(problem: Problem, n_max: int) -> np.ndarray:
    """Bias of alpha-Retrace over that of the uncorrected n-step return, n = 2 .. n_max, [n_max - 1].

    For each n, alpha is the one whose contraction rate is gamma^n, and 1 where Retrace itself contracts faster.
    """
    mdp, pi, mu = problem
    alphas = operators.alpha_for_rate(mdp, pi, mu, mdp.discount ** np.arange(2, n_max + 1))
    values = mdps.action_values(mdp, pi)
    mixed = mdps.action_values(mdp, mdps.mix(pi, mu, alphas[:, None, None]))
    uncorrected = operators.uncorrected_fixed_points(mdp, pi, mu, n_max)[1:]
    return np.linalg.norm(mixed - values, axis=(1, 2)) / np.linalg.norm(uncorrected - values, axis=(1, 2))


def make_problem(config: ml_collections.ConfigDict, seed: int, letter: str, draw: int) -> Problem:
    """Problem number `draw` of a pairing; the pairings of one number share the MDP.

    Raises:
        ValueError: unknown task or policy.
    """
    env = config.env
    rng = np.random.default_rng([seed, draw])
    if env.task == "dirichlet_uniform":
        mdp = mdps.dirichlet_uniform(env.num_states, env.num_actions, env.discount, rng)
    elif env.task == "garnet":
        mdp = mdps.garnet(env.num_states, env.num_actions, env.branching, env.discount, rng)
    elif env.task == "chain":
        mdp = mdps.chain(env.num_states, env.discount)
    else:
        raise ValueError(f"env.task={env.task!r}: choose dirichlet_uniform, garnet or chain.")
    _, target, behaviour = next(p for p in config.problem.pairings if p[0] == letter)
    policies = np.random.default_rng([seed, draw, ord(letter)])
    return Problem(mdp, *(_policy(name, mdp, config.problem.exploration, policies) for name in (target, behaviour)))


def methods(config: ml_collections.ConfigDict) -> list[Method]:
    """The points of a figure, family after family."""
    alphas = np.linspace(0.0, 1.0, config.methods.alphas)
    return [
        *(Method(UNCORRECTED, n=n) for n in range(1, config.methods.uncorrected_n + 1)),
        *(Method(IMPORTANCE, n=n) for n in range(1, config.methods.importance_n + 1)),
        *(
            Method(rule, alpha=float(alpha), lambda_=config.methods.lambda_)
            for rule in ("retrace", "tree_backup")[: 1 + config.methods.tree_backup]
            for alpha in alphas
        ),
    ]


def tradeoffs(config: ml_collections.ConfigDict, seed: int, letter: str) -> list[list[float]]:
    """Rows (family, n or alpha, contraction rate, fixed-point bias, variance) of the pairing's first problem.

    Variance is Definition 1.4 at Q = 0, estimated from trajectories that start in `initial` and follow mu.
    """
    mdp, pi, mu = make_problem(config, seed, letter, 0)
    rng = np.random.default_rng([seed, 0, ord(letter), 1])
    trajectories = simulation.simulate(mdp, mu, config.variance.trajectories, config.variance.steps, rng)
    points = methods(config)
    variances = simulation.variances(mdp, trajectories, pi, mu, points, np.zeros_like(mdp.rewards))
    rows = []
    for method, variance in zip(points, variances):
        op = operators.operator(mdp, pi, mu, method)
        family = FAMILIES.index(method.rule)
        parameter = method.n or method.alpha
        bias = round(operators.fixed_point_bias(op, mdp, pi), BIAS_DIGITS)
        rows.append([family, parameter, operators.contraction_rate(op), bias, float(variance)])
    return rows


def _pareto(config: ml_collections.ConfigDict, problem: Problem) -> dict[str, float]:
    ratios = pareto_ratios(problem, config.methods.uncorrected_n)
    return {"pareto_share": float(np.all(ratios < 1)), "pareto_bias_ratio": float(ratios.mean())}


def _importance(config: ml_collections.ConfigDict, problem: Problem) -> dict[str, float]:
    mdp, pi, mu = problem
    steps = range(1, config.methods.importance_n + 1)
    ops = [operators.operator(mdp, pi, mu, Method(IMPORTANCE, n=n)) for n in steps]
    return {
        "importance_bias": round(max(operators.fixed_point_bias(op, mdp, pi) for op in ops), BIAS_DIGITS),
        "importance_variance_growth": _growth(problem, IMPORTANCE) - _growth(problem, UNCORRECTED),
    }


def _retrace(config: ml_collections.ConfigDict, problem: Problem) -> dict[str, float]:
    rate = operators.alpha_retrace_rates(*problem, np.ones(1)).max()
    return {"retrace_equivalent_n": math.log(rate) / math.log(problem.mdp.discount)}


def _tree_backup(config: ml_collections.ConfigDict, problem: Problem) -> dict[str, float]:
    mdp, pi, mu = problem
    alphas = np.linspace(0.0, 1.0, config.methods.alphas)
    ops = [operators.operator(mdp, pi, mu, Method("tree_backup", alpha=alpha)) for alpha in alphas]
    rates = [operators.contraction_rate(op) for op in ops]
    values = mdps.action_values(mdp, pi)
    retrace = operators.alpha_retrace_rates(mdp, pi, mu, np.ones(1)).max()  # and 0 at alpha = 0
    return {
        "tree_backup_gain": float((rates[-1] - min(rates)) / retrace),
        "tree_backup_bias": float(np.linalg.norm(mdps.action_values(mdp, mu) - values) / np.linalg.norm(values)),
    }


FINDINGS: Mapping[str, Callable[[ml_collections.ConfigDict, Problem], dict[str, float]]] = {
    "pareto": _pareto,
    "importance": _importance,
    "retrace": _retrace,
    "tree_backup": _tree_backup,
}
"""What is found on a problem, by the beginning of the answers' names."""


def _growth(problem: Problem, rule: str) -> float:
    """log10 of the exact variance at n = 3 over that at n = 2, both at Q = 0."""
    mdp, pi, mu = problem
    first = mdp.initial[:, None] * mu
    zeros = np.zeros_like(mu)
    two, three = (np.sum(first * operators.update_variance(mdp, pi, mu, Method(rule, n=n), zeros)) for n in (2, 3))
    return math.log10(three / two)


def _policy(name: str, mdp: mdps.FiniteMDP, exploration: float, rng: np.random.Generator) -> np.ndarray:
    if name == "dirichlet":
        return mdps.dirichlet_policy(mdp, rng)
    if name == "uniform":
        return mdps.uniform_policy(mdp)
    if name == "optimal":
        return mdps.optimal_policy(mdp)
    if name == "exploring":
        return mdps.mix(mdps.uniform_policy(mdp), mdps.optimal_policy(mdp), exploration)
    raise ValueError(f"Unknown policy {name!r}: choose dirichlet, uniform, optimal or exploring.")


def _series(points: dict[str, list[list[float]]]) -> dict[str, object]:
    families = ", ".join(f"{i} {name}" for i, name in enumerate(FAMILIES))
    columns = [
        "pairing, 0 is a",
        f"family: {families}",
        "n or alpha",
        "contraction rate",
        "fixed-point bias",
        "variance",
    ]
    return {"columns": columns, "rows": [[ord(letter) - ord("a"), *row] for letter in points for row in points[letter]]}
