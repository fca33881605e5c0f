"""C-trace, Figure 3: off-policy evaluation and modified policy iteration (Algorithm 1) on the chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_collections
import numpy as np

from repro.papers.ctrace import figures
from repro.runtime.study import Advance, Answer, Study, map_pieces
from repro.tabular import mdps
from repro.tabular.learning import Stream, learn
from repro.tabular.operators import IMPORTANCE, UNCORRECTED, Method

EVALUATION, CONTROL = "evaluation", "control"
ERROR = "distance of Q from that of the optimal policy"
REGRET = "loss of value, uniform first state"


def run(config: ml_collections.ConfigDict, seed: int, cores: Sequence[int], advance: Advance) -> Study:
    """Learns every repetition of both tasks with every method.

    Args:
        config: of `paper_configs/ctrace/tabular_fig3.py`.
        seed: of the experience.
        cores: numbers of the processor cores to use.
        advance: called with the pieces of work done and all of them.
    """
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
    left = _panel(config, "Evaluation", "environment steps", ERROR, steps, errors, rng)
    right = _panel(config, "Control", "policy improvements", REGRET, 1, regrets, rng)
    answers = _answers(config, errors, regrets)
    for name, panel in (("evaluation_early", left), ("control_early", right)):
        answers[name] = answers[name]._replace(series=_series(panel))
    rounds = config.learning.evaluation_rounds + config.learning.control_rounds
    total = rounds * steps * config.evaluation.episodes
    return Study({name: answers[name] for name in config.answers}, total, figures.draw_learning([left, right]))


def methods(config: ml_collections.ConfigDict) -> dict[str, Method]:
    """The lines of the figure by their labels."""
    return {
        **{f"uncorrected, n = {n}": Method(UNCORRECTED, n=n) for n in config.methods.uncorrected_n},
        **{f"importance weighted, n = {n}": Method(IMPORTANCE, n=n) for n in config.methods.importance_n},
        **{
            f"alpha-Retrace, alpha = {alpha:g}": Method("retrace", alpha=alpha, lambda_=config.methods.lambda_)
            for alpha in config.methods.alphas
        },
    }


def learning_curves(config: ml_collections.ConfigDict, seed: int, task: str, start: int) -> np.ndarray:
    """Errors after 0, 1, .. rounds of `evaluation.num_envs` repetitions, the first being `start`, [K + 1, M, R].

    Evaluation: distance of Q from Q^pi, pi optimal. Control: loss of value of the greedy policy pi, which is the next
    round's target; before the first round it is uniform, as Q is 0.

    Args:
        config: of the study.
        seed: of the experience.
        task: `evaluation` or `control`.
        start: number of the first repetition; each piece of repetitions has a stream of random numbers of its own.
    """
    mdp = mdps.chain(config.env.num_states, config.env.discount)
    mu, optimal = mdps.uniform_policy(mdp), mdps.optimal_policy(mdp)
    repetitions, lines = config.evaluation.num_envs, list(methods(config).values())
    shape = (repetitions, *mu.shape)
    stream = Stream(mdp, mu, repetitions, np.random.default_rng([seed, task == CONTROL, start]))
    q = np.zeros((len(lines), *shape))
    values, best = mdps.action_values(mdp, optimal), mdps.state_values(mdp, optimal)

    def error() -> np.ndarray:
        if task == EVALUATION:
            return np.linalg.norm(q - values, axis=(2, 3))
        return (best - mdps.state_values(mdp, mdps.greedy_policy(q))) @ mdp.initial

    errors = [error()]
    for _ in range(config.learning[f"{task}_rounds"]):
        steps = stream.take(config.learning.round_steps)
        for estimate, method in zip(q, lines):
            pi = np.broadcast_to(optimal, shape) if task == EVALUATION else mdps.greedy_policy(estimate)
            learn(estimate, mdp, steps, pi, mu, method, config.learning.learning_rate)
        errors.append(error())
    return np.array(errors)


def _answers(config: ml_collections.ConfigDict, errors: np.ndarray, regrets: np.ndarray) -> dict[str, Answer]:
    """Differences within a repetition: all methods learn from the same experience, so they are paired."""
    lines, compared, small = list(methods(config).values()), config.comparison, config.comparison.small_alpha
    early, first = errors[compared.early_evaluation_round], regrets[compared.early_control_round]
    last, end = errors[-1], regrets[-1]

    def of(values: np.ndarray, **wanted: Any) -> np.ndarray:
        rows = [all(getattr(line, name) == value for name, value in wanted.items()) for line in lines]
        return values[rows.index(True)]

    def retrace(values: np.ndarray, alpha: float) -> np.ndarray:
        return of(values, rule="retrace", alpha=alpha)

    def uncorrected(values: np.ndarray, n: int) -> np.ndarray:
        return of(values, rule=UNCORRECTED, n=n)

    def best_alpha(values: np.ndarray) -> np.ndarray:
        alphas = [line.alpha for line in lines if line.rule == "retrace"]
        return np.array(alphas)[values[[line.rule == "retrace" for line in lines]].argmin(0)]

    def best_importance(values: np.ndarray) -> np.ndarray:
        return values[[line.rule == IMPORTANCE for line in lines]].min(0)

    large = compared.large_n
    found = {
        "evaluation_early": retrace(early, 1.0) - retrace(early, small),
        "evaluation_early_n": uncorrected(early, 1) - uncorrected(early, large),
        "evaluation_early_importance": best_importance(early) - retrace(early, small),
        "evaluation_late": retrace(last, small) - retrace(last, 1.0),
        "evaluation_late_importance": best_importance(last) - retrace(last, 1.0),
        "evaluation_best_alpha_rise": best_alpha(last) - best_alpha(early),
        "control_early": retrace(first, 1.0) - retrace(first, small),
        "control_early_n": uncorrected(first, 1) - uncorrected(first, large),
        "control_late": retrace(end, small) - retrace(end, 1.0),
    }
    return {name: Answer(UNITS[name], values, PROTOCOL) for name, values in found.items()}


PROTOCOL = "one value for each repetition; the methods compared learned from the same experience"

UNITS = {
    "evaluation_early": "error at alpha = 1 minus error at small alpha, early",
    "evaluation_early_n": "error at n = 1 minus error at large n, uncorrected, early",
    "evaluation_early_importance": "error of the best importance weighted return minus error at small alpha, early",
    "evaluation_late": "error at small alpha minus error at alpha = 1, at the end",
    "evaluation_late_importance": "error of the best importance weighted return minus error at alpha = 1, at the end",
    "evaluation_best_alpha_rise": "alpha of least error at the end minus early",
    "control_early": "loss of value at alpha = 1 minus loss at small alpha, early",
    "control_early_n": "loss of value at n = 1 minus loss at large n, uncorrected, early",
    "control_late": "loss of value at small alpha minus loss at alpha = 1, at the end",
}
"""Unit of each answer; `comparison` in the configuration says when early is, and which n is large or alpha small."""


def _panel(
    config: ml_collections.ConfigDict,
    title: str,
    x_label: str,
    y_label: str,
    steps: int,
    errors: np.ndarray,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """A panel of the figure: mean over repetitions and its bootstrap standard error, both [K, M].

    At most `SHOWN` rounds are kept, dense early on, as the axis is logarithmic.
    """
    count = errors.shape[-1]
    weights = rng.multinomial(count, np.full(count, 1 / count), size=config.evaluation.resamples) / count
    lines = methods(config)
    rules = list(dict.fromkeys(method.rule for method in lines.values()))
    rounds = np.unique(np.geomspace(1, len(errors) - 1, SHOWN).round().astype(int))
    return {
        "title": title,
        "x_label": x_label,
        "y_label": y_label,
        "x": steps * rounds,
        "labels": list(lines),
        "families": [rules.index(method.rule) for method in lines.values()],
        "mean": errors[rounds].mean(-1),
        "error": np.array([(errors[i] @ weights.T).std(-1) for i in rounds]),
    }


def _series(panel: dict[str, Any]) -> dict[str, Any]:
    columns = [panel["x_label"]]
    columns += [f"{label}: {what}" for label in panel["labels"] for what in ("mean", "standard error")]
    values = np.stack([panel["mean"], panel["error"]], -1).reshape(len(panel["x"]), -1).round(4)
    return {"columns": columns, "rows": [[x, *row] for x, row in zip(panel["x"].tolist(), values.tolist())]}


SHOWN = 60
"""Most rounds in a record and in the figure."""
