"""Builds the parts of C-trace's agents, DQN and R2D2, from a configuration."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import ml_collections
import numpy as np
import reverb
import tensorflow as tf
from tf_agents.policies import tf_policy

from repro.acting.actor import Actor
from repro.acting.actor_pool import ActorPool, LocalActorPool
from repro.acting.remote import PulledWeights, RemoteWeights, Reporter, make_tables
from repro.acting.remote_actor import end_with, run_actor
from repro.acting.remote_actor_pool import RemoteActorPool
from repro.acting.sources import GroupSizes, LockstepSource
from repro.acting.unrolls import UnrollGroup
from repro.acting.weights import WeightsPublisher
from repro.environments.atari import AtariEnvironment, make_atari
from repro.networks.epsilon_greedy_policy import EpsilonGreedyPolicy
from repro.papers.ctrace import dqn_parts, r2d2_parts
from repro.papers.ctrace.agent import SCALARS, CtraceAgent
from repro.papers.ctrace.initial_priority import InitialPriority
from repro.papers.ctrace.methods import method_of
from repro.replay.sequences import SequenceReplay
from repro.training import checkpoint, devices
from repro.training.learner import Learner
from repro.training.run_directory import RunDirectory
from repro.training.sequence_trainer import SequenceTrainer
from repro.training.trainer import EpisodeLog, run_settings

WORKING = "replay_being_saved"
"""Folder in a run's, in which the replay is written before it becomes part of a checkpoint."""

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


def initial_priority(config: ml_collections.ConfigDict) -> InitialPriority | None:
    """Gives new sequences their priority; None where draws are uniform."""
    parts, method = PARTS[config.experiment], method_of(config)
    if not parts.sequence_settings(config, method).priority_exponent:
        return None
    loss, replay = parts.loss_settings(config, method), config.replay
    n = method.n if method.target == "n_step" else replay.first_priority_n
    return InitialPriority(n, loss.discount, loss.rescaling, replay.priority_of_max, replay.burn_in)


def build_training(
    config: ml_collections.ConfigDict, seed: int, run: RunDirectory, warn: Callable[[str], None]
) -> SequenceTrainer:
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
    if runtime.schedule not in parts.SCHEDULES:
        raise ValueError(f"runtime.schedule={runtime.schedule!r}: choose {' or '.join(parts.SCHEDULES)}.")
    environment = make_environment(config, parts.num_actors(config)[1], 0)
    strategy = devices.make_strategy()
    with strategy.scope():
        agent = make_agent(config, environment, int(_seeds(config, seed)[0]))
    learner = Learner(agent, strategy, devices.use_xla(runtime.compile, strategy))
    episodes = EpisodeLog()
    join = _local if runtime.schedule == "lockstep" else _remote
    players, weights, replay = join(config, seed, run, agent, episodes, warn)
    return SequenceTrainer(
        learner,
        players,
        weights,
        episodes,
        run_settings(config, run, warn),
        _steps_per_update(config) * config.env.frame_skip,
        replay,
        parts.sequence_learning(config, method_of(config)),
        SCALARS,
    )


def play_remotely(config: ml_collections.ConfigDict, seed: int, index: int, start: int, address: str) -> None:
    """Plays as actor `index` in a process of its own, until the learner is gone.

    Args:
        config, seed: of the run.
        index: of the actor, from 0.
        start: how often it was started before; another start plays other games.
        address: of the replay's server.

    Raises:
        ValueError: the run has no such actor.
    """
    parts = PARTS[config.experiment]
    num_actors, envs = parts.num_actors(config)
    if index >= num_actors:
        raise ValueError(f"There is no actor {index}: runtime.num_actors={num_actors}.")
    end_with(address)
    environment_seed, action_seed = np.random.SeedSequence([seed, index, start]).generate_state(2) % 2**31
    environment = make_environment(config, envs, int(environment_seed))
    policy = make_local_policy(config, environment, parts.make_exploration(config)[index].epsilon)
    reporter, steps = Reporter(reverb.Client(address), index), config.learner.steps_per_update
    actor = Actor(environment, policy, PulledWeights(address), steps, int(action_seed), reporter.append)
    settings = parts.sequence_settings(config, method_of(config))
    run_actor(actor, policy.trajectory_spec, settings, initial_priority(config), reporter, address, steps)


def _local(
    config: ml_collections.ConfigDict,
    seed: int,
    run: RunDirectory,
    agent: CtraceAgent,
    episodes: EpisodeLog,
    warn: Callable[[str], None],
) -> tuple[ActorPool, WeightsPublisher, SequenceReplay]:
    """Actors in threads of this process, in lockstep with the learner."""
    parts, steps, spec = PARTS[config.experiment], config.learner.steps_per_update, agent.collect_data_spec
    num_actors, envs = parts.num_actors(config)
    weights, explorations = WeightsPublisher(agent.collect_policy.variables()), parts.make_exploration(config)
    seeds, actors = _seeds(config, seed), []
    for i, exploration in enumerate(explorations):
        environment = make_environment(config, envs, int(seeds[1 + 2 * i]))
        policy = make_local_policy(config, environment, exploration.epsilon)
        actors.append(Actor(environment, policy, weights, steps, int(seeds[2 + 2 * i]), episodes.append))
    source = LockstepSource(
        actors,
        lambda: UnrollGroup(spec, envs, steps),
        GroupSizes(envs, num_actors * envs),
        config.runtime.lockstep_lag,
        place=None,
    )

    def set_frames(frames: int) -> None:
        for exploration in explorations:
            exploration.set_frames(frames)

    replay = SequenceReplay(spec, parts.sequence_settings(config, method_of(config)), run.path / WORKING)
    players = LocalActorPool(source, replay, num_actors * envs, set_frames, initial_priority(config))
    return players, weights, replay


def _remote(
    config: ml_collections.ConfigDict,
    seed: int,
    run: RunDirectory,
    agent: CtraceAgent,
    episodes: EpisodeLog,
    warn: Callable[[str], None],
) -> tuple[ActorPool, WeightsPublisher, SequenceReplay]:
    """Actors in processes of their own; as many unrolls as there are actors may wait for the learner."""
    parts, variables = PARTS[config.experiment], agent.collect_policy.variables()
    num_actors, _ = parts.num_actors(config)
    weights, settings = RemoteWeights(variables), parts.sequence_settings(config, method_of(config))
    tables = make_tables(variables, waiting_unrolls=num_actors)
    replay = SequenceReplay(agent.collect_data_spec, settings, run.path / WORKING, tables)

    def command(index: int, start: int, address: str) -> list[str]:
        flags = {"run_dir": run.path, "address": address, "actor": index, "start": start}
        return [sys.executable, "-m", "repro.actor", *(f"--{name}={value}" for name, value in flags.items())]

    players = RemoteActorPool(
        replay,
        weights,
        command,
        num_actors,
        episodes.append,
        frames_per_step=config.env.frame_skip,
        logs=run.path / "actors",
        warn=warn,
    )
    return players, weights, replay


def _seeds(config: ml_collections.ConfigDict, seed: int) -> np.ndarray:
    """Of the weights, then of environments and actions of each actor."""
    num_actors, _ = PARTS[config.experiment].num_actors(config)
    return np.random.SeedSequence(seed).generate_state(1 + 2 * num_actors) % 2**31


def _steps_per_update(config: ml_collections.ConfigDict) -> int:
    """Agent steps of all environments between two gradient steps."""
    num_actors, envs = PARTS[config.experiment].num_actors(config)
    return num_actors * envs * config.learner.steps_per_update


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
