"""Benchmark of an agent that learns from a replay of sequences: each part alone, and the whole."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import ml_collections
import numpy as np
import psutil
import tensorflow as tf
from tf_agents.trajectories import StepType, Trajectory

from repro.acting.actor import Actor
from repro.acting.unrolls import UnrollGroup
from repro.acting.weights import WeightsPublisher
from repro.benchmarks.measuring import actor_learner, raw, timing
from repro.config import resolve
from repro.environments.atari import make_atari
from repro.papers.ctrace.experiment import SequenceExperiment
from repro.replay.sequence_memory import SequenceMemory
from repro.training import devices
from repro.training.learner import Learner

PLAYED = 200
"""Number of steps that the replay is filled with, over and over."""

STORED = 20_000
"""Number of steps over which the replay's memory is measured."""


def measure(
    what: str,
    make_experiment: Callable[[ml_collections.ConfigDict], SequenceExperiment],
    config: ml_collections.ConfigDict,
    seconds: float,
    repeats: int,
) -> dict[str, Any]:
    """Returns the result of a benchmark, with an outer bound, gradient steps per second and the replay's memory.

    The outer bound counts only ALE's own steps and the matrix products and convolutions.

    Args:
        what: name of the benchmark.
        make_experiment: function from a resolved config to its experiment.
        config: config of C-trace's `dqn` or `r2d2`; learning begins after the first frame.
        seconds: length of each measurement in seconds.
        repeats: how often everything is measured.
    """
    config = config.copy_and_resolve_references()
    config.replay.first_frames = 1
    experiment = make_experiment(resolve(config))
    results = [_measure_once(experiment, seed, seconds) for seed in range(repeats)]
    found = timing.summarise(what, actor_learner.UNIT, results)
    bytes_per_step = float(np.median([result["bytes_per_step"] for result in results]))
    return {
        **found,
        **timing.summarise_outer(results),
        "frames_per_step": config.env.frame_skip,
        "updates_per_second": found["whole"] * config.env.frame_skip / experiment.frames_per_update,
        "replay_bytes_per_frame": bytes_per_step / config.env.frame_skip,
    }


def _measure_once(experiment: SequenceExperiment, seed: int, seconds: float) -> dict[str, Any]:
    """Measures parts, outer parts and whole in agent steps per second, and the bytes of a stored step."""
    config, steps = experiment.config, experiment.config.learner.steps_per_update
    num_actors, envs = experiment.num_actors, experiment.envs_per_actor
    environments = [experiment.make_actor_environment(i, seed + 1000 * i) for i in range(num_actors)]
    strategy = devices.make_strategy()
    with strategy.scope():
        agent = experiment.make_agent(environments[0], 0)
    learner = Learner(agent, strategy, devices.use_xla(config.runtime.compile, strategy))
    make_policy = functools.partial(experiment.make_local_policy, epsilon=0.1)
    played = play(experiment, agent.collect_data_spec)
    rng = np.random.default_rng(seed)
    replay = SequenceMemory(agent.collect_data_spec, experiment.sequence_settings, 1, PLAYED, rng)
    (writer,), before, stored = replay.writers, resident_bytes(), 0
    while stored < STORED:
        writer.append(played)
        stored += PLAYED
    bytes_per_step = (resident_bytes() - before) / stored
    batch_size = experiment.replay_training.batch_size
    sampled = replay.sample(batch_size).sequences
    batch = learner.to_device(sampled)
    new_steps = num_actors * envs * steps  # steps between two gradient steps
    few = tf.nest.map_structure(lambda x: x[: len(x) - PLAYED + steps], played)  # includes older frames of a stack

    def learn() -> int:
        learner.step(batch)
        return new_steps

    def sample() -> int:
        replay.sample(batch_size)
        return new_steps

    def store() -> int:
        writer.append(few)
        return steps

    rates = {
        "environment": timing.rate(actor_learner.environment_bodies(environments), seconds),
        "inference": timing.rate(actor_learner.inference_bodies(environments, make_policy), seconds),
        "learner": timing.rate([learn], seconds),
        "storing": timing.rate([store], seconds),
        "sampling": timing.rate([sample], seconds),
    }
    policies = [make_policy(environment) for environment in environments]
    for environment in environments:
        environment.close()
    threads = config.runtime.get("env_threads", 0)
    games = [make_atari(config.env, envs, seed + 1000 * i, threads) for i in range(num_actors)]
    learner_products = raw.learner_products(agent, sampled, new_steps)
    outer = raw.measure(raw.emulation_bodies(games), policies, envs, learner_products, seconds)
    for game in games:
        game.close()
    whole = timing.whole(lambda run: experiment.build_trainer(seed, run, print), seconds) / config.env.frame_skip
    return {"parts": rates, "outer_parts": outer, "whole": whole, "bytes_per_step": bytes_per_step}


def play(experiment: SequenceExperiment, spec: Trajectory) -> Trajectory:
    """Plays and returns `PLAYED` real steps of one environment, arrays [T, ...]; the last one ends its game."""
    environment = experiment.make_environment(1, 0)
    policy = experiment.make_local_policy(environment, 1.0)
    weights = WeightsPublisher(policy.variables())
    weights.publish(0)
    actor, group = Actor(environment, policy, weights, PLAYED, 0, lambda episode: None), UnrollGroup(spec, 1, PLAYED)
    actor.sync_weights()
    actor.collect([group])
    environment.close()
    steps = tf.nest.map_structure(lambda x: x[0, :-1], group.arrays)
    steps.step_type[-1] = StepType.LAST  # the steps that are stored next belong to another game
    return steps


def resident_bytes(pid: int | None = None) -> int:
    """Returns the resident memory in bytes of this process, or of another one."""
    return int(psutil.Process(pid).memory_info().rss)
