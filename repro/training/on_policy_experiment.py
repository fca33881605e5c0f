"""What experiments share whose actors play for a learner that learns from each unroll once."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from pathlib import Path

import ml_collections
import numpy as np
from tf_agents.agents import tf_agent
from tf_agents.policies import tf_policy

from repro.acting.evaluation import describe_games, score_unit
from repro.acting.inference import DynamicBatching
from repro.acting.sources import make_source
from repro.acting.supervision import make_actors
from repro.acting.weights import WeightsPublisher
from repro.config import budget, frames_per_step
from repro.environments.batched import BatchedEnvironment
from repro.environments.make import make_environment, make_evaluation_environment
from repro.optimizers.rmsprop_tf1 import RMSPropTF1
from repro.optimizers.schedules import LinearOnFrames
from repro.training import checkpoint, devices
from repro.training.experiment import Evaluation, Warn
from repro.training.learner import Learner
from repro.training.on_policy_trainer import OnPolicyTrainer
from repro.training.run_directory import RunDirectory
from repro.training.trainer import EpisodeLog, run_settings, supervision


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
            learner.learning_rate, learner.final_learning_rate, budget(self.config)[1], self.frames_per_update
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

        def make_actor_environment(index: int, seed: int) -> BatchedEnvironment:
            return self.make_environment(runtime.envs_per_actor, seed, (index, runtime.num_actors))

        environments = [make_actor_environment(*numbered) for numbered in enumerate(seeds[::2])]
        strategy = devices.make_strategy()
        with strategy.scope():
            agent = self.make_agent(environments[0], weights_seed)
        learner = Learner(agent, strategy, devices.use_xla(runtime.compile, strategy))
        at_acting_weights = runtime.schedule == "a3c"
        if at_acting_weights and not hasattr(agent, "train_on_policy"):
            raise ValueError("runtime.schedule=a3c: this agent takes no gradient at the weights that acted.")
        acting = agent.acting_variables if at_acting_weights else ()
        weights, episodes = WeightsPublisher(agent.collect_policy.variables(), acting), EpisodeLog()
        actors = make_actors(
            environments,
            make_actor_environment,
            self._make_policies(environments, weights, seeds[1]),
            weights,
            config.learner.unroll_length,
            seeds[1::2],
            episodes.append,
            supervision(config, run, warn),
            self.overlap,
        )
        return OnPolicyTrainer(
            learner,
            make_source(config, actors, agent.collect_data_spec, learner.to_device),
            weights,
            episodes,
            run_settings(config, run, warn),
            self.frames_per_update,
            at_acting_weights,
        )

    def _make_policies(
        self, environments: Sequence[BatchedEnvironment], weights: WeightsPublisher, seed: int
    ) -> Callable[[BatchedEnvironment, int], tf_policy.TFPolicy | DynamicBatching]:
        """What gives an actor its policy: a copy of its own, or with `runtime.dynamic_batching` one for all."""
        if not self.config.runtime.get("dynamic_batching", False):
            return lambda environment, _: self.make_local_policy(environment)
        rows = sum(environment.num_envs for environment in environments)
        shared = DynamicBatching(self.make_local_policy(environments[0]), weights, rows, seed)
        return lambda *_: shared

    def load_policy(
        self, checkpoints: Path, num_envs: int, seed: int, warn: Warn
    ) -> tuple[tf_policy.TFPolicy, BatchedEnvironment]:
        environment = make_evaluation_environment(self.config, num_envs, seed)
        return checkpoint.restore_policy(checkpoints, self.make_agent(environment, seed=0), warn), environment
