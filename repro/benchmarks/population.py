"""Benchmark of how long a member of a population waits for the weights of another, which it adopts through the disk."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np

from paper_configs.impala import atari_population
from repro.config import resolve
from repro.evidence import records
from repro.papers import find_experiment
from repro.training import devices
from repro.training.run_directory import RunDirectory, copy_checkpoint
from repro.training.trainer import Trainer

WARM_UP = 3
"""Updates before the clock starts."""


def measure(seconds: float, repeats: int, config: ml_collections.ConfigDict | None = None) -> dict[str, Any]:
    """Measures the milliseconds of a copy, of an adoption, and between two comparisons at the rate of a single member.

    A faster transport of weights could save no more than the first two.

    Args:
        seconds: length of the measurement of the update rate in seconds.
        repeats: number of adoptions; medians are reported.
        config: config of a population; None for Breakout at desk scale.

    Raises:
        ValueError: the config has no population.
    """
    if config is None:
        config = atari_population.get_config("desk")
        config.env.task = "breakout"
    if "population" not in config:
        raise ValueError(f"--what=population measures members of a population, and {config.experiment} has none.")
    devices.configure_threads(deterministic=False)
    config = resolve(config)
    with tempfile.TemporaryDirectory() as folder:
        run, parent = RunDirectory(Path(folder) / "run", config.to_dict(), 1), Path(folder) / "parent"
        with contextlib.closing(find_experiment(config).build_trainer(1, run, print)) as trainer:
            per_update = _seconds_of_update(trainer, seconds)
            copies, adoptions = zip(*(_adopt(trainer, run.path, parent) for _ in range(repeats)))
        size = sum(file.stat().st_size for file in parent.rglob("*") if file.is_file())
        between = per_update * config.population.interval / trainer.frames_per_update
    rows = {"copy": np.median(copies), "adoption": np.median(adoptions), "between two comparisons": between}
    return {
        "what": "population",
        "unit": "milliseconds",
        "rows": {name: 1e3 * float(value) for name, value in rows.items()},
        "checkpoint_bytes": size,
        "repeats": {"copy": copies, "adoption": adoptions},
        "hardware": records.hardware(),
        "versions": records.versions(),
    }


def _seconds_of_update(trainer: Trainer, seconds: float) -> float:
    """Returns the seconds of an update; trains for at least `seconds` until a checkpoint is possible, and saves it."""
    updates = iter(trainer)
    for _ in itertools.islice(updates, WARM_UP):
        pass
    start, first = time.perf_counter(), trainer.updates
    for _ in updates:
        spent = time.perf_counter() - start
        if spent >= seconds and trainer.can_save:
            break
    made = trainer.updates - first
    trainer.save()
    return spent / made


def _adopt(trainer: Trainer, path: Path, parent: Path) -> tuple[float, float]:
    """Returns the seconds of the copy that is made at a comparison, and of the adoption by a member."""
    shutil.rmtree(parent, ignore_errors=True)
    start = time.perf_counter()
    copy_checkpoint(path, parent)
    copied = time.perf_counter()
    trainer.adopt(parent, trainer.updates)
    return copied - start, time.perf_counter() - copied
