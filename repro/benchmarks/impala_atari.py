"""IMPALA on Atari: environment, inference and learner alone, and the whole system, in one process."""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
from tf_agents.trajectories import PolicyStep, StepType

from paper_configs.impala import atari_shallow
from repro.benchmarks import timing
from repro.environments.atari import AtariEnvironment
from repro.papers.impala import experiment
from repro.runtime import devices
from repro.runtime.actor import compile_act
from repro.runtime.learner import Learner
from repro.runtime.run_directory import RunDirectory
from repro.runtime.unrolls import UnrollGroup

UNIT = "agent_steps_per_second"


def measure(seconds: float, repeats: int) -> dict[str, Any]:
    """Parts and whole for Pong with the paper's shallow network, unroll 20 and batch 32.

    Every part runs as in the system: as many threads as actors, the same number of games, the same batch.

    Args:
        seconds: for each measurement.
        repeats: times that everything is measured.
    """
    devices.configure_threads(deterministic=False)
    config = atari_shallow.get_config("paper")
    results = []
    for seed in range(repeats):
        parts = {
            "environment": timing.rate(_environment_bodies(config, seed), seconds),
            "inference": timing.rate(_inference_bodies(config), seconds),
            "learner": timing.rate([learner_body(config)], seconds),
        }
        results.append({"parts": parts, "whole": _whole(config, seed, seconds)})
    return {**timing.summarise("impala_atari", UNIT, results), "frames_per_step": config.env.frame_skip}


def _environment_bodies(config: ml_collections.ConfigDict, seed: int) -> list[Callable[[], int]]:
    def body(environment: AtariEnvironment, random: np.random.Generator) -> int:
        environment.step(random.integers(environment.num_actions, size=environment.num_envs, dtype=np.int32))
        return environment.num_envs

    bodies: list[Callable[[], int]] = []
    for i in range(config.runtime.num_actors):
        environment = experiment.make_environment(config, config.runtime.envs_per_actor, seed + 1000 * i)
        environment.reset()
        bodies.append(functools.partial(body, environment, np.random.default_rng(i)))
    return bodies


def _inference_bodies(config: ml_collections.ConfigDict) -> list[Callable[[], int]]:
    num_envs = config.runtime.envs_per_actor
    step_type = np.full(num_envs, StepType.MID, np.int32)
    seed = np.zeros(2, np.int32)

    def body(act: Callable[..., PolicyStep], observation: np.ndarray) -> int:
        choice = act(observation, step_type, (), seed)
        choice.action.numpy(), choice.info["logits"].numpy()
        return num_envs

    bodies: list[Callable[[], int]] = []
    for i in range(config.runtime.num_actors):
        environment = experiment.make_environment(config, num_envs, seed=i)
        observation, _ = environment.reset()
        act = compile_act(experiment.make_local_policy(config, environment), num_envs)
        bodies.append(functools.partial(body, act, observation))
    return bodies


def learner_body(config: ml_collections.ConfigDict) -> Callable[[], int]:
    """One train step on a fixed batch; returns the agent steps in it."""
    strategy = devices.make_strategy()
    environment = experiment.make_environment(config, 1, seed=0)
    with strategy.scope():
        agent = experiment.make_agent(config, environment, seed=0)
    learner = Learner(agent, strategy, devices.use_xla(config.runtime.compile, strategy))
    length, size = config.learner.unroll_length, config.learner.batch_size
    group = UnrollGroup(agent.collect_data_spec, size, length)
    random = np.random.default_rng(0)
    group.arrays.observation[:] = random.integers(256, size=group.arrays.observation.shape)
    group.arrays.step_type[:] = StepType.MID
    group.arrays.discount[:] = 1.0
    group.arrays.reward[:] = random.random(group.arrays.reward.shape)

    def body() -> int:
        learner.step(learner.place(group.arrays))
        return length * size

    return body


def _whole(config: ml_collections.ConfigDict, seed: int, seconds: float) -> float:
    with tempfile.TemporaryDirectory() as folder:
        run = RunDirectory(Path(folder), {}, seed)
        loop = experiment.build_training(config, seed, run, print)
        updates = iter(loop)
        for _ in range(10 * timing.WARM_UP):
            first = next(updates)
        start = time.perf_counter()
        while time.perf_counter() - start < 2 * seconds:
            last = next(updates)
        elapsed = time.perf_counter() - start
        loop.close()
        return (last.frames - first.frames) / config.env.frame_skip / elapsed
