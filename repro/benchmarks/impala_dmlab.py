"""Benchmark of IMPALA on a level of DeepMind Lab: levels, inference and learner alone, and the whole system."""

from __future__ import annotations

from typing import Any

import ml_collections

from paper_configs.impala import dmlab_table2
from repro.benchmarks.measuring import actor_learner, timing
from repro.config import resolve_plain
from repro.environments import dmlab_module
from repro.papers.impala.experiments.discrete import DiscreteExperiment
from repro.training import devices

WARM_UP = 3
"""Updates of the whole system before the clock starts; each takes seconds."""


def measure(seconds: float, repeats: int, config: ml_collections.ConfigDict | None = None) -> dict[str, Any]:
    """Measures parts and whole for one level, each with separate processes.

    The outer bound counts only the steps of the level's processes, as in the parts, and the matrix products and
    convolutions.

    Args:
        seconds: length of each measurement in seconds.
        repeats: how often everything is measured.
        config: config of one agent on one level. None for `seekavoid_arena_01`, which compiles no maps, with the
            shallow network as in `dmlab_table2.py` at desk scale: two actors of 8 levels, unroll 100 and batch 8.

    Raises:
        MissingModuleError: DeepMind Lab is not built.
        ValueError: the config is of other environments.
    """
    if config is None:
        config = dmlab_table2.get_config("desk")
    if config.env.name != "dmlab":
        raise ValueError(f"--what=impala_dmlab measures levels of DeepMind Lab, not env.name={config.env.name!r}.")
    built = dmlab_module.provenance()
    devices.configure_threads(deterministic=False)
    experiment = DiscreteExperiment(ml_collections.ConfigDict(resolve_plain(config.to_dict(), config.agent)))
    results = [actor_learner.measure_on_policy(experiment, seed, seconds, WARM_UP) for seed in range(repeats)]
    found = timing.summarise("impala_dmlab", actor_learner.UNIT, results)
    return {
        **found,
        **timing.summarise_outer(results),
        "task": config.env.task,
        "frames_per_step": config.env.frame_skip,
        "versions": found["versions"] | {"deepmind_lab": built},
    }
