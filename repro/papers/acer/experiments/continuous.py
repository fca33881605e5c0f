"""ACER and its baselines on control tasks, with hyper-parameters that the seed samples (Section 6)."""

from __future__ import annotations

from collections.abc import Mapping

import ml_collections
import numpy as np
import tensorflow as tf
from tf_agents.policies import tf_policy

from repro.config import check_interval
from repro.environments.batched import BatchedEnvironment
from repro.networks.gaussian_actor_critic import GaussianActorCritic
from repro.networks.gaussian_policy import GaussianPolicy
from repro.optimizers.rmsprop_tf1 import RMSPropTF1
from repro.papers.acer.averaging_agent import OptimizationConfig
from repro.papers.acer.continuous_agent import ContinuousAgent
from repro.papers.acer.continuous_loss import ContinuousLossSettings
from repro.papers.acer.experiment import AcerExperiment
from repro.rng import log_uniform
from repro.training.experiment import Experiment


class ContinuousExperiment(AcerExperiment):
    """ACER, its ablations and its baselines, with hyper-parameters that the seed samples.

    Attributes:
        AGENT: class of the agent.
    """

    AGENT: type[ContinuousAgent] = ContinuousAgent
    SAMPLED: Mapping[str, str] = {"learning_rate": "learner", "delta": "loss"}
    is_continuous = True

    def sample_hparams(self, seed: int) -> dict[str, float]:
        """Samples `learning_rate` and `delta` from a seed (Section 6); delta is not read without a trust region.

        They are the same for all agents and tasks. Returns {} if the configuration has fixed values instead of a sweep.

        Raises:
            ValueError: it has both, or an interval that cannot be sampled from.
        """
        if "sweep" not in self.config:
            return {}
        for name, section in self.SAMPLED.items():
            if name in self.config[section]:
                raise ValueError(
                    f"{section}.{name}={self.config[section][name]} is not read, since sweep.{name} samples its "
                    "value: delete one of the two."
                )
        sweep, rng = self.config.sweep, np.random.default_rng(seed)
        check_interval("sweep.learning_rate", sweep.learning_rate, above_zero=True)
        check_interval("sweep.delta", sweep.delta, above_zero=False)
        learning_rate = log_uniform(rng, *sweep.learning_rate)
        return {"learning_rate": learning_rate, "delta": float(rng.uniform(*sweep.delta))}

    def make_network(self, environment: BatchedEnvironment, seed: int) -> GaussianActorCritic:
        """Returns a new network, with advantages only for ACER.

        Raises:
            ValueError: the observations are images.
        """
        network, shape = self.config.network, environment.time_step_spec.observation.shape
        if len(shape) != 1:
            raise ValueError(
                f"the observations have shape {tuple(shape)}, and this agent needs vectors: choose another environment."
            )
        return GaussianActorCritic(
            shape[0],
            environment.num_actions,
            tuple(network.units),
            tuple(network.advantage_units) if self.config.loss.method == "acer" else (),
            seed=seed,
            mean_bound=network.mean_bound,
        )

    def make_optimizer(self, network: GaussianActorCritic) -> tf.keras.optimizers.Optimizer:
        """Returns the optimizer for a network's weights."""
        learner = self.config.learner
        return RMSPropTF1(learner.learning_rate, decay=learner.rmsprop_decay, epsilon=learner.rmsprop_epsilon)

    def make_agent(self, environment: BatchedEnvironment, seed: int) -> ContinuousAgent:
        loss, network = self.config.loss, self.make_network(environment, seed)
        if loss.method == "a3c" and (self.replay_settings.ratio or not self.replay_settings.on_policy):
            raise ValueError(
                "loss.method=a3c learns only from new unrolls, not from a replay: choose another method, or "
                "replay.ratio=0 and learner.on_policy=True."
            )
        return self.AGENT(
            environment.time_step_spec,
            environment.action_spec,
            method=loss.method,
            trust_region=loss.trust_region,
            network=network,
            std=self.config.network.std,
            dueling_samples=self.config.network.dueling_samples,
            optimization=OptimizationConfig(
                self.make_optimizer(network),
                loss.discount,
                loss.average_decay,
                self.config.learner.clip_global_norm,
            ),
            loss_settings=ContinuousLossSettings(loss.truncation, loss.delta, loss.traces, loss.policy_target),
            train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False, name="updates"),
            seed=seed,
        )

    def make_local_policy(self, environment: BatchedEnvironment) -> tf_policy.TFPolicy:
        network = self.make_network(environment, seed=0)
        return GaussianPolicy(
            environment.time_step_spec,
            environment.action_spec,
            network.policy_weights,
            self.config.network.std,
            mean_bound=network.mean_bound,
        )


def make_experiment(config: ml_collections.ConfigDict) -> Experiment:
    """Returns the experiment of a resolved configuration."""
    return ContinuousExperiment(config)
