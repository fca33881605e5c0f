"""Benchmark of V-RACER on HalfCheetah on one core: environment, acting, memory, gradient steps, and the whole.

The whole makes one gradient step per environment step, so its rate is that of both. MuJoCo's own steps and the matrix
products of acting and of a gradient step are measured alone, too.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import ml_collections
import mujoco
import numpy as np
import tensorflow as tf

from paper_configs.refer import figure_4_vracer
from repro.benchmarks.measuring import raw, timing
from repro.config import resolve
from repro.distributions import gaussian
from repro.environments.batched import VectorEnvironment
from repro.environments.mujoco import MujocoEnvironment, make_mujoco
from repro.papers.refer.experiments.replay import ReplayExperiment
from repro.papers.refer.fused import FusedAgent
from repro.papers.refer.gradient_cost import batch_spec
from repro.replay.refer import ReferMemory
from repro.training import devices

UNIT = "steps_per_second"
EPISODE = 1000


def measure(seconds: float, repeats: int) -> dict[str, Any]:
    """Measures parts and whole for the paper's batch of 256 and two layers of 128 units, with a full memory.

    The outer bound counts only MuJoCo's steps and the matrix products of acting and of a gradient step: no
    observations, no memory and no other operations. The process is bound to one core during the measurement.

    Args:
        seconds: length of each measurement in seconds.
        repeats: how often everything is measured.
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
                outer = _measure_outer_parts(config, environment, seed, seconds)
            whole = timing.whole(functools.partial(ReplayExperiment(config).build_trainer, seed, warn=print), seconds)
            results.append({"parts": parts, "outer_parts": outer, "whole": whole})
        return timing.summarise("refer_halfcheetah", UNIT, results) | timing.summarise_outer(results)


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


def _measure_outer_parts(
    config: ml_collections.ConfigDict, environment: MujocoEnvironment, seed: int, seconds: float
) -> dict[str, float]:
    """Measures work that no implementation can avoid, in environment steps per second."""
    agent = ReplayExperiment(config).make_agent(environment, np.random.default_rng(seed))
    outputs = 1 + environment.num_actions + agent.num_coefficients
    sizes = [environment.state_size, *config.network.units, outputs]
    return {
        "simulation": timing.rate([_simulation_body(environment, seed)], seconds),
        "products of acting": timing.rate([_acting_products(sizes, seed)], seconds),
        "products of gradient": timing.rate([_gradient_products(agent, config, environment)], seconds),
    }


def _simulation_body(environment: MujocoEnvironment, seed: int) -> Callable[[], int]:
    """Returns a body of MuJoCo's own steps: as many per environment step, and with resets as often, as the task has."""
    task: Any = environment.config.make_task()
    model, data, substeps = task.model, task.data, task.frame_skip
    taken, rng = itertools.count(), np.random.default_rng(seed)
    action = rng.normal(size=environment.num_actions) * environment.action_scale

    def body() -> int:
        for _ in range(100):
            if next(taken) % environment.max_steps == 0:
                mujoco.mj_resetData(model, data)
                data.ctrl[:] = action
            mujoco.mj_step(model, data, nstep=substeps)
        return 100

    return body


def _acting_products(sizes: Sequence[int], seed: int) -> Callable[[], int]:
    """Returns a body of the products of a vector and each layer's matrix, in NumPy, as in acting.

    Args:
        sizes: sizes of the state, of each hidden layer and of the outputs.
        seed: seed of the random numbers.
    """
    rng = np.random.default_rng(seed)
    vectors = [rng.normal(size=size).astype(np.float32) for size in sizes[:-1]]
    matrices = [rng.normal(size=shape).astype(np.float32) for shape in itertools.pairwise(sizes)]
    pairs = list(zip(vectors, matrices))

    def body() -> int:
        for _ in range(100):
            for vector, matrix in pairs:
                vector @ matrix
        return 100

    return body


def _gradient_products(
    agent: FusedAgent, config: ml_collections.ConfigDict, environment: MujocoEnvironment
) -> Callable[[], int]:
    """Returns a body of one gradient step's products, forward and backward, in TensorFlow; it counts gradient steps."""
    batch = batch_spec(agent, config.learner.batch_size, environment.state_size)
    step = tf.function(agent.gradient_step, autograph=False)
    graph = step.get_concrete_function(tf.TensorSpec([3]), batch).graph
    return raw.one_call(raw.products(graph), 1)


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
    """Returns a body of gradient steps on a fixed batch, and one of the memory's work for them; both count steps."""
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
