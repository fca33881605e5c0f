"""Evaluation of a trained policy on each of its tasks, and the file that keeps it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tf_agents.policies import tf_policy

from repro.acting.evaluation import play
from repro.acting.rollout import Episode
from repro.acting.supervision import log_traceback
from repro.environments.batched import BatchedEnvironment, one_line
from repro.environments.make import make_evaluation_environment
from repro.evidence.statistics import sample_std
from repro.training.experiment import Experiment, TrainedPolicy
from repro.training.progress_line import ProgressLine, format_score
from repro.training.run_directory import write_json


class EvaluationError(RuntimeError):
    """A task could not be played to the end."""


def evaluate_tasks(
    experiments: Mapping[str, Experiment],
    trained: TrainedPolicy,
    episodes: int,
    seed: int,
    run_dir: Path,
    together: bool,
) -> dict[str, dict[str, Any]]:
    """Evaluates one task after the other, and writes `evaluation.json` after each.

    The file says how many updates are behind the weights, since the run may have gone on meanwhile.

    Args:
        experiments: of each task.
        trained: policy for all of them, and games of the first, which are closed after them.
        episodes, seed: as for `evaluate_task`.
        run_dir: folder of the run.
        together: whether the agent learned several tasks.

    Returns:
        the evaluation of each task.

    Raises:
        EvaluationError: an environment or the policy failed; the message says where the traceback is, and what is kept.
        RunDirectoryError: the disk is full or not writable.
    """
    evaluations: dict[str, dict[str, Any]] = {}
    policy, environment, updates = trained
    path, num_envs = run_dir / "evaluation.json", environment.num_envs
    for task, own in experiments.items():
        try:
            if evaluations:
                environment = make_evaluation_environment(own.config, num_envs, seed)
            evaluations[task] = evaluate_task(own, policy, environment, episodes, seed)
        except Exception as error:  # an environment may raise anything
            log = log_traceback(run_dir / "evaluation_errors.txt")
            kept = f"; {path} has the tasks before it" if evaluations else ""
            raise EvaluationError(
                f"the evaluation on {task} failed with {type(error).__name__}: {one_line(error)}{log}{kept}."
            ) from error
        write_json(path, {"updates": updates} | ({"tasks": evaluations} if together else evaluations[task]))
        environment.close()
    return evaluations


def evaluate_task(
    experiment: Experiment, policy: tf_policy.TFPolicy, environment: BatchedEnvironment, episodes: int, seed: int
) -> dict[str, Any]:
    """Plays episodes of one task, with a line that shows how far it is.

    Args:
        experiment: of this task.
        policy: chooses the actions.
        environment: its games.
        episodes: in all, a multiple of the number of environments.
        seed: of the policy's sampling.

    Returns:
        `evaluation` of a record.
    """
    scores: list[float] = []
    with contextlib.closing(ProgressLine(f"Evaluating {experiment.config.env.task}", episodes, "episodes")) as line:

        def show(game: Episode) -> None:
            scores.append(game.score)
            line.update(len(scores), f"mean return {format_score(float(np.mean(scores)))}")

        games = play(policy, environment, episodes, seed, show)
    returns = [game.score for game in games]
    return {
        "protocol": experiment.describe_evaluation(episodes),
        "episodes": episodes,
        "unit": experiment.evaluation.unit,
        "mean": float(np.mean(returns)),
        "std": sample_std(returns),
        "returns": returns,
    }
