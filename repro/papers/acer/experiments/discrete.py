"""ACER in environments with discrete actions, with or without its trust region (Section 4)."""

from __future__ import annotations

from typing import Generic, TypeVar

import ml_collections
import tensorflow as tf
from tf_agents.policies import tf_policy

from repro.environments.batched import BatchedEnvironment
from repro.networks.actor_critic import ActorCritic
from repro.networks.actor_critic_policy import ActorCriticPolicy
from repro.networks.initializers import distinct_seeds
from repro.networks.policy_q import PolicyQ
from repro.networks.torsos import make_torso
from repro.optimizers.rmsprop_tf1 import RMSPropTF1
from repro.papers.acer.agent import AcerAgent
from repro.papers.acer.averaging_agent import OptimizationConfig
from repro.papers.acer.experiment import AcerExperiment
from repro.papers.acer.loss import AcerLossSettings
from repro.training.experiment import Experiment

TORSOS = ("nature", "shallow")


Network = TypeVar("Network", PolicyQ, ActorCritic)


class TorsoExperiment(AcerExperiment, Generic[Network]):
    """An agent whose network has one torso; subclasses define which agent.

    Attributes:
        NETWORK: class of the network, which adds heads to the torso.
    """

    NETWORK: type[Network]

    @property
    def optimization(self) -> OptimizationConfig:
        learner, loss = self.config.learner, self.config.loss
        return OptimizationConfig(
            RMSPropTF1(learner.learning_rate, decay=learner.rmsprop_decay, epsilon=learner.rmsprop_epsilon),
            loss.discount,
            loss.average_decay,
            learner.clip_global_norm,
        )

    def make_network(self, environment: BatchedEnvironment, seed: int) -> Network:
        """Returns a new network.

        Raises:
            ValueError: as for `make_torso`.
        """
        seeds = distinct_seeds(seed)
        torso = make_torso(self.config.network, next(seeds), TORSOS, environment.time_step_spec.observation)
        return self.NETWORK(torso, environment.num_actions, seed=next(seeds))

    def make_local_policy(self, environment: BatchedEnvironment) -> tf_policy.TFPolicy:
        network = self.make_network(environment, seed=0)
        return ActorCriticPolicy(environment.time_step_spec, environment.action_spec, network)


class DiscreteExperiment(TorsoExperiment[PolicyQ]):
    NETWORK = PolicyQ

    def make_agent(self, environment: BatchedEnvironment, seed: int) -> AcerAgent:
        loss = self.config.loss
        return AcerAgent(
            environment.time_step_spec,
            environment.action_spec,
            network=self.make_network(environment, seed),
            average_network=self.make_network(environment, seed) if loss.trust_region else None,
            optimization=self.optimization,
            loss_settings=AcerLossSettings(loss.truncation, loss.delta, loss.entropy_cost),
            train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False, name="updates"),
        )


def make_experiment(config: ml_collections.ConfigDict) -> Experiment:
    """Returns the experiment of a resolved configuration."""
    return DiscreteExperiment(config)
