"""Base class of ACER's experiments: actors' unrolls are learned from when they arrive and again from a replay."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from tf_agents.agents import tf_agent

from repro.acting.actor_processes import Launcher, LocalLauncher
from repro.acting.batches import BatchSource
from repro.acting.evaluator_process import Evaluator
from repro.acting.weights import WeightsPublisher
from repro.config import PROCESSES, check_schedule, frames_per_step
from repro.environments.batched import BatchedEnvironment
from repro.machine_memory import available_bytes, check_fits
from repro.papers.acer.averaging_agent import AveragingAgent
from repro.replay.unrolls import UnrollReplay, min_capacity
from repro.training import devices
from repro.training.evaluation import describe_games, describe_window, score_unit
from repro.training.evaluator_setup import make_evaluator
from repro.training.experiment import Evaluation, Warn
from repro.training.replay_trainer import ReplaySettings, ReplayTrainer
from repro.training.run_directory import RunDirectory
from repro.training.seeds import make_run_seeds
from repro.training.trailing_returns import TrailingReturns
from repro.training.trainer import EpisodeLog, run_settings, supervision
from repro.training.unroll_actors import UnrollActors

EPISODES, NUM_ENVS = 50, 25
"""Episodes and environments of an evaluation after training; the paper evaluates on the last games of training."""


class AcerExperiment(UnrollActors):
    """Builds a run of ACER or one of its baselines; subclasses define network and agent.

    Args:
        config: resolved configuration of `paper_configs/acer`, or of another paper that has ACER as a baseline.
    """

    SCHEDULES = ("async", "lockstep", PROCESSES)  # with `a3c` a worker would act with weights without its own updates

    @abc.abstractmethod
    def make_agent(self, environment: BatchedEnvironment, seed: int) -> AveragingAgent: ...

    @property
    def evaluation(self) -> Evaluation:
        return Evaluation(EPISODES, NUM_ENVS, score_unit(self.config.env))

    def describe_evaluation(self, episodes: int, when: str) -> str:
        actions = "mean actions" if self.is_continuous else "sampled actions"
        return describe_games(self.config.env, episodes, actions, when)

    @property
    def replay_settings(self) -> ReplaySettings:
        """Settings that say when batches are learned from and how often (Algorithm 1)."""
        steps_per_call = self.config.runtime.get("steps_per_call", 1)
        return ReplaySettings(self.config.learner.on_policy, self.config.replay.ratio, steps_per_call=steps_per_call)

    def make_replay(self, agent: tf_agent.TFAgent) -> UnrollReplay | None:
        """Returns the replay, whose size is set in frames or steps of the environment; None for a replay ratio of 0.

        Raises:
            ValueError: it cannot hold a batch, is smaller than `min_capacity`, or does not fit into memory when full.
        """
        config, unroll_length = self.config, self.config.learner.unroll_length
        if not self.replay_settings.ratio:
            return None
        frames_per_unroll = frames_per_step(config) * unroll_length
        capacity = config.replay.frames // frames_per_unroll
        if capacity < config.learner.batch_size:
            raise ValueError(
                f"replay.frames={config.replay.frames} holds {capacity} unrolls, less than one batch "
                f"(learner.batch_size={config.learner.batch_size}): choose more."
            )
        spec = agent.collect_data_spec
        if capacity < (min_unrolls := min_capacity(spec)):
            raise ValueError(
                f"replay.frames={config.replay.frames} holds {capacity} unrolls, and a replay of stacked frames must "
                f"hold {min_unrolls}, since an unroll in which a game starts takes more room: choose "
                f"{min_unrolls * frames_per_unroll} or more."
            )
        needed = capacity * UnrollReplay(spec, unroll_length, 1).nbytes
        check_fits(
            "replay.frames",
            config.replay.frames,
            needed,
            step=frames_per_unroll,
            min_size=max(config.learner.batch_size, min_unrolls) * frames_per_unroll,
        )
        return UnrollReplay(spec, unroll_length, capacity)

    def build_trainer(self, seed: int, run: RunDirectory, warn: Warn, launch: Launcher | None = None) -> ReplayTrainer:
        """See `RemoteActing.build_trainer`.

        Raises:
            ValueError: the schedule, batches, replay, devices or hyper-parameters of the configuration do not fit.
        """
        config, runtime, settings = self.config, self.config.runtime, self.replay_settings
        check_schedule(config, self.SCHEDULES)
        self._check_batches()
        devices.check_compute_dtype(config, warn)
        seeds = make_run_seeds(seed, runtime.num_actors, replay_second=True)
        environments = self.make_local_environments(seeds.environments)
        strategy = devices.make_strategy()
        learner = self.make_learner(environments[0], strategy, seed)
        agent = learner.agent
        replay = self.make_replay(agent)
        if strategy.num_replicas_in_sync > 1:
            settings = settings._replace(steps_per_call=1)
        episodes = EpisodeLog(TrailingReturns(config.window_frames, describe_window(config.env), self.evaluation.unit))
        watched = supervision(config, run.actors, warn)
        to_device = learner.to_device if settings.on_policy else None
        weights: WeightsPublisher
        source: BatchSource
        evaluator: Evaluator | None = None
        if runtime.schedule == PROCESSES:
            environments[0].close()
            launcher = launch or LocalLauncher(run.path, run.actors)
            evaluator = make_evaluator(config, launcher, agent, watched)
            weights, source = self.make_remote_source(
                agent, launcher, watched, episodes.append, to_device, evaluator=evaluator
            )
        else:
            weights, source = self.make_local_source(
                agent, environments, seeds.actions, watched, episodes.append, to_device
            )
        return ReplayTrainer(
            learner,
            source,
            weights,
            episodes,
            run_settings(config, run, warn, evaluator, self.sample_hparams(seed)),
            self.frames_per_update,
            replay,
            settings,
            np.random.default_rng(seeds.replay),
        )

    def _check_batches(self) -> None:
        """Checks that on-policy batches consist of unrolls played with the same weights.

        Raises:
            ValueError: they would not.
        """
        if not self.replay_settings.on_policy:
            return
        runtime, batch_size = self.config.runtime, self.config.learner.batch_size
        if runtime.schedule == "lockstep":
            unrolls = runtime.num_actors * runtime.envs_per_actor
            fits = unrolls % batch_size == 0 or (runtime.lockstep_lag == 0 and batch_size % unrolls == 0)
            several = ", or a multiple with runtime.lockstep_lag=0"
        else:
            unrolls, several = runtime.envs_per_actor, ""
            fits = unrolls % batch_size == 0
        if not fits:
            raise ValueError(
                f"learner.batch_size={batch_size}: on-policy updates learn from unrolls played with the same weights, "
                f"and {unrolls} of them are played at a time; choose a divisor of {unrolls}{several}."
            )

    def acting_variables(self, agent: AveragingAgent) -> Sequence[tf.Variable]:
        return agent.acting_variables if self.replay_settings.on_policy else ()

    def max_kept(self, acting: Sequence[tf.Variable]) -> int:
        """Returns as many versions as fit into half the free memory.

        Raises:
            ValueError: that is fewer than all unrolls that may be under way need.
        """
        runtime, batch_size = self.config.runtime, self.config.learner.batch_size
        if not acting:
            return 1
        # While one actor plays, the others add unrolls of all their environments; batches wait in queue and prefetch.
        under_way = 2 * runtime.num_actors * runtime.envs_per_actor // batch_size + runtime.queue_capacity + 3
        size = sum(variable.shape.num_elements() * variable.dtype.size for variable in acting)
        held = available_bytes() // 2 // size
        if held < under_way:
            raise ValueError(
                f"runtime.num_actors={runtime.num_actors} with runtime.envs_per_actor={runtime.envs_per_actor}: "
                f"on-policy gradients need the weights of {under_way:,} updates, {under_way * size / 1e9:.1f} GB, and "
                f"{held * size / 1e9:.1f} GB may be used; choose fewer actors or environments, or a larger "
                "learner.batch_size."
            )
        return held
