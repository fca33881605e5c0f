"""Migration of older records to the present layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repro.config import merge
from repro.evidence.statistics import sample_std

SCHEMA_VERSION = 4
"""Version of the layout of records that are written now."""

RECORD_FIELDS = {"drawn": "sampled_hparams"}
"""Names of a record's fields up to version 2, to their names since version 3."""
COLUMNS = {"far": "far_policy_fraction", "deviation": "std"}
"""The same for columns of a log."""
CONFIG_FIELDS = {"deviation": "std", "max_far_share": "max_far_policy_fraction"}
"""The same for fields of any section of a config."""


def rename_fields(record: Any) -> Any:
    """Returns a record of any version with the present names of its fields; its config is unchanged.

    Args:
        record: any value that was read from JSON, not validated; what is no record is returned as it is.
    """
    if not isinstance(record, dict) or record.get("schema_version", 1) not in (1, 2):
        return record
    config = record.get("config")
    unit = _unit(config if isinstance(config, dict) else {})
    fields = RECORD_FIELDS | {"frames": f"num_env_{unit}", "frames_per_second": f"{unit}_per_second"}
    renamed = {fields.get(name, name): value for name, value in record.items()}
    series = record.get("series")
    if isinstance(series, dict) and isinstance(series.get("columns"), list):
        columns = COLUMNS | {"frames": f"num_env_{unit}"}
        renamed["series"] = series | {"columns": _rename(series["columns"], columns)}
    return renamed


def migrate(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a record of any version in the layout of `SCHEMA_VERSION`.

    Version 1, without `schema_version`: the config lists agents in `agents`. Fields that an agent reads in place of
    others are in `variants` or, for a baseline of another paper, in a section with that paper's name.
    Version 2: the config has the fields that the record's agent read in their usual places.
    Version 3: some fields have new names, such as the budget, which was named `frames` even if steps were counted.
    Version 4: every std of returns is divided by N - 1; before, random players and studies divided by N.

    Args:
        record: valid record, as returned by `rename_fields`.
    """
    version, config = record.get("schema_version", 1), record["config"]
    if version < 2:
        config = place_own_fields(config)
    if version < 3:
        config = rename_config(config)
    if version < 4:
        evaluation = record["evaluation"]
        record = {**record, "evaluation": evaluation | {"std": sample_std(evaluation["returns"])}}
    return {**record, "schema_version": SCHEMA_VERSION, "config": config}


def place_own_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the config of a record of version 1 in the layout of version 2."""
    agent = config.get("agent")
    baselines = config.get("baselines", {})
    own = dict(config.get(baselines[agent], {}) if agent in baselines else config.get("variants", {}).get(agent, {}))
    own.pop("experiment", None)  # for a baseline it was the name of its builder
    if "policy_learning_rates" in own.get("learner", {}):
        learner = dict(own["learner"])
        learner["policy_learning_rate"] = learner.pop("policy_learning_rates")[agent]
        own["learner"] = learner
    replaced = {"agents", "variants", "baselines", *baselines.values()}
    return merge({name: value for name, value in config.items() if name not in replaced}, own)


def rename_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a config of version 2, or a section of one, with the names of version 3."""
    fields = CONFIG_FIELDS | ({"frames": f"num_env_{_unit(config)}"} if "env" in config else {})
    renamed = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            value = rename_config(value)
        renamed[fields.get(name, name)] = _rename(value, COLUMNS) if name == "recorded" else value
    return renamed


def _rename(names: list[Any], present: Mapping[str, str]) -> list[Any]:
    return [present.get(name, name) if isinstance(name, str) else name for name in names]


def _unit(config: Mapping[str, Any]) -> str:
    """Returns what `frames` counted up to version 2: `frames` if the config has a frame skip, otherwise `steps`."""
    env = config.get("env")
    return "frames" if isinstance(env, Mapping) and "frame_skip" in env else "steps"
