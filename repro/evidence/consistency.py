"""Compares parts of a record with each other, and records among themselves, to find numbers that no run can have made.

A file may be a valid record with the right checksum although it was edited or copied by hand, since a checksum can be
made again. What a run measures several times must then still agree: its budget with its learning curve and its rate,
and its std with its returns. Two runs never have the same returns and the same time to the last digit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from repro.config import tasks
from repro.evidence.records import BUDGET_FIELDS, StoredRecord, ValidationError, budget_field, counted
from repro.evidence.statistics import sample_std

ROUNDING = 1e-5
"""Relative and absolute difference of a std from that of the returns."""
RETURN_ROUNDING = 2.0**-23
"""The same difference relative to the largest return: `trailing_returns` keeps seven significant digits of each."""
RATE_ROUNDING = 1e-3
"""Relative difference of the budget from rate times seconds."""
LAST_ROW = 0.05
"""Largest share of the budget after the last point of a learning curve."""


def find_errors(stored: Sequence[StoredRecord]) -> list[ValidationError]:
    """Returns an error for each contradiction within a record, and for each record that is a copy of another one.

    Args:
        stored: valid records in order of their paths.
    """
    errors = [
        ValidationError(item.path, f"The record {item.path} contradicts itself: {problem}.")
        for item in stored
        for problem in _contradictions(item.record)
    ]
    first: dict[tuple[Any, ...], StoredRecord] = {}
    for item in stored:
        if "study" in item.record["config"]:  # one run of a study makes a record of each answer
            continue
        run = (item.record["task"], item.record["wall_seconds"], *item.record["evaluation"]["returns"])
        other = first.setdefault(run, item)
        if other is not item:
            sentence = (
                f"The record {item.path} has the time and the returns of {other.path}: one is a copy of the other."
            )
            errors.append(ValidationError(item.path, sentence))
    return errors


def _names(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the names of a run that its config has, too; a study or an agent of several tasks makes many records."""
    names = {name: config[name] for name in ("paper", "experiment", "scale") if name in config}
    if "study" not in config:
        names["agent"] = config["agent"]
        names |= {} if tasks(config) else {"task": config["env"]["task"]}
    return names


def _contradictions(record: Mapping[str, Any]) -> Iterator[str]:
    field, evaluation, is_study = budget_field(record), record["evaluation"], "study" in record["config"]
    budget, unit = record[field], counted(field)
    rate = record[f"{field.removeprefix('num_env_')}_per_second"]
    if not math.isclose(rate * record["wall_seconds"], budget, rel_tol=RATE_ROUNDING, abs_tol=1.0):
        yield f"{rate} {unit} per second over {record['wall_seconds']} seconds are not {budget} {unit}"
    ends = [record["curve"][-1][0]] if record["curve"] else []
    series = record.get("series", {"columns": [], "rows": []})
    if not is_study and series["rows"]:
        ends += [series["rows"][-1][i] for i, name in enumerate(series["columns"]) if name in BUDGET_FIELDS]
    if ends and max(ends) > budget:
        yield f"its curve or log reaches {max(ends):.0f} {unit}, more than its budget of {budget}"
    if ends and max(ends) < (1 - LAST_ROW) * budget and "diverged" not in record:
        yield f"its curve and log end at {max(ends):.0f} of {budget} {unit}"
    std = sample_std(evaluation["returns"])
    largest = max(map(abs, evaluation["returns"]))
    if not math.isclose(evaluation["std"], std, rel_tol=ROUNDING, abs_tol=max(ROUNDING, RETURN_ROUNDING * largest)):
        yield f"evaluation.std is {evaluation['std']} but the returns have std {std}"
    yield from (
        f"its {name} is {record[name]!r}, that of its config {value!r}"
        for name, value in _names(record["config"]).items()
        if value != record[name]
    )
    if not is_study:
        of_studies = [name for name in ("exact", "interval") if name in evaluation]
        yield from (f"evaluation.{name} is there, which only a study has" for name in of_studies)
