"""Builds the parts of C-trace's agents, DQN and R2D2, from a configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import ml_collections
import numpy as np
import tensorflow as tf
from tf_agents.policies import tf_policy

from repro.environments.atari import AtariEnvironment, make_atari
from repro.networks.epsilon_greedy_policy import EpsilonGreedyPolicy
from repro.papers.ctrace import dqn_parts, r2d2_parts
from repro.papers.ctrace.agent import SCALARS, CtraceAgent
from repro.papers.ctrace.methods import method_of
from repro.replay.sequences import SequenceReplay
from repro.runtime import checkpoint, devices
from repro.runtime.actor import Actor
from repro.runtime.learner import Learner
from repro.runtime.run_directory import RunDirectory
from repro.runtime.sequence_training import SequenceTraining
from repro.runtime.sources import GroupSizes, LockstepSource
from repro.runtime.training import EpisodeLog, run_settings
from repro.runtime.unrolls import UnrollGroup
from repro.runtime.weights import WeightsPublisher

PARTS: dict[str, ModuleType] = {"dqn": dqn_parts, "r2d2": r2d2_parts}
"""What an experiment is made of."""


def make_environment(config: ml_collections.ConfigDict, num_envs: int, seed: int) -> AtariEnvironment:
    return make_atari(config.env, num_envs, seed, config.runtime.env_threads)


def make_agent(config: ml_collections.ConfigDict, environment: AtariEnvironment, seed: int) -> CtraceAgent:
    """The agent with newly initialised weights; call it under the strategy's scope."""
    parts, method = PARTS[config.experiment], method_of(config)
    return CtraceAgent(
        environment.time_step_spec,
        environment.action_spec,
        network=parts.make_network(config, environment.num_actions, seed),
        target_network=parts.make_network(config, environment.num_actions, seed),
        learning=parts.learning(config, method),
        loss_settings=parts.loss_settings(config, method),
        evaluation_epsilon=config.evaluation.epsilon,
        train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False, name="updates"),
    )


def make_local_policy(
    config: ml_collections.ConfigDict, environment: AtariEnvironment, epsilon: tf.Variable | np.ndarray | float
) -> EpsilonGreedyPolicy:
    """A collect policy with variables of its own, which the actor overwrites with the published ones."""
    network = PARTS[config.experiment].make_network(config, environment.num_actions, seed=0)
    network.build_variables(environment.time_step_spec.observation)
    return EpsilonGreedyPolicy(environment.time_step_spec, environment.action_spec, network, epsilon)


def build_training(
    config: ml_collections.ConfigDict, seed: int, run: RunDirectory, warn: Callable[[str], None]
) -> SequenceTraining:
    """The whole of a run, restored from its last checkpoint if it has one.

    Args:
        config: of `paper_configs/ctrace/dqn.py` or `r2d2.py`.
        seed: from which the seeds of weights, environments and action sampling are derived; the replay's draws cannot
            be seeded.
        run: folder for checkpoints.
        warn: called with one line when a broken checkpoint is passed over.

    Raises:
        ValueError: a field has an impossible value; the message names it.
    """
    parts, runtime = PARTS[config.experiment], config.runtime
    if runtime.schedule != "lockstep":
        raise ValueError(f"runtime.schedule={runtime.schedule!r}: this experiment has lockstep alone.")
    num_actors, envs_per_actor = parts.num_actors(config)
    seeds = np.random.SeedSequence(seed).generate_state(1 + 2 * num_actors) % 2**31
    environments = [make_environment(config, envs_per_actor, int(seeds[1 + 2 * i])) for i in range(num_actors)]
    strategy = devices.make_strategy()
    with strategy.scope():
        agent = make_agent(config, environments[0], int(seeds[0]))
    learner = Learner(agent, strategy, devices.use_xla(runtime.compile, strategy))
    weights = WeightsPublisher(agent.collect_policy.variables())
    episodes, explorations = EpisodeLog(), parts.make_exploration(config)
    steps = config.learner.steps_per_update
    actors = []
    for i, (environment, exploration) in enumerate(zip(environments, explorations, strict=True)):
        policy = make_local_policy(config, environment, exploration.epsilon)
        actors.append(Actor(environment, policy, weights, steps, int(seeds[2 + 2 * i]), episodes.append))
    spec, num_envs = agent.collect_data_spec, num_actors * envs_per_actor

    def set_frames(frames: int) -> None:
        for exploration in explorations:
            exploration.set_frames(frames)

    return SequenceTraining(
        learner,
        LockstepSource(
            actors,
            lambda: UnrollGroup(spec, envs_per_actor, steps),
            GroupSizes(envs_per_actor, num_envs),
            runtime.lockstep_lag,
            _as_it_is,
        ),
        weights,
        episodes,
        run_settings(config, run, warn),
        num_envs * steps * config.env.frame_skip,
        SequenceReplay(spec, parts.sequence_settings(config, method_of(config)), run.path / "replay_being_saved"),
        num_envs,
        parts.sequence_learning(config),
        SCALARS,
        set_frames,
    )


def _as_it_is(trajectory: object) -> object:
    """In place of a learner's `place`, for batches that are stored alone."""
    return trajectory


def evaluation_games(config: ml_collections.ConfigDict) -> tuple[int, int]:
    """Games of the evaluation, and how many are played side by side."""
    return config.evaluation.episodes, config.evaluation.num_envs


def score_unit(config: ml_collections.ConfigDict) -> str:
    """Unit of returns in records."""
    return "game score"


def describe_evaluation(config: ml_collections.ConfigDict, episodes: int) -> str:
    """The protocol in one line, for records."""
    return (
        f"{episodes} games after training, 1 to {config.env.noop_max} no-ops, epsilon {config.evaluation.epsilon:g}, "
        f"at most {config.env.max_frames:,} frames"
    )


def load_policy(
    config: ml_collections.ConfigDict,
    checkpoints: Path,
    num_envs: int,
    seed: int,
    warn: Callable[[str], None],
) -> tuple[tf_policy.TFPolicy, AtariEnvironment]:
    """The trained policy of a run and environments to evaluate it in: whole games, a life lost changes nothing.

    Raises:
        CheckpointError: the run has no checkpoint yet, or none is whole.
    """
    config = config.copy_and_resolve_references()
    config.env.life_loss_ends = False
    environment = make_environment(config, num_envs, seed)
    agent = make_agent(config, environment, seed=0)
    checkpoint.restore_trained(checkpoints, tf.train.Checkpoint(agent=agent), warn)
    return agent.policy, environment
