"""Evaluates a run with its paper's protocol: `python -m repro.evaluate --run_dir=runs/x --episodes=200`.

An agent that learned several tasks together is evaluated on one after the other, with --episodes on each.
"""

from __future__ import annotations

import contextlib
import difflib
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_collections
from absl import flags

from repro import cli
from repro.config import MAX_SEED

if TYPE_CHECKING:
    from repro.training.experiment import Experiment

RUN_DIR = flags.DEFINE_string("run_dir", None, "Required. Folder of the run.", required=True)
EPISODES = flags.DEFINE_integer("episodes", None, "Episodes per task; the protocol's number if not given.", 1)
TASK = flags.DEFINE_list("task", [], "Some of the tasks that the agent learned together; all if not given.")
VIDEO = flags.DEFINE_string("video", None, "Also record an episode as a video in this .webm or .mp4 file.")
EXPORT = flags.DEFINE_string("export", None, "Also write the policy as a TensorFlow SavedModel to this folder.")

SEED_OFFSET = MAX_SEED + 1
"""Offset of seeds, so that evaluation games differ from the training games of any run."""


def main(argv: list[str]) -> None:
    del argv
    cli.quiet()
    check_video(VIDEO.value)
    check_export(EXPORT.value)
    run_dir = Path(RUN_DIR.value)
    settings = read_run(run_dir)
    config, config_of = read_configs(settings["config"], TASK.value)
    cli.load_tensorflow()
    import tensorflow as tf
    from tf_agents.policies.policy_saver import PolicySaver

    from repro.config import resolve, tasks
    from repro.papers import find_experiment
    from repro.training import devices
    from repro.training.checkpoint import CheckpointError
    from repro.training.evaluation import (
        AT_END,
        EvaluationError,
        describe_time,
        evaluate_tasks,
        largest_divisor,
    )
    from repro.training.run_directory import CHECKPOINTS, EVALUATION, RunDirectoryError

    try:
        by_task = {task: find_experiment(own) for task, own in config_of.items()}
        experiment = next(iter(by_task.values()))
        episodes = EPISODES.value or experiment.evaluation.episodes
        num_envs = largest_divisor(episodes, experiment.evaluation.num_envs)
        seed = SEED_OFFSET + settings["seed"]
        devices.configure_threads(deterministic=False)
        trained = experiment.load_policy(
            run_dir / CHECKPOINTS, num_envs, seed, lambda line: print(line, file=sys.stderr)
        )
        resolved = resolve(config)
        together, when = bool(tasks(resolved)), describe_time(run_dir, resolved, trained.updates)
    except (RunDirectoryError, CheckpointError, ValueError) as error:
        cli.fail(error)

    if when != AT_END:
        print(f"{run_dir}: this policy is from before the end of training, {when}.", file=sys.stderr)
    try:
        evaluations = evaluate_tasks(by_task, trained, episodes, seed, run_dir, together, when)
    except (EvaluationError, RunDirectoryError) as error:
        cli.fail(error, code=1)
    for task, found in evaluations.items():
        print(f"{task}: {describe(found)}" if together else describe(found))
    if together:
        print(describe_score(evaluations, config.evaluation.normaliser))
    try:
        if VIDEO.value:
            record_video(experiment, run_dir, settings["seed"], Path(VIDEO.value))
        if EXPORT.value:
            PolicySaver(trained.policy, batch_size=None).save(EXPORT.value)
            print(f"SavedModel: {EXPORT.value}")
    except (OSError, ValueError, RunDirectoryError, tf.errors.OpError) as error:
        path = run_dir / EVALUATION
        cli.fail(f"the evaluation is in {path}, but the video or the export failed: {error}", code=1)


def check_video(name: str | None) -> None:
    """Fails if a file name has no ending of a video; does not load TensorFlow."""
    if not name:
        return
    from repro.acting.video_file import CODECS

    if Path(name).suffix not in CODECS:
        cli.fail(f"--video={name}: the name must end in {' or '.join(CODECS)}.")


def check_export(name: str | None) -> None:
    """Fails if a file has the name of the folder for a SavedModel; does not load TensorFlow."""
    if name and Path(name).is_file():
        cli.fail(f"--export={name} is a file; choose a folder, which may be new.")


def read_configs(
    plain: Mapping[str, Any], chosen: Sequence[str]
) -> tuple[ml_collections.ConfigDict, dict[str, ml_collections.ConfigDict]]:
    """Returns the configuration of a run, and that of each task to evaluate, or fails; does not load TensorFlow.

    Args:
        plain: configuration in the run's folder.
        chosen: names of some of several tasks, as for `configs_by_task`.
    """
    from repro.environments.names import configs_by_task
    from repro.evidence.migrations import rename_config

    try:
        config = ml_collections.ConfigDict(rename_config(plain))
        return config, configs_by_task(config, chosen)
    except ValueError as error:
        cli.fail(error)


def read_run(run_dir: Path) -> dict[str, Any]:
    """Returns the settings of the run in a folder, or fails and suggests another run; does not load TensorFlow."""
    from repro.training.run_directory import LINEAGE, RunDirectoryError, is_complete, read_complete, read_settings

    try:
        settings = read_settings(run_dir)
        if (run_dir / LINEAGE).exists():
            best = read_complete(run_dir)["best"] if is_complete(run_dir) else 0
            member = cli.command("repro.evaluate", f"--run_dir={run_dir}/member_{best:02d}")
            cli.fail(f"{run_dir} holds a population; evaluate one of its members, for example with: {member}")
        if not {"agent", "env"} <= settings["config"].keys():
            raise RunDirectoryError(f"{run_dir} holds no readable run (no valid config.json).")
    except RunDirectoryError as error:
        cli.fail(f"{str(error).rstrip('.')}; give the --run_dir of a training{suggest_run(run_dir)}.")
    return settings


def suggest_run(path: Path) -> str:
    """Returns `, such as runs/x` with a run in a folder, or else one beside it with a similar name, or nothing."""
    below, beside = (
        sorted(str(file.parent) for file in folder.glob("*/config.json")) for folder in (path, path.parent)
    )
    others = [run for run in beside if run != str(path)]
    near = below[:1] or difflib.get_close_matches(str(path), others, n=1)
    return f", such as {near[0]}" if near else ""


def describe(evaluation: Mapping[str, Any]) -> str:
    """Returns mean, std and protocol of an evaluation in words."""
    from repro.training.progress_line import format_score

    mean, std, episodes = (evaluation[name] for name in ("mean", "std", "episodes"))
    mean_text, std_text = (format_score(value, max(abs(mean), std)) for value in (mean, std))
    spread, over = (f" +- {std_text}", "standard deviation over ") if episodes > 1 else ("", "")
    return f"{mean_text}{spread} ({over}{evaluation['protocol']})"


def describe_score(evaluations: Mapping[str, Mapping[str, Any]], normaliser: str) -> str:
    """Returns the mean capped human-normalised score in words.

    Args:
        evaluations: evaluation of each task.
        normaliser: name of the table of random and human scores.
    """
    from repro.evidence import published
    from repro.training.task_returns import capped_score

    references = published.normaliser(normaliser)
    score = capped_score({task: found["mean"] for task, found in evaluations.items()}, references)
    counted = sum(task in references for task in evaluations)
    over = "1 task" if counted == 1 else f"{counted} tasks"
    return f"Mean capped human-normalised score over {over}: {score:.1f} %" if counted else "No task has a human score."


def record_video(experiment: Experiment, run_dir: Path, seed: int, path: Path) -> None:
    """Plays one episode and writes its video, and a JSON file beside it that describes the policy.

    Args:
        experiment: experiment of the run.
        run_dir: folder of the run.
        seed: seed of the run.
        path: path of the video.

    Raises:
        OSError, ValueError, RunDirectoryError: a file cannot be read or written, or the environment cannot be rendered.
    """
    from repro.acting.video import record_game
    from repro.config import budget
    from repro.evidence.records import RecordError, git_commit, plain_config
    from repro.evidence.staleness import RUN_FIELDS, agent_config, config_difference
    from repro.training.run_directory import CHECKPOINTS, is_complete, is_newest, read_complete, write_json

    config = experiment.config
    unit, amount = budget(config)
    try:
        reference = agent_config(config.paper, config.experiment, config.scale, config.agent)
        changes = config_difference(plain_config(config), reference, (*RUN_FIELDS, f"num_env_{unit}"))
    except RecordError:  # an experiment or an agent of the user's own
        changes = {}
    checkpoints = run_dir / CHECKPOINTS
    policy, environment, updates = experiment.load_policy(checkpoints, 1, SEED_OFFSET + seed, lambda line: None)
    with contextlib.closing(environment):
        recording = record_game(policy, environment, SEED_OFFSET + seed, path)
    at_budget = is_complete(run_dir) and "diverged" not in read_complete(run_dir)
    trained = {f"num_env_{unit}": amount} if at_budget and is_newest(checkpoints, updates) else {}
    settings = {"seed": seed, "scale": config.scale, "changes": {name: value for name, (value, _) in changes.items()}}
    played = {"unit": experiment.evaluation.unit, **recording._asdict(), "git_commit": git_commit()}
    write_json(path.with_suffix(".json"), {**settings, **trained, **played})
    print(f"Video of {recording.extent} with return {recording.score:g}: {path}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that environments outside Python remove their files
    cli.run(main)
