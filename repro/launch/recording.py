"""The fields of a record that jobs of all kinds write alike."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence

import ml_collections

from repro.environments import dmlab_module, vizdoom_module
from repro.evidence import migrations, records


def identity_fields(config: ml_collections.ConfigDict, agent: str, seed: int, schedule: str) -> dict[str, object]:
    """The fields of a record that say what it is of."""
    return {
        "schema_version": migrations.SCHEMA_VERSION,
        "paper": config.paper,
        "experiment": config.experiment,
        "task": config.env.task,
        "agent": agent,
        "seed": seed,
        "scale": config.scale,
        "schedule": schedule,
        "config": records.plain_config(config),
        "config_sha256": records.config_sha256(config),
    }


def budget_fields(unit: str, amount: int, seconds: float) -> dict[str, object]:
    """Returns the fields of a record that say how much was played, `num_env_<unit>`, how long that took, and the rate.

    Args:
        unit: `frames` or `steps`.
        amount: in this unit.
        seconds: of training, above 0.
    """
    return {f"num_env_{unit}": amount, "wall_seconds": seconds, f"{unit}_per_second": amount / seconds}


def circumstances(cores: int, env: str = "") -> dict[str, object]:
    """Returns the fields of a record that say what it was made with.

    Args:
        cores: the run had.
        env: package of the environment, where there is one.
    """
    versions = records.versions()
    if env == "dmlab":
        versions["deepmind_lab"] = dmlab_module.provenance()
    if env == "vizdoom":
        versions["vizdoom"] = vizdoom_module.version()
    return {"versions": versions, "hardware": {**records.hardware(), "cores": cores}}


def utc_now() -> str:
    """Returns the time in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def series_fields(rows: Sequence[dict[str, float]], counted: str, columns: Sequence[str]) -> dict[str, object]:
    """Returns the columns of a run's log that its record keeps besides the return; empty without any.

    Agents of one experiment may log different things: a column that this run's log lacks is left out.

    Args:
        rows: of the log, each from a column's name to a number.
        counted: the column that the budget is counted in.
        columns: that the configuration asks for.
    """
    columns = [name for name in columns if rows and name in rows[0]]
    if not columns:
        return {}
    points = [[row[name] for name in (counted, *columns)] for row in rows]
    points = [row for row in points if all(map(math.isfinite, row))]  # a replay is filled before anything is learned
    return {"series": {"columns": [counted, *columns], "rows": records.thin(points)}}
