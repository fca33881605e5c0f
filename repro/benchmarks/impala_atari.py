"""IMPALA on Atari: environment, inference and learner alone, and the whole system, in one process."""

from __future__ import annotations

from typing import Any

from paper_configs.impala import atari_shallow
from repro.benchmarks.measuring import actor_learner, timing
from repro.papers.impala.experiments.discrete import DiscreteExperiment
from repro.training import devices


def measure(seconds: float, repeats: int) -> dict[str, Any]:
    """Parts and whole for Pong with the paper's shallow network, unroll 20 and batch 32.

    Args:
        seconds: for each measurement.
        repeats: times that everything is measured.
    """
    devices.configure_threads(deterministic=False)
    config = atari_shallow.get_config("paper")
    experiment = DiscreteExperiment(config)
    results = [actor_learner.measure_on_policy(experiment, seed, seconds) for seed in range(repeats)]
    return {**timing.summarise("impala_atari", actor_learner.UNIT, results), "frames_per_step": config.env.frame_skip}
