"""IMPALA on Atari: environment, inference and learner alone, and the whole system, in one process."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from paper_configs.impala import atari_shallow
from repro.benchmarks.measuring import actor_learner, timing
from repro.papers.impala.experiments.discrete import DiscreteExperiment
from repro.training import devices


def measure(seconds: float, repeats: int) -> dict[str, Any]:
    """Parts and whole for Pong with the paper's shallow network, unroll 20 and batch 32.

    Every part runs as in the system: as many threads as actors, the same number of games, the same batch.

    Args:
        seconds: for each measurement.
        repeats: times that everything is measured.
    """
    devices.configure_threads(deterministic=False)
    config = atari_shallow.get_config("paper")
    experiment = DiscreteExperiment(config)
    results = []
    for seed in range(repeats):
        games = [
            experiment.make_environment(config.runtime.envs_per_actor, seed + 1000 * i)
            for i in range(config.runtime.num_actors)
        ]
        parts = {
            "environment": timing.rate(actor_learner.environment_bodies(games), seconds),
            "inference": timing.rate(actor_learner.inference_bodies(games, experiment.make_local_policy), seconds),
            "learner": timing.rate([learner_body(experiment)], seconds),
        }
        whole = timing.whole(functools.partial(experiment.build_trainer, seed, warn=print), seconds)
        results.append({"parts": parts, "whole": whole / config.env.frame_skip})
    return {**timing.summarise("impala_atari", actor_learner.UNIT, results), "frames_per_step": config.env.frame_skip}


def learner_body(experiment: DiscreteExperiment) -> Callable[[], int]:
    """One train step on a fixed batch; returns the agent steps in it."""
    config, environment = experiment.config, experiment.make_environment(1, seed=0)
    return actor_learner.learner_body(
        lambda: experiment.make_agent(environment, seed=0),
        config.learner.batch_size,
        config.learner.unroll_length,
        config.runtime.compile,
    )
