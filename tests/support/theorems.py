"""Helpers for the tests of all papers' theorem studies."""

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
"""Smallest error by which a wrong operator visibly misses a statement."""


def shorten(config: ml_collections.ConfigDict, **changes: Any) -> ml_collections.ConfigDict:
    """Shortens a study to two problems and paths of two steps, which give the same operator as longer paths."""
    config.evaluation.episodes = 2
    config.update({"num_steps": 2} | changes)
    return config


def answers(study: types.ModuleType, config: ml_collections.ConfigDict, seed: int = 1) -> dict[str, StudyResult]:
    """Returns the answers of a study, without records."""
    return study.run(config, seed, [0], lambda done, total: None).answers


def values(study: types.ModuleType, config: ml_collections.ConfigDict) -> dict[str, float]:
    """Returns the number that each record of a study would hold."""
    return {name: float(answer.values.mean()) for name, answer in answers(study, config).items()}


def check_records(
    study: types.ModuleType,
    config: ml_collections.ConfigDict,
    folder: Path,
    not_printed: Collection[str] = (),
    sampled: Collection[str] = (),
) -> dict[str, float]:
    """Makes the records of a study and checks that each has a published row with its unit.

    Args:
        study: module of the study.
        config: config of the study.
        folder: folder for the records.
        not_printed: records without a printed statement.
        sampled: records that are not exact; all others are.

    Returns:
        Number of each record.
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
