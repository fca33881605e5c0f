"""What the tests of all papers' theorem studies share."""

from __future__ import annotations

import types
from collections.abc import Collection
from pathlib import Path
from typing import Any

import ml_collections

from repro.evidence import published, records
from repro.launch.study_job import StudyJob
from repro.training.study import StudyResult

BROKEN = 0.01
"""A statement that a wrong operator misses by less than this is not seen to be missed."""


def shorten(config: ml_collections.ConfigDict, **changes: Any) -> ml_collections.ConfigDict:
    """Two problems, and paths of two steps: endless trajectories have the same operator by these as by three."""
    config.evaluation.episodes = 2
    config.update({"num_steps": 2} | changes)
    return config


def answers(study: types.ModuleType, config: ml_collections.ConfigDict, seed: int = 1) -> dict[str, StudyResult]:
    """The answers of a study, without records."""
    return study.run(config, seed, [0], lambda done, total: None).answers


def values(study: types.ModuleType, config: ml_collections.ConfigDict) -> dict[str, float]:
    """The number that each record of a study would hold."""
    return {name: float(answer.values.mean()) for name, answer in answers(study, config).items()}


def check_records(
    study: types.ModuleType,
    config: ml_collections.ConfigDict,
    folder: Path,
    not_printed: Collection[str] = (),
    sampled: Collection[str] = (),
) -> dict[str, float]:
    """Makes the records of a study; each has a row of its own, of its unit, but those of no printed statement.

    All are exact but those that are `sampled`.

    Returns the records' numbers.
    """
    StudyJob(config, config.env.task, 1, folder).run([0], quiet=True)
    stored, faults = records.read_all(folder)
    assert faults == []
    found = {item.record["agent"]: item.record["evaluation"] for item in stored}
    rows = {row.agent: row for row in published.load(config.paper).rows if row.experiment == config.experiment}
    assert set(found) == {*rows, *not_printed} == set(config.answers) == set(study.UNITS)
    assert {name for name, evaluation in found.items() if not evaluation.get("exact", False)} == set(sampled)
    for name, row in rows.items():
        assert found[name]["unit"] == row.unit
        assert row.task == config.env.task
    return {name: evaluation["mean"] for name, evaluation in found.items()}
