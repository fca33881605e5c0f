"""ACER on Atari with replay ratio 4: each part alone, and the whole system, in one process."""

from __future__ import annotations

from typing import Any

from paper_configs.acer import atari
from repro.benchmarks import actor_learner, timing
from repro.papers.acer import atari_parts, experiment
from repro.runtime import devices

UNIT = "agent_steps_per_second"


def measure(seconds: float, repeats: int) -> dict[str, Any]:
    """Parts and whole for Pong at desk scale, with trust region.

    Args:
        seconds: for each measurement.
        repeats: times that everything is measured.
    """
    devices.configure_threads(deterministic=False)
    config = atari.get_config("desk")
    config.env.task = "pong"
    results = [
        actor_learner.measure_replay_loop(atari_parts, experiment, config, seed, seconds) for seed in range(repeats)
    ]
    found = timing.summarise("acer_atari", UNIT, results)
    updates = actor_learner.updates_per_second(config, atari_parts.replay_settings(config), found["whole"])
    return {**found, "frames_per_step": config.env.frame_skip, "updates_per_second": updates}
