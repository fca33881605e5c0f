"""V-RACER on HalfCheetah on one core: environment, acting, memory and gradient steps alone, and the whole.

The whole makes one gradient step for each environment step, so its rate is that of both.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import ml_collections
import numpy as np

from paper_configs.refer import figure_4_vracer
from repro.benchmarks.measuring import timing
from repro.config import resolve
from repro.distributions import gaussian
from repro.environments.batched import VectorEnvironment
from repro.environments.mujoco import make_mujoco
from repro.papers.refer.experiments.replay import ReplayExperiment
from repro.replay.refer import ReferMemory
from repro.training import devices

UNIT = "steps_per_second"
EPISODE = 1000


def measure(seconds: float, repeats: int) -> dict[str, Any]:
    """Parts and whole for the paper's batch of 256 and two layers of 128 units, with a full memory.

    The process is bound to one core while it measures.

    Args:
        seconds: for each measurement.
        repeats: times that everything is measured.
    """
    with timing.one_core():
        devices.configure_threads(deterministic=False)
        config = resolve(figure_4_vracer.get_config("paper"))
        results = []
        for seed in range(repeats):
            with contextlib.closing(make_mujoco(config.env, 1, seed)) as environment:
                gradient, remember = _learner_bodies(config, environment, _full_memory(config, environment, seed), seed)
                parts = {
                    "environment": timing.rate([_environment_body(environment, seed)], seconds),
                    "acting": timing.rate([_acting_body(config, environment, seed)], seconds),
                    "memory": timing.rate([remember], seconds),
                    "gradient": timing.rate([gradient], seconds),
                }
            whole = timing.whole(functools.partial(ReplayExperiment(config).build_trainer, seed, warn=print), seconds)
            results.append({"parts": parts, "whole": whole})
        return timing.summarise("refer_halfcheetah", UNIT, results)


def _environment_body(environment: VectorEnvironment, seed: int) -> Callable[[], int]:
    environment.reset()
    action = np.random.default_rng(seed).normal(size=(1, environment.num_actions)).astype(np.float32)

    def body() -> int:
        for _ in range(100):
            environment.step(action)
        return 100

    return body


def _acting_body(config: ml_collections.ConfigDict, environment: VectorEnvironment, seed: int) -> Callable[[], int]:
    rng = np.random.default_rng(seed)
    agent = ReplayExperiment(config).make_agent(environment, rng)
    state = environment.reset()[0][0]

    def body() -> int:
        for _ in range(100):
            output = agent.act(state)
            gaussian.sample_truncated(rng, output.mean, output.std)
        return 100

    return body


def _full_memory(config: ml_collections.ConfigDict, environment: VectorEnvironment, seed: int) -> ReferMemory:
    sizes = config.memory.capacity, environment.state_size, environment.num_actions, environment.max_steps
    memory = ReferMemory(*sizes, discount=config.learner.discount)
    g = np.random.default_rng(seed)
    shape = (EPISODE, environment.num_actions)
    while len(memory) + EPISODE <= config.memory.capacity:
        means = 0.1 * g.normal(size=shape)
        states, rewards = g.normal(size=(EPISODE + 1, environment.state_size)), g.normal(size=EPISODE)
        stds = np.full(shape, 0.2**0.5)
        memory.add_episode(
            states, means + stds * g.normal(size=shape), rewards, means, stds, np.zeros(EPISODE + 1), False
        )
    memory.set_c_max(1.0 + config.refer.c)
    return memory


def _learner_bodies(
    config: ml_collections.ConfigDict, environment: VectorEnvironment, memory: ReferMemory, seed: int
) -> tuple[Callable[[], int], Callable[[], int]]:
    """A call of gradient steps on a fixed batch, and what the memory does for one; both return gradient steps."""
    rng = np.random.default_rng(seed)
    agent = ReplayExperiment(config).make_agent(environment, rng)
    k = config.learner.steps_per_call
    size = k * config.learner.batch_size
    batch = memory.gather(memory.sample(rng, size))
    beta, c_max, rate = np.full(k, 0.5), np.full(k, 5.0), np.full(k, 1e-4)
    _, values, *_ = agent.train(batch, beta, c_max, rate)
    ratios = np.exp(0.3 * rng.normal(size=size)).astype(np.float32)

    def gradient() -> int:
        agent.train(batch, beta, c_max, rate)
        agent.sync_acting_weights()
        return k

    def remember() -> int:
        indices = memory.sample(rng, size)
        memory.gather(indices)
        memory.update(indices, ratios, values)
        return k

    return gradient, remember
