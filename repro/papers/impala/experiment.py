"""Builds IMPALA's parts from a configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_collections
import numpy as np
import tensorflow as tf
from tf_agents.policies import tf_policy

from repro.acting.actor import Actor
from repro.acting.evaluation import describe_protocol
from repro.acting.sources import make_source
from repro.acting.weights import WeightsPublisher
from repro.environments.atari import AtariEnvironment, make_atari
from repro.networks import atari
from repro.networks.actor_critic import ActorCritic
from repro.networks.actor_critic_policy import ActorCriticPolicy
from repro.networks.initializers import distinct_seeds
from repro.optimizers.rmsprop_tf1 import RMSPropTF1
from repro.optimizers.schedules import LinearOnFrames
from repro.papers.impala.agent import ImpalaAgent
from repro.papers.impala.loss import CORRECTIONS, LossSettings
from repro.training import checkpoint, devices
from repro.training.learner import Learner
from repro.training.on_policy_trainer import OnPolicyTrainer
from repro.training.run_directory import RunDirectory
from repro.training.trainer import EpisodeLog, run_settings

TORSOS = {"shallow": atari.shallow_torso, "deep": atari.deep_torso}


def frames_per_update(config: ml_collections.ConfigDict) -> int:
    """Environment frames in one batch: unrolls x steps x frames per step."""
    return config.learner.batch_size * config.learner.unroll_length * config.env.frame_skip


def make_environment(config: ml_collections.ConfigDict, num_envs: int, seed: int) -> AtariEnvironment:
    return make_atari(config.env, num_envs, seed, config.runtime.env_threads)


def make_network(config: ml_collections.ConfigDict, num_actions: int, seed: int) -> ActorCritic:
    """Raises ValueError for an unknown torso."""
    if config.network.torso not in TORSOS:
        raise ValueError(f"network.torso={config.network.torso!r}: choose {' or '.join(TORSOS)}.")
    seeds = distinct_seeds(seed)
    torso = TORSOS[config.network.torso](seed=next(seeds))
    return ActorCritic(torso, num_actions, config.network.core_units or None, seed=next(seeds))


def make_agent(config: ml_collections.ConfigDict, environment: AtariEnvironment, seed: int) -> ImpalaAgent:
    """The agent with newly initialised weights; call it under the strategy's scope."""
    if config.loss.correction not in CORRECTIONS:
        raise ValueError(f"loss.correction={config.loss.correction!r}: choose {', '.join(CORRECTIONS)}.")
    learner = config.learner
    learning_rate = LinearOnFrames(
        learner.learning_rate, learner.final_learning_rate, config.frames, frames_per_update(config)
    )
    settings = {name: config.loss[name] for name in LossSettings._fields}
    return ImpalaAgent(
        environment.time_step_spec,
        environment.action_spec,
        network=make_network(config, environment.num_actions, seed),
        optimizer=RMSPropTF1(
            learning_rate,
            decay=learner.rmsprop_decay,
            momentum=learner.rmsprop_momentum,
            epsilon=learner.rmsprop_epsilon,
        ),
        discount=config.loss.discount,
        loss_settings=LossSettings(**settings),
        clip_global_norm=learner.clip_global_norm,
        train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False, name="updates"),
        greedy=config.evaluation.greedy,
    )


def make_local_policy(config: ml_collections.ConfigDict, environment: AtariEnvironment) -> tf_policy.TFPolicy:
    """A collect policy with variables of its own, which the actor overwrites with the published ones."""
    network = make_network(config, environment.num_actions, seed=0)
    network.build_variables(environment.time_step_spec.observation)
    return ActorCriticPolicy(environment.time_step_spec, environment.action_spec, network)


def build_training(
    config: ml_collections.ConfigDict, seed: int, run: RunDirectory, warn: Callable[[str], None]
) -> OnPolicyTrainer:
    """The whole of a run, restored from its last checkpoint if it has one.

    Args:
        config: of `paper_configs/impala`.
        seed: from which the seeds of weights, environments and action sampling are derived.
        run: folder for checkpoints.
        warn: called with one line when a broken checkpoint is passed over.

    Raises:
        ValueError: a field has an impossible value; the message names it.
    """
    runtime = config.runtime
    seeds = np.random.SeedSequence(seed).generate_state(1 + 2 * runtime.num_actors) % 2**31
    environments = [
        make_environment(config, runtime.envs_per_actor, int(seeds[1 + 2 * i])) for i in range(runtime.num_actors)
    ]
    strategy = devices.make_strategy()
    with strategy.scope():
        agent = make_agent(config, environments[0], int(seeds[0]))
    learner = Learner(agent, strategy, devices.use_xla(runtime.compile, strategy))
    weights = WeightsPublisher(agent.collect_policy.variables())
    episodes = EpisodeLog()
    actors = [
        Actor(
            environment,
            make_local_policy(config, environment),
            weights,
            config.learner.unroll_length,
            int(seeds[2 + 2 * i]),
            episodes.append,
        )
        for i, environment in enumerate(environments)
    ]
    return OnPolicyTrainer(
        learner,
        make_source(config, actors, agent.collect_data_spec, learner.place),
        weights,
        episodes,
        run_settings(config, run, warn),
        frames_per_update(config),
    )


def evaluation_games(config: ml_collections.ConfigDict) -> tuple[int, int]:
    """Games of the evaluation, and how many are played side by side."""
    return config.evaluation.episodes, config.evaluation.num_envs


def score_unit(config: ml_collections.ConfigDict) -> str:
    """Unit of returns in records."""
    return "game score"


def describe_evaluation(config: ml_collections.ConfigDict, episodes: int) -> str:
    """The protocol in one line, for records."""
    return describe_protocol(episodes, config.env.noop_max, config.env.max_frames, config.evaluation.greedy)


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
