"""Base class of C-trace's experiments: actors fill a replay of sequences for Q-learning with one of four targets."""

from __future__ import annotations

import abc
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import reverb
import tensorflow as tf
from tf_agents.trajectories import Trajectory

from repro.acting.actor import Actor
from repro.acting.actor_pool import ActorPool, LocalActorPool
from repro.acting.actor_processes import ActorProcesses, Launcher, LocalLauncher
from repro.acting.batches import GroupSizes
from repro.acting.evaluator_process import Evaluator
from repro.acting.lockstep_source import LockstepSource
from repro.acting.machines import own_machine
from repro.acting.remote import PulledWeights, RemoteWeights, Reporter, find_replay, make_tables
from repro.acting.remote_actor import begin, end_with, run_actor
from repro.acting.remote_actor_pool import RemoteActorPool, ServedReplay
from repro.acting.replay_keeper import ReplayKeeper
from repro.acting.replay_process import remove_folders_in, run_replay
from repro.acting.supervision import Supervision, make_actors
from repro.acting.unrolls import UnrollGroup
from repro.acting.weights import WeightsPublisher
from repro.config import PROCESSES, check_schedule, frames_per_step, total_budget
from repro.environments.batched import BatchedEnvironment
from repro.machine_memory import check_fits
from repro.networks.epsilon_greedy_policy import EpsilonGreedyPolicy
from repro.networks.q_network import QNetwork
from repro.networks.recurrent_q import RecurrentQ
from repro.optimizers.fused_adam import FusedAdam
from repro.papers.ctrace.agent import SCALARS, CtraceAgent, OptimizationConfig
from repro.papers.ctrace.exploration import Exploration
from repro.papers.ctrace.initial_priority import InitialPriority
from repro.papers.ctrace.loss import SequenceLossSettings
from repro.replay.sequence_memory import SequenceMemory
from repro.replay.sequence_writer import SequenceSettings
from repro.replay.sequences import SequenceReplay
from repro.training import devices
from repro.training.actor_experiment import ActorExperiment
from repro.training.evaluation import describe_games
from repro.training.evaluator_setup import make_evaluator
from repro.training.experiment import Warn
from repro.training.remote_replay import RemoteReplay
from repro.training.run_directory import RunDirectory
from repro.training.seeds import make_run_seeds
from repro.training.sequence_trainer import Replay, ReplayTrainingConfig, SequenceTrainer
from repro.training.trainer import EpisodeLog, run_settings, supervision

WORKING = "replay_being_saved"
"""Folder in that of a run, in which the replay is written before it becomes part of a checkpoint."""


class SequenceExperiment(ActorExperiment):
    """Builds a run of DQN or R2D2; subclasses define network, exploration and settings.

    Attributes:
        CAPACITY: name of the field of `config.replay` that sets the capacity.

    Args:
        config: resolved configuration of `paper_configs/ctrace/dqn.py` or `r2d2.py`.
    """

    SCHEDULES: tuple[str, ...] = ("lockstep",)
    CAPACITY: str

    @property
    def loss_settings(self) -> SequenceLossSettings:
        """Settings of the loss, without clipping of TD errors or rescaling of values; subclasses replace some."""
        loss = self.config.loss
        return SequenceLossSettings(
            method=loss.target,
            n=loss.n,
            discount=loss.discount,
            clip_error=float("inf"),
            rescaling=None,
            trace_lambda=loss.trace_lambda,
        )

    @property
    def optimization(self) -> OptimizationConfig:
        """Settings of the updates, for a network without a core; subclasses replace some."""
        learner, loss = self.config.learner, self.config.loss
        return OptimizationConfig(
            optimizer=FusedAdam(learner.learning_rate, epsilon=learner.adam_epsilon),
            target_period=learner.target_period,
            target_rate=loss.discount**loss.rate_steps,
            clip_global_norm=learner.clip_global_norm,
            time_reduction=loss.time_reduction,
        )

    @property
    @abc.abstractmethod
    def sequence_settings(self) -> SequenceSettings: ...

    @property
    @abc.abstractmethod
    def replay_training(self) -> ReplayTrainingConfig: ...

    @abc.abstractmethod
    def make_network(self, environment: BatchedEnvironment, seed: int) -> QNetwork | RecurrentQ:
        """Returns a new network.

        Raises:
            ValueError: as for `make_torso`, or another field of `config.network` has an impossible value.
        """

    @abc.abstractmethod
    def make_exploration(self) -> Sequence[Exploration]:
        """Returns the exploration of each actor."""

    @property
    def initial_priority(self) -> InitialPriority | None:
        """Function that computes the priorities of new sequences; None if the replay samples uniformly."""
        if not self.sequence_settings.priority_exponent:
            return None
        loss, replay = self.config.loss, self.config.replay
        n = loss.n if loss.target == "n_step" else replay.first_priority_n
        return InitialPriority(n, loss.discount, loss.rescaling, replay.priority_of_max, replay.burn_in)

    @property
    def has_remote_replay(self) -> bool:
        """Whether the replay runs in a process of its own.

        Raises:
            ValueError: `runtime.replay_gb` is negative or not finite, or needs another `runtime.schedule`.
        """
        runtime = self.config.runtime
        size = runtime.get("replay_gb", 0.0)
        if not 0 <= size < np.inf or (size and runtime.schedule != PROCESSES):
            raise ValueError(
                f"runtime.replay_gb={size:g}: choose 0 for a replay in the learner's process, or, with "
                f"runtime.schedule={PROCESSES} or --cluster, the GB of memory of a process for the replay."
            )
        return size > 0

    @property
    def frames_per_update(self) -> int:
        """Number of environment frames that all actors together play between two gradient steps."""
        steps = self.num_actors * self.envs_per_actor * self.config.learner.steps_per_update
        return steps * frames_per_step(self.config)

    def describe_evaluation(self, episodes: int, when: str) -> str:
        return describe_games(self.config.env, episodes, f"epsilon {self.config.evaluation.epsilon:g}", when)

    def make_agent(self, environment: BatchedEnvironment, seed: int) -> CtraceAgent:
        return CtraceAgent(
            environment.time_step_spec,
            environment.action_spec,
            network=self.make_network(environment, seed),
            target_network=self.make_network(environment, seed),
            optimization=self.optimization,
            loss_settings=self.loss_settings,
            evaluation_epsilon=self.config.evaluation.epsilon,
            train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False, name="updates"),
        )

    def make_local_policy(
        self, environment: BatchedEnvironment, epsilon: tf.Variable | np.ndarray | float
    ) -> EpsilonGreedyPolicy:
        """Returns a collect policy with its own variables, which an actor overwrites with the published weights."""
        network = self.make_network(environment, seed=0)
        return EpsilonGreedyPolicy(environment.time_step_spec, environment.action_spec, network, epsilon)

    def build_trainer(
        self, seed: int, run: RunDirectory, warn: Warn, launch: Launcher | None = None
    ) -> SequenceTrainer:
        """See `RemoteActing.build_trainer`; with actors in this process, samples are reproducible from the seed.

        Raises:
            ValueError: the schedule is unknown, settings do not fit together or leave nothing to learn from, or the
                replay does not fit into memory.
        """
        config, runtime = self.config, self.config.runtime
        self._check_settings()
        check_schedule(config, self.SCHEDULES)
        is_remote = self.has_remote_replay
        devices.check_compute_dtype(config, warn)
        environment = self.make_actor_environment(0, 0)  # only for its specs
        learner = self.make_learner(environment, devices.make_strategy(), seed)
        agent = learner.agent
        environment.close()
        episodes, watched = EpisodeLog(), supervision(config, run.actors, warn)
        evaluator: Evaluator | None = None
        if runtime.schedule == "lockstep":
            pool, weights, replay = self._local_pool(seed, agent, episodes, watched)
        else:
            launcher = launch or LocalLauncher(run.path, run.actors)
            evaluator = make_evaluator(config, launcher, agent, watched)
            tables = evaluator.make_tables() if evaluator else []
            tables += make_tables(agent.collect_policy.variables(), waiting_unrolls=self.num_actors)
            spec, settings = agent.collect_data_spec, self.sequence_settings
            served: SequenceReplay | RemoteReplay
            keeper: ReplayKeeper | None = None
            if is_remote:
                shutil.rmtree(run.path / WORKING, ignore_errors=True)  # of the other kind; each kind removes its own
                keeper = ReplayKeeper(launcher, watched, settings.capacity)
                served = RemoteReplay(keeper, spec, tables)
            else:
                remove_folders_in(run.path)
                served = SequenceReplay(spec, settings, run.path / WORKING, tables, launcher.port)
            pool, weights = self._remote_pool(served, agent, episodes, watched, launcher, evaluator, keeper)
            replay = served
        return SequenceTrainer(
            learner,
            pool,
            weights,
            episodes,
            run_settings(config, run, warn, evaluator),
            self.frames_per_update,
            replay,
            self.replay_training,
            SCALARS,
        )

    def _check_settings(self) -> None:
        """Checks the settings of loss, replay and budget.

        Raises:
            ValueError: they do not fit together, or the discount is not below 1.
        """
        config, loss, replay = self.config, self.config.loss, self.config.replay
        if not loss.discount < 1:
            raise ValueError(f"loss.discount={loss.discount}: choose a number that is 0 or more and below 1.")
        if loss.target == "n_step" and loss.n > replay.steps:
            raise ValueError(
                f"loss.n={loss.n}: sequences have replay.steps={replay.steps} steps; choose at most {replay.steps}."
            )
        unit, amount = total_budget(config)
        if replay.first_frames >= amount:
            raise ValueError(
                f"replay.first_frames={replay.first_frames}: the budget, num_env_{unit}={amount}, ends before anything "
                "is learned; choose less, or a larger budget."
            )
        num_envs = self.num_actors * self.envs_per_actor
        if (most := amount // frames_per_step(config) // num_envs) < replay.steps:
            raise ValueError(
                f"replay.steps={replay.steps}: in the budget, num_env_{unit}={amount}, each of {num_envs} environments "
                f"plays {most} steps; choose at most {most}, or a larger budget."
            )
        if (capacity := self.sequence_settings.capacity) < config.learner.batch_size:
            raise ValueError(
                f"replay.{self.CAPACITY}={replay[self.CAPACITY]} holds {capacity} sequences, less than one batch "
                f"(learner.batch_size={config.learner.batch_size}): choose more."
            )

    def run_remote_actor(self, seed: int, index: int, start: int, address: str) -> None:
        """See `RemoteActing`."""
        environment_seed, action_seed = begin(self.num_actors, seed, index, start, address)
        environment = self.make_actor_environment(index, environment_seed, start)
        policy = self.make_local_policy(environment, self.make_exploration()[index].epsilon)
        reporter = Reporter(reverb.Client(address), index, start, own_machine(address))
        if self.has_remote_replay:
            replay = find_replay(address)
            end_with(replay)  # if another learner has taken over the address, its replay is at another one
        else:
            replay = address
        steps = self.config.learner.steps_per_update
        actor = Actor(environment, policy, PulledWeights(address), steps, action_seed, reporter.append)
        settings = self.sequence_settings
        run_actor(actor, policy.trajectory_spec, settings, self.initial_priority, reporter, replay, steps)

    def run_remote_replay(self, folder: Path, address: str, key: str) -> NoReturn:
        """See `RemoteStoring`."""
        environment = self.make_actor_environment(0, 0)  # only for its specs
        spec = self.make_local_policy(environment, 0.0).trajectory_spec
        environment.close()
        run_replay(lambda working: SequenceReplay(spec, self.sequence_settings, working), folder, address, key)

    def _local_pool(
        self, seed: int, agent: CtraceAgent, episodes: EpisodeLog, watched: Supervision
    ) -> tuple[ActorPool, WeightsPublisher, Replay]:
        """Returns a pool of actors in threads, in lockstep with the learner, their weights, and a replay in memory."""
        envs, steps, spec = self.envs_per_actor, self.config.learner.steps_per_update, agent.collect_data_spec
        weights, explorations = WeightsPublisher(agent.collect_policy.variables()), self.make_exploration()
        seeds = make_run_seeds(seed, self.num_actors)
        replay = self._make_memory(spec, seeds.replay)
        actors = make_actors(
            self.make_local_environments(seeds.environments),
            self.make_actor_environment,
            lambda environment, i: self.make_local_policy(environment, explorations[i].epsilon),
            weights,
            steps,
            seeds.actions,
            episodes.append,
            watched,
        )
        source = LockstepSource(
            actors,
            lambda: UnrollGroup(spec, envs, steps),
            GroupSizes(envs, self.num_actors * envs),
            self.config.runtime.lockstep_lag,
            to_device=None,
        )

        def set_frames(frames: int) -> None:
            for exploration in explorations:
                exploration.set_frames(frames)

        return LocalActorPool(source, replay, set_frames), weights, replay

    def _make_memory(self, spec: Trajectory, seed: int) -> SequenceMemory:
        """Returns the replay, in this process.

        Raises:
            ValueError: when full it would exceed the available memory, or what the system allows to allocate.
        """
        settings, size = self.sequence_settings, self.config.replay[self.CAPACITY]
        num_envs, steps = self.num_actors * self.envs_per_actor, self.config.learner.steps_per_update
        needed, empty = (
            SequenceMemory.nbytes(spec, settings._replace(capacity=n), num_envs, steps) for n in (settings.capacity, 0)
        )
        check_fits(f"replay.{self.CAPACITY}", size, needed, empty)
        try:
            rng = np.random.default_rng(seed)
            return SequenceMemory(spec, settings, num_envs, steps, rng, self.initial_priority)
        except MemoryError as error:
            raise ValueError(
                f"replay.{self.CAPACITY}={size}: the system cannot allocate the memory for so many, which is "
                f"{needed / 1e9:.1f} GB or, if games are short, more: choose at most {size // 2}."
            ) from error

    def _remote_pool(
        self,
        replay: ServedReplay,
        agent: CtraceAgent,
        episodes: EpisodeLog,
        watched: Supervision,
        launcher: Launcher,
        evaluator: Evaluator | None,
        keeper: ReplayKeeper | None,
    ) -> tuple[ActorPool, WeightsPublisher]:
        """Returns a pool of actors in processes of their own, and their weights; one unroll per actor may wait."""
        weights = RemoteWeights(agent.collect_policy.variables())
        actors = ActorProcesses(launcher, self.num_actors, watched)
        envs, per_step = self.envs_per_actor, frames_per_step(self.config)
        pool = RemoteActorPool(replay, weights, actors, envs, episodes.append, per_step, evaluator, keeper)
        return pool, weights
