"""Bands: where a further run of an experiment is expected, written from runs that are trusted.

A band lies beside the records it comes from, `<results>/<paper>/<experiment>/<task>/<agent>/band_<scale>.json`. It
keeps what it was made from, so that a record that is replaced later is judged by the runs of before.
"""

import dataclasses
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jsonschema
import numpy as np
import scipy.stats

from repro.evidence import published, records, staleness
from repro.evidence.rows import measured
from repro.files import write_whole

MIN_RUNS = 5
FALSE_ALARM_RATE = 0.01
"""Chance that a sound run, one more of the same kind, falls out of its band."""

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": [
        "scale", "unit", "measure", "better", "low", "high", "seeds", "values", "false_alarm_rate", "method", "config",
    ],
    "properties": {
        "scale": {"enum": ["smoke", "desk", "paper"]},
        "unit": {"type": "string", "minLength": 1},
        "measure": {"enum": ["evaluation", "frames_per_second", "wall_minutes"]},
        "better": {"enum": ["more", "less", "equal", "above", "under"]},
        "low": {"type": ["number", "null"]},
        "high": {"type": ["number", "null"]},
        "seeds": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": MIN_RUNS},
        "values": {"type": "array", "items": {"type": "number"}, "minItems": MIN_RUNS},
        "false_alarm_rate": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "method": {"type": "string", "minLength": 1},
        "config": {"type": "object", "minProperties": 1},
    },
}  # fmt: skip


class BandError(Exception):
    """A band cannot be made, read or written; the message is one sentence that names the file or the runs."""


@dataclasses.dataclass(frozen=True)
class Band:
    """Where a further run is expected.

    Attributes:
        scale: scale of the runs.
        unit: unit of the evaluation.
        measure: which number of a record is judged, one of `published.Measure`.
        better: `more`, `above`: only a number below `low` is a regression; `less`, `under`: only one above `high`;
            `equal`: both.
        low, high: ends of the band, None on a side that is never a regression.
        seeds, values: the runs it was made from.
        false_alarm_rate: chance that one sound run falls out.
        method: how the ends follow from the values, in words.
        config: of the runs, for staleness.
    """

    scale: str
    unit: str
    measure: published.Measure
    better: published.Better
    low: float | None
    high: float | None
    seeds: Sequence[int]
    values: Sequence[float]
    false_alarm_rate: float
    method: str
    config: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Regression:
    """A record that fell out of its band.

    Attributes:
        path: of the record.
        value: what it holds.
        band: what was expected.
        command: runs the experiment again, apart from the committed records.
    """

    path: pathlib.Path
    value: float
    band: Band
    command: str

    @property
    def message(self) -> str:
        """Which record, by how much, and how to rerun it."""
        low, high = self.band.low, self.band.high
        end, side = (low, "below") if low is not None and self.value < low else (high, "above")
        assert end is not None
        expected = np.mean(self.band.values)
        return (
            f"{self.path} holds {self.value:.6g} {unit_of(self.band)}, {abs(self.value - end):.4g} {side} the end "
            f"{end:.6g} of its band (mean {expected:.6g} over {len(self.band.values)} runs, false alarms "
            f"{100 * self.band.false_alarm_rate:g} %); rerun it with: {self.command}"
        )


def unit_of(band: Band) -> str:
    """Returns the unit of a band's values."""
    return band.unit if band.measure == "evaluation" else band.measure.replace("_", " ")


def make_band(
    runs: Sequence[Mapping[str, Any]],
    better: published.Better = "more",
    measure: published.Measure = "evaluation",
    false_alarm_rate: float = FALSE_ALARM_RATE,
) -> Band:
    """Makes the band of one experiment, task, agent and scale.

    The band is the prediction interval of one further run,

        mean -+ t s sqrt(1 + 1/n),

    with s the standard deviation of the n runs and t Student's quantile, n - 1 degrees of freedom, at
    `false_alarm_rate` on the side that is worse, at half of it on both sides for `equal`.

    Args:
        runs: valid current records of one scale, `MIN_RUNS` or more.
        better: as in `published.Better`.
        measure: as in `published.Measure`.
        false_alarm_rate: chance that one sound run falls out, in (0, 1), for normally distributed runs.

    Raises:
        BandError: too few runs.
    """
    if len(runs) < MIN_RUNS:
        raise BandError(f"A band needs {MIN_RUNS} runs or more, there are {len(runs)}.")
    values = np.array([measured(run, measure) for run in runs])
    n = len(values)
    tail = false_alarm_rate / 2 if better == "equal" else false_alarm_rate
    reach = scipy.stats.t.isf(tail, n - 1) * values.std(ddof=1) * math.sqrt(1 + 1 / n)
    return Band(
        scale=runs[0]["scale"],
        unit=runs[0]["evaluation"]["unit"],
        measure=measure,
        better=better,
        low=None if better in ("less", "under") else float(values.mean() - reach),
        high=None if better in ("more", "above") else float(values.mean() + reach),
        seeds=[run["seed"] for run in runs],
        values=values.tolist(),
        false_alarm_rate=false_alarm_rate,
        method=f"prediction interval of one further run, Student's t with {n - 1} degrees of freedom",
        config=runs[0]["config"],
    )


def band_path(record: pathlib.Path, scale: str) -> pathlib.Path:
    """Returns where the band of a record's experiment, task, agent and scale lies."""
    return record.with_name(f"band_{scale}.json")


def write_band(path: pathlib.Path, band: Band) -> None:
    """Writes a band in one step.

    Raises:
        BandError: the file cannot be written; one already there stays as it was.
    """
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in dataclasses.asdict(band).items()]
    try:
        write_whole(path, "{\n" + ",\n".join(lines) + "\n}\n")
    except OSError as error:
        raise BandError(f"The band {path} could not be written ({error.strerror or error}).") from error


def read_band(path: pathlib.Path) -> Band | None:
    """Reads a band; None where there is none.

    Raises:
        BandError: the file cannot be read or is not a band.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        jsonschema.validate(data, SCHEMA)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, jsonschema.ValidationError) as error:
        reason = getattr(error, "message", None) or error
        raise BandError(f"The band {path} could not be read ({reason}).") from error
    return Band(**data)


def find_regression(stored: records.StoredRecord, band: Band) -> Regression | None:
    """Judges a current record by the band of its scale; a band whose config has changed since judges nothing.

    Args:
        stored: a valid record that is not stale.
        band: of its scale.
    """
    record = stored.record
    if record["scale"] != band.scale or staleness.config_difference(band.config, record["config"]):
        return None
    value = measured(record, band.measure)
    below = band.low is not None and value < band.low
    above = band.high is not None and value > band.high
    return Regression(stored.path, value, band, rerun_command(record)) if below or above else None


def rerun_command(record: Mapping[str, Any]) -> str:
    """Returns the command that makes a record again in `runs/again`, apart from the committed one."""
    return (
        f"python -m repro.reproduce --paper={record['paper']} --experiment={record['experiment']} "
        f"--task={record['task']} --scale={record['scale']} --seeds={max(record['seed'], 1)} "
        "--results_dir=runs/again/records --runs_dir=runs/again"
    )
