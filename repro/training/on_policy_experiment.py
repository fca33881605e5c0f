"""The base class of experiments that learn from each new unroll once, and optionally also from a replay."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from tf_agents.agents import tf_agent
from tf_agents.policies import tf_policy

from repro.acting.actor_processes import ActorProcesses, Launcher, LocalLauncher
from repro.acting.batches import BatchSource
from repro.acting.evaluator_process import Evaluator
from repro.acting.inference import DynamicBatching
from repro.acting.remote import RemoteWeights
from repro.acting.remote_source import RemoteSource
from repro.acting.rollout import Episode
from repro.acting.sources import make_remote_source, make_source, run_remote_actor
from repro.acting.supervision import Supervision, make_actors
from repro.acting.weights import WeightsPublisher
from repro.config import PROCESSES, check_choice, frames_per_step, tasks, total_budget, whole_product
from repro.environments.batched import BatchedEnvironment
from repro.environments.names import task_names
from repro.evidence import published
from repro.optimizers.rmsprop_tf1 import RMSPropTF1
from repro.optimizers.schedules import LinearOnFrames
from repro.replay.mixed_batches import MixedBatches
from repro.training import devices
from repro.training.actor_experiment import ActorExperiment
from repro.training.evaluation import describe_games
from repro.training.evaluator_setup import make_evaluator
from repro.training.experiment import Warn
from repro.training.learner import Learner
from repro.training.learner_group import ChiefLink, LearnerGroup
from repro.training.mixed_replay_trainer import MixedReplayTrainer
from repro.training.on_policy_trainer import OnPolicyTrainer
from repro.training.run_directory import RunDirectory
from repro.training.seeds import make_run_seeds
from repro.training.synchronous_learners import EXCHANGE_ERRORS, ChiefSource, ChiefTrainer, learn_with
from repro.training.task_returns import TaskReturns
from repro.training.trainer import RECENT_GAMES, EpisodeLog, run_settings, supervision


class OnPolicyExperiment(ActorExperiment):
    """Builds a run; subclasses define network and agent."""

    @abc.abstractmethod
    def make_local_policy(self, environment: BatchedEnvironment) -> tf_policy.TFPolicy:
        """Returns a collect policy with variables of its own, which the actor overwrites with the published ones."""

    @property
    def frames_per_update(self) -> int:
        """New environment frames, or steps, in one batch: new unrolls x steps x frames per step."""
        learner = self.config.learner
        return self.num_new * (learner.unroll_length - self.overlap) * frames_per_step(self.config)

    @property
    def num_new(self) -> int:
        """New unrolls in a batch."""
        return self.config.learner.batch_size - self.num_replayed

    @property
    def num_replayed(self) -> int:
        """Replayed unrolls in a batch; 0 without a replay.

        Raises:
            ValueError: the fraction of the batch is not a whole number of unrolls, or leaves none that is new; or the
                replay has no room for it.
        """
        batch_size, replay = self.config.learner.batch_size, self.config.get("replay", {})
        fraction = replay.get("fraction", 0.0)
        num_replayed = whole_product(fraction, batch_size)
        if num_replayed is None or not 0 <= num_replayed < batch_size:
            raise ValueError(
                f"replay.fraction={fraction:g} of learner.batch_size={batch_size} is {batch_size * fraction:g} "
                "unrolls, but must be a whole number of them, 0 or more and below the batch size."
            )
        if num_replayed and replay.capacity < num_replayed:
            raise ValueError(
                f"replay.capacity={replay.capacity} is less than the {num_replayed} replayed unrolls of one batch: "
                f"choose {num_replayed} or more."
            )
        return num_replayed

    @property
    def num_learners(self) -> int:
        """Processes that learn, each from an equal share of the batch and with an equal share of the actors.

        Raises:
            ValueError: there cannot be so many.
        """
        runtime, batch_size = self.config.runtime, self.config.learner.batch_size
        count = runtime.get("num_learners", 1)
        if count == 1:
            return count
        if count < 1:
            raise ValueError(f"runtime.num_learners={count}: choose 1 or more.")
        if runtime.schedule != PROCESSES:
            raise ValueError(
                f"runtime.num_learners={count} needs runtime.schedule={PROCESSES}, got {runtime.schedule!r}."
            )
        if self.num_replayed or runtime.get("weights_delay", 0):
            raise ValueError(
                f"runtime.num_learners={count} cannot be combined with a replay or with runtime.weights_delay: choose "
                "replay.fraction=0 and runtime.weights_delay=0."
            )
        if runtime.compile == "xla":
            raise ValueError(
                f"runtime.num_learners={count} cannot be combined with runtime.compile=xla: choose auto or graph."
            )
        for name, number in {"learner.batch_size": batch_size, "runtime.num_actors": runtime.num_actors}.items():
            if number % count:
                raise ValueError(f"runtime.num_learners={count} must divide {name}={number}.")
        return count

    @property
    def dynamic_batching(self) -> bool:
        """Whether one policy answers all waiting actors."""
        return self.config.runtime.get("dynamic_batching", False)

    @property
    def overlap(self) -> int:
        """Steps that an unroll shares with the one before it."""
        return 0

    def describe_evaluation(self, episodes: int, when: str) -> str:
        best = "median actions" if self.is_continuous else "most probable action"
        actions = best if self.config.evaluation.greedy else "sampled actions"
        return describe_games(self.config.env, episodes, actions, when)

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

    def build_trainer(
        self, seed: int, run: RunDirectory, warn: Warn, launch: Launcher | None = None
    ) -> OnPolicyTrainer:
        """See `RemoteActing.build_trainer`; raises LearnerLostError where another learner ends before it learns."""
        devices.check_compute_dtype(self.config, warn)
        launcher, watched = launch or LocalLauncher(run.path, run.actors), supervision(self.config, run.actors, warn)
        if (num_learners := self.num_learners) == 1:
            return self._build_trainer(seed, run, warn, launcher, watched)
        if launch is None:  # all are on this machine
            devices.check_gpus(num_learners)
        group = LearnerGroup(launcher, num_learners, watched)
        try:
            return self._build_trainer(seed, run, warn, launcher, watched, group)
        except EXCHANGE_ERRORS as error:
            lost = group.lost(error)
            group.close()
            raise lost from error
        except BaseException:
            group.close()
            raise

    def _build_trainer(
        self,
        seed: int,
        run: RunDirectory,
        warn: Warn,
        launcher: Launcher,
        watched: Supervision,
        group: LearnerGroup | None = None,
    ) -> OnPolicyTrainer:
        config, runtime = self.config, self.config.runtime
        seeds = make_run_seeds(seed, runtime.num_actors)
        num_replayed, sampled_hparams = self.num_replayed, self.sample_hparams(seed)
        remote, at_acting_weights = runtime.schedule == PROCESSES, runtime.schedule == "a3c"
        if remote and self.dynamic_batching:
            raise ValueError(
                f"runtime.dynamic_batching=True needs actors in threads: choose False with "
                f"runtime.schedule={PROCESSES}."
            )
        environments = self.make_local_environments(seeds.environments)
        strategy = devices.make_learners_strategy(0, group.connect()) if group else devices.make_strategy()
        if group is None:
            devices.check_batch_size(config.learner.batch_size, strategy)
        with strategy.scope():
            agent = self.with_hparams(sampled_hparams).make_agent(environments[0], seeds.weights)
        learner = Learner(agent, strategy, devices.use_xla(runtime.compile, strategy))
        if at_acting_weights and (num_replayed or self.dynamic_batching or not hasattr(agent, "train_on_policy")):
            raise ValueError(
                "runtime.schedule=a3c takes gradients at the weights that acted: choose "
                "runtime.dynamic_batching=False, replay.fraction=0 and an agent that has such gradients, or another "
                "schedule."
            )
        episodes, to_device = self._make_episode_log(), None if num_replayed else learner.to_device
        weights: WeightsPublisher
        source: BatchSource
        evaluator = make_evaluator(config, launcher, agent, watched)
        if remote:
            environments[0].close()
            weights, source = self._make_remote_source(
                agent, launcher, watched, episodes.append, to_device, evaluator=evaluator
            )
            if group is not None:
                source = ChiefSource(source, group, episodes.append)
        else:
            weights, source = self._make_local_source(agent, environments, seeds.actions, watched, episodes, to_device)
        settings = run_settings(config, run, warn, evaluator, sampled_hparams)
        arguments = (learner, source, weights, episodes, settings, self.frames_per_update)
        if group is not None:
            return ChiefTrainer(*arguments, group=group)
        if not num_replayed:
            return OnPolicyTrainer(*arguments, at_acting_weights=at_acting_weights)
        batches = MixedBatches(
            agent.collect_data_spec, config.learner.unroll_length, config.replay.capacity, num_replayed
        )
        return MixedReplayTrainer(*arguments, batches=batches, rng=np.random.default_rng(seeds.replay))

    def run_remote_actor(self, seed: int, index: int, start: int, address: str) -> None:
        """See `RemoteActing`."""
        run_remote_actor(
            self.config,
            functools.partial(self.make_actor_environment, start=start),
            self.make_local_policy,
            seed,
            index,
            start,
            address,
            batch_size=self.num_new // self.num_learners,
            overlap=self.overlap,
        )

    def run_learner(self, seed: int, chief: ChiefLink, launcher: Launcher, gpu: int) -> NoReturn:
        """See `SynchronousLearning`."""
        seeds = make_run_seeds(seed, self.config.runtime.num_actors)
        # Only for its specs; made before the learners wait for each other.
        environment = self.make_actor_environment(0, seeds.environments[0])
        strategy = devices.make_learners_strategy(chief.learner, chief.join(), gpu)
        with strategy.scope():
            agent = self.with_hparams(self.sample_hparams(seed)).make_agent(environment, seeds.weights)
        environment.close()
        learner = Learner(agent, strategy, devices.use_xla(self.config.runtime.compile, strategy))
        games, no_logs = list[Episode](), Path()  # the launcher has those of processes
        watched = supervision(self.config, no_logs, chief.send)
        weights, source = self._make_remote_source(
            agent, launcher, watched, games.append, learner.to_device, learner=chief.learner
        )
        learn_with(chief, learner, source, weights, games)

    def _make_local_source(
        self,
        agent: tf_agent.TFAgent,
        environments: Sequence[BatchedEnvironment],
        action_seeds: Sequence[int],
        watched: Supervision,
        episodes: EpisodeLog,
        to_device: Callable[[Any], Any] | None,
    ) -> tuple[WeightsPublisher, BatchSource]:
        """Returns the publisher of weights, and the source with actors in threads of this process."""
        config, runtime = self.config, self.config.runtime
        acting = agent.acting_variables if runtime.schedule == "a3c" else ()
        weights = WeightsPublisher(
            agent.collect_policy.variables(), acting=acting, delay=runtime.get("weights_delay", 0)
        )
        actors = make_actors(
            environments,
            self.make_actor_environment,
            self._make_policies(environments, weights, action_seeds[0]),
            weights,
            config.learner.unroll_length,
            action_seeds,
            episodes.append,
            watched,
            self.overlap,
        )
        return weights, make_source(config, actors, agent.collect_data_spec, to_device, self.num_new)

    def _make_remote_source(
        self,
        agent: tf_agent.TFAgent,
        launcher: Launcher,
        watched: Supervision,
        on_episode: Callable[[Episode], None],
        to_device: Callable[[Any], Any] | None,
        learner: int = 0,
        evaluator: Evaluator | None = None,
    ) -> tuple[RemoteWeights, RemoteSource]:
        """Returns the publisher of weights, and the source with a learner's share of the actors, in processes."""
        weights = RemoteWeights(agent.collect_policy.variables(), delay=self.config.runtime.get("weights_delay", 0))
        actors, num_new = self._make_actors(launcher, watched, learner), self.num_new // self.num_learners
        source = make_remote_source(
            self.config,
            actors,
            weights,
            on_episode,
            agent.collect_data_spec,
            to_device,
            batch_size=num_new,
            evaluator=evaluator,
        )
        return weights, source

    def _make_actors(self, launcher: Launcher, watched: Supervision, learner: int) -> ActorProcesses:
        num_actors = self.config.runtime.num_actors // self.num_learners
        return ActorProcesses(launcher, num_actors, watched, learner * num_actors)

    def _make_policies(
        self, environments: Sequence[BatchedEnvironment], weights: WeightsPublisher, seed: int
    ) -> Callable[[BatchedEnvironment, int], tf_policy.TFPolicy | DynamicBatching]:
        """Returns what makes an actor's policy: a copy of its own, or with `runtime.dynamic_batching` one for all."""
        if not self.dynamic_batching:
            return lambda environment, _: self.make_local_policy(environment)
        rows = sum(environment.num_envs for environment in environments)
        shared = DynamicBatching(self.make_local_policy(environments[0]), weights, rows, seed)
        return lambda *_: shared

    def _make_episode_log(self) -> EpisodeLog:
        """Returns a log of all games, by task if several are learned together.

        Raises:
            ValueError: `evaluation.normaliser` names no known scores.
        """
        config = self.config
        if not tasks(config):
            return EpisodeLog()
        check_choice("evaluation.normaliser", config.evaluation.normaliser, published.normalisers())
        references = published.normaliser(config.evaluation.normaliser)
        names = task_names(config.env.name, tasks(config))
        return EpisodeLog(task_returns=TaskReturns(names, references, RECENT_GAMES))
