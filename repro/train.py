"""Trains one run: `python -m repro.train --config=paper_configs/impala/atari_shallow.py:desk --run_dir=runs/x`."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import ml_collections
from absl import flags

from repro import cli
from repro.config import (
    MAX_SEED,
    PROCESSES,
    budget,
    check_numbers,
    flatten,
    missing_field,
    resolve,
    tasks,
    total_budget,
    use_processes,
)
from repro.training.stopping import UPDATE, StopSignal

if TYPE_CHECKING:
    from repro.training.experiment import Experiment
    from repro.training.progress import Progress
    from repro.training.run_directory import RunDirectory
    from repro.training.sizes import Machine
    from repro.training.trainer import Trainer

CONFIG = cli.define_config()
SEED = flags.DEFINE_integer(
    "seed", 1, "Seed of weights, environments and actions.", lower_bound=0, upper_bound=MAX_SEED
)
RUN_DIR = flags.DEFINE_string(
    "run_dir",
    None,
    "Required. Folder of the run; a folder that holds a run resumes it, also without --config.",
    required=True,
)
CLUSTER = flags.DEFINE_string(
    "cluster",
    None,
    "Ray cluster on which the actors play: ray://<head>:10001, or auto for this machine's or else a new one.",
)
PORT = flags.DEFINE_integer("cluster_port", 0, "Port of this machine for actors on a cluster; 0 for a free one.", 0)


OPEN_PORTS = (
    "Actors are processes on this machine, but the ports of {} are open on all of its network interfaces, without "
    "authentication: close them with a firewall."
)
SIZED = ("learner", "memory", "network", "ppo", "replay", "runtime")
"""Sections of a configuration whose sizes determine the memory of a run."""
STOPPING = "Stopping as soon as the current work ends, within half a minute, or once a checkpoint is written."


def main(argv: list[str]) -> None:
    del argv
    stop = StopSignal(lambda: _say(STOPPING), lambda unended: _say(_describe_stop(None, unended)))
    run_dir = Path(RUN_DIR.value)
    opened = _open_folder(run_dir)
    if opened is None:
        return
    run, config, seed = opened
    cli.load_tensorflow()

    import tensorflow as tf

    from repro.acting.supervision import ActorPoolError, EnvironmentFailedError
    from repro.training.checkpoint import CheckpointError
    from repro.training.learner import NonFiniteLossError
    from repro.training.learner_group import LearnerLostError
    from repro.training.run_directory import RunDirectoryError
    from repro.training.trailing_returns import NoEpisodeError

    try:
        trainer, progress = _open_run(run, config, seed)
    except (RunDirectoryError, CheckpointError, ValueError) as error:
        run.remove_new()
        cli.fail(error)
    except LearnerLostError as error:
        cli.fail(f"{str(error).rstrip('.')}. {_describe_checkpoint(run_dir)}", code=1)
    except (MemoryError, tf.errors.ResourceExhaustedError) as error:
        run.remove_new()
        cli.fail(f"{_describe_shortage(error, config)} {_describe_checkpoint(run_dir)}", code=1)
    except (AttributeError, KeyError) as error:
        if missing_field(error) is not None:
            run.remove_new()
        cli.fail_for_missing_field(error, config)
    began_at, lost = trainer.updates, False
    stop.attach(trainer, lambda unended: _say(_describe_stop(trainer, unended)))
    if trainer.updates:
        _say(_describe_resume(run_dir, trainer, progress.lost))
    try:
        for update in trainer:
            progress(update)
            if stop.is_set() and trainer.can_save and not trainer.complete:
                break
        if trainer.complete:
            run.complete(trainer.summary())
        elif trainer.saved_updates < trainer.updates:
            trainer.save()
    except LearnerLostError as error:
        progress.close()
        lost = trainer.saved_updates > began_at and not stop.is_set()
        if not lost:
            cli.fail(_describe_fault(error, run, trainer), code=1)
        _say(f"{error} All learners start again from the last checkpoint.")
    except (
        ActorPoolError,
        CheckpointError,
        EnvironmentFailedError,
        NoEpisodeError,
        NonFiniteLossError,
        OSError,
        RunDirectoryError,
    ) as error:
        progress.close()
        cli.fail(_describe_fault(error, run, trainer), code=1)
    except (MemoryError, tf.errors.ResourceExhaustedError) as error:
        progress.close()
        cli.fail(f"{_describe_shortage(error, config)} {_describe_checkpoint(run_dir)}", code=1)
    finally:
        progress.close()
        trainer.close()
    if lost:
        _start_again(stop)
    if trainer.complete:
        _say(_describe_end(run, trainer))
    else:
        _say(_describe_stop(trainer, UPDATE if lost else None))
    if lost:
        sys.exit(1)


def _open_folder(run_dir: Path) -> tuple[RunDirectory, ml_collections.ConfigDict, int] | None:
    """Returns folder, configuration and seed of the run that the flags name; None, with a message, if it is complete.

    Fails if another process uses the folder, if it holds another run, or if a field has a value that can be recognized
    as impossible without TensorFlow.
    """
    from repro.environments.names import task_names
    from repro.training.run_directory import RunDirectory, RunDirectoryError
    from repro.training.sizes import fill_in

    config, seed = _read_settings(run_dir)
    try:
        if "study" in config:
            study = cli.command("repro.reproduce", f"--paper={config.paper}", f"--experiment={config.experiment}")
            raise ValueError(f"the configuration is of a study, which trains nothing; run it with: {study}")
        if "population" in config:
            raise ValueError(f"the configuration is of a population; train it with {cli.command('repro.population')}.")
        if CLUSTER.value:
            use_processes(config)
            _check_sizes_for_cluster(config)
        check_numbers(resolve(config))
        task_names(config.env.name, tasks(resolve(config)) or (config.env.task,))
        if chosen := fill_in(config, run_dir, _find_machine):
            _say(chosen)
        run = RunDirectory(run_dir, config.to_dict(), seed)
        if run.complete_json.exists():
            _say(_describe_complete(run_dir, budget(config)[0]))
            return None
        _say(_describe_start(run, config, seed))
    except (RunDirectoryError, ValueError) as error:
        cli.fail(error)
    except (AttributeError, KeyError) as error:
        cli.fail_for_missing_field(error, config)
    return run, config, seed


def _find_machine() -> Machine:
    """Returns the resources of this process; loads TensorFlow, which is needed only for this."""
    cli.load_tensorflow()
    from repro.training import devices

    return devices.find_machine()


def _open_run(run: RunDirectory, config: ml_collections.ConfigDict, seed: int) -> tuple[Trainer, Progress]:
    """Returns the trainer of a run, at its beginning or restored from its last checkpoint, and its progress log.

    Raises:
        RunDirectoryError: the disk is full or not writable.
        CheckpointError: no checkpoint is valid.
        LearnerLostError: another learner did not join.
        ValueError: a field has an impossible value.
    """
    from repro.papers import find_experiment
    from repro.training import devices
    from repro.training.evaluator_setup import evaluator_episodes
    from repro.training.experiment import SynchronousLearning
    from repro.training.progress import Progress

    experiment = find_experiment(config)
    runtime = experiment.config.runtime
    evaluator_episodes(experiment.config)  # checks the field for all agents
    experiment.describe_evaluation(experiment.evaluation.episodes, "")  # reads fields that are needed after training
    if runtime.get("num_learners", 1) > 1 and not isinstance(experiment, SynchronousLearning):
        learners = f"runtime.num_learners={runtime.num_learners}"
        raise ValueError(f"{learners}: choose 1, since agent {config.agent} has only one learner.")
    devices.configure_threads(deterministic=runtime.schedule == "lockstep", threads=runtime.get("threads", 0))
    if runtime.schedule == PROCESSES and not CLUSTER.value:
        _say(OPEN_PORTS.format("Reverb and TensorFlow" if runtime.get("num_learners", 1) > 1 else "Reverb"))
    trainer = _build_on_cluster(experiment, seed, run) if CLUSTER.value else experiment.build_trainer(seed, run, _say)
    label = f"{config.agent} {config.env.task} seed {seed}"
    totals = trainer.total_updates, trainer.frames_per_update, trainer.updates
    return trainer, Progress(run, *totals, label, trainer.unit, trainer.progress_scalars)


def _build_on_cluster(experiment: Experiment, seed: int, run: RunDirectory) -> Trainer:
    """Returns the trainer of a run with actors on the cluster that the flags name; they end with this process.

    Raises:
        ValueError: there is no cluster, the agent has no actors for it, or a field has an impossible value.
        CheckpointError: no checkpoint is valid.
    """
    from repro.launch.ray_actors import RayActors
    from repro.training.evaluator_setup import evaluator_episodes
    from repro.training.experiment import RemoteActing

    if not isinstance(experiment, RemoteActing):
        raise ValueError(f"--cluster: {experiment.config.agent} has no actors that could run as separate processes.")
    assert CLUSTER.value is not None
    launcher = RayActors(CLUSTER.value, experiment.config.to_dict(), seed, PORT.value)
    runtime = experiment.config.runtime
    evaluates = evaluator_episodes(experiment.config) > 0
    _say(launcher.describe(runtime.num_actors, runtime.get("num_learners", 1), evaluates))
    return experiment.build_trainer(seed, run, _say, launcher)


def _check_sizes_for_cluster(config: ml_collections.ConfigDict) -> None:
    """Raises ValueError if the number of actors would be chosen for this machine, on which none of them plays."""
    runtime = resolve(config).runtime
    for name in ("num_actors", "envs_per_actor"):
        if runtime.get(name) == 0:
            raise ValueError(f"runtime.{name}=0 depends on the cores of this machine; choose a number with --cluster.")


def _read_settings(run_dir: Path) -> tuple[ml_collections.ConfigDict, int]:
    """Returns configuration and seed from the flags, or without `--config` those with which the run was started."""
    from repro.training.run_directory import RunDirectoryError, read_settings

    if CONFIG.value is not None:
        return CONFIG.value, SEED.value
    try:
        settings = read_settings(run_dir)
    except RunDirectoryError as error:
        cli.fail(f"{str(error).rstrip('.')}; start one with --config, see {cli.command('repro.train', '--help')}.")
    return ml_collections.ConfigDict(settings["config"]), SEED.value if SEED.present else settings["seed"]


def _start_again(stop: StopSignal) -> None:
    """Replaces this process by the same command, since TensorFlow cannot exchange gradients again after a fault.

    Returns only if the run was asked to stop meanwhile.
    """
    from repro.launch import ray_cluster

    ray_cluster.leave()
    if not stop.is_set():
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _describe_fault(error: Exception, run: RunDirectory, trainer: Trainer) -> str:
    """Returns the message for an error that ends a run, with its last checkpoint; marks a diverged run as complete."""
    if isinstance(error, OSError):
        return f"{cli.describe_file_error(error, run.path)}. {_describe_checkpoint(run.path)}"
    from repro.training.learner import NonFiniteLossError

    reason = str(error)
    message = f"{reason.rstrip('.')}. {_describe_checkpoint(run.path)}"
    if not isinstance(error, NonFiniteLossError):
        return message
    if _end_diverged(run, trainer, reason):
        return f"{message} The run has diverged: it ends here and counts as it is."
    return f"{message} Try a smaller learning rate, and look for NaN in an environment of your own."


def _describe_shortage(error: Exception, config: ml_collections.ConfigDict) -> str:
    """Returns the message for a lack of memory: what did not fit, and the run's largest sizes."""
    text = " ".join(str(error).split()).rstrip(".")
    array = re.search(r"OOM when allocating tensor with shape ?\[[\d,]*\]", text)  # part of a long message
    detail = array[0] if array else text[:200] or type(error).__name__
    fields = {name: value for name, value in flatten(resolve(config)).items() if name.split(".")[0] in SIZED}
    sizes = {name: _largest(value) for name, value in fields.items()}
    largest = sorted(sizes, key=lambda name: sizes[name], reverse=True)[:3]
    return (
        f"there is not enough memory ({detail}): choose smaller sizes, of which the largest are "
        f"{', '.join(f'{name}={fields[name]}' for name in largest)}."
    )


def _largest(value: object) -> int:
    """Returns the largest whole number in a field, or 0."""
    values = value if isinstance(value, (list, tuple)) else (value,)
    return max((x for x in values if isinstance(x, int) and not isinstance(x, bool)), default=0)


def _end_diverged(run: RunDirectory, trainer: Trainer, reason: str) -> bool:
    """Marks a diverged run as complete; returns False if it has no checkpoint or no game, or the disk is full."""
    from repro.training.run_directory import RunDirectoryError, has_saved
    from repro.training.trailing_returns import NoEpisodeError

    if not has_saved(run.path):
        return False
    try:
        run.complete(trainer.summary() | {"diverged": reason})
    except (NoEpisodeError, RunDirectoryError):
        return False
    return True


def _describe_start(run: RunDirectory, config: ml_collections.ConfigDict, seed: int) -> str:
    """Returns the message before TensorFlow is loaded, which takes seconds."""
    from repro.training.run_directory import has_saved

    unit, amount = total_budget(resolve(config))
    begins = "from its last checkpoint" if has_saved(run.path) else "from the beginning"
    return f"Training {config.agent} on {config.env.task}, seed {seed}, for {amount:,} {unit} in {run.path}, {begins}."


def _describe_resume(run_dir: Path, trainer: Trainer, lost: int) -> str:
    """Returns the message of a resumed run; `lost` is the part of its budget that was logged after the checkpoint."""
    message = f"Resuming {run_dir} at {trainer.frames:,} {trainer.unit}."
    return f"{message} At least {lost:,} {trainer.unit} that came after this checkpoint are lost." if lost else message


def _describe_end(run: RunDirectory, trainer: Trainer) -> str:
    """Returns the message of a complete run; the command to evaluate it is left out if another command started it."""
    from repro.training.progress_line import format_score
    from repro.training.trainer import RECENT_GAMES

    games = trainer.episodes.games
    last = f"of the last {min(games, RECENT_GAMES)} episodes" if games > 1 else "of its only episode"
    score = f"mean return {format_score(trainer.episodes.mean_return())} {last}" if games else "no episode ended"
    if found := trainer.summary().get("evaluation"):
        of_one = found["protocol"].startswith("the last episode")
        played = found["protocol"] if of_one else f"{found['episodes']} {found['protocol']}"
        score += f". Its score is {format_score(found['mean'])}, {'that' if of_one else 'the mean'} of {played}"
    message = (
        f"{run.path} is complete after {trainer.frames:,} {trainer.unit}: {score}. "
        f"Its last checkpoint is in {run.checkpoints}."
    )
    if trainer.actor_restarts:
        message += f" Restarted actors: {trainer.actor_restarts}, see {run.actors}."
    if cli.has_parent():
        return message
    return f"{message} Evaluate it with: {cli.command('repro.evaluate', f'--run_dir={run.path}')}"


def _describe_complete(run_dir: Path, unit: str) -> str:
    from repro.training.run_directory import CHECKPOINTS, COMPLETE, newest_first, read_complete

    complete_json, reason = run_dir / COMPLETE, read_complete(run_dir).get("diverged")
    evaluate = f"Evaluate it with: {cli.command('repro.evaluate', f'--run_dir={run_dir}')}."
    if not newest_first(run_dir / CHECKPOINTS):
        evaluate = "It cannot be evaluated, since its checkpoints are gone."
    if reason:
        return (
            f"{run_dir} has diverged ({reason}), see {complete_json}. {evaluate} Another try needs another --run_dir."
        )
    return (
        f"{run_dir} is complete, see {complete_json}. {evaluate} "
        f"A longer run is a new one, with a larger budget (--config.num_env_{unit}) and another --run_dir."
    )


def _describe_checkpoint(run_dir: Path) -> str:
    from repro.training.run_directory import has_saved

    return f"The last good checkpoint is in {run_dir / 'checkpoints'}." if has_saved(run_dir) else "Nothing was saved."


def _describe_stop(trainer: Trainer | None, unended: str | None) -> str:
    """Returns the message of a stopped run; it does not access the run's folder, whose disk may hang.

    The command to go on is left out if another command started this one.

    Args:
        trainer: trainer of the run; None if it was still being built.
        unended: as in `StopSignal.attach`.
    """
    if trainer is None:
        message, verb = "Stopped while loading; the run is as it was before.", "Start again"
    elif not trainer.has_checkpoint:
        message, verb = "Stopped before anything was saved.", "Start again"
    else:
        message = f"Stopped at the last checkpoint, since {unended}." if unended else "Stopped and saved."
        verb = "Resume"
    return message if cli.has_parent() else f"{message} {verb} with: {cli.command('repro.train', *sys.argv[1:])}"


def _say(message: str) -> None:
    print(message, file=sys.stderr)


if __name__ == "__main__":
    cli.run(main)
