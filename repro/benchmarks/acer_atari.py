"""Benchmark of ACER on Atari with replay ratio 4: each part alone, and the whole system, in one process."""

from __future__ import annotations

from typing import Any

from paper_configs.acer import atari
from repro.benchmarks.measuring import actor_learner
from repro.config import resolve
from repro.papers.acer.experiments.discrete import DiscreteExperiment
from repro.training import devices


def measure(seconds: float, repeats: int) -> dict[str, Any]:
    """Measures parts and whole for Pong at desk scale, with trust region.

    Args:
        seconds: length of each measurement in seconds.
        repeats: how often everything is measured.
    """
    devices.configure_threads(deterministic=False)
    config = atari.get_config("desk")
    config.env.task = "pong"
    return actor_learner.measure_replay("acer_atari", DiscreteExperiment(resolve(config)), seconds, repeats)
