"""IMPALA in environments with discrete actions."""

from __future__ import annotations

from collections.abc import Mapping

import ml_collections
import numpy as np
import tensorflow as tf
from tf_agents.policies import tf_policy

from repro.config import check_choice, check_interval
from repro.environments.batched import BatchedEnvironment
from repro.networks.actor_critic import ActorCritic
from repro.networks.actor_critic_policy import ActorCriticPolicy
from repro.networks.initializers import distinct_seeds
from repro.networks.instruction_encoder import InstructionEncoder
from repro.networks.torsos import make_torso
from repro.papers.impala.agent import ImpalaAgent
from repro.papers.impala.loss import CORRECTIONS, VtraceLossSettings
from repro.rng import log_uniform
from repro.training.experiment import Experiment
from repro.training.unroll_experiment import UnrollExperiment

TORSOS = ("shallow", "deep")


class DiscreteExperiment(UnrollExperiment):
    AGENT: type[ImpalaAgent] = ImpalaAgent
    SAMPLED: Mapping[str, str] = {"learning_rate": "learner", "rmsprop_epsilon": "learner", "entropy_cost": "loss"}

    def make_network(self, environment: BatchedEnvironment, seed: int) -> ActorCritic:
        """Returns a new network, which reads instructions if the environment has them and `language_units` is set.

        Raises:
            ValueError: as for `make_torso`, or there are instructions to read but no recurrent core.
        """
        network, seeds = self.config.network, distinct_seeds(seed)
        observation_spec = environment.time_step_spec.observation
        torso = make_torso(network, next(seeds), TORSOS, observation_spec, reads_entries=True)
        own_seed, encoder = next(seeds), None
        words = observation_spec.get("instruction") if isinstance(observation_spec, Mapping) else None
        if words is not None and "language_units" in network:
            vocabulary = int(words.maximum) + 1
            encoder = InstructionEncoder(vocabulary, network.embedding_units, network.language_units, next(seeds))
        return ActorCritic(torso, environment.num_actions, network.core_units or None, encoder, seed=own_seed)

    def sample_hparams(self, seed: int) -> dict[str, float]:
        """Samples hyper-parameters from the ranges of Table C.1; returns {} if the configuration has no sweep.

        They are the same for all agents and tasks.

        Raises:
            ValueError: the sweep has an interval or a list that cannot be sampled from.
        """
        sweep, rng = self.config.get("sweep"), np.random.default_rng(seed)
        if not sweep or not sweep.sampled:
            return {}
        for name in ("learning_rate", "entropy_cost"):
            check_interval(f"sweep.{name}", sweep[name], above_zero=True)
        if not sweep.rmsprop_epsilon:
            raise ValueError("sweep.rmsprop_epsilon=(): choose one or more numbers above 0.")
        learning_rate, entropy_cost = (
            log_uniform(rng, *interval) for interval in (sweep.learning_rate, sweep.entropy_cost)
        )
        epsilon = float(rng.choice(sweep.rmsprop_epsilon))
        return {"learning_rate": learning_rate, "rmsprop_epsilon": epsilon, "entropy_cost": entropy_cost}

    def make_agent(self, environment: BatchedEnvironment, seed: int) -> ImpalaAgent:
        config = self.config
        check_choice("loss.correction", config.loss.correction, CORRECTIONS)
        return self.AGENT(
            environment.time_step_spec,
            environment.action_spec,
            network=self.make_network(environment, seed),
            optimizer=self.make_optimizer(),
            discount=config.loss.discount,
            loss_settings=VtraceLossSettings(**{name: config.loss[name] for name in VtraceLossSettings._fields}),
            clip_global_norm=config.learner.clip_global_norm,
            train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False, name="updates"),
            greedy=config.evaluation.greedy,
        )

    def make_local_policy(self, environment: BatchedEnvironment) -> tf_policy.TFPolicy:
        network = self.make_network(environment, seed=0)
        return ActorCriticPolicy(environment.time_step_spec, environment.action_spec, network)


def make_experiment(config: ml_collections.ConfigDict) -> Experiment:
    """Returns the experiment of a resolved configuration."""
    return DiscreteExperiment(config)
