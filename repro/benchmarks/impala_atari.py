"""Benchmark of IMPALA on Atari: environment, inference and learner alone, and the whole system, in one process."""

from __future__ import annotations

from typing import Any

import ml_collections

from paper_configs.impala import atari_shallow
from repro.benchmarks.measuring import actor_learner, timing
from repro.config import resolve
from repro.papers import find_experiment
from repro.papers.impala.experiments.discrete import DiscreteExperiment
from repro.training import devices


def measure(seconds: float, repeats: int, config: ml_collections.ConfigDict | None = None) -> dict[str, Any]:
    """Measures parts and whole for one game.

    The outer bound counts only ALE's own steps and the matrix products and convolutions: no observations, no copies and
    no other operations.

    Args:
        seconds: length of each measurement in seconds.
        repeats: how often everything is measured.
        config: config of one agent on one game; None for Pong with the paper's shallow network, unroll 20 and batch 32.

    Raises:
        ValueError: the config is of another algorithm or of other environments.
    """
    config = resolve(atari_shallow.get_config("paper") if config is None else config)
    experiment = find_experiment(config)
    if not isinstance(experiment, DiscreteExperiment) or config.env.name != "atari":
        raise ValueError(
            f"--what=impala_atari measures IMPALA on Atari, not algorithm {config.algorithm} with "
            f"env.name={config.env.name!r}."
        )
    devices.configure_threads(deterministic=False)
    results = [actor_learner.measure_on_policy(experiment, seed, seconds) for seed in range(repeats)]
    return {
        **timing.summarise("impala_atari", actor_learner.UNIT, results),
        **timing.summarise_outer(results),
        "agent": config.agent,
        "task": config.env.task,
        "frames_per_step": config.env.frame_skip,
    }
