"""Trains a reference run and reduces its log to the measures that bands judge."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from repro.acting.play import play
from repro.papers import find_experiment
from repro.regression.reference_runs import ReferenceRun
from repro.training.run_directory import RunDirectory
from repro.training.trainer import Update

EVALUATION_SEED = 10_000
"""Number that is added to the seed of a run for its evaluation."""


def measure(run: ReferenceRun, seed: int) -> dict[str, float]:
    """Trains a reference run in this process, in a temporary folder, and returns its measures by name.

    Args:
        run: run to train.
        seed: seed from which all seeds of the run are derived.

    Raises:
        NonFiniteLossError: the run diverged.
    """
    config = run.make_config()
    experiment = find_experiment(config)
    with tempfile.TemporaryDirectory() as folder:
        directory = RunDirectory(Path(folder), config.to_dict(), seed)
        trainer = experiment.build_trainer(seed, directory, _say)
        try:
            updates = list(trainer)
        finally:
            trainer.close()
        values = summarize(updates)
        if config.runtime.schedule == "async":  # losses then depend on the speed of the machine
            values = {name: value for name, value in values.items() if name.startswith(("return", "episodes"))}
        if run.episodes:
            environments = min(run.episodes, 10)
            policy, environment, _ = experiment.load_policy(
                directory.checkpoints, environments, EVALUATION_SEED + seed, _say
            )
            with contextlib.closing(environment):
                games = play(policy, environment, run.episodes, EVALUATION_SEED + seed, lambda _: None)
            values["evaluation"] = float(np.mean([game.score for game in games]))
    return values


def summarize(updates: Sequence[Update]) -> dict[str, float]:
    """Returns the measures of a training's log.

    They are the mean return over the middle and the last third of training, the number of episodes and the mean policy
    lag. Each other logged quantity has its median over the first tenth and over the last third of the updates that
    learned (none does before the replay is filled), and the interquartile range of its values in the last third, which
    shows mistakes that do not change the median.

    Args:
        updates: all updates of a run, at least 10.
    """
    returns = np.array([update.mean_return for update in updates])
    third = len(updates) // 3
    values = {
        "return, middle third": _mean(returns[third : 2 * third]),
        "return, last third": _mean(returns[2 * third :]),
        "episodes": float(updates[-1].games),
        "policy lag": _mean(np.array([update.lag for update in updates])),
    }
    learning = [update for update in updates if np.isfinite(update.scalars["loss"])]
    if not learning:
        return values | {"loss, last third": float("nan")}
    tenth, third = max(1, len(learning) // 10), max(1, len(learning) // 3)
    for name in learning[0].scalars:
        logged = np.array([update.scalars[name] for update in learning])
        low, high = np.percentile(logged[-third:], (25, 75))
        values[f"{name}, first tenth"] = float(np.median(logged[:tenth]))
        values[f"{name}, last third"] = float(np.median(logged[-third:]))
        values[f"{name}, spread"] = float(high - low)
    return values


def _mean(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(np.mean(finite)) if len(finite) else float("nan")


def _say(line: str) -> None:
    print(line, file=sys.stderr)
