"""C-trace-R2D2's parts, from a configuration of `paper_configs/ctrace/r2d2.py`."""

from __future__ import annotations

import ml_collections
import numpy as np

from repro.networks import atari
from repro.networks.epsilon_greedy_policy import ape_x_epsilons
from repro.networks.initializers import distinct_seeds
from repro.networks.recurrent_q import RecurrentQ
from repro.optimizers.fused_adam import FusedAdam
from repro.papers.ctrace.agent import Learning
from repro.papers.ctrace.dqn_loss import LossSettings
from repro.papers.ctrace.exploration import ConstantEpsilons, Exploration
from repro.papers.ctrace.methods import Method
from repro.replay.sequences import SequenceSettings
from repro.training.sequence_trainer import ReplayTrainingConfig

TORSOS = {"nature_convolutions": atari.nature_convolutions, "shallow": atari.shallow_torso}

SCHEDULES = ("lockstep", "processes")
"""Values of `runtime.schedule`."""


def make_network(config: ml_collections.ConfigDict, num_actions: int, seed: int) -> RecurrentQ:
    """Raises ValueError for an unknown torso."""
    network = config.network
    if network.torso not in TORSOS:
        raise ValueError(f"network.torso={network.torso!r}: choose {' or '.join(TORSOS)}.")
    seeds = distinct_seeds(seed)
    torso = TORSOS[network.torso](seed=next(seeds))
    return RecurrentQ(torso, num_actions, network.core_units, network.dueling_units, seed=next(seeds))


def num_actors(config: ml_collections.ConfigDict) -> tuple[int, int]:
    """Actors, and environments of each."""
    return config.runtime.num_actors, config.runtime.envs_per_actor


def make_exploration(config: ml_collections.ConfigDict) -> list[Exploration]:
    """The epsilons of each actor's environments, on one schedule over all of them."""
    num_actors, envs = config.runtime.num_actors, config.runtime.envs_per_actor
    exploration = config.exploration
    epsilons = ape_x_epsilons(num_actors * envs, base=exploration.base, spread=exploration.spread)
    return [ConstantEpsilons(part) for part in np.split(epsilons, num_actors)]


def loss_settings(config: ml_collections.ConfigDict, method: Method) -> LossSettings:
    loss = config.loss
    return LossSettings(
        method.target, method.n, loss.discount, float("inf"), loss.rescaling, trace_lambda=method.trace_lambda
    )


def learning(config: ml_collections.ConfigDict, method: Method) -> Learning:
    learner = config.learner
    return Learning(
        FusedAdam(learner.learning_rate, epsilon=learner.adam_epsilon),
        learner.target_period,
        config.loss.discount**method.rate_steps,
        learner.clip_global_norm,
        config.replay.burn_in,
        config.replay.priority_of_max,
        config.loss.time_reduction,
    )


def sequence_settings(config: ml_collections.ConfigDict, method: Method) -> SequenceSettings:
    replay = config.replay
    return SequenceSettings(
        replay.burn_in + replay.steps, replay.period, replay.burn_in, replay.sequences, replay.priority_exponent
    )


def sequence_learning(config: ml_collections.ConfigDict, method: Method) -> ReplayTrainingConfig:
    """Actors take weights every `learner.publish_steps` steps of theirs, to the next whole update."""
    learner = config.learner
    return ReplayTrainingConfig(
        learner.batch_size,
        config.replay.first_frames,
        max(1, learner.publish_steps // learner.steps_per_update),
        config.replay.importance_exponent,
    )
