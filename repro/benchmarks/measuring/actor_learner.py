"""Parts of a system of actors and a learner, each alone, as bodies for `timing.rate`.

A body is a function that does some work and returns its amount, here in agent steps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.policies import tf_policy
from tf_agents.trajectories import PolicyStep, StepType

from repro.acting.rollout import compile_act
from repro.acting.unrolls import UnrollGroup
from repro.benchmarks.measuring import raw, timing
from repro.config import PROCESSES, frames_per_step
from repro.environments.atari import AtariEnvironment
from repro.environments.batched import BatchedEnvironment
from repro.papers.acer.experiment import AcerExperiment
from repro.replay.unrolls import UnrollReplay
from repro.training import devices
from repro.training.learner import Learner
from repro.training.unroll_experiment import UnrollExperiment

UNIT = "agent_steps_per_second"


def environment_bodies(environments: Sequence[BatchedEnvironment]) -> list[Callable[[], int]]:
    """Returns a body for each environment that steps it with random actions."""

    def body(environment: BatchedEnvironment, random: np.random.Generator) -> int:
        environment.step(_random_actions(environment, random))
        return environment.num_envs

    for environment in environments:
        environment.reset()
    return [functools.partial(body, x, np.random.default_rng(i)) for i, x in enumerate(environments)]


def inference_bodies(
    environments: Sequence[BatchedEnvironment], make_policy: Callable[[BatchedEnvironment], tf_policy.TFPolicy]
) -> list[Callable[[], int]]:
    """Returns a body for each environment that calls a policy on a fixed observation."""
    seed = np.zeros(2, np.int32)

    def body(act: Callable[..., PolicyStep], observation: Any, step_type: np.ndarray, state: Any) -> int:
        act(observation, step_type, state, seed)
        return len(step_type)

    bodies: list[Callable[[], int]] = []
    for environment in environments:
        observation, _ = environment.reset()
        policy = make_policy(environment)
        act = compile_act(policy, environment.num_envs)
        step_type = np.full(environment.num_envs, StepType.MID, np.int32)
        state = policy.get_initial_state(environment.num_envs)
        bodies.append(functools.partial(body, act, observation, step_type, state))
    return bodies


def random_unrolls(agent: tf_agent.TFAgent, size: int, length: int) -> UnrollGroup:
    """Returns a batch of unrolls of noise in which no episode ends; floats are in [0.5, 1], valid also as stds."""
    random = np.random.default_rng(0)
    group = UnrollGroup(agent.collect_data_spec, size, length)
    for array in tf.nest.flatten(group.arrays):
        high = 256 if array.dtype == np.uint8 else 1
        integers = array.dtype.kind in "iu"
        array[:] = random.integers(high, size=array.shape) if integers else random.uniform(0.5, 1.0, array.shape)
    group.arrays.step_type[:] = group.arrays.next_step_type[:] = StepType.MID
    group.arrays.discount[:] = 1.0
    return group


def learner_body(
    make_agent: Callable[[], tf_agent.TFAgent], size: int, length: int, compile_: str
) -> Callable[[], int]:
    """Returns a body of one train step on a fixed batch of `size` unrolls of `length` steps; counts all these steps."""
    strategy = devices.make_strategy()
    with strategy.scope():
        agent = make_agent()
    learner = Learner(agent, strategy, devices.use_xla(compile_, strategy))
    group = random_unrolls(agent, size, length)

    def body() -> int:
        learner.step(learner.to_device(group.arrays))
        return length * size

    return body


def unroll_learner_body(experiment: UnrollExperiment) -> Callable[[], int]:
    """Returns a body of one train step on a fixed batch; counts only the agent steps that are new in it."""
    config, environment = experiment.config, experiment.make_environment(1, seed=0)
    train = learner_body(
        lambda: experiment.make_agent(environment, seed=0),
        config.learner.batch_size,
        config.learner.unroll_length,
        config.runtime.compile,
    )
    environment.close()
    new = experiment.frames_per_update // frames_per_step(config)

    def body() -> int:
        train()
        return new

    return body


def measure_on_policy(
    experiment: UnrollExperiment, seed: int, seconds: float, warm_up: int = 10 * timing.WARM_UP
) -> dict[str, Any]:
    """Measures parts, outer parts and whole of an agent that learns from each unroll once, in agent steps per second.

    Every part runs as in the system: as many threads as actors, the same number of games, the same batch. The outer
    parts are only the steps of ALE, or of the environments, and the matrix products and convolutions.

    Args:
        experiment: experiment that builds the parts and the whole run.
        seed: seed of the environments and of the run.
        seconds: length of each measurement in seconds.
        warm_up: updates of the whole before its clock starts.

    Raises:
        ValueError: the actors are processes, which read their settings from the folder of a run.
    """
    config = experiment.config
    if config.runtime.schedule == PROCESSES:
        raise ValueError(f"runtime.schedule={PROCESSES}: choose another one; benchmarks measure actors in threads.")
    environments = [experiment.make_actor_environment(i, seed + 1000 * i) for i in range(experiment.num_actors)]
    stepping = environment_bodies(environments)
    parts = {
        "environment": timing.rate(stepping, seconds),
        "inference": timing.rate(inference_bodies(environments, experiment.make_local_policy), seconds),
        "learner": timing.rate([unroll_learner_body(experiment)], seconds),
    }
    agent = experiment.make_agent(environments[0], seed=0)
    unrolls = random_unrolls(agent, config.learner.batch_size, config.learner.unroll_length).arrays
    products = raw.learner_products(agent, unrolls, experiment.frames_per_update // frames_per_step(config))
    outer = _measure_outer_parts(environments, stepping, experiment.make_local_policy, products, seconds)
    for environment in environments:
        environment.close()
    whole = timing.whole(lambda run: experiment.build_trainer(seed, run, print), seconds, warm_up)
    return {"parts": parts, "outer_parts": outer, "whole": whole / frames_per_step(config)}


def _measure_outer_parts(
    environments: Sequence[BatchedEnvironment],
    stepping: Sequence[Callable[[], int]],
    make_policy: Callable[[BatchedEnvironment], tf_policy.TFPolicy],
    products: Callable[[], int],
    seconds: float,
) -> dict[str, float]:
    """Returns the result of `raw.measure`, with `stepping` for environments without emulators that can step alone."""
    games = [environment for environment in environments if isinstance(environment, AtariEnvironment)]
    policies = [make_policy(environment) for environment in environments]
    emulation = raw.emulation_bodies(games) or stepping
    return raw.measure(emulation, policies, environments[0].num_envs, products, seconds)


def replay_bodies(
    agent: tf_agent.TFAgent, replay: UnrollReplay, size: int, length: int
) -> tuple[Callable[[], int], Callable[[], int]]:
    """Returns a body that stores a batch in a full replay and one that samples a batch; both count its agent steps."""
    random = np.random.default_rng(0)
    group = random_unrolls(agent, size, length)
    while len(replay) < replay.capacity:
        replay.add(group.arrays)

    def store() -> int:
        replay.add(group.arrays)
        return size * length

    def sample() -> int:
        replay.sample(random, size)
        return size * length

    return store, sample


def measure_replay(what: str, experiment: AcerExperiment, seconds: float, repeats: int) -> dict[str, Any]:
    """Returns the result of a benchmark of an agent that learns from a replay, with outer bound and gradient step rate.

    The outer bound counts only ALE's own steps, or those of the environments, and the matrix products and convolutions.

    Args:
        what: name of the benchmark.
        experiment: experiment that builds the parts and the whole run.
        seconds: length of each measurement in seconds.
        repeats: how often everything is measured.

    Raises:
        ValueError: the experiment has no replay.
    """
    config, settings = experiment.config, experiment.replay_settings
    results = [_measure_replay_once(experiment, seed, seconds) for seed in range(repeats)]
    found = timing.summarise(what, UNIT, results)
    batch = config.learner.batch_size * config.learner.unroll_length
    updates = found["whole"] * (settings.ratio + settings.on_policy) / batch
    frames = {"frames_per_step": config.env.frame_skip} if "frame_skip" in config.env else {}
    return {**found, **timing.summarise_outer(results), **frames, "updates_per_second": updates}


def _measure_replay_once(experiment: AcerExperiment, seed: int, seconds: float) -> dict[str, Any]:
    """Measures parts, outer parts and whole, each in agent steps per second of the whole.

    A part that is needed r times per environment step counts with 1/r of its rate.
    """
    config, settings = experiment.config, experiment.replay_settings
    size, length, runtime = config.learner.batch_size, config.learner.unroll_length, config.runtime
    environments = [experiment.make_actor_environment(i, seed + 1000 * i) for i in range(experiment.num_actors)]

    def make_agent() -> tf_agent.TFAgent:
        return experiment.with_hparams(experiment.sample_hparams(0)).make_agent(environments[0], 0)

    agent = make_agent()
    replay = experiment.make_replay(agent)
    if replay is None:
        raise ValueError(f"replay.ratio={settings.ratio}: choose a number above 0 to measure a replay.")
    store, sample = replay_bodies(agent, replay, size, length)
    learner = timing.rate([learner_body(make_agent, size, length, runtime.compile)], seconds)
    learned = settings.ratio + settings.on_policy  # how often each step is learned from
    stepping = environment_bodies(environments)
    parts = {
        "environment": timing.rate(stepping, seconds),
        "inference": timing.rate(inference_bodies(environments, experiment.make_local_policy), seconds),
        "learner": learner / learned,
        "storing": timing.rate([store], seconds),
        "sampling": timing.rate([sample], seconds) / settings.ratio,
    }
    products = raw.learner_products(agent, random_unrolls(agent, size, length).arrays, size * length)
    outer = _measure_outer_parts(environments, stepping, experiment.make_local_policy, products, seconds)
    outer["products of learner"] /= learned
    for environment in environments:
        environment.close()
    whole = timing.whole(lambda run: experiment.build_trainer(seed, run, print), seconds)
    return {"parts": parts, "outer_parts": outer, "whole": whole / frames_per_step(config)}


def _random_actions(environment: BatchedEnvironment, random: np.random.Generator) -> np.ndarray:
    """Returns integers below the number of actions, or uniform numbers in [-1, 1] for continuous actions."""
    spec = environment.action_spec
    if spec.dtype.is_integer:
        return random.integers(environment.num_actions, size=environment.num_envs, dtype=np.int32)
    shape = (environment.num_envs, *spec.shape)
    return random.uniform(-1.0, 1.0, shape).astype(np.float32)
