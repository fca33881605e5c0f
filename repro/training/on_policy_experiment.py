"""What experiments share whose actors play for a learner that learns from each unroll once."""

from __future__ import annotations

import abc
from pathlib import Path

import ml_collections
import numpy as np
from tf_agents.agents import tf_agent
from tf_agents.policies import tf_policy

from repro.acting.actor import make_actors
from repro.acting.evaluation import describe_games, score_unit
from repro.acting.sources import make_source
from repro.acting.weights import WeightsPublisher
from repro.config import frames_per_step, tasks, total_budget
from repro.environments.batched import BatchedEnvironment
from repro.environments.make import make_environment, make_evaluation_environment
from repro.environments.names import task_names
from repro.evidence import published
from repro.optimizers.rmsprop_tf1 import RMSPropTF1
from repro.optimizers.schedules import LinearOnFrames
from repro.training import checkpoint, devices
from repro.training.experiment import Evaluation, Warn
from repro.training.learner import Learner
from repro.training.on_policy_trainer import OnPolicyTrainer
from repro.training.run_directory import RunDirectory
from repro.training.task_returns import TaskReturns
from repro.training.trainer import RECENT_GAMES, EpisodeLog, run_settings


class OnPolicyExperiment(abc.ABC):
    """Builds a run; subclasses say which network and agent.

    Attributes:
        is_continuous: whether actions are; they are discrete otherwise.

    Args:
        config: resolved.
    """

    is_continuous = False

    def __init__(self, config: ml_collections.ConfigDict) -> None:
        self.config = config

    @abc.abstractmethod
    def make_agent(self, environment: BatchedEnvironment, seed: int) -> tf_agent.TFAgent:
        """Returns the agent with newly initialised weights; call it under the strategy's scope.

        Raises:
            ValueError: a field has an impossible value; the message names it.
        """

    @abc.abstractmethod
    def make_local_policy(self, environment: BatchedEnvironment) -> tf_policy.TFPolicy:
        """Returns a collect policy with variables of its own, which the actor overwrites with the published ones."""

    @property
    def evaluation(self) -> Evaluation:
        return Evaluation(self.config.evaluation.episodes, self.config.evaluation.num_envs, score_unit(self.config.env))

    @property
    def frames_per_update(self) -> int:
        """New environment frames, or steps, in one batch: unrolls x steps x frames per step."""
        learner = self.config.learner
        return learner.batch_size * (learner.unroll_length - self.overlap) * frames_per_step(self.config)

    @property
    def overlap(self) -> int:
        """Steps that an unroll shares with the one before it."""
        return 0

    def describe_evaluation(self, episodes: int) -> str:
        best = "median actions" if self.is_continuous else "most probable action"
        actions = best if self.config.evaluation.greedy else "sampled actions"
        return describe_games(self.config.env, episodes, actions)

    def make_environment(self, num_envs: int, seed: int, shard: tuple[int, int] = (0, 1)) -> BatchedEnvironment:
        return make_environment(self.config, num_envs, seed, self.is_continuous, shard)

    def make_optimizer(self) -> RMSPropTF1:
        """Returns RMSProp whose rate moves linearly over the budget."""
        learner = self.config.learner
        learning_rate = LinearOnFrames(
            learner.learning_rate, learner.final_learning_rate, total_budget(self.config)[1], self.frames_per_update
        )
        return RMSPropTF1(
            learning_rate,
            decay=learner.rmsprop_decay,
            momentum=learner.rmsprop_momentum,
            epsilon=learner.rmsprop_epsilon,
        )

    def build_trainer(self, seed: int, run: RunDirectory, warn: Warn) -> OnPolicyTrainer:
        config, runtime = self.config, self.config.runtime
        numbers = np.random.SeedSequence(seed).generate_state(1 + 2 * runtime.num_actors) % 2**31
        weights_seed, *seeds = map(int, numbers)
        environments = [
            self.make_environment(runtime.envs_per_actor, x, (i, runtime.num_actors)) for i, x in enumerate(seeds[::2])
        ]
        strategy = devices.make_strategy()
        with strategy.scope():
            agent = self.make_agent(environments[0], weights_seed)
        learner = Learner(agent, strategy, devices.use_xla(runtime.compile, strategy))
        weights, episodes = WeightsPublisher(agent.collect_policy.variables()), self._make_episode_log()
        actors = make_actors(
            environments,
            self.make_local_policy,
            weights,
            config.learner.unroll_length,
            seeds[1::2],
            episodes.append,
            self.overlap,
        )
        return OnPolicyTrainer(
            learner,
            make_source(config, actors, agent.collect_data_spec, learner.to_device),
            weights,
            episodes,
            run_settings(config, run, warn),
            self.frames_per_update,
        )

    def _make_episode_log(self) -> EpisodeLog:
        """A log of all games, by their tasks where several are learned together."""
        config = self.config
        if not tasks(config):
            return EpisodeLog()
        references = published.normaliser(config.evaluation.normaliser)
        names = task_names(config.env.name, tasks(config))
        return EpisodeLog(task_returns=TaskReturns(names, references, RECENT_GAMES))

    def load_policy(
        self, checkpoints: Path, num_envs: int, seed: int, warn: Warn
    ) -> tuple[tf_policy.TFPolicy, BatchedEnvironment]:
        environment = make_evaluation_environment(self.config, num_envs, seed)
        return checkpoint.restore_policy(checkpoints, self.make_agent(environment, seed=0), warn), environment
