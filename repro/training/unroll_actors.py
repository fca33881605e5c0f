"""The base class of experiments whose actors bring unrolls: its actors, and the sources of batches made of them."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.policies import tf_policy

from repro.acting.actor_processes import ActorProcesses, Launcher
from repro.acting.batches import BatchSource
from repro.acting.evaluator_process import Evaluator
from repro.acting.inference import DynamicBatching
from repro.acting.remote import RemoteWeights
from repro.acting.remote_source import RemoteSource
from repro.acting.rollout import Episode
from repro.acting.sources import make_remote_source, make_source, run_remote_actor
from repro.acting.supervision import Supervision, make_actors
from repro.acting.weights import WeightsPublisher
from repro.config import frames_per_step
from repro.environments.batched import BatchedEnvironment
from repro.training.actor_experiment import ActorExperiment


class UnrollActors(ActorExperiment):
    """Makes the source of new unrolls, with actors in threads or in processes; subclasses define what learns."""

    @abc.abstractmethod
    def make_local_policy(self, environment: BatchedEnvironment) -> tf_policy.TFPolicy:
        """Returns a collect policy with variables of its own, which the actor overwrites with the published ones."""

    def acting_variables(self, agent: tf_agent.TFAgent) -> Sequence[tf.Variable]:
        """Returns the variables whose values come with each batch, as they were when it was played; none by default."""
        return ()

    def max_kept(self, acting: Sequence[tf.Variable]) -> int:
        """Returns how many versions of `acting_variables` may be kept for unrolls of processes that are under way."""
        return 1

    @property
    def num_new(self) -> int:
        """New unrolls in a batch."""
        return self.config.learner.batch_size

    @property
    def num_learners(self) -> int:
        """Processes that learn, each from an equal share of the batch and with an equal share of the actors."""
        return 1

    @property
    def overlap(self) -> int:
        """Steps that an unroll shares with the one before it."""
        return 0

    @property
    def frames_per_update(self) -> int:
        """New environment frames, or steps, in one batch: new unrolls x steps x frames per step."""
        learner = self.config.learner
        return self.num_new * (learner.unroll_length - self.overlap) * frames_per_step(self.config)

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

    def make_local_source(
        self,
        agent: tf_agent.TFAgent,
        environments: Sequence[BatchedEnvironment],
        action_seeds: Sequence[int],
        watched: Supervision,
        on_episode: Callable[[Episode], None],
        to_device: Callable[[Any], Any] | None,
    ) -> tuple[WeightsPublisher, BatchSource]:
        """Returns the publisher of weights, and the source with actors in threads of this process.

        Args:
            agent: the agent whose weights are published.
            environments, action_seeds: environments and seed of the actions of each actor.
            watched: restarts actors that fail.
            on_episode: called with every finished game.
            to_device: moves a batch to the learner's devices; None if its unrolls are only stored.
        """
        weights = WeightsPublisher(
            agent.collect_policy.variables(), acting=self.acting_variables(agent), delay=self._weights_delay
        )
        actors = make_actors(
            environments,
            self.make_actor_environment,
            self._make_policies(environments, weights, action_seeds[0]),
            weights,
            self.config.learner.unroll_length,
            action_seeds,
            on_episode,
            watched,
            self.overlap,
        )
        return weights, make_source(self.config, actors, agent.collect_data_spec, to_device, self.num_new)

    def make_remote_source(
        self,
        agent: tf_agent.TFAgent,
        launcher: Launcher,
        watched: Supervision,
        on_episode: Callable[[Episode], None],
        to_device: Callable[[Any], Any] | None,
        learner: int = 0,
        evaluator: Evaluator | None = None,
    ) -> tuple[RemoteWeights, RemoteSource]:
        """Returns the publisher of weights, and the source with a learner's share of the actors, in processes.

        Args:
            launcher: starts the processes.
            learner: number of the learner, from 0.
            evaluator: the evaluator beside training, if there is one.
            agent, watched, on_episode, to_device: as for `make_local_source`.

        Raises:
            ValueError: as for `max_kept`.
        """
        acting = self.acting_variables(agent)
        weights = RemoteWeights(
            agent.collect_policy.variables(),
            acting=acting,
            delay=self._weights_delay,
            max_kept=self.max_kept(acting),
        )
        source = make_remote_source(
            self.config,
            self._make_actors(launcher, watched, learner),
            weights,
            on_episode,
            agent.collect_data_spec,
            to_device,
            batch_size=self.num_new // self.num_learners,
            evaluator=evaluator,
        )
        return weights, source

    @property
    def _weights_delay(self) -> int:
        return self.config.runtime.get("weights_delay", 0)

    def _make_actors(self, launcher: Launcher, watched: Supervision, learner: int) -> ActorProcesses:
        num_actors = self.num_actors // self.num_learners
        return ActorProcesses(launcher, num_actors, watched, learner * num_actors)

    def _make_policies(
        self, environments: Sequence[BatchedEnvironment], weights: WeightsPublisher, seed: int
    ) -> Callable[[BatchedEnvironment, int], tf_policy.TFPolicy | DynamicBatching]:
        """Returns what makes the policy of each actor: by default one of its own."""
        return lambda environment, _: self.make_local_policy(environment)
