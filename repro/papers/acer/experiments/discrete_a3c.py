"""A3C in environments with discrete actions: the curves of replay ratio 0 in ACER's Figure 1 (Section 4)."""

from __future__ import annotations

import ml_collections
import tensorflow as tf

from repro.environments.batched import BatchedEnvironment
from repro.networks.actor_critic import ActorCritic
from repro.papers.acer.a3c_agent import A3cAgent
from repro.papers.acer.experiments.discrete import TorsoExperiment
from repro.training.experiment import Experiment


class DiscreteA3cExperiment(TorsoExperiment[ActorCritic]):
    NETWORK = ActorCritic

    def make_agent(self, environment: BatchedEnvironment, seed: int) -> A3cAgent:
        config = self.config
        if config.replay.ratio or config.loss.trust_region or not config.learner.on_policy:
            raise ValueError(
                "A3C learns only from new unrolls and has no trust region: choose replay.ratio=0, "
                "loss.trust_region=False and learner.on_policy=True."
            )
        return A3cAgent(
            environment.time_step_spec,
            environment.action_spec,
            network=self.make_network(environment, seed),
            optimization=self.optimization,
            entropy_cost=config.loss.entropy_cost,
            train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False, name="updates"),
        )


def make_experiment(config: ml_collections.ConfigDict) -> Experiment:
    """Returns the experiment of a resolved configuration."""
    return DiscreteA3cExperiment(config)
