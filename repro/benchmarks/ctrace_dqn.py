"""Benchmark of Double DQN with the published network and batch: each part alone, and the whole, in one process."""

from __future__ import annotations

from typing import Any

from paper_configs.ctrace import dqn
from repro.benchmarks.measuring import sequences
from repro.papers.ctrace.experiments.dqn import DqnExperiment
from repro.training import devices


def measure(seconds: float, repeats: int) -> dict[str, Any]:
    """Measures parts and whole for Pong, with one update of 32 transitions per four steps.

    Args:
        seconds: length of each measurement in seconds.
        repeats: how often everything is measured.
    """
    devices.configure_threads(deterministic=False)
    config = dqn.get_config("paper")
    config.agent = "double_dqn"
    config.variants.double_dqn.learner.batch_size = 32  # as in Mnih et al. (2015)
    return sequences.measure("ctrace_dqn", DqnExperiment, config, seconds, repeats)
