"""Sizes of a run that are chosen for its machine: actors, environments, threads of emulators and TensorFlow."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import ml_collections

from repro.config import CHOSEN_FIELDS, PROCESSES, resolve, resolve_plain, tasks, whole_product
from repro.training.run_directory import has_saved, read_settings

ACTORS, ACTORS_WITH_GPU = 8, 4
"""Largest numbers of actors in threads, without and with a GPU. Between two compiled calls an actor needs Python's
lock, which all threads share; a call on a GPU takes about as long for few environments as for many, so that fewer
actors with more of them are better there."""
ENVS, ENVS_WITH_GPU = 32, 64
"""Largest numbers of environments of an actor, without and with a GPU: a call for more is hardly cheaper for each of
them, and unrolls of all of them begin with the same weights."""
BATCHES, MIN_ENVS = 4, 16
"""All environments of a run fill at most `BATCHES` batches, which bounds the policy lag, but may be `MIN_ENVS` in any
case, since a call for fewer costs more for each."""
EMULATOR_THREADS_WITH_GPU = 2
"""Largest number of emulator threads per core with a GPU, where an actor's threads wait while its actions are
computed."""
LEVELS_PER_CORE = 16
"""Largest number of DeepMind Lab levels per core, each a process with some hundred megabytes."""
IN_PYTHON = ("acer_tasks", "dm_control", "gymnasium", "mujoco", "rwrl")
"""Packages of environments that are stepped in Python: a second thread would only wait for Python's lock."""


class Machine(NamedTuple):
    """What a process may use.

    cores: at least 1.
    has_gpu: whether policies and the learner compute on a GPU.
    """

    cores: int
    has_gpu: bool


class Sizes(NamedTuple):
    """Values of the fields `CHOSEN_FIELDS`, each at least 1."""

    num_actors: int
    envs_per_actor: int
    threads: int
    env_threads: int


def choose_sizes(
    machine: Machine,
    *,
    batch_size: int,
    schedule: str,
    env_name: str = "atari",
    num_tasks: int = 0,
    num_learners: int = 1,
    num_actors: int = 0,
    envs_per_actor: int = 0,
) -> Sizes:
    """Chooses the sizes that are 0 by the number of cores and the device.

    There is one actor thread per core, up to `ACTORS`: while one waits for its emulators, others compute actions. With
    a GPU there are at least two, so that one plays while the actions of another are computed, and at most
    `ACTORS_WITH_GPU`. Environments that are stepped in Python have one actor. Actor processes are one per core, except
    for a core of the learner's; they compute actions on CPUs. If it takes several actors to play all tasks, or if
    several learners share the actors, the number of actors is a multiple of both.

    The number of an actor's environments is the largest multiple or divisor of the batch size that `ENVS` and the
    policy lag (`BATCHES`) allow, so that its unrolls make up batches without a rest (`GroupSizes`). With schedule a3c
    it is one batch, since an update learns from one actor's unrolls and its worker waits for it. If tasks are learned
    together, an actor has one environment of each, so that the tasks' shares are equal whatever the number of actors
    (`share_of`). DeepMind Lab levels are bounded by the cores (`LEVELS_PER_CORE`), except for those that the smallest
    possible number of actors must have.

    All actors together have as many emulator threads as cores, and with a GPU `EMULATOR_THREADS_WITH_GPU` times as
    many, but no actor has more threads than games. TensorFlow has as many threads as cores.

    Args:
        machine: machine that plays and learns.
        batch_size: number of new unrolls in a batch, at least 1.
        schedule: `runtime.schedule`.
        env_name: package of the environments, `env.name`.
        num_tasks: number of tasks that one agent learns together; 0 for a single task.
        num_learners: number of learners, which share the batch and the actors evenly.
        num_actors, envs_per_actor: numbers to keep, at least 1; 0 to choose them.

    Raises:
        ValueError: with schedule a3c only an actor of very many environments would have whole batches of all tasks.
    """
    in_batches = max(BATCHES * batch_size, MIN_ENVS)
    bounds = [] if schedule == "a3c" else [in_batches]  # on the environments of all actors
    if env_name == "dmlab":
        bounds.append(LEVELS_PER_CORE * machine.cores)
    if not envs_per_actor and (num_tasks or schedule == "a3c"):
        envs_per_actor = math.lcm(num_tasks or 1, batch_size if schedule == "a3c" else 1)
        if envs_per_actor > max(in_batches, num_tasks):
            raise ValueError(
                f"runtime.envs_per_actor=0: with runtime.schedule=a3c an actor plays whole batches of {batch_size} "
                f"unrolls and all {num_tasks} tasks equally often, which takes {envs_per_actor} environments, too many "
                "for an actor; choose another runtime.schedule or learner.batch_size."
            )
    if not num_actors:
        turns = num_tasks // math.gcd(num_tasks, envs_per_actor) if num_tasks else 1  # actors to play all tasks
        group = math.lcm(turns, num_learners)
        most = min([_count_actors(machine, schedule, env_name), *(n // (envs_per_actor or 1) for n in bounds)])
        num_actors = max(1, most // group) * group
    on_gpu = machine.has_gpu and schedule != PROCESSES
    if not envs_per_actor:
        share = max(1, batch_size // num_learners)
        largest = max(1, min([ENVS_WITH_GPU if on_gpu else ENVS, *(n // num_actors for n in bounds)]))
        envs_per_actor = max(n for n in range(1, largest + 1) if n % share == 0 or share % n == 0)
    most_threads = machine.cores * (EMULATOR_THREADS_WITH_GPU if on_gpu else 1)
    env_threads = max(1, min(envs_per_actor, most_threads // num_actors))
    return Sizes(num_actors, envs_per_actor, threads=machine.cores, env_threads=env_threads)


def _count_actors(machine: Machine, schedule: str, env_name: str) -> int:
    if schedule == PROCESSES:
        return max(1, machine.cores - 1)
    if env_name in IN_PYTHON:
        return 1
    return min(max(2, machine.cores), ACTORS_WITH_GPU) if machine.has_gpu else min(machine.cores, ACTORS)


def take_saved(config: ml_collections.ConfigDict, run_dir: Path) -> bool:
    """Replaces fields of `CHOSEN_FIELDS` that are 0 by those that the run in a folder was saved with.

    Args:
        config: configuration, changed in place where its agent reads it.
        run_dir: folder of a run that may not have begun.

    Returns:
        Whether any field was replaced.

    Raises:
        RunDirectoryError: the folder has no readable settings.
    """
    if not _zeros(config) or not has_saved(run_dir):
        return False
    saved = read_settings(run_dir)["config"]
    before = _sizes(resolve_plain(saved, config.agent) if "variants" in saved else saved)
    found = {name: before[name] for name in _zeros(config) if before.get(name)}
    _store(config, found)
    return bool(found)


def fill_in(config: ml_collections.ConfigDict, run_dir: Path, find_machine: Callable[[], Machine]) -> str | None:
    """Replaces sizes of a configuration that are 0, by those of the run that it resumes or else for the machine.

    If only `runtime.env_threads` is 0, it stays 0, for as many threads as cores at each start.

    Args:
        config: configuration, not resolved; changed in place where its agent reads it.
        run_dir: folder of the run.
        find_machine: called if something is to be chosen.

    Returns:
        The sizes in one line, or None if none was replaced.

    Raises:
        ValueError: a size is below 0, there is no learner, the agent's number of environments is a part of its
            algorithm, or as for `choose_sizes`.
        RunDirectoryError: the folder has no readable settings.
    """
    for name, size in _sizes(resolve(config)).items():
        if size < 0:
            raise ValueError(f"runtime.{name}={size}: choose 1 or more, or 0 to have it chosen for this machine.")
    if (num_learners := resolve(config).get("runtime", {}).get("num_learners", 1)) < 1:
        raise ValueError(f"runtime.num_learners={num_learners}: choose 1 or more.")
    if set(_zeros(config)) <= {"env_threads"}:
        return None
    was_saved = take_saved(config, run_dir)
    zeros = _zeros(config)
    if set(zeros) <= {"env_threads"}:
        return f"Sizes of the run in {run_dir}: {_describe(config)}." if was_saved else None
    machine = find_machine()
    sizes = choose_sizes(machine, **_needs(config))._asdict()
    _store(config, {name: sizes[name] for name in zeros})
    return f"Chosen for {_count(machine.cores, 'core')}{' and a GPU' if machine.has_gpu else ''}: {_describe(config)}."


def _sizes(config: Mapping[str, Any] | ml_collections.ConfigDict) -> dict[str, int]:
    """The fields of `CHOSEN_FIELDS` that a resolved configuration has and reads, with their values."""
    section, env = config.get("runtime", {}), config.get("env", {})
    unread = () if env.get("name") == "atari" else ("env_threads",)  # only emulators have threads
    return {name: section.get(name) for name in CHOSEN_FIELDS if name in section and name not in unread}


def _zeros(config: ml_collections.ConfigDict) -> list[str]:
    """The names of the agent's sizes that are 0."""
    return [name for name, size in _sizes(resolve(config)).items() if size == 0]


def _store(config: ml_collections.ConfigDict, values: dict[str, int]) -> None:
    """Sets fields of `runtime` where the agent reads them: in its variant, or for all agents."""
    own = config.get("variants", {}).get(config.agent, {}).get("runtime", {})
    for name, value in values.items():
        (own if name in own else config.runtime)[name] = value


def _needs(config: ml_collections.ConfigDict) -> dict[str, Any]:
    """Arguments of `choose_sizes` from a configuration.

    Raises:
        ValueError: its number of environments is a part of its algorithm.
    """
    config = resolve(config)
    learner = config.get("learner", {})
    given = {name: size for name, size in _sizes(config).items() if name in ("num_actors", "envs_per_actor")}
    missing = [name for name, value in given.items() if value == 0]
    if missing and "steps_per_update" in learner:
        raise ValueError(
            f"runtime.{missing[0]}=0: exploration and learning of agent {config.agent} depend on its number of "
            "environments, which therefore is not chosen for the machine: choose 1 or more."
        )
    batch_size = learner.get("batch_size", 1)
    replayed = whole_product(config.get("replay", {}).get("fraction", 0.0), batch_size) or 0
    return {
        "batch_size": max(1, batch_size - replayed),
        "schedule": config.runtime.schedule,
        "env_name": config.env.name,
        "num_tasks": len(tasks(config)),
        "num_learners": config.runtime.get("num_learners", 1),
        **given,
    }


def _describe(config: ml_collections.ConfigDict) -> str:
    """The sizes that a run of this configuration has, in words."""
    sizes, words = _sizes(resolve(config)), []
    if "num_actors" in sizes:
        environments = _count(sizes["envs_per_actor"], "game" if config.env.name == "atari" else "environment")
        words.append(f"{_count(sizes['num_actors'], 'actor')} of {environments}")
    if sizes.get("env_threads"):
        each = " each" if sizes.get("num_actors", 1) > 1 else ""
        words.append(_count(sizes["env_threads"], "emulator thread") + each)
    if sizes.get("threads"):
        words.append(_count(sizes["threads"], "TensorFlow thread"))
    return ", ".join(words)


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"
