"""Tests whether a record is stale: its config and behaviour version are compared with the present ones."""

import functools
import importlib.util
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

from repro.config import MACHINE_FIELDS, flatten, is_chosen, resolve_plain
from repro.evidence import behaviour, random_player
from repro.evidence.records import ROOT, RecordError, is_elsewhere, plain_config

CONFIGS_DIR = ROOT / "paper_configs"
ABSENT = "absent"
"""Value that stands for a field that a config does not have."""
RUN_FIELDS = ("env.task", "seed", *MACHINE_FIELDS)
"""Fields that may differ between the runs of one experiment."""
CLUSTER_FIELDS = ("runtime.schedule", "runtime.num_actors", "runtime.num_learners")
"""Fields that may also differ with actors on a cluster or several learners: their numbers, and that they are processes.
"""
STEPS_OF_EACH = "learner.steps_per_update"
"""Field with the steps of each environment per update; with it the number of actors decides the steps of an update."""


@functools.cache
def config_path(paper: str, experiment: str, configs_dir: pathlib.Path = CONFIGS_DIR) -> pathlib.Path:
    """Returns the file of an experiment's config, `<configs_dir>/<paper>/<experiment>.py`.

    An experiment that is named by its file has this file, relative to the parent of `configs_dir`.
    """
    if is_elsewhere(experiment):
        return configs_dir.parent / experiment
    return configs_dir / paper / f"{experiment}.py"


@functools.cache
def current_config(paper: str, experiment: str, scale: str, configs_dir: pathlib.Path = CONFIGS_DIR) -> dict[str, Any]:
    """Returns `get_config(scale)` of an experiment as plain dictionaries.

    Args:
        paper: short name of the paper.
        experiment: file name without `.py`, or the path of a file elsewhere, which is also the experiment's name.
        scale: `smoke`, `desk` or `paper`.
        configs_dir: folder with a directory for each paper.

    Raises:
        RecordError: there is no such experiment, it has no such scale, or its config cannot be loaded.
    """
    path = config_path(paper, experiment, configs_dir)
    if not path.is_file():
        place = f"file {path}" if is_elsewhere(experiment) else f"experiment {paper}/{experiment} in {configs_dir}"
        raise RecordError(f"There is no {place}.")
    root = str(configs_dir.resolve().parent)
    if root not in sys.path:
        sys.path.append(root)  # configs import shared code as paper_configs.<...>
    spec = importlib.util.spec_from_file_location(f"_config_{paper}_{experiment}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        return plain_config(module.get_config(scale)) | {"experiment": experiment}
    except Exception as error:  # a config file may raise anything; the message names the file and the reason
        raise RecordError(f"The config {path}:{scale} cannot be loaded ({error}).") from error


def agent_config(
    paper: str, experiment: str, scale: str, agent: str, configs_dir: pathlib.Path = CONFIGS_DIR
) -> dict[str, Any]:
    """Returns `current_config` resolved for one agent; unchanged for an experiment without `variants`.

    Raises:
        RecordError: as for `current_config`, or the experiment has no such agent.
    """
    config = current_config(paper, experiment, scale, configs_dir)
    if agent == random_player.AGENT:
        return config | {"agent": agent}
    if "variants" not in config:
        return config
    try:
        return resolve_plain(config, agent)
    except ValueError as error:
        raise RecordError(f"The experiment {paper}/{experiment} has no such agent now: {error}") from error


def config_difference(
    config: Mapping[str, Any], reference: Mapping[str, Any], ignored: tuple[str, ...] = RUN_FIELDS
) -> dict[str, tuple[Any, Any]]:
    """Returns the fields of `config` that `reference` lacks or has with another value.

    Fields that only `reference` has are not differences, because a field that is added later must keep the old
    behaviour. Sizes that `reference` leaves to the machine are not differences, either.

    Args:
        config: nested plain dictionaries.
        reference: nested plain dictionaries to compare with.
        ignored: dotted names of fields and of whole sections that are left out.

    Returns:
        Dotted name to (value in config, value in reference); the latter is `ABSENT` for a field that it lacks.
    """
    flat = flatten(reference)
    sections = tuple(f"{name}." for name in ignored)
    return {
        name: (value, flat.get(name, ABSENT))
        for name, value in flatten(config).items()
        if name not in ignored
        and not name.startswith(sections)
        and (name not in flat or flat[name] != value)
        and not is_chosen(name, flat.get(name))
    }


def stale_reason(record: Mapping[str, Any], configs_dir: pathlib.Path = CONFIGS_DIR) -> str | None:
    """Says why a record is stale; returns None if it is not.

    Every field that the agent read must still exist with the same value, except `RUN_FIELDS` and, if actors played on a
    cluster or there were several learners, `CLUSTER_FIELDS`. For agents with `STEPS_OF_EACH` the number of actors must
    be the same, too. Additional fields or agents of the current config do not make a record stale, nor does a change of
    the code that keeps the agent's behaviour version.

    Args:
        record: valid record.
        configs_dir: folder with a directory for each paper.
    """
    try:
        current = agent_config(record["paper"], record["experiment"], record["scale"], record["agent"], configs_dir)
    except RecordError as error:
        return str(error).rstrip(".")
    version = behaviour.version_of(record["paper"], record["experiment"], record["agent"], configs_dir)
    if behaviour.of_record(record) != version:
        return f"its agent's behaviour version was {behaviour.of_record(record)} and is {version}"
    ignored = RUN_FIELDS + (CLUSTER_FIELDS if {"machines", "learners"} & record.keys() else ())
    if STEPS_OF_EACH in flatten(record["config"]):
        ignored = tuple(name for name in ignored if name != "runtime.num_actors")
    difference = config_difference(record["config"], current, ignored)
    if not difference:
        return None
    parts = [f"{name} was {_show(old)} and is {_show(new)}" for name, (old, new) in difference.items()]
    more = f", and {len(parts) - 3} more" if len(parts) > 3 else ""
    return "; ".join(parts[:3]) + more


def _show(value: Any) -> str:
    return value if value == ABSENT else repr(value)
