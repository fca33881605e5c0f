"""The base class of experiments that learn from each new unroll once, and optionally also from a replay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.policies import tf_policy

from repro.acting.actor_processes import Launcher, LocalLauncher
from repro.acting.batches import BatchSource
from repro.acting.inference import DynamicBatching
from repro.acting.rollout import Episode
from repro.acting.supervision import Supervision
from repro.acting.weights import WeightsPublisher
from repro.config import PROCESSES, check_choice, tasks, total_budget, whole_product
from repro.environments.batched import BatchedEnvironment
from repro.environments.names import task_names
from repro.evidence import published
from repro.optimizers.rmsprop_tf1 import RMSPropTF1
from repro.optimizers.schedules import LinearOnFrames
from repro.replay.mixed_batches import MixedBatches
from repro.training import devices
from repro.training.evaluation import describe_games
from repro.training.evaluator_setup import make_evaluator
from repro.training.experiment import Warn
from repro.training.learner_group import ChiefLink, LearnerGroup
from repro.training.mixed_replay_trainer import MixedReplayTrainer
from repro.training.run_directory import RunDirectory
from repro.training.seeds import make_run_seeds
from repro.training.synchronous_learners import EXCHANGE_ERRORS, ChiefSource, ChiefTrainer, learn_with
from repro.training.task_returns import TaskReturns
from repro.training.trainer import RECENT_GAMES, EpisodeLog, run_settings, supervision
from repro.training.unroll_actors import UnrollActors
from repro.training.unroll_trainer import UnrollTrainer


class UnrollExperiment(UnrollActors):
    """Builds a run; subclasses define network and agent."""

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

    def describe_evaluation(self, episodes: int, when: str) -> str:
        best = "median actions" if self.is_continuous else "most probable action"
        actions = best if self.config.evaluation.greedy else "sampled actions"
        return describe_games(self.config.env, episodes, actions, when)

    def acting_variables(self, agent: tf_agent.TFAgent) -> Sequence[tf.Variable]:
        return agent.acting_variables if self.config.runtime.schedule == "a3c" else ()

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

    def build_trainer(self, seed: int, run: RunDirectory, warn: Warn, launch: Launcher | None = None) -> UnrollTrainer:
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
    ) -> UnrollTrainer:
        config, runtime = self.config, self.config.runtime
        seeds = make_run_seeds(seed, runtime.num_actors)
        num_replayed = self.num_replayed
        remote, at_acting_weights = runtime.schedule == PROCESSES, runtime.schedule == "a3c"
        if remote and self.dynamic_batching:
            raise ValueError(
                f"runtime.dynamic_batching=True needs actors in threads: choose False with "
                f"runtime.schedule={PROCESSES}."
            )
        environments = self.make_local_environments(seeds.environments)
        strategy = devices.make_learners_strategy(0, group.connect()) if group else devices.make_strategy()
        learner = self.make_learner(environments[0], strategy, seed)
        agent = learner.agent
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
            weights, source = self.make_remote_source(
                agent, launcher, watched, episodes.append, to_device, evaluator=evaluator
            )
            if group is not None:
                source = ChiefSource(source, group, episodes.append)
        else:
            weights, source = self.make_local_source(
                agent, environments, seeds.actions, watched, episodes.append, to_device
            )
        settings = run_settings(config, run, warn, evaluator, self.sample_hparams(seed))
        arguments = (learner, source, weights, episodes, settings, self.frames_per_update)
        if group is not None:
            return ChiefTrainer(*arguments, group=group)
        if not num_replayed:
            return UnrollTrainer(*arguments, at_acting_weights=at_acting_weights)
        batches = MixedBatches(
            agent.collect_data_spec, config.learner.unroll_length, config.replay.capacity, num_replayed
        )
        return MixedReplayTrainer(*arguments, batches=batches, rng=np.random.default_rng(seeds.replay))

    def run_learner(self, seed: int, chief: ChiefLink, launcher: Launcher, gpu: int) -> NoReturn:
        """See `SynchronousLearning`."""
        seeds = make_run_seeds(seed, self.config.runtime.num_actors)
        # Only for its specs; made before the learners wait for each other.
        environment = self.make_actor_environment(0, seeds.environments[0])
        strategy = devices.make_learners_strategy(chief.learner, chief.join(), gpu)
        learner = self.make_learner(environment, strategy, seed)
        environment.close()
        games, no_logs = list[Episode](), Path()  # the launcher has those of processes
        watched = supervision(self.config, no_logs, chief.send)
        weights, source = self.make_remote_source(
            learner.agent, launcher, watched, games.append, learner.to_device, learner=chief.learner
        )
        learn_with(chief, learner, source, weights, games)

    def _make_policies(
        self, environments: Sequence[BatchedEnvironment], weights: WeightsPublisher, seed: int
    ) -> Callable[[BatchedEnvironment, int], tf_policy.TFPolicy | DynamicBatching]:
        """Returns what makes an actor's policy: a copy of its own, or with `runtime.dynamic_batching` one for all."""
        if not self.dynamic_batching:
            return super()._make_policies(environments, weights, seed)
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
