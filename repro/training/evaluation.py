"""The evaluation of a run: its protocol in words, the games of its tasks, and the file of its results."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
from tf_agents.policies import tf_policy

from repro.acting.play import play
from repro.acting.rollout import Episode
from repro.acting.supervision import log_traceback
from repro.amounts import short
from repro.config import total_budget
from repro.environments.batched import BatchedEnvironment, one_line
from repro.environments.make import make_evaluation_environment
from repro.evidence.statistics import summarize_returns
from repro.training.experiment import Experiment, TrainedPolicy
from repro.training.progress_line import ProgressLine, format_score
from repro.training.run_directory import (
    CHECKPOINTS,
    EVALUATION,
    PROGRESS,
    is_complete,
    is_newest,
    read_progress,
    write_json,
)

AT_END = "after training"
"""The time of a run's own evaluation, in the words of its protocol."""


class EvaluationError(RuntimeError):
    """A task could not be played to the end."""


def largest_divisor(number: int, limit: int) -> int:
    """Returns the largest divisor of `number` that is at most `limit`."""
    return max(d for d in range(1, min(number, limit) + 1) if number % d == 0)


def score_unit(env: ml_collections.ConfigDict) -> str:
    """Returns the unit of returns in records."""
    return "game score" if env.name == "atari" else "episode return"


def describe_time(run_dir: Path, config: ml_collections.ConfigDict, updates: int) -> str:
    """Returns when in training a checkpoint was made: `AT_END`, or how much was learned from by then.

    Args:
        run_dir: folder of the run. The last checkpoint of a complete run counts as its end, also if the run diverged.
        config: resolved configuration of the run.
        updates: number of updates behind the checkpoint.
    """
    unit, amount = total_budget(config)
    rows = read_progress(run_dir / PROGRESS)
    made = round(updates * rows[-1][f"num_env_{unit}"] / rows[-1]["updates"]) if rows else 0
    if made >= amount or (is_complete(run_dir) and is_newest(run_dir / CHECKPOINTS, updates)):
        return AT_END
    if not rows:  # the first row comes after the first checkpoint
        return f"after update {updates:,}"
    return f"after {short(made)} of {short(amount)} {unit}"


def describe_games(env: ml_collections.ConfigDict, episodes: int, actions: str, when: str = AT_END) -> str:
    """Returns the protocol of an evaluation in one line, for records and tables.

    Args:
        env: section `env` of a configuration.
        episodes: number of episodes played in all.
        actions: how actions are chosen.
        when: time in training, see `describe_time`.
    """
    if env.name == "atari":
        games = "1 game" if episodes == 1 else f"{episodes} games"
        return f"{games} {when}, 1 to {env.noop_max} no-ops, {actions}, at most {env.max_frames:,} frames"
    played = "1 episode" if episodes == 1 else f"{episodes} episodes"
    if env.name == "dmlab":
        return f"{played} of {env.task} {when}, level and seeds for tests, {actions}"
    version = f"-{env.version}" if "version" in env else ""
    steps = f" of {env.max_steps} steps" if env.get("max_steps") else ""
    positions = ", positions observed" if env.get("observed") == "positions" else ""
    return f"{played}{steps} of {env.task}{version} {when}, {actions}{positions}"


def describe_window(env: ml_collections.ConfigDict) -> str:
    """Returns the protocol of an evaluation by the last games of training, with {} for the length of its window."""
    games, unit = "games" if env.name == "atari" else "episodes", "frames" if "frame_skip" in env else "steps"
    return f"{games} that ended in the last {{}} {unit} of training, actions sampled"


def evaluate_tasks(
    experiments: Mapping[str, Experiment],
    trained: TrainedPolicy,
    episodes: int,
    seed: int,
    run_dir: Path,
    together: bool,
    when: str = AT_END,
) -> dict[str, dict[str, Any]]:
    """Evaluates one task after the other, and writes `evaluation.json` after each.

    The file says how many updates are behind the weights, since the run may have gone on meanwhile, and whether the run
    was unfinished.

    Args:
        experiments: experiment of each task, by the task's name.
        trained: policy for all tasks, and environments of the first. All environments are closed, also after an error.
        episodes, seed: as for `evaluate_task`.
        run_dir: folder of the run.
        together: whether the agent learned several tasks.
        when: as for `evaluate_task`.

    Returns:
        the evaluation of each task.

    Raises:
        EvaluationError: an environment or the policy failed; the message says where the traceback is, and what is kept.
        RunDirectoryError: the disk is full or not writable.
    """
    evaluations: dict[str, dict[str, Any]] = {}
    policy, environment, updates = trained
    path, num_envs = run_dir / EVALUATION, environment.num_envs
    for task, own in experiments.items():
        with contextlib.ExitStack() as opened:
            try:
                if evaluations:
                    environment = make_evaluation_environment(own.config, num_envs, seed)
                opened.callback(environment.close)
                evaluations[task] = evaluate_task(own, policy, environment, episodes, seed, when)
            except Exception as error:  # an environment may raise anything
                log = log_traceback(run_dir / "evaluation_errors.txt")
                with contextlib.suppress(Exception):  # it may be broken
                    opened.close()
                kept = f"; {path} has the results of the tasks before it" if evaluations else ""
                raise EvaluationError(
                    f"the evaluation on {task} failed with {type(error).__name__}: {one_line(error)}{log}{kept}."
                ) from error
            about = {"updates": updates} | ({} if when == AT_END else {"unfinished": True})
            write_json(path, about | ({"tasks": evaluations} if together else evaluations[task]))
    return evaluations


def evaluate_task(
    experiment: Experiment,
    policy: tf_policy.TFPolicy,
    environment: BatchedEnvironment,
    episodes: int,
    seed: int,
    when: str = AT_END,
) -> dict[str, Any]:
    """Plays episodes of one task, with a progress line.

    Args:
        experiment: experiment of this task.
        policy: chooses the actions.
        environment: environments of this task.
        episodes: number of episodes in all, a multiple of the number of environments.
        seed: seed of the policy's sampling.
        when: time in training, see `describe_time`.

    Returns:
        the `evaluation` of a record.
    """
    scores: list[float] = []
    with contextlib.closing(ProgressLine(f"Evaluating {experiment.config.env.task}", episodes, "episodes")) as line:

        def show(game: Episode) -> None:
            scores.append(game.score)
            line.update(len(scores), lambda: f"mean return {format_score(float(np.mean(scores)))}")

        games = play(policy, environment, episodes, seed, show)
    returns = [game.score for game in games]
    return summarize_returns(experiment.evaluation.unit, experiment.describe_evaluation(episodes, when), returns)
