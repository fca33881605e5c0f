"""Benchmark of STAC: update and run of each agent of Table 4 relative to IMPALA, and parts and whole of one run."""

from __future__ import annotations

import contextlib
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np

from paper_configs.stac import atari
from repro.benchmarks.measuring import actor_learner, alternating, timing
from repro.config import resolve_plain
from repro.evidence import published
from repro.papers import find_experiment
from repro.papers.stac.experiment import StacExperiment
from repro.training import devices
from repro.training.run_directory import RunDirectory

BASELINE = "impala"
AGENTS = (BASELINE, "impala_aux", "stac", "stacx")
PATIENCE_SECONDS = 600.0
"""Longest wait in seconds for the first count of a run, which first compiles its update."""


def measure(seconds: float, repeats: int, config: ml_collections.ConfigDict | None = None) -> dict[str, Any]:
    """Measures ratios of update times and of run times, and parts, outer parts and whole of one run.

    The agents take turns with their updates on one batch.

    Args:
        seconds: length of each measurement in seconds, for updates that of each agent, for run times that of a turn.
        repeats: how often everything is measured; for run times the number of rounds of two turns.
        config: config with all of `AGENTS`; parts and whole are those of its `agent`. None for STAC on Breakout with
            the shallow network, as in `atari.py` at desk scale.

    Raises:
        ValueError: the config lacks an agent, or is of another paper.
        ProgramError: a run ended, or counted nothing.
    """
    if config is None:
        config = atari.get_config("desk")
        config.agent = "stac"
    experiments = {agent: _experiment(config, agent) for agent in dict.fromkeys((*AGENTS, config.agent))}
    devices.configure_threads(deterministic=False, threads=config.runtime.get("threads", 0))
    updates = {agent: actor_learner.unroll_learner_body(experiments[agent]) for agent in AGENTS}
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
    runs = _compare_runs(config, seconds, repeats)
    frames = {"frames_per_step": config.env.frame_skip} if "frame_skip" in config.env else {}
    return {
        **timing.summarise("stac", actor_learner.UNIT, results),
        **timing.summarise_outer(results),
        "agent": config.agent,
        "task": config.env.task,
        **frames,
        "ratios": {name: float(np.median([result["ratios"][name] for result in results])) for name in names}
        | {name: run["ratio"] for name, run in runs.items()},
        "intervals": {name: run["interval"] for name, run in runs.items() if "interval" in run},
        "published": _published_run_times(config.experiment),
        "runs": runs,
    }


def _compare_runs(config: ml_collections.ConfigDict, seconds: float, rounds: int) -> dict[str, dict[str, Any]]:
    """Returns the ratio of each agent's run time to that of `BASELINE`, as from `alternating.compare`.

    Each agent trains in a separate program; one runs while the others are stopped.
    """
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ending:
        programs = []
        for agent in AGENTS:
            path = Path(folder) / agent
            RunDirectory(path, config.to_dict() | {"agent": agent}, seed=0).release()
            command = shlex.join([sys.executable, "-m", "repro.train", f"--run_dir={path}"])
            programs.append(alternating.Program(command))
            ending.callback(programs[-1].end)
            programs[-1].warm_up(seconds, PATIENCE_SECONDS)
        turns = dict(zip(AGENTS, alternating.alternate(programs, seconds, rounds)))
    return {_run_time(agent): alternating.compare(turns[BASELINE], turns[agent]) for agent in AGENTS[1:]}


def _published_run_times(experiment: str) -> dict[str, float]:
    """Returns the same ratios from Table 4; empty for an experiment that the table does not have."""
    rows = published.load("stac").rows
    cells = [(row.agent, row.value) for row in rows if row.table == "4" and row.experiment == experiment]
    minutes = {agent: value for agent, value in cells if value is not None}
    return {_run_time(agent): minutes[agent] / minutes[BASELINE] for agent in AGENTS[1:] if minutes}


def _run_time(agent: str) -> str:
    return f"run time, {agent} / {BASELINE}"


def _experiment(config: ml_collections.ConfigDict, agent: str) -> StacExperiment:
    experiment = find_experiment(ml_collections.ConfigDict(resolve_plain(config.to_dict(), agent)))
    if not isinstance(experiment, StacExperiment):
        raise ValueError(f"--what=stac measures agents of paper_configs/stac, not algorithm {config.algorithm}.")
    return experiment
