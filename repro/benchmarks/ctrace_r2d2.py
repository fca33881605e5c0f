"""Benchmark of C-trace-R2D2 at desk scale: each part alone, and the whole system, in one process."""

from __future__ import annotations

from typing import Any

from paper_configs.ctrace import r2d2
from repro.benchmarks.measuring import sequences
from repro.papers.ctrace.experiments.r2d2 import R2d2Experiment
from repro.training import devices


def measure(seconds: float, repeats: int) -> dict[str, Any]:
    """Measures parts and whole for Pong.

    Args:
        seconds: length of each measurement in seconds.
        repeats: how often everything is measured.
    """
    devices.configure_threads(deterministic=False)
    return sequences.measure("ctrace_r2d2", R2d2Experiment, r2d2.get_config("desk"), seconds, repeats)
