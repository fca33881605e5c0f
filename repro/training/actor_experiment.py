"""The base class of experiments with actors: agent, environments, sampled hyper-parameters and evaluation."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import ml_collections
import tensorflow as tf
from tf_agents.agents import tf_agent

from repro.acting.sources import SCHEDULES
from repro.config import PROCESSES
from repro.environments.batched import BatchedEnvironment
from repro.environments.make import config_of_start, make_environment, make_evaluation_environment
from repro.training import checkpoint, devices
from repro.training.evaluation import score_unit
from repro.training.experiment import Evaluation, TrainedPolicy, Warn
from repro.training.learner import Learner
from repro.training.seeds import make_run_seeds


class ActorExperiment(abc.ABC):
    """Makes an agent, for training and for evaluation; subclasses define the agent and how it is trained.

    Attributes:
        is_continuous: whether actions are continuous; they are discrete otherwise.
        SCHEDULES: values of `runtime.schedule` that it supports.
        SAMPLED: sections of the configuration with the hyper-parameters that a seed may sample, by their names.

    Args:
        config: resolved configuration.
    """

    is_continuous = False
    SCHEDULES: tuple[str, ...] = SCHEDULES
    SAMPLED: Mapping[str, str] = {}

    def __init__(self, config: ml_collections.ConfigDict) -> None:
        self.config = config

    @abc.abstractmethod
    def make_agent(self, environment: BatchedEnvironment, seed: int) -> tf_agent.TFAgent:
        """Returns the agent with newly initialised weights; call it under the strategy's scope.

        If a seed samples hyper-parameters, this is to be called on the result of `with_hparams`.

        Raises:
            ValueError: a field has an impossible value; the message names it.
        """

    @property
    def evaluation(self) -> Evaluation:
        return Evaluation(self.config.evaluation.episodes, self.config.evaluation.num_envs, score_unit(self.config.env))

    def sample_hparams(self, seed: int) -> dict[str, float]:
        """Returns the hyper-parameters that a seed samples, by name; {} if all seeds use the configuration's."""
        return {}

    def with_hparams(self, sampled_hparams: Mapping[str, float]) -> Self:
        """Returns the experiment with the hyper-parameters of `sample_hparams` in place of the configuration's."""
        config = self.config.copy_and_resolve_references()
        with config.unlocked():
            for name, value in sampled_hparams.items():
                config[self.SAMPLED[name]][name] = value
        return type(self)(config)

    def make_environment(self, num_envs: int, seed: int, shard: tuple[int, int] = (0, 1)) -> BatchedEnvironment:
        return make_environment(self.config, num_envs, seed, self.is_continuous, shard)

    @property
    def num_actors(self) -> int:
        """Number of actors of a run."""
        return self.config.runtime.num_actors

    @property
    def envs_per_actor(self) -> int:
        """Number of environments that each actor plays side by side."""
        return self.config.runtime.envs_per_actor

    def make_actor_environment(self, index: int, seed: int, start: int = 0) -> BatchedEnvironment:
        """Returns the environments of one actor.

        Args:
            index: number of the actor, from 0.
            seed: seed of its environments.
            start: how often its process was started before; 0 if it has none of its own.
        """
        experiment = type(self)(config_of_start(self.config, start)) if start else self
        return experiment.make_environment(self.envs_per_actor, seed, (index, self.num_actors))

    def make_local_environments(self, seeds: Sequence[int]) -> list[BatchedEnvironment]:
        """Returns the environments of all actors in this process; of one actor, for specs, if actors are processes.

        Args:
            seeds: seed of each actor's environments.
        """
        local = seeds[:1] if self.config.runtime.schedule == PROCESSES else seeds
        return [self.make_actor_environment(*numbered) for numbered in enumerate(local)]

    def make_learner(self, environment: BatchedEnvironment, strategy: tf.distribute.Strategy, seed: int) -> Learner:
        """Returns the learner of a new agent, with the hyper-parameters that the run's seed samples.

        Args:
            environment: environment with the specs of the agent.
            strategy: strategy under which it learns.
            seed: seed of the run.

        Raises:
            ValueError: as for `make_agent`, or `learner.batch_size` or `runtime.compile` does not fit the devices.
        """
        devices.check_batch_size(self.config.learner.batch_size, strategy)
        with strategy.scope():
            weights_seed = make_run_seeds(seed, self.num_actors).weights
            agent = self.with_hparams(self.sample_hparams(seed)).make_agent(environment, weights_seed)
        return Learner(agent, strategy, devices.use_xla(self.config.runtime.compile, strategy))

    def load_policy(self, checkpoints: Path, num_envs: int, seed: int, warn: Warn) -> TrainedPolicy:
        agent, environment = self.make_evaluation_agent(num_envs, seed)
        return TrainedPolicy(agent.policy, environment, checkpoint.restore_agent(checkpoints, agent, warn))

    def make_evaluation_agent(self, num_envs: int, seed: int) -> tuple[tf_agent.TFAgent, BatchedEnvironment]:
        """See `RemoteActing`."""
        environment = make_evaluation_environment(self.config, num_envs, seed)
        return self.with_hparams(self.sample_hparams(0)).make_agent(environment, 0), environment
