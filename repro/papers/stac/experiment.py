"""Base class of STAC's experiments, for any distribution over actions."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import ml_collections
import tensorflow as tf
from tf_agents.policies import tf_policy

from repro.acting.actor_processes import Launcher
from repro.config import check_choice, split_names
from repro.environments.batched import BatchedEnvironment
from repro.networks.initializers import distinct_seeds
from repro.networks.multi_head_actor_critic import ACTING, EMBEDDINGS, MultiHeadActorCritic
from repro.networks.torsos import make_torso
from repro.optimizers.fused_adam import FusedAdam
from repro.papers.stac.acting import HeadPolicy
from repro.papers.stac.action_distribution import ActionDistribution
from repro.papers.stac.agent import StacAgent
from repro.papers.stac.loss import Hyperparameters
from repro.papers.stac.metagradient import Metaparameters
from repro.training.experiment import Warn
from repro.training.run_directory import RunDirectory
from repro.training.unroll_experiment import UnrollExperiment
from repro.training.unroll_trainer import UnrollTrainer


class StacExperiment(UnrollExperiment):
    """Builds a run of STAC, STACX or a baseline; subclasses define the distribution over actions.

    Attributes:
        TORSOS: names of the torsos for images.

    Args:
        config: resolved configuration.

    Raises:
        ValueError: overlap and burn-in do not fit the unrolls: not every step would be learned from equally often; or
            gamma is embedded without being tuned; or `network.acting` or `network.gamma_embedding` is unknown.
    """

    TORSOS: Sequence[str]

    def __init__(self, config: ml_collections.ConfigDict) -> None:
        super().__init__(config)
        length = config.learner.unroll_length
        new, learned = length - self.overlap, length - self.burn_in
        if not (0 < new <= length and 0 < learned <= length and learned % new == 0):
            raise ValueError(
                f"learner.unroll_length={length}, learner.overlap={self.overlap} and learner.burn_in={self.burn_in}: "
                "every step is learned from (unroll_length - burn_in) / (unroll_length - overlap) times, which must be "
                "a whole number above 0."
            )
        check_choice("network.acting", config.network.acting, ACTING)
        check_choice("network.gamma_embedding", self.gamma_embedding, EMBEDDINGS)
        if self.gamma_embedding != "none" and "gamma" not in self.tuned:
            raise ValueError(
                f"network.gamma_embedding={self.gamma_embedding}, but gamma is not tuned: add it to meta.tuned, or set "
                "network.gamma_embedding=none."
            )

    @property
    def overlap(self) -> int:
        return self.config.learner.get("overlap", 0)

    @property
    def burn_in(self) -> int:
        """Number of steps at the beginning of an unroll that only warm up the core."""
        return self.config.learner.get("burn_in", 0)

    @property
    def gamma_embedding(self) -> str:
        return self.config.network.get("gamma_embedding", "none")

    @abc.abstractmethod
    def make_distribution(self, environment: BatchedEnvironment) -> ActionDistribution:
        """Returns the distribution over actions that the network's policy outputs parametrise.

        Raises:
            ValueError: a field of `config.network` has an impossible value.
        """

    def make_network(self, environment: BatchedEnvironment, seed: int) -> MultiHeadActorCritic:
        """Returns a new network.

        Raises:
            ValueError: as for `make_torso`, `make_distribution` and `MultiHeadActorCritic`.
        """
        network, seeds = self.config.network, distinct_seeds(seed)
        torso = make_torso(network, next(seeds), self.TORSOS, environment.time_step_spec.observation)
        return MultiHeadActorCritic(
            torso,
            self.make_distribution(environment).num_outputs,
            num_heads=network.num_heads,
            head_units=network.head_units,
            core_units=network.get("core_units") or None,
            acting=network.acting,
            gamma_embedding=self.gamma_embedding,
            gamma_embedding_units=network.get("gamma_embedding_units", 16),
            seed=next(seeds),
        )

    @property
    def tuned(self) -> tuple[str, ...]:
        """Names of the metaparameters that are tuned."""
        return split_names(self.config.meta.tuned)

    @property
    def outer(self) -> Hyperparameters:
        """Hyper-parameters of the outer loss, and those of the inner loss that are not tuned."""
        loss = self.config.loss
        return Hyperparameters(
            gamma=loss.discount,
            lambda_=loss.lambda_,
            alpha_rho=loss.alpha,
            alpha_c=loss.alpha,
            truncation=loss.truncation,
            g_v=loss.value_cost,
            g_p=loss.policy_cost,
            g_e=loss.entropy_cost,
        )

    def make_metaparameters(self) -> Metaparameters:
        """Returns the metaparameters at their initial values.

        Raises:
            ValueError: `config.meta.tuned` has an unknown name, or two that set the same hyper-parameter.
        """
        meta, network, outer = self.config.meta, self.config.network, self.outer
        initial = dict.fromkeys(self.tuned, meta.initial)
        if meta.initial_gamma is not None:
            initial["gamma"] = meta.initial_gamma
        value_alone = [outer._replace(g_p=0.0, g_e=0.0)] if network.acting == "average" else []
        return Metaparameters(self.tuned, outer, network.num_heads, initial, value_alone)

    def make_agent(self, environment: BatchedEnvironment, seed: int) -> StacAgent:
        config, meta = self.config, self.config.meta
        return StacAgent(
            environment.time_step_spec,
            environment.action_spec,
            network=self.make_network(environment, seed),
            distribution=self.make_distribution(environment),
            optimizer=self.make_optimizer(),
            metaparameters=self.make_metaparameters(),
            meta_optimizer=FusedAdam(
                meta.learning_rate, meta.beta_1, meta.beta_2, meta.epsilon, epsilon_is_corrected=True
            ),
            outer=self.outer,
            kl_cost=meta.kl_cost,
            clip_global_norm=config.learner.clip_global_norm,
            train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False, name="updates"),
            burn_in=self.burn_in,
            greedy=config.evaluation.greedy,
        )

    def make_local_policy(self, environment: BatchedEnvironment) -> tf_policy.TFPolicy:
        network = self.make_network(environment, seed=0)
        distribution = self.make_distribution(environment)
        return HeadPolicy(environment.time_step_spec, environment.action_spec, network, distribution)

    def build_trainer(self, seed: int, run: RunDirectory, warn: Warn, launch: Launcher | None = None) -> UnrollTrainer:
        trainer = super().build_trainer(seed, run, warn, launch)
        tuned = [f"{name}_1" for name in self.tuned]
        trainer.progress_scalars = (*trainer.progress_scalars, *tuned[:1])
        return trainer
