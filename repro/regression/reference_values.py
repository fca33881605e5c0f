"""Committed values of reference runs: for each measure one value per seed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from repro.files import write_whole
from repro.regression.bands import MIN_SEEDS, Band, make_band
from repro.regression.reference_runs import ReferenceRun

PATH = Path(__file__).with_name("reference_values.json")


class ReferenceValuesError(ValueError):
    """Reference values are missing, too few, of other settings or not finite; the message says how to make them."""


class ReferenceValues(NamedTuple):
    """Values of one reference run.

    fingerprint: `ReferenceRun.fingerprint` of the settings that they were made with.
    seconds: median time of a training on the machine that made them.
    values: measure to one value per seed, in the order of seeds 1, 2, ...
    """

    fingerprint: str
    seconds: float
    values: Mapping[str, list[float]]

    @property
    def num_seeds(self) -> int:
        return min((len(values) for values in self.values.values()), default=0)


def read(path: Path = PATH) -> dict[str, ReferenceValues]:
    """Returns the values by the name of the run; empty if there is no file."""
    if not path.exists():
        return {}
    return {name: ReferenceValues(**fields) for name, fields in json.loads(path.read_text()).items()}


def write(values: Mapping[str, ReferenceValues], path: Path = PATH) -> None:
    """Writes the file atomically, with one measure per line."""
    document: dict[str, Any] = {name: entry._asdict() for name, entry in sorted(values.items())}
    text = json.dumps(document, indent=1)
    for entry in document.values():
        for numbers in entry["values"].values():
            text = text.replace(json.dumps(numbers, indent=1).replace("\n", "\n   "), json.dumps(numbers))
    write_whole(path, text + "\n")


def bands_of(run: ReferenceRun, references: Mapping[str, ReferenceValues]) -> dict[str, Band]:
    """Returns the band of each measure of a run.

    Raises:
        ReferenceValuesError: the run has no values, values of other settings, too few seeds, or a value that is not
            finite.
    """
    remake = f"make them with: python -m repro.regression --make_bands --again --only={run.name}"
    if run.name not in references:
        raise ReferenceValuesError(f"{run.name} has no reference values; {remake}.")
    reference = references[run.name]
    if reference.fingerprint != run.fingerprint():
        raise ReferenceValuesError(f"The settings of {run.name} have changed since its reference values; {remake}.")
    if reference.num_seeds < MIN_SEEDS:
        raise ReferenceValuesError(
            f"{run.name} has reference values of {reference.num_seeds} of {MIN_SEEDS} seeds; {remake}."
        )
    try:
        return {name: make_band(name, values) for name, values in reference.values.items()}
    except ValueError as error:
        raise ReferenceValuesError(f"{run.name} has a value that is not finite; {remake}.") from error
