"""IMPALA on Atari: environment, inference and learner alone, and the whole system, in one process."""

from __future__ import annotations

from typing import Any

from paper_configs.impala import atari_shallow
from repro.benchmarks.measuring import actor_learner, raw, timing
from repro.environments.atari import make_atari
from repro.papers.impala.experiments.discrete import DiscreteExperiment
from repro.training import devices


def measure(seconds: float, repeats: int) -> dict[str, Any]:
    """Parts and whole for Pong with the paper's shallow network, unroll 20 and batch 32.

    The outer bound is that of ALE's own steps and of the matrix products and convolutions alone: no observations, no
    copies, no other operation.

    Args:
        seconds: for each measurement.
        repeats: times that everything is measured.
    """
    devices.configure_threads(deterministic=False)
    config = atari_shallow.get_config("paper")
    experiment = DiscreteExperiment(config)
    results = [
        actor_learner.measure_on_policy(experiment, seed, seconds)
        | {"outer_parts": _measure_outer_parts(experiment, seed, seconds)}
        for seed in range(repeats)
    ]
    found = timing.summarise("impala_atari", actor_learner.UNIT, results)
    return found | timing.summarise_outer(results) | {"frames_per_step": config.env.frame_skip}


def _measure_outer_parts(experiment: DiscreteExperiment, seed: int, seconds: float) -> dict[str, float]:
    """What `raw.measure` says at these sizes."""
    config, learner, runtime = experiment.config, experiment.config.learner, experiment.config.runtime
    environments = [
        make_atari(config.env, runtime.envs_per_actor, seed + 1000 * i, runtime.env_threads)
        for i in range(runtime.num_actors)
    ]
    policies = [experiment.make_local_policy(environment) for environment in environments]
    agent = experiment.make_agent(environments[0], seed=0)
    unrolls = actor_learner.random_unrolls(agent, learner.batch_size, learner.unroll_length).arrays
    body = raw.learner_products(agent, unrolls, learner.batch_size * learner.unroll_length)
    rates = raw.measure(raw.emulation_bodies(environments), policies, runtime.envs_per_actor, body, seconds)
    for environment in environments:
        environment.close()
    return rates
