"""Makes the job of a run from the run's name."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import ml_collections

from repro import cli
from repro.config import PROCESSES, agents, tasks, use_processes
from repro.environments.names import check_package
from repro.evidence import random_player
from repro.evidence.commands import Run
from repro.evidence.records import COMMITTED, is_elsewhere
from repro.evidence.staleness import config_path
from repro.files import locate
from repro.launch.population_job import PopulationJob
from repro.launch.random_job import RandomJob
from repro.launch.recorded_job import RecordedJob
from repro.launch.study_job import StudyJob
from repro.launch.training_job import TrainingJob

CONFIGS = Path("paper_configs")


def default_results_dir(scale: str, runs_dir: Path) -> Path:
    """Returns the default folder of the records of a scale.

    Records of smoke scale only show that everything runs: they are stored beside their runs, outside version control.
    """
    return runs_dir / "records" if scale == "smoke" else COMMITTED


def papers() -> list[str]:
    """Returns the names of the papers that have experiments."""
    return sorted(path.name for path in CONFIGS.iterdir() if any(path.glob("[a-z]*.py")))


def experiments(paper: str) -> list[str]:
    """Returns the names of a paper's experiments.

    Raises:
        ValueError: the paper has none; the message names the papers that have some. Or this is not the root folder.
    """
    if not CONFIGS.is_dir():
        raise ValueError(f"there is no folder {CONFIGS} here: run the command in the root folder of the suite.")
    known = sorted(path.stem for path in (CONFIGS / paper).glob("*.py") if path.stem != "__init__")
    if not known:
        others = papers()
        near = cli.nearest(paper, others)
        raise ValueError(f"no experiments for paper {paper!r}{near} (there are some for {', '.join(others)})")
    return known


def load_config(paper: str, experiment: str, scale: str) -> ml_collections.ConfigDict:
    """Returns an experiment's configuration at a scale.

    Args:
        paper: paper of the experiment.
        experiment: name in `paper_configs/<paper>`, or path of a file elsewhere, which is then the experiment's name.
        scale: `smoke`, `desk` or `paper`.

    Raises:
        ValueError: there is no such paper, experiment or scale (the message names similar ones or all); the file cannot
            be loaded; or the configuration's fields `paper`, `experiment` and `scale`, by which runs and records find
            it, have other values.
        SystemExit: a file elsewhere is missing or cannot be loaded; a sentence about it has been printed.
    """
    if is_elsewhere(experiment):
        config = _load_own(experiment, scale).copy_and_resolve_references()
        config.experiment = experiment
    else:
        known = experiments(paper)
        if experiment not in known:
            raise ValueError(
                f"no experiment {experiment!r} in {CONFIGS / paper}{cli.nearest(experiment, known)} "
                f"(there are {', '.join(known)})"
            )
        config = _load_suite(paper, experiment, scale).copy_and_resolve_references()
    for name, asked in (("paper", paper), ("experiment", experiment), ("scale", scale)):
        if config.get(name) != asked:
            file = config_path(paper, experiment, CONFIGS)
            raise ValueError(f"{file}: config.{name} must be {asked!r}, got {config.get(name)!r}.")
    return config


def name_of_file(paper: str, path: str) -> str:
    """Returns the name of a file's experiment: without `.py` for a file in `paper_configs/<paper>`, else the path.

    Raises:
        ValueError: the path has characters that are not allowed in records and commands.
    """
    place = Path(os.path.relpath(path))
    if Path(path).resolve().parent == (CONFIGS / paper).resolve():
        return place.stem
    name = os.path.abspath(path) if ".." in place.parts else str(place)
    if not re.fullmatch(r"[\w./-]*\w\.py", name, re.ASCII):
        raise ValueError(f"--experiment={path}: a path may only have the characters _ . / -, letters and digits.")
    return name


def check_is_everywhere(paper: str, experiment: str) -> None:
    """Checks that an experiment exists on all machines of a cluster, so that whole runs of it can be made there.

    Raises:
        ValueError: the experiment is a file outside the suite.
    """
    if is_elsewhere(experiment):
        raise ValueError(f"other machines do not have {experiment}; move it to {CONFIGS / paper}.")


@functools.cache
def _load_own(path: str, scale: str) -> ml_collections.ConfigDict:
    """Returns the configuration in a user's file; cached, since comparing it with all of the suite's takes time."""
    return cli.load_config(f"{path}:{scale}")


def _load_suite(paper: str, experiment: str, scale: str) -> ml_collections.ConfigDict:
    """Returns the configuration in a file of the suite, which users may have edited.

    Raises:
        ValueError: there is no such scale, or the file cannot be loaded; the message names the line.
    """
    module = f"paper_configs.{paper}.{experiment}"
    try:
        get_config = importlib.import_module(module).get_config
        return _make_config(get_config, scale)
    except ValueError:  # an error that the file raises for its arguments
        raise
    except Exception as error:  # for any other error of the file, the message says where and why
        spec = importlib.util.find_spec(module)
        raise ValueError(locate(error, spec.origin if spec else None)) from error


@functools.cache
def _make_config(get_config: Callable[[str], ml_collections.ConfigDict], scale: str) -> ml_collections.ConfigDict:
    """Returns a configuration, which is made once and copied for each job."""
    return get_config(scale)


def played_tasks(config: ml_collections.ConfigDict, task: str, agent: str) -> Sequence[str]:
    """Returns the tasks for which an agent has a run each: only `task`, or all tasks of a set for a random player.

    Args:
        config: configuration of the experiment.
        task: name of a task, or of the set of tasks that other agents learn together.
        agent: an agent of the experiment, or the random player.
    """
    alone = agent == random_player.AGENT and task == config.env.task
    return (tasks(config) if alone else ()) or (task,)


def check_agents(config: ml_collections.ConfigDict, names: Sequence[str]) -> None:
    """Checks that an experiment has the named agents; every experiment has the random player.

    Raises:
        ValueError: the experiment lacks one of them; the message names the most similar one and all.
    """
    known = agents(config)
    for name in names:
        if name not in (*known, random_player.AGENT):
            raise ValueError(
                f"no agent {name!r} in {config.experiment}{cli.nearest(name, list(known))} (known: {', '.join(known)})"
            )


def check_modules(jobs: Iterable[RecordedJob]) -> None:
    """Checks that the optional modules that jobs need are installed.

    Raises:
        MissingModuleError: DeepMind Lab or ViZDoom is missing; the message says how to get it.
    """
    for package in {job.config.env.get("name") for job in jobs if "study" not in job.config}:  # a study plays nothing
        check_package(package)


def has_remote_actors(config: ml_collections.ConfigDict, agent: str) -> bool:
    """Returns whether an agent of an experiment has actors that can run in separate processes."""
    if "study" in config or "population" in config or agent == random_player.AGENT:
        return False
    config = config.copy_and_resolve_references()
    config.agent = agent
    try:
        use_processes(config)
    except ValueError:
        return False
    from repro.papers import find_experiment  # imported here, as most commands need no TensorFlow
    from repro.training.experiment import RemoteActing

    experiment = find_experiment(config)
    return isinstance(experiment, RemoteActing) and PROCESSES in experiment.SCHEDULES


def make_job(run: Run, results_dir: Path, runs_dir: Path, cluster: str | None = None) -> RecordedJob:
    """Returns the job of a run.

    Args:
        run: name of the run, with the task in any spelling; the agent of a study is ignored, since one job records all
            answers of the study.
        results_dir: root of the records.
        runs_dir: root of the run folders.
        cluster: address of a Ray cluster on which the actors play, as for `TrainingJob`; None for this machine.

    Raises:
        ValueError: there is no such paper, experiment, scale, agent or task, or the agent has no actors that could play
            on a cluster.
    """
    config = load_config(run.paper, run.experiment, run.scale)
    if cluster and ("study" in config or "population" in config or run.agent == random_player.AGENT):
        raise ValueError(
            f"--spread=actors: {run.agent} in {run.experiment} has no actors that could run as separate processes."
        )
    if "study" in config:
        return StudyJob(config, run.task, run.seed, results_dir)
    check_agents(config, [run.agent])
    if run.agent == random_player.AGENT:
        return RandomJob(config, run.task, run.seed, results_dir)
    config.agent = run.agent
    job = PopulationJob if "population" in config else TrainingJob
    return job(config, run.task, run.seed, results_dir, runs_dir, cluster)
