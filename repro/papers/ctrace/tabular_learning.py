"""C-trace, Figure 3: off-policy evaluation and modified policy iteration (Algorithm 1) on the chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ml_collections
import numpy as np
from matplotlib.figure import Figure

from repro.papers.ctrace import figures
from repro.tabular import mdps, operators
from repro.tabular.learning import Steps, Stream, finished_episodes, learn
from repro.tabular.operators import IMPORTANCE, UNCORRECTED, Method
from repro.training.study import Advance, Study, StudyResult, map_pieces

if TYPE_CHECKING:
    from repro.training.experiment import FindExperiment

EVALUATION, CONTROL = "evaluation", "control"
TRAJECTORIES = ("episode", "round")
PANELS = {
    "evaluation_early": ("Evaluation", "environment steps", "L2 distance of Q from that of the optimal policy"),
    "control_early": ("Control", "policy improvements", "loss of value, uniform first state"),
}
"""Title, x label and y label of each panel, by the answer whose record holds the panel's numbers."""
ALPHA_DIGITS = 6
"""Decimals to which differences of alphas are rounded."""
LARGEST_ROUNDING = 1e-9
"""Largest fixed-point bias that may be due to rounding in the linear solver."""


def run(
    config: ml_collections.ConfigDict,
    seed: int,
    cores: Sequence[int],
    advance: Advance,
    find_experiment: FindExperiment | None = None,
) -> Study:
    """Learns both tasks with every method in every repetition. Arguments as for `RunStudy`."""
    pieces = [
        (config, seed, task, start)
        for task in (EVALUATION, CONTROL)
        for start in range(0, config.evaluation.episodes, config.evaluation.num_envs)
    ]
    found = map_pieces(learning_curves, pieces, cores, advance)
    half = len(found) // 2
    errors, regrets = np.concatenate(found[:half], axis=-1), np.concatenate(found[half:], axis=-1)
    rng = np.random.default_rng([seed, 1])
    steps = config.learning.round_steps
    curves = {"evaluation_early": (steps, errors), "control_early": (1, regrets)}
    series = {name: _series(config, name, *curve, rng) for name, curve in curves.items()}
    answers = _answers(config, errors, regrets, rng)
    for name in series:
        answers[name] = answers[name]._replace(series=series[name])
    rounds = config.learning.evaluation_rounds + config.learning.control_rounds
    total = rounds * steps * config.evaluation.episodes
    return Study({name: answers[name] for name in config.answers}, total, plot(config, series))


def plot(config: ml_collections.ConfigDict, series: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Plots the figure, with a panel for each task that is among the study's answers.

    Args:
        config: configuration of the study.
        series: series of the answers that have one, by name.
    """
    lines = methods(config)
    rules = list(dict.fromkeys(method.rule for method in lines.values()))
    named = {"labels": list(lines), "families": [rules.index(method.rule) for method in lines.values()]}
    panels: list[dict[str, Any]] = []
    for name, (title, x_label, y_label) in PANELS.items():
        if name in config.answers:
            values = np.array(series[name]["rows"])
            curves = {"x": values[:, 0], "mean": values[:, 1::2], "error": values[:, 2::2]}
            panels.append({"title": title, "x_label": x_label, "y_label": y_label, **curves, **named})
    return figures.plot_learning(panels, config.evaluation.episodes)


def methods(config: ml_collections.ConfigDict) -> dict[str, Method]:
    """Returns the methods of the figure's lines, by label."""
    return {
        **{f"uncorrected, n = {n}": Method(UNCORRECTED, n=n) for n in config.methods.uncorrected_n},
        **{f"importance weighted, n = {n}": Method(IMPORTANCE, n=n) for n in config.methods.importance_n},
        **{
            f"alpha-Retrace, alpha = {alpha:g}": Method("retrace", alpha=alpha, lambda_=config.methods.lambda_)
            for alpha in config.methods.alphas
        },
    }


def learning_curves(config: ml_collections.ConfigDict, seed: int, task: str, start: int) -> np.ndarray:
    """Computes the errors after 0, 1, .. rounds in `evaluation.num_envs` repetitions from `start` on, [K + 1, M, R].

    Evaluation: distance of Q from Q^pi, with pi optimal. Control: loss of value of the greedy policy pi, which is the
    next round's target; before the first round it is uniform, as Q is 0. In evaluation, methods learn from rounds, or
    from each episode at its end, one repetition at a time (`learning.trajectory`); the experience is the same.

    Args:
        config: configuration of the study.
        seed: seed of the experience.
        task: `evaluation` or `control`.
        start: index of the first repetition; each group of repetitions has its own stream of random numbers.

    Raises:
        ValueError: `learning.trajectory` or `learning.visits` is unknown.
    """
    mdp = mdps.chain(config.env.num_states, config.env.discount)
    mu, optimal = mdps.uniform_policy(mdp), mdps.optimal_policy(mdp)
    repetitions, lines = config.evaluation.num_envs, list(methods(config).values())
    stream = Stream(mdp, mu, repetitions, np.random.default_rng([seed, task == CONTROL, start]))
    q = np.zeros((len(lines), repetitions, *mu.shape))
    values, best = mdps.action_values(mdp, optimal), mdps.state_values(mdp, optimal)
    if config.learning.trajectory not in TRAJECTORIES:
        known = ", ".join(TRAJECTORIES)
        raise ValueError(f"learning.trajectory={config.learning.trajectory!r}: choose one of {known}.")
    rounds, length = config.learning[f"{task}_rounds"], config.learning.round_steps
    errors = np.empty((rounds + 1, len(lines), repetitions))

    def learn_from(steps: Steps, q: np.ndarray) -> None:
        for estimate, method in zip(q, lines):
            pi = np.broadcast_to(optimal, estimate.shape) if task == EVALUATION else mdps.greedy_policy(estimate)
            learn(estimate, mdp, steps, pi, mu, method, config.learning.learning_rate, config.learning.visits)

    def error(q: np.ndarray) -> np.ndarray:
        if task == EVALUATION:
            return np.linalg.norm(q - values, axis=(2, 3))
        return (best - mdps.state_values(mdp, mdps.greedy_policy(q))) @ mdp.initial

    if task == EVALUATION and config.learning.trajectory == "episode":
        steps = stream.take(rounds * length)
        for r in range(repetitions):
            alone, begin = slice(r, r + 1), 0
            for end, episode in finished_episodes(steps, mdp.terminal, r):
                following = -(-end // length)  # the first round that ends at or after the end of the episode
                errors[begin:following, :, alone] = error(q[:, alone])
                learn_from(episode, q[:, alone])
                begin = following
            errors[begin:, :, alone] = error(q[:, alone])
        return errors
    errors[0] = error(q)
    for k in range(rounds):
        learn_from(stream.take(length), q)
        errors[k + 1] = error(q)
    return errors


def groups(config: ml_collections.ConfigDict) -> dict[str, np.ndarray]:
    """Returns the groups of methods that the paper's statements compare, as masks over `methods`, bool [M].

    `small_alpha` and `large_n` are the methods that Section 4 calls best after few steps of evaluation, `rest` are all
    others. `small_n` are the other uncorrected returns. `contractive` are the methods that it calls best in early
    control, with a fixed-point bias and a contraction rate below that of Retrace; `unbiased` are those without bias.
    Rates and biases are those of evaluating the optimal policy.
    """
    lines, compared = list(methods(config).values()), config.comparison
    rules = np.array([line.rule for line in lines])
    alphas, steps = np.array([line.alpha for line in lines]), np.array([line.n for line in lines])
    small_alpha = (rules == "retrace") & (alphas <= compared.small_alpha)
    large_n = (rules == UNCORRECTED) & (steps >= compared.large_n)
    retrace = (rules == "retrace") & (alphas == 1.0)
    rates, biases = _rates_and_biases(config)
    biased = biases > LARGEST_ROUNDING
    return {
        "alpha_retrace": rules == "retrace",
        "retrace": retrace,
        "importance": rules == IMPORTANCE,
        "small_alpha": small_alpha,
        "large_n": large_n,
        "small_n": (rules == UNCORRECTED) & ~large_n,
        "rest": ~(small_alpha | large_n),
        "contractive": biased & (rates < rates[retrace]),
        "unbiased": ~biased,
    }


def _rates_and_biases(config: ml_collections.ConfigDict) -> tuple[np.ndarray, np.ndarray]:
    """Returns the exact contraction rate and fixed-point bias of each method on the optimal policy, both [M]."""
    mdp = mdps.chain(config.env.num_states, config.env.discount)
    mu, optimal = mdps.uniform_policy(mdp), mdps.optimal_policy(mdp)
    ops = [operators.operator(mdp, optimal, mu, method) for method in methods(config).values()]
    biases = [operators.fixed_point_bias(op, mdp, optimal) for op in ops]
    return np.array([operators.contraction_rate(op) for op in ops]), np.array(biases)


def best_alphas(config: ml_collections.ConfigDict, errors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Returns the alpha with the smallest mean error over repetitions, in each bootstrap resample, [B].

    Args:
        config: configuration of the study.
        errors: error of every method in every repetition, [M, R].
        weights: weights of the repetitions in each resample, [B, R]; they sum to 1.
    """
    alphas = np.array([line.alpha for line in methods(config).values()])
    lines = groups(config)["alpha_retrace"]
    return alphas[lines][(errors[lines] @ weights.T).argmin(0)]


def moves_of_best_alpha(
    config: ml_collections.ConfigDict, errors: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the best alpha's largest drop below an earlier value and its largest rise in one round, both [B].

    Args:
        config: configuration of the study.
        errors: error of every method in every repetition, round by round, [K, M, R].
        weights: weights of the repetitions in each resample, [B, R].
    """
    best = np.array([best_alphas(config, values, weights) for values in errors])  # [K, B]
    falls = (np.maximum.accumulate(best) - best).max(0)
    return falls.round(ALPHA_DIGITS), np.diff(best, axis=0).max(0).round(ALPHA_DIGITS)


def _answers(
    config: ml_collections.ConfigDict, errors: np.ndarray, regrets: np.ndarray, rng: np.random.Generator
) -> dict[str, StudyResult]:
    """Computes the answers: paired differences within repetitions, as experience is shared, and the best alphas.

    Args:
        config: configuration of the study.
        errors: errors in evaluation, [K + 1, M, R].
        regrets: losses of value in control, [K + 1, M, R].
        rng: source of the bootstrap resamples.
    """
    labels, members, compared = list(methods(config)), groups(config), config.comparison
    early, late = errors[compared.early_evaluation_round], errors[-1]
    curves = {
        "evaluation_early": early,
        "evaluation_late": late,
        "control_early": regrets[compared.early_control_round],
        "control_late": regrets[-1],
    }
    found = {}
    for name, (when, worse, better) in COMPARED.items():
        behind, ahead = (_best(curves[when], members[group]) for group in (worse, better))
        protocol = f"{PROTOCOL}: {labels[behind]}, against {labels[ahead]}, each the best of its kind by its mean"
        found[name] = StudyResult(UNITS[name], curves[when][behind] - curves[when][ahead], protocol)
    weights = _resamples(config, errors.shape[-1], rng)
    for when, values in (("early", early), ("late", late)):
        alphas, name = best_alphas(config, values, weights), f"evaluation_best_alpha_{when}"
        interval = _grid_interval(alphas, resolution(config) / 2)
        found[name] = StudyResult(UNITS[name], alphas, RESAMPLED, interval=interval)
    moves = moves_of_best_alpha(config, errors[compared.early_evaluation_round :], weights)
    for name, values in zip(("evaluation_best_alpha_fall", "evaluation_best_alpha_step"), moves):
        interval = _grid_interval(values, resolution(config))  # the grid's uncertainty in a difference of two alphas
        found[name] = StudyResult(UNITS[name], values, MOVES, interval=interval)
    return found


def resolution(config: ml_collections.ConfigDict) -> float:
    """Returns the largest step between neighbouring values of alpha on the grid, to which the best one is known."""
    return float(np.diff(np.unique([line.alpha for line in methods(config).values()])).max().round(ALPHA_DIGITS))


def _grid_interval(values: np.ndarray, reach: float) -> tuple[float, float]:
    """Returns the 95 % interval of resampled best values on a grid in [0, 1], widened by `reach` on each side."""
    low, high = np.quantile(values, 0.025, method="lower"), np.quantile(values, 0.975, method="higher")
    return max(float(low) - reach, 0.0), min(float(high) + reach, 1.0)


def _best(values: np.ndarray, members: np.ndarray) -> int:
    """Returns the index of the smallest mean over repetitions among `members`, from [M, R] and bool [M].

    The best of each single repetition would be selected by its noise.
    """
    return int(np.where(members, values.mean(-1), np.inf).argmin())


def _resamples(config: ml_collections.ConfigDict, count: int, rng: np.random.Generator) -> np.ndarray:
    """Samples weights of `count` repetitions for each bootstrap resample, [B, R]."""
    return rng.multinomial(count, np.full(count, 1 / count), size=config.evaluation.resamples) / count


PROTOCOL = "one value for each repetition; both methods learned from the same experience"
RESAMPLED = "one value for each bootstrap resample of the repetitions, alpha chosen by the resample's mean error"
MOVES = f"{RESAMPLED} in every round from the early one on"

COMPARED = {
    "evaluation_early": ("evaluation_early", "retrace", "small_alpha"),
    "evaluation_early_n": ("evaluation_early", "retrace", "large_n"),
    "evaluation_early_rest": ("evaluation_early", "rest", "small_alpha"),
    "evaluation_early_n_rest": ("evaluation_early", "rest", "large_n"),
    "evaluation_early_importance": ("evaluation_early", "importance", "small_alpha"),
    "evaluation_late": ("evaluation_late", "small_alpha", "retrace"),
    "evaluation_late_importance": ("evaluation_late", "importance", "retrace"),
    "control_early": ("control_early", "unbiased", "contractive"),
    "control_early_n": ("control_early", "retrace", "large_n"),
    "control_late": ("control_late", "small_alpha", "retrace"),
    "control_late_importance": ("control_late", "contractive", "importance"),
    "control_late_n": ("control_late", "large_n", "small_n"),
}
"""Task and time of each difference, and the groups that the paper calls worse and better."""

UNITS = {
    "evaluation_early": "error at alpha = 1 minus error at small alpha, early",
    "evaluation_early_n": "error at alpha = 1 minus error at large n, uncorrected, early",
    "evaluation_early_rest": "error of the best other method minus error at small alpha, early",
    "evaluation_early_n_rest": "error of the best other method minus error at large n, uncorrected, early",
    "evaluation_early_importance": "error of the best importance weighted return minus error at small alpha, early",
    "evaluation_late": "error at small alpha minus error at alpha = 1, at the end",
    "evaluation_late_importance": "error of the best importance weighted return minus error at alpha = 1, at the end",
    "evaluation_best_alpha_early": "alpha of least mean error early",
    "evaluation_best_alpha_late": "alpha of least mean error at the end",
    "evaluation_best_alpha_fall": "largest fall of the alpha of least mean error below that of fewer steps",
    "evaluation_best_alpha_step": "largest rise of the alpha of least mean error within a round",
    "control_early": "loss of value of the best unbiased method minus loss of the best biased one that contracts "
    "faster than Retrace, early",
    "control_early_n": "loss of value at alpha = 1 minus loss at large n, uncorrected, early",
    "control_late": "loss of value at small alpha minus loss at alpha = 1, at the end",
    "control_late_importance": "loss of value of the best biased method that contracts faster than Retrace minus "
    "loss of the best importance weighted return, at the end",
    "control_late_n": "loss of value at large n minus loss at small n, uncorrected, at the end",
}
"""Unit of each answer; `config.comparison` defines the early round, a large n and a small alpha.

Each group of methods is represented by its best one, by the mean over repetitions at that time. Other methods are those
with neither a large n nor a small alpha.
"""


def _series(
    config: ml_collections.ConfigDict, name: str, steps: int, errors: np.ndarray, rng: np.random.Generator
) -> dict[str, Any]:
    """Returns a panel's numbers: experience, each method's mean over repetitions and its bootstrap standard error.

    At most `SHOWN` rounds are kept, with more of the early ones, as the axis is logarithmic.

    Args:
        config: configuration of the study.
        name: name of the panel, in `PANELS`.
        steps: units of experience per round.
        errors: error of every method in every repetition, round by round, [K, M, R].
        rng: source of the bootstrap resamples.
    """
    weights = _resamples(config, errors.shape[-1], rng)
    rounds = np.unique(np.geomspace(1, len(errors) - 1, SHOWN).round().astype(int))
    means = errors[rounds].mean(-1)
    standard_errors = np.array([(errors[i] @ weights.T).std(-1) for i in rounds])
    columns = [PANELS[name][1]]
    columns += [f"{label}: {what}" for label in methods(config) for what in ("mean", "standard error")]
    values = np.stack([means, standard_errors], -1).reshape(len(rounds), -1).round(4)
    return {"columns": columns, "rows": [[x, *row] for x, row in zip((steps * rounds).tolist(), values.tolist())]}


SHOWN = 60
"""Maximum number of rounds in a record and in the figure."""
