"""C-trace, Figures 1 and 5 to 8: contraction rate, fixed-point bias and variance on random problems."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ml_collections
import numpy as np
from matplotlib.figure import Figure

from repro.papers.ctrace import figures
from repro.tabular import mdps, operators, simulation
from repro.tabular.mdps import Problem
from repro.tabular.operators import IMPORTANCE, UNCORRECTED, Method
from repro.training.study import Advance, Study, StudyResult, map_pieces

if TYPE_CHECKING:
    from repro.training.experiment import FindExperiment

FAMILIES = (UNCORRECTED, IMPORTANCE, "retrace", "tree_backup")
"""Families of methods in a figure; a family's index is its number in the records' series."""

EXACT = ("importance_bias",)
"""Answers that are the same number on every problem."""
BIAS_DIGITS = 9
"""Decimals of recorded biases; smaller differences are rounding errors of the linear solver."""


def run(
    config: ml_collections.ConfigDict,
    seed: int,
    cores: Sequence[int],
    advance: Advance,
    find_experiment: FindExperiment | None = None,
) -> Study:
    """Computes the configuration's answers on random problems, and plots the figure of the first problem.

    Arguments as for `RunStudy`.
    """
    letters = [p[0] for p in config.problem.pairings]
    counts = {letter: 1 if is_certain(config, letter) else config.evaluation.episodes for letter in letters}
    size = config.evaluation.num_envs
    pieces = [
        (config, seed, letter, start, min(start + size, count))
        for letter, count in counts.items()
        for start in range(0, count, size)
    ]
    found = map_pieces(findings, pieces, cores, advance)
    answers = {}
    for letter in letters:
        problems = list(itertools.chain(*(part for part, piece in zip(found, pieces) if piece[2] == letter)))
        suffix = f"_{letter}" if len(letters) > 1 else ""
        for name in UNITS.keys() & problems[0].keys():
            values = np.array([p[name] for p in problems])
            protocol = CERTAIN if counts[letter] == 1 else PROTOCOL
            if name == "pareto_bias_ratio":
                left_out = np.mean([p["pareto_left_out"] for p in problems])
                protocol += f"; {left_out:.3g} of {config.methods.uncorrected_n - 1} n left out on average: {LEFT_OUT}"
            exact = counts[letter] == 1 or name in EXACT
            answers[name + suffix] = StudyResult(UNITS[name], values, protocol, exact=exact)
    series = _series({letter: tradeoffs(config, seed, letter) for letter in letters})
    answers[config.agent] = answers[config.agent]._replace(series=series)
    steps = len(letters) * config.variance.trajectories * config.variance.steps
    return Study({name: answers[name] for name in config.answers}, steps, plot(config, {config.agent: series}))


def plot(config: ml_collections.ConfigDict, series: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Plots the figure.

    Args:
        config: configuration of the study.
        series: series of the answers that have one, by name.
    """
    points: dict[str, list[Sequence[float]]] = {}
    for pairing, *row in series[config.agent]["rows"]:
        points.setdefault(chr(ord("a") + int(pairing)), []).append(row)
    return figures.plot_tradeoffs(config, points)


PROTOCOL = "one value for each random problem; exact operators, no simulation"
CERTAIN = "one value: neither MDP nor policies are random; exact operators, no simulation"
LEFT_OUT = "Retrace itself contracts as fast or faster there"

UNITS = {
    "pareto_share": "1 if alpha-Retrace has less bias than every n-step return, n >= 2, of equal contraction, else 0",
    "pareto_bias_ratio": "bias of alpha-Retrace / of the n-step return of equal contraction, mean over n that have one",
    "importance_bias": "largest fixed-point bias over n",
    "importance_variance_growth": "log10 of the variance's factor from n = 2 to 3, minus that of uncorrected returns",
    "retrace_equivalent_n": "steps n with gamma^n equal to Retrace's contraction rate",
    "retrace_three_steps": "1 if gamma^n is Retrace's contraction rate for an n of 2.5 to 3.5, else 0",
    "retrace_variance": "log10 of Retrace's variance / that of 3-step importance weighting",
    "mixture_share": "1 if bias rises and contraction rate falls at each step of alpha from 1 to 0, else 0",
    "mixture_bias": "fixed-point bias at alpha = 0 minus that at alpha = 1",
    "tree_backup_gain": "contraction gained by alpha-TreeBackup at its best alpha / gained by alpha-Retrace",
    "tree_backup_bias": "bias of alpha-TreeBackup at its best contraction / of alpha-Retrace with as much gained",
    "tree_backup_variance": "largest share of its variance at alpha = 1 that alpha-TreeBackup loses",
}
"""Unit of each answer, without the letter of the pairing.

Contraction gained is the contraction rate at alpha = 1 minus that at another alpha.
"""


def is_certain(config: ml_collections.ConfigDict, letter: str) -> bool:
    """Returns whether all problems of a pairing are identical: the chain, with policies that are not sampled."""
    (policies,) = (p[1:] for p in config.problem.pairings if p[0] == letter)
    return config.env.task == "chain" and "dirichlet" not in policies


def findings(
    config: ml_collections.ConfigDict, seed: int, letter: str, start: int, stop: int
) -> list[dict[str, float]]:
    """Computes the configuration's answers on the problems start to stop - 1 of a pairing, in the units of `UNITS`."""
    wanted = [find for name, find in FINDINGS.items() if any(answer.startswith(name) for answer in config.answers)]
    found = []
    for number in range(start, stop):
        problem = make_problem(config, seed, letter, number)
        found.append({name: value for find in wanted for name, value in find(config, problem).items()})
    return found


def pareto_ratios(problem: Problem, n_max: int) -> np.ndarray:
    """Ratio of alpha-Retrace's bias to that of the uncorrected n-step return, n = 2 .. n_max, [n_max - 1].

    For each n, alpha is chosen so that the contraction rate equals that of the n-step return. NaN where Retrace itself
    contracts as fast or faster: it has no bias, but no alpha gives the same contraction rate.
    """
    mdp, pi, mu = problem
    alphas = operators.alpha_for_rate(mdp, pi, mu, operators.uncorrected_rates(mdp, mu, n_max)[1:])
    values = mdps.action_values(mdp, pi)
    mixed = mdps.action_values(mdp, mdps.mix(pi, mu, alphas[:, None, None]))
    uncorrected = operators.uncorrected_fixed_points(mdp, pi, mu, n_max)[1:]
    ratios = np.linalg.norm(mixed - values, axis=(1, 2)) / np.linalg.norm(uncorrected - values, axis=(1, 2))
    return np.where(alphas < 1, ratios, np.nan)


def make_problem(config: ml_collections.ConfigDict, seed: int, letter: str, number: int) -> Problem:
    """Returns problem number `number` of a pairing; all pairings share the MDP of that number.

    Problems of different `config.problem.stream` are independent.

    Raises:
        ValueError: the task or a policy is unknown.
    """
    env, stream = config.env, config.problem.stream
    rng = np.random.default_rng([seed, number, 0, stream])
    if env.task == "dirichlet_uniform":
        mdp = mdps.dirichlet_uniform(env.num_states, env.num_actions, env.discount, rng)
    elif env.task == "garnet":
        mdp = mdps.garnet(env.num_states, env.num_actions, env.branching, env.discount, rng)
    elif env.task == "chain":
        mdp = mdps.chain(env.num_states, env.discount)
    else:
        raise ValueError(f"env.task={env.task!r}: choose dirichlet_uniform, garnet or chain.")
    _, target, behaviour = next(p for p in config.problem.pairings if p[0] == letter)
    policies = np.random.default_rng([seed, number, ord(letter), stream])
    return Problem(mdp, *(_policy(name, mdp, config.problem.exploration, policies) for name in (target, behaviour)))


def methods(config: ml_collections.ConfigDict) -> list[Method]:
    """Returns the methods that are the points of a figure, family after family."""
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
    """Computes rows (family, n or alpha, contraction rate, fixed-point bias, variance) for a pairing's first problem.

    The variance is Definition 1.4 at Q = 0, estimated from trajectories that start in `initial` and follow mu.
    """
    mdp, pi, mu = make_problem(config, seed, letter, 0)
    rng = np.random.default_rng([seed, 0, ord(letter), config.problem.stream + 1])
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
    equal = ~np.isnan(ratios)
    return {
        "pareto_share": float(np.all(ratios[equal] < 1)),
        "pareto_bias_ratio": float(ratios[equal].mean()),
        "pareto_left_out": float(np.sum(~equal)),
    }


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
    n = math.log(rate) / math.log(problem.mdp.discount)
    ratio = _variance(problem, Method("retrace")) / _variance(problem, Method(IMPORTANCE, n=3))
    return {
        "retrace_equivalent_n": n,
        "retrace_three_steps": float(2.5 <= n < 3.5),
        "retrace_variance": math.log10(ratio),
    }


def _mixture(config: ml_collections.ConfigDict, problem: Problem) -> dict[str, float]:
    mdp, pi, mu = problem
    alphas = np.linspace(0.0, 1.0, config.methods.alphas)
    mixed = mdps.action_values(mdp, mdps.mix(pi, mu, alphas[:, None, None]))
    biases = np.linalg.norm(mixed - mdps.action_values(mdp, pi), axis=(1, 2))
    rates = operators.alpha_retrace_rates(mdp, pi, mu, alphas).max((1, 2))
    return {
        "mixture_share": float(np.all(np.diff(biases) < 0) and np.all(np.diff(rates) > 0)),
        "mixture_bias": float(biases[0] - biases[-1]),
    }


def _tree_backup(config: ml_collections.ConfigDict, problem: Problem) -> dict[str, float]:
    mdp, pi, mu = problem
    alphas = np.linspace(0.0, 1.0, config.methods.alphas)
    points = [Method("tree_backup", alpha=float(alpha)) for alpha in alphas]
    rates = [operators.contraction_rate(operators.operator(mdp, pi, mu, point)) for point in points]
    best, gained = alphas[np.argmin(rates)], rates[-1] - min(rates)
    retrace = operators.alpha_retrace_rates(mdp, pi, mu, np.ones(1)).max()  # 0 at alpha = 0
    (equal,) = operators.alpha_for_rate(mdp, pi, mu, np.array([retrace - gained]))
    mixed = mdps.action_values(mdp, mdps.mix(pi, mu, np.array([best, equal])[:, None, None]))
    biases = np.linalg.norm(mixed - mdps.action_values(mdp, pi), axis=(1, 2))
    variances = [_variance(problem, point) for point in points]
    return {
        "tree_backup_gain": float(gained / retrace),
        "tree_backup_bias": float(biases[0] / biases[1]),
        "tree_backup_variance": 1 - min(variances) / variances[-1],
    }


FINDINGS: Mapping[str, Callable[[ml_collections.ConfigDict, Problem], dict[str, float]]] = {
    "pareto": _pareto,
    "importance": _importance,
    "retrace": _retrace,
    "mixture": _mixture,
    "tree_backup": _tree_backup,
}
"""Functions that compute the answers on a problem, by the beginning of the answers' names."""


def _growth(problem: Problem, rule: str) -> float:
    """log10 of the ratio of the exact variances at n = 3 and n = 2."""
    two, three = (_variance(problem, Method(rule, n=n)) for n in (2, 3))
    return math.log10(three / two)


def _variance(problem: Problem, method: Method) -> float:
    """Definition 1.4 at Q = 0 on endless trajectories, exact; x_0 from `initial`, a_0 from mu."""
    mdp, pi, mu = problem
    return float(np.sum(mdp.initial[:, None] * mu * operators.update_variance(mdp, pi, mu, method, np.zeros_like(mu))))


def _policy(name: str, mdp: mdps.FiniteMDP, exploration: float, rng: np.random.Generator) -> np.ndarray:
    if name == "dirichlet":
        return mdps.dirichlet_policy(mdp, rng)
    if name == "uniform":
        return mdps.uniform_policy(mdp)
    if name == "optimal":
        return mdps.optimal_policy(mdp)
    if name == "exploring":
        return mdps.mix(mdps.uniform_policy(mdp), mdps.optimal_policy(mdp), exploration)
    raise ValueError(f"problem.pairings: unknown policy {name!r}, choose dirichlet, uniform, optimal or exploring.")


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
