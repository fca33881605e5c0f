"""Whether a record still belongs to its experiment: the config it was made with against the current one."""

import functools
import importlib.util
import pathlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from repro.evidence.records import ROOT, RecordError, plain_config

CONFIGS_DIR = ROOT / "paper_configs"
# What differs between the runs of one experiment, and what it offers besides.
RUN_FIELDS = ("env.task", "seed", "agents")


def config_path(paper: str, experiment: str, configs_dir: pathlib.Path = CONFIGS_DIR) -> pathlib.Path:
    """Returns the file of an experiment's config, `<configs_dir>/<paper>/<experiment>.py`."""
    return configs_dir / paper / f"{experiment}.py"


@functools.cache
def current_config(paper: str, experiment: str, scale: str, configs_dir: pathlib.Path = CONFIGS_DIR) -> dict[str, Any]:
    """Returns `get_config(scale)` of an experiment as plain dictionaries.

    Args:
        paper: short name.
        experiment: file name without `.py`.
        scale: `smoke`, `desk` or `paper`.
        configs_dir: holds a directory for each paper.

    Raises:
        RecordError: there is no such experiment, or it has no such scale.
    """
    path = config_path(paper, experiment, configs_dir)
    if not path.is_file():
        raise RecordError(f"There is no experiment {paper}/{experiment} in {configs_dir}.")
    root = str(configs_dir.resolve().parent)
    if root not in sys.path:
        sys.path.append(root)  # configs import what they share as paper_configs.<...>
    spec = importlib.util.spec_from_file_location(f"_config_{paper}_{experiment}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        return plain_config(module.get_config(scale))
    except Exception as error:  # whatever a config file may raise, the reader learns which file and why
        raise RecordError(f"The config {path}:{scale} cannot be loaded ({error}).") from error


def config_difference(
    config: Mapping[str, Any], reference: Mapping[str, Any], ignored: tuple[str, ...] = RUN_FIELDS
) -> dict[str, tuple[Any, Any]]:
    """Returns the fields of `config` that `reference` lacks or holds with another value.

    Fields that only `reference` has are not differences: a setting that came later carries the old behaviour.

    Args:
        config: nested plain dictionaries.
        reference: likewise.
        ignored: dotted names left out, of fields and of whole sections.

    Returns:
        Dotted name to (value in config, value in reference); the latter is the string `absent` for a lost
        field.
    """
    flat = dict(_flatten(reference))
    sections = tuple(f"{name}." for name in ignored)
    return {
        name: (value, flat.get(name, "absent"))
        for name, value in _flatten(config)
        if name not in ignored and not name.startswith(sections) and (name not in flat or flat[name] != value)
    }


def stale_reason(record: Mapping[str, Any], configs_dir: pathlib.Path = CONFIGS_DIR) -> str | None:
    """Says why a record no longer belongs to its experiment, or None when it does.

    Every field of the stored config must still exist with the same value, apart from `RUN_FIELDS`, and from the
    agent where the experiment has several in its field `agents`; a field or an agent that the current config has in
    addition leaves the record valid.

    Args:
        record: a valid record.
        configs_dir: holds a directory for each paper.
    """
    try:
        current = current_config(record["paper"], record["experiment"], record["scale"], configs_dir)
    except RecordError as error:
        return str(error).rstrip(".")
    several = record.get("agent") in current.get("agents", ())
    difference = config_difference(record["config"], current, (*RUN_FIELDS, "agent") if several else RUN_FIELDS)
    if not difference:
        return None
    parts = [f"{name} was {_show(old)} and is {_show(new)}" for name, (old, new) in difference.items()]
    more = f", and {len(parts) - 3} more" if len(parts) > 3 else ""
    return "; ".join(parts[:3]) + more


def _flatten(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _show(value: Any) -> str:
    return value if value == "absent" else repr(value)
