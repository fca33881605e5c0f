"""Older records in the present layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repro.config import merge

SCHEMA_VERSION = 2
"""Version of the records that are written now."""


def migrate(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a record of any version in the layout of `SCHEMA_VERSION`.

    Version 1, which has no `schema_version`: the configuration names agents in `agents`, and what one of them reads in
    place of the rest in `variants` or, for a baseline of another paper, in a section of that paper's name. Version 2
    has the fields that the record's agent read in their places.

    Args:
        record: a valid record.
    """
    if record.get("schema_version", 1) >= SCHEMA_VERSION:
        return dict(record)
    return {"schema_version": SCHEMA_VERSION, **record, "config": migrate_config(record["config"])}


def migrate_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the configuration of a record of version 1 as version 2 has it."""
    agent = config.get("agent")
    baselines = config.get("baselines", {})
    own = dict(config.get(baselines[agent], {}) if agent in baselines else config.get("variants", {}).get(agent, {}))
    own.pop("experiment", None)  # a baseline's was the name of its builder
    if "policy_learning_rates" in own.get("learner", {}):
        learner = dict(own["learner"])
        learner["policy_learning_rate"] = learner.pop("policy_learning_rates")[agent]
        own["learner"] = learner
    gone = {"agents", "variants", "baselines", *baselines.values()}
    return merge({name: value for name, value in config.items() if name not in gone}, own)
