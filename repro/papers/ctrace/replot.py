"""Plots the figures of the tabular studies from existing records: python -m repro.papers.ctrace.replot."""

from __future__ import annotations

from pathlib import Path

import ml_collections
from matplotlib.figure import Figure

from repro.evidence import records
from repro.papers.ctrace import tabular_learning, tabular_tradeoffs
from repro.training.study import Study

STUDIES = {"tabular_learning": tabular_learning, "tabular_tradeoffs": tabular_tradeoffs}


def main() -> None:
    """Writes the figures of all experiments in `results/`; their records are not changed."""
    for folder in experiments():
        Study({}, steps=0, figure=plot(folder)).save_figure(folder)
        print(folder / "figure.svg")


def experiments() -> list[Path]:
    """Returns the folders of all experiments of the tabular studies."""
    return sorted((records.ROOT / "results/ctrace").glob("tabular_*"))


def plot(folder: Path) -> Figure:
    """Plots the figure of an experiment.

    Args:
        folder: folder of the experiment, with the records of its first seed.
    """
    found = [records.read_record(path) for path in sorted(folder.glob("*/*/seed_1.json"))]
    config = ml_collections.ConfigDict(found[0]["config"])
    series = {record["agent"]: record["series"] for record in found if "series" in record}
    return STUDIES[config.study].plot(config, series)


if __name__ == "__main__":
    main()
