"""ACER on cheetah: each part alone, and the whole system, in one process."""

from __future__ import annotations

from typing import Any

from paper_configs.acer import continuous
from repro.benchmarks import actor_learner, timing
from repro.papers.acer import continuous_parts, experiment
from repro.runtime import devices

UNIT = "agent_steps_per_second"


def measure(seconds: float, repeats: int) -> dict[str, Any]:
    """Parts and whole for the cheetah at desk scale, one thread.

    Args:
        seconds: for each measurement.
        repeats: times that everything is measured.
    """
    config = continuous.get_config("desk")
    devices.configure_threads(deterministic=False, threads=config.runtime.threads)
    config.env.task = "cheetah"
    results = [
        actor_learner.measure_replay_loop(continuous_parts, experiment, config, seed, seconds)
        for seed in range(repeats)
    ]
    found = timing.summarise("acer_continuous", UNIT, results)
    updates = actor_learner.updates_per_second(config, continuous_parts.replay_settings(config), found["whole"])
    return {**found, "updates_per_second": updates}
