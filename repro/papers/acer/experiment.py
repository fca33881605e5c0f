"""Builds ACER's parts from a configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import ml_collections
import numpy as np
import tensorflow as tf
from tf_agents.policies import tf_policy

from repro.acting.actor import Actor
from repro.acting.sources import make_source
from repro.acting.weights import WeightsPublisher
from repro.environments.batched import BatchedEnvironment
from repro.papers.acer import atari_parts, continuous_parts, gym_parts
from repro.replay.unrolls import UnrollReplay
from repro.training import checkpoint, devices
from repro.training.learner import Learner
from repro.training.replay_trainer import ReplayTrainer
from repro.training.run_directory import RunDirectory
from repro.training.trailing_returns import TrailingReturns
from repro.training.trainer import EpisodeLog, run_settings

PARTS: dict[str, ModuleType] = {"atari": atari_parts, "continuous": continuous_parts, "gym": gym_parts}
"""What an experiment is made of."""

EPISODES, SIDE_BY_SIDE = 50, 25
"""Games of an evaluation after training, and how many are played side by side."""


def frames_per_update(config: ml_collections.ConfigDict) -> int:
    """Environment frames, or steps, in one batch of new unrolls."""
    return config.learner.batch_size * config.learner.unroll_length * config.env.get("frame_skip", 1)


def make_replay(config: ml_collections.ConfigDict, agent: tf.Module, ratio: float) -> UnrollReplay | None:
    """The replay, whose size is in frames of the environment; None for a ratio of 0.

    Raises:
        ValueError: it could not hold a batch.
    """
    if not ratio:
        return None
    steps = config.replay.frames // config.env.get("frame_skip", 1)
    capacity = steps // config.learner.unroll_length
    if capacity < config.learner.batch_size:
        raise ValueError(
            f"replay.frames={config.replay.frames} holds {capacity} unrolls, less than one batch "
            f"(learner.batch_size={config.learner.batch_size})."
        )
    return UnrollReplay(agent.collect_data_spec, config.learner.unroll_length, capacity)


def build_training(
    config: ml_collections.ConfigDict, seed: int, run: RunDirectory, warn: Callable[[str], None]
) -> ReplayTrainer:
    """The whole of a run, restored from its last checkpoint if it has one.

    Args:
        config: of `paper_configs/acer`.
        seed: from which the seeds of weights, environments, action sampling and replay are derived.
        run: folder for checkpoints.
        warn: called with one line when a broken checkpoint is passed over.

    Raises:
        ValueError: a field has an impossible value; the message names it.
    """
    parts, runtime, learner_config = PARTS[config.experiment], config.runtime, config.learner
    settings, setting = parts.replay_settings(config), parts.draw_setting(config, seed)
    seeds = np.random.SeedSequence(seed).generate_state(2 + 2 * runtime.num_actors) % 2**31
    environments = [
        parts.make_environment(config, runtime.envs_per_actor, int(seeds[2 + 2 * i])) for i in range(runtime.num_actors)
    ]
    strategy = devices.make_strategy()
    with strategy.scope():
        agent = parts.make_agent(config, environments[0], int(seeds[0]), setting)
    if learner_config.batch_size % strategy.num_replicas_in_sync:
        raise ValueError(
            f"learner.batch_size={learner_config.batch_size} cannot be shared by {strategy.num_replicas_in_sync} GPUs "
            "equally: show it one with CUDA_VISIBLE_DEVICES=0, or raise it."
        )
    learner = Learner(agent, strategy, devices.use_xla(runtime.compile, strategy))
    acting = agent.acting_variables if settings.on_policy else ()
    weights = WeightsPublisher(agent.collect_policy.variables(), acting)
    episodes = EpisodeLog(TrailingReturns(config.window_frames, parts.PROTOCOL, parts.SCORE_UNIT))
    actors = [
        Actor(
            environment,
            parts.make_local_policy(config, environment),
            weights,
            learner_config.unroll_length,
            int(seeds[3 + 2 * i]),
            episodes.append,
        )
        for i, environment in enumerate(environments)
    ]
    place = learner.place if settings.on_policy else None
    return ReplayTrainer(
        learner,
        make_source(config, actors, agent.collect_data_spec, place),
        weights,
        episodes,
        run_settings(config, run, warn),
        frames_per_update(config),
        make_replay(config, agent, settings.ratio),
        settings,
        np.random.default_rng(int(seeds[1])),
        drawn=setting,
    )


def evaluation_games(config: ml_collections.ConfigDict) -> tuple[int, int]:
    """Games that `repro.evaluate` plays if not told otherwise, and how many side by side.

    The paper's own evaluation needs none: it is made of training's last games.
    """
    return EPISODES, SIDE_BY_SIDE


def score_unit(config: ml_collections.ConfigDict) -> str:
    """Unit of returns in records."""
    return str(PARTS[config.experiment].SCORE_UNIT)


def describe_evaluation(config: ml_collections.ConfigDict, episodes: int) -> str:
    """The protocol in one line."""
    return PARTS[config.experiment].describe_evaluation(config, episodes)


def load_policy(
    config: ml_collections.ConfigDict,
    checkpoints: Path,
    num_envs: int,
    seed: int,
    warn: Callable[[str], None],
) -> tuple[tf_policy.TFPolicy, BatchedEnvironment]:
    """The trained policy of a run and environments to evaluate it in: whole games, a life lost changes nothing.

    Raises:
        CheckpointError: the run has no checkpoint yet, or none is whole.
    """
    config = config.copy_and_resolve_references()
    if "life_loss_ends" in config.env:
        config.env.life_loss_ends = False
    parts = PARTS[config.experiment]
    environment = parts.make_environment(config, num_envs, seed)
    agent = parts.make_agent(config, environment, 0, parts.draw_setting(config, 0))
    checkpoint.restore_trained(checkpoints, tf.train.Checkpoint(agent=agent), warn)
    return agent.policy, environment
