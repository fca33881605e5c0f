"""Fields of records that all kinds of jobs write in the same way."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence

import ml_collections

from repro.environments import dmlab_module, vizdoom_module
from repro.evidence import migrations, records


def identity_fields(config: ml_collections.ConfigDict, agent: str, seed: int, schedule: str) -> dict[str, object]:
    """Returns the fields of a record that identify the run.

    Args:
        config: resolved configuration of the run.
        agent: name of the agent, or of a study's answer.
        seed: seed of the run.
        schedule: `runtime.schedule` of the run, or `random` or `study`.
    """
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
    """Returns the fields of a record with the amount played, `num_env_<unit>`, the time and the rate.

    Args:
        unit: `frames` or `steps`.
        amount: number of frames or steps.
        seconds: training time in seconds, above 0.
    """
    return {f"num_env_{unit}": amount, "wall_seconds": seconds, f"{unit}_per_second": amount / seconds}


def circumstances(cores: int, env: str = "") -> dict[str, object]:
    """Returns the fields of a record with the versions of software and the hardware.

    Args:
        cores: number of cores of the run.
        env: package of the environment; empty if there is none.
    """
    versions = records.versions()
    if env == "dmlab":
        versions["deepmind_lab"] = dmlab_module.provenance()
    if env == "vizdoom":
        versions["vizdoom"] = vizdoom_module.version()
    return {"versions": versions, "hardware": {**records.hardware(), "cores": cores}}


def utc_now() -> str:
    """Returns the current time in UTC as ISO 8601, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def series_fields(rows: Sequence[dict[str, float]], counted: str, columns: Sequence[str]) -> dict[str, object]:
    """Returns the columns of a run's log that its record contains besides the return; empty if there are none.

    Agents of one experiment may log different columns; a column that this run's log lacks is left out.

    Args:
        rows: rows of the log, each a number by column.
        counted: column in which the budget is counted.
        columns: columns that the configuration asks for.
    """
    columns = [name for name in columns if rows and name in rows[0]]
    if not columns:
        return {}
    points = [[row[name] for name in (counted, *columns)] for row in rows]
    points = [row for row in points if all(map(math.isfinite, row))]  # NaN while a replay is filled
    return {"series": {"columns": [counted, *columns], "rows": records.thin(points)}}
