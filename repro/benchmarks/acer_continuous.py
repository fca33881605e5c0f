"""Benchmark of ACER on cheetah: each part alone, and the whole system, in one process."""

from __future__ import annotations

from typing import Any

from paper_configs.acer import continuous
from repro.benchmarks.measuring import actor_learner
from repro.config import resolve
from repro.papers.acer.experiments.continuous import ContinuousExperiment
from repro.training import devices


def measure(seconds: float, repeats: int) -> dict[str, Any]:
    """Measures parts and whole for the cheetah at desk scale, with the number of threads in its config.

    Args:
        seconds: length of each measurement in seconds.
        repeats: how often everything is measured.
    """
    config = continuous.get_config("desk")
    devices.configure_threads(deterministic=False, threads=config.runtime.threads)
    config.env.task = "cheetah"
    experiment = ContinuousExperiment(resolve(config))
    return actor_learner.measure_replay("acer_continuous", experiment, seconds, repeats)
