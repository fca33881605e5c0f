"""Whether a record still belongs to its experiment: the config and the behaviour it was made with against today's."""

import functools
import importlib.util
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

from repro.config import flatten, is_chosen, resolve_plain
from repro.evidence import behaviour, random_player
from repro.evidence.records import ROOT, RecordError, is_elsewhere, plain_config

CONFIGS_DIR = ROOT / "paper_configs"
ABSENT = "absent"
"""Stands for the value of a field that a config does not have."""
RUN_FIELDS = ("env.task", "seed")
"""What differs between the runs of one experiment."""
CLUSTER_FIELDS = ("runtime.schedule", "runtime.num_actors", "runtime.num_learners")
"""What also differs where actors played on a cluster, or several learners made each update: the numbers of both, and
that they are processes."""
STEPS_OF_EACH = "learner.steps_per_update"
"""Steps of each environment, in configs of agents whose number of actors says how much is played for an update."""


@functools.cache
def config_path(paper: str, experiment: str, configs_dir: pathlib.Path = CONFIGS_DIR) -> pathlib.Path:
    """Returns the file of an experiment's config, `<configs_dir>/<paper>/<experiment>.py`.

    An experiment that is named by its file has the path of this file, from the folder of `configs_dir` on.
    """
    if is_elsewhere(experiment):
        return configs_dir.parent / experiment
    return configs_dir / paper / f"{experiment}.py"


@functools.cache
def current_config(paper: str, experiment: str, scale: str, configs_dir: pathlib.Path = CONFIGS_DIR) -> dict[str, Any]:
    """Returns `get_config(scale)` of an experiment as plain dictionaries.

    Args:
        paper: short name.
        experiment: file name without `.py`, or the path of a file elsewhere, whose experiment has this name.
        scale: `smoke`, `desk` or `paper`.
        configs_dir: holds a directory for each paper.

    Raises:
        RecordError: there is no such experiment, or it has no such scale.
    """
    path = config_path(paper, experiment, configs_dir)
    if not path.is_file():
        place = f"file {path}" if is_elsewhere(experiment) else f"experiment {paper}/{experiment} in {configs_dir}"
        raise RecordError(f"There is no {place}.")
    root = str(configs_dir.resolve().parent)
    if root not in sys.path:
        sys.path.append(root)  # configs import what they share as paper_configs.<...>
    spec = importlib.util.spec_from_file_location(f"_config_{paper}_{experiment}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        return plain_config(module.get_config(scale)) | {"experiment": experiment}
    except Exception as error:  # whatever a config file may raise, the reader learns which file and why
        raise RecordError(f"The config {path}:{scale} cannot be loaded ({error}).") from error


def agent_config(
    paper: str, experiment: str, scale: str, agent: str, configs_dir: pathlib.Path = CONFIGS_DIR
) -> dict[str, Any]:
    """Returns `current_config` as one of its agents reads it; a study, which has none, as it is.

    Raises:
        RecordError: as `current_config`, or the experiment has no such agent.
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
    """Returns the fields of `config` that `reference` lacks or holds with another value.

    Fields that only `reference` has are not differences: a setting that came later carries the old behaviour. Nor are
    sizes that `reference` leaves to the machine.

    Args:
        config: nested plain dictionaries.
        reference: likewise.
        ignored: dotted names left out, of fields and of whole sections.

    Returns:
        Dotted name to (value in config, value in reference); the latter is `ABSENT` for a lost field.
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
    """Says why a record no longer belongs to its experiment, or None when it does.

    Every field that the agent read must still exist with the same value, apart from `RUN_FIELDS`, and where actors
    played on a cluster, or there were several learners, `CLUSTER_FIELDS`, of which agents with `STEPS_OF_EACH` keep the
    number of actors; a field or an agent that the current config has in addition leaves the record valid. So does any
    change of the code that leaves the agent's behaviour version as it was.

    Args:
        record: a valid record.
        configs_dir: holds a directory for each paper.
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
