"""STAC: an update of each agent of Table 4 over one of IMPALA, and a run's parts alone and together, in one process."""

from __future__ import annotations

from typing import Any

import ml_collections
import numpy as np

from paper_configs.stac import atari
from repro.benchmarks.measuring import actor_learner, timing
from repro.config import resolve_plain
from repro.papers import find_experiment
from repro.papers.stac.experiment import StacExperiment
from repro.training import devices

BASELINE = "impala"
AGENTS = (BASELINE, "impala_aux", "stac", "stacx")


def measure(seconds: float, repeats: int, config: ml_collections.ConfigDict | None = None) -> dict[str, Any]:
    """Ratios of updates, whose agents take turns on one batch, and parts and whole of a run.

    Args:
        seconds: for each measurement; the updates get as much for each agent.
        repeats: times that everything is measured.
        config: with these agents; parts and whole are those of its `agent`. None: STAC on Breakout with the shallow
            network, as `atari.py` has it at desk scale.

    Raises:
        ValueError: the configuration lacks an agent, or is of another paper.
    """
    if config is None:
        config = atari.get_config("desk")
        config.agent = "stac"
    experiments = {agent: _experiment(config, agent) for agent in dict.fromkeys((*AGENTS, config.agent))}
    devices.configure_threads(deterministic=False, threads=config.runtime.get("threads", 0))
    updates = {agent: actor_learner.on_policy_learner_body(experiments[agent]) for agent in AGENTS}
    results = []
    for seed in range(repeats):
        turns = timing.take_turns(updates, seconds * len(updates))
        results.append(
            {
                "update_milliseconds": {agent: 1e3 * float(np.median(times)) for agent, times in turns.items()},
                "ratios": {
                    f"update, {agent} / {BASELINE}": float(np.median(turns[agent] / turns[BASELINE]))
                    for agent in AGENTS[1:]
                },
                **actor_learner.measure_on_policy(experiments[config.agent], seed, seconds),
            }
        )
    names = results[0]["ratios"]
    frames = {"frames_per_step": config.env.frame_skip} if "frame_skip" in config.env else {}
    return {
        **timing.summarise("stac", actor_learner.UNIT, results),
        "agent": config.agent,
        "task": config.env.task,
        **frames,
        "ratios": {name: float(np.median([result["ratios"][name] for result in results])) for name in names},
    }


def _experiment(config: ml_collections.ConfigDict, agent: str) -> StacExperiment:
    experiment = find_experiment(ml_collections.ConfigDict(resolve_plain(config.to_dict(), agent)))
    if not isinstance(experiment, StacExperiment):
        raise ValueError(f"--what=stac measures agents of paper_configs/stac, not algorithm {config.algorithm}.")
    return experiment
