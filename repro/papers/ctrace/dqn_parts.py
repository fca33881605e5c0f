"""C-trace-DQN's parts, from a configuration of `paper_configs/ctrace/dqn.py`."""

from __future__ import annotations

import ml_collections

from repro.networks import atari
from repro.networks.initializers import distinct_seeds
from repro.networks.q_network import QNetwork
from repro.optimizers.fused_adam import FusedAdam
from repro.papers.ctrace.agent import Learning
from repro.papers.ctrace.dqn_loss import LossSettings
from repro.papers.ctrace.exploration import Exploration, LinearEpsilon
from repro.papers.ctrace.methods import Method
from repro.replay.sequences import SequenceSettings
from repro.training.sequence_trainer import ReplayTrainingConfig

TORSOS = {"nature": atari.nature_torso, "shallow": atari.shallow_torso}

SCHEDULES = ("lockstep",)
"""Values of `runtime.schedule`."""


def make_network(config: ml_collections.ConfigDict, num_actions: int, seed: int) -> QNetwork:
    """Raises ValueError for an unknown torso."""
    if config.network.torso not in TORSOS:
        raise ValueError(f"network.torso={config.network.torso!r}: choose {' or '.join(TORSOS)}.")
    seeds = distinct_seeds(seed)
    return QNetwork(TORSOS[config.network.torso](seed=next(seeds)), num_actions, seed=next(seeds))


def num_actors(config: ml_collections.ConfigDict) -> tuple[int, int]:
    """Actors, and environments of each."""
    return 1, 1


def make_exploration(config: ml_collections.ConfigDict) -> list[Exploration]:
    """The epsilon of each actor."""
    exploration, begin = config.exploration, config.replay.first_frames
    return [LinearEpsilon(exploration.first, exploration.last, exploration.frames, begin=begin)]


def loss_settings(config: ml_collections.ConfigDict, method: Method) -> LossSettings:
    loss = config.loss
    return LossSettings(
        method.target, method.n, loss.discount, loss.clip_error, rescaling=None, trace_lambda=method.trace_lambda
    )


def learning(config: ml_collections.ConfigDict, method: Method) -> Learning:
    learner = config.learner
    return Learning(
        FusedAdam(learner.learning_rate, epsilon=learner.adam_epsilon),
        learner.target_period,
        config.loss.discount**method.rate_steps,
        learner.clip_global_norm,
        time_reduction=config.loss.time_reduction,
    )


def sequence_settings(config: ml_collections.ConfigDict, method: Method) -> SequenceSettings:
    """Double DQN's transitions come from every step; other targets take sequences."""
    replay, one = config.replay, method.target == "double_dqn"
    period = 1 if one else replay.period
    capacity = replay.frames // config.env.frame_skip // period
    return SequenceSettings(1 if one else replay.steps, period, 0, capacity, 0.0)


def sequence_learning(config: ml_collections.ConfigDict, method: Method) -> ReplayTrainingConfig:
    """Double DQN's batch is one of transitions, that of other targets one of sequences."""
    learner = config.learner
    batch_size = learner.one_step_batch_size if method.target == "double_dqn" else learner.batch_size
    return ReplayTrainingConfig(batch_size, config.replay.first_frames, 1, None)
