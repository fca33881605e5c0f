"""From the name of a run to the job that makes its record."""

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
    """Returns where the records of a scale lie where nothing else is said.

    Those of smoke scale prove the path: they stay beside their runs and out of version control.
    """
    return runs_dir / "records" if scale == "smoke" else COMMITTED


def experiments(paper: str) -> list[str]:
    """Returns the names of a paper's experiments.

    Raises:
        ValueError: it has none; the message names the papers that have some.
    """
    known = sorted(path.stem for path in (CONFIGS / paper).glob("*.py") if path.stem != "__init__")
    if not known:
        papers = sorted(path.name for path in CONFIGS.iterdir() if any(path.glob("[a-z]*.py")))
        near = cli.nearest(paper, papers)
        raise ValueError(f"no experiments for paper {paper!r}{near} (there are some for {', '.join(papers)})")
    return known


def load_config(paper: str, experiment: str, scale: str) -> ml_collections.ConfigDict:
    """Returns an experiment's configuration at a scale.

    Args:
        paper: whose experiment it is.
        experiment: its name in `paper_configs/<paper>`, or the path of a file elsewhere, which is then its name.
        scale: smoke, desk or paper.

    Raises:
        ValueError: there is no such paper, experiment or scale, and the message names the nearest ones or all; the file
            cannot be loaded; or the configuration has another paper, scale or name of its file than these, by which
            runs and records find it.
        SystemExit: a file elsewhere is missing or cannot be loaded, after a sentence that says so.
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
            raise ValueError(f"{file}: config.{name} is {config.get(name)!r} and must be {asked!r}.")
    return config


def name_of_file(paper: str, path: str) -> str:
    """Returns the name of the experiment in a file: in `paper_configs/<paper>` without `.py`, elsewhere the path.

    Raises:
        ValueError: the path has characters that names in records and commands have not.
    """
    place = Path(os.path.relpath(path))
    if Path(path).resolve().parent == (CONFIGS / paper).resolve():
        return place.stem
    name = os.path.abspath(path) if ".." in place.parts else str(place)
    if not re.fullmatch(r"[\w./-]*\w\.py", name, re.ASCII):
        raise ValueError(f"--experiment={path}: a path may have letters, digits and the characters _ . / - alone.")
    return name


def check_is_everywhere(paper: str, experiment: str) -> None:
    """Checks that other machines have an experiment whose runs are done there as a whole.

    Raises:
        ValueError: it is a file elsewhere.
    """
    if is_elsewhere(experiment):
        raise ValueError(f"other machines have no {experiment}; put it into {CONFIGS / paper}.")


@functools.cache
def _load_own(path: str, scale: str) -> ml_collections.ConfigDict:
    """The configuration in a user's file, which is compared with those of the suite once."""
    return cli.load_config(f"{path}:{scale}")


def _load_suite(paper: str, experiment: str, scale: str) -> ml_collections.ConfigDict:
    """The configuration in a file of the suite, which users may edit.

    Raises:
        ValueError: there is no such scale, or the file cannot be loaded; the message names its line.
    """
    module = f"paper_configs.{paper}.{experiment}"
    try:
        get_config = importlib.import_module(module).get_config
        return _make_config(get_config, scale)
    except ValueError:  # what the file itself says of its arguments
        raise
    except Exception as error:  # whatever a file may raise, its writer learns where and why
        spec = importlib.util.find_spec(module)
        raise ValueError(locate(error, spec.origin if spec else None)) from error


@functools.cache
def _make_config(get_config: Callable[[str], ml_collections.ConfigDict], scale: str) -> ml_collections.ConfigDict:
    """A configuration that is made once, of which each of many jobs has a copy."""
    return get_config(scale)


def played_tasks(config: ml_collections.ConfigDict, task: str, agent: str) -> Sequence[str]:
    """Returns the tasks that an agent has a run of each on: the one, but for a random player those of a set alone.

    Args:
        config: of the experiment.
        task: name of one task, or of the set that others learn together.
        agent: one of the experiment's, or a random player.
    """
    alone = agent == random_player.AGENT and task == config.env.task
    return (tasks(config) if alone else ()) or (task,)


def check_agents(config: ml_collections.ConfigDict, names: Sequence[str]) -> None:
    """Checks that an experiment has some agents; any has a random player.

    Raises:
        ValueError: it lacks one; the message names the nearest and all.
    """
    known = agents(config)
    for name in names:
        if name not in (*known, random_player.AGENT):
            raise ValueError(
                f"no agent {name!r} in {config.experiment}{cli.nearest(name, list(known))} (known: {', '.join(known)})"
            )


def check_modules(jobs: Iterable[RecordedJob]) -> None:
    """Checks that what jobs need besides the installed packages is there.

    Raises:
        ValueError: DeepMind Lab or ViZDoom is missing; the message says how to get it.
    """
    for package in {job.config.env.get("name") for job in jobs}:
        check_package(package)


def has_remote_actors(config: ml_collections.ConfigDict, agent: str) -> bool:
    """Returns whether an agent of an experiment has actors that can be processes of their own."""
    if "study" in config or "population" in config or agent == random_player.AGENT:
        return False
    config = config.copy_and_resolve_references()
    config.agent = agent
    try:
        use_processes(config)
    except ValueError:
        return False
    from repro.papers import find_experiment  # TensorFlow is for the few commands that ask
    from repro.training.experiment import RemoteActing

    experiment = find_experiment(config)
    return isinstance(experiment, RemoteActing) and PROCESSES in experiment.SCHEDULES


def make_job(run: Run, results_dir: Path, runs_dir: Path, cluster: str | None = None) -> RecordedJob:
    """Returns the job of a run.

    Args:
        run: with the task in any spelling; of a study the agent is not read, for it has all its answers at once.
        results_dir: root of the records.
        runs_dir: root of the run folders.
        cluster: as for `TrainingJob`: its actors play there.

    Raises:
        ValueError: there is no such paper, experiment, scale, agent or task, or there are no actors for a cluster.
    """
    config = load_config(run.paper, run.experiment, run.scale)
    if cluster and ("study" in config or "population" in config or run.agent == random_player.AGENT):
        raise ValueError(f"--spread=actors: {run.agent} in {run.experiment} has no actors that could be processes.")
    if "study" in config:
        return StudyJob(config, run.task, run.seed, results_dir)
    check_agents(config, [run.agent])
    if run.agent == random_player.AGENT:
        return RandomJob(config, run.task, run.seed, results_dir)
    config.agent = run.agent
    job = PopulationJob if "population" in config else TrainingJob
    return job(config, run.task, run.seed, results_dir, runs_dir, cluster)
