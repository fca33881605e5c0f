"""Benchmark of IMPALA's Table 1: frames per second of its schedules, one after the other in one process."""

from __future__ import annotations

import functools
from typing import Any

import ml_collections
import numpy as np

from paper_configs.impala import atari_table1_throughput
from paper_configs.impala.dmlab_table1_throughput import schedules
from repro.benchmarks.measuring import timing
from repro.config import resolve_plain
from repro.evidence import records
from repro.papers import find_experiment
from repro.training import devices
from repro.training.experiment import Experiment
from repro.training.run_directory import RunDirectory
from repro.training.trainer import Trainer

WARM_UP = 3
"""Updates before the clock starts, in addition to those on unrolls that were played during compilation."""
WAITING = 6
"""Most unrolls of an environment that may wait after compilation: in its actor, the queue, prefetching, the learner."""


def measure(seconds: float, repeats: int, config: ml_collections.ConfigDict | None = None) -> dict[str, Any]:
    """Measures rates of whole runs; each repeat runs all schedules, and ratios are medians of those within a repeat.

    Args:
        seconds: half of the seconds for each schedule.
        repeats: how often everything is measured.
        config: config of `atari_table1_throughput` or `dmlab_table1_throughput`; None for Pong with the published
            sizes.

    Raises:
        ValueError: the config does not have these schedules.
    """
    config = atari_table1_throughput.get_config("paper") if config is None else config
    agents = tuple(schedules(1))
    if not set(agents) <= set(config.get("variants", {})):
        raise ValueError(f"--what=table1 measures the schedules of Table 1, which {config.experiment} does not have.")
    devices.configure_threads(deterministic=False)
    plain = config.to_dict()
    experiments = {agent: find_experiment(ml_collections.ConfigDict(resolve_plain(plain, agent))) for agent in agents}
    rates: dict[str, list[float]] = {agent: [] for agent in agents}
    for seed in range(repeats):
        for agent, experiment in experiments.items():
            build = functools.partial(_build, experiment, seed)
            runtime, batch_size = experiment.config.runtime, experiment.config.learner.batch_size
            waiting = WAITING * runtime.num_actors * runtime.envs_per_actor // batch_size
            rates[agent].append(timing.whole(build, seconds, WARM_UP + waiting))
    impala = np.array(rates["impala_async"])
    return {
        "what": "table1",
        "unit": "frames_per_second",
        "task": config.env.task,
        "rows": {agent: float(np.median(values)) for agent, values in rates.items()},
        "ratios": {
            f"IMPALA / {agent}": float(np.median(impala / np.array(values)))
            for agent, values in rates.items()
            if agent != "impala_async"
        },
        "repeats": rates,
        "hardware": records.hardware(),
        "versions": records.versions(),
    }


def _build(experiment: Experiment, seed: int, run: RunDirectory) -> Trainer:
    return experiment.build_trainer(seed, run, print)
