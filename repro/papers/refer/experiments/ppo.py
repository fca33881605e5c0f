"""PPO, the on-policy baseline of Section 5.3."""

from __future__ import annotations

import functools

import ml_collections
import numpy as np
from tf_agents.policies import tf_policy

from repro.config import check_schedule
from repro.environments.batched import VectorEnvironment
from repro.papers.refer.experiment import ControlExperiment
from repro.papers.refer.gaussian_policy import MeanActionPolicy
from repro.papers.refer.ppo import Ppo, PpoSettings
from repro.papers.refer.ppo_training import PpoTrainer, PpoTrainerSettings
from repro.training.experiment import Experiment, Warn
from repro.training.run_directory import RunDirectory
from repro.training.trainer import run_settings, supervision


class PpoExperiment(ControlExperiment[Ppo]):
    def make_agent(self, environment: VectorEnvironment, rng: np.random.Generator) -> Ppo:
        """Returns PPO with newly initialised weights."""
        network, ppo = self.config.network, self.config.ppo
        settings = PpoSettings(
            units=tuple(ppo.units),
            hidden_scale=network.hidden_scale,
            output_scale=network.output_scale,
            initial_variance=network.initial_variance,
            clip=ppo.clip,
            discount=self.config.learner.discount,
            gae_lambda=ppo.gae_lambda,
        )
        return Ppo(environment.state_size, environment.num_actions, settings, rng, self.use_xla)

    def build_trainer(self, seed: int, run: RunDirectory, warn: Warn) -> PpoTrainer:
        config, ppo = self.config, self.config.ppo
        check_schedule(config, ("serial",))
        environment, rng = self.make_environment_and_rng(seed)
        settings = PpoTrainerSettings(
            steps=ppo.steps,
            epochs=ppo.epochs,
            batch_size=ppo.batch_size,
            start_steps=config.memory.start_steps,
            policy_learning_rate=ppo.policy_learning_rate,
            value_learning_rate=ppo.value_learning_rate,
            annealing=config.refer.annealing,
        )
        return PpoTrainer(
            self.make_agent(environment, rng),
            environment,
            functools.partial(self.remake_environment, seed),
            supervision(config, run.actors, warn),
            settings,
            rng,
            self.make_episode_log(),
            run_settings(config, run, warn),
        )

    def make_policy(self, environment: VectorEnvironment, agent: Ppo) -> tf_policy.TFPolicy:
        return MeanActionPolicy(environment.time_step_spec, environment.action_spec, agent)


def make_experiment(config: ml_collections.ConfigDict) -> Experiment:
    """Returns the experiment of a resolved configuration."""
    return PpoExperiment(config)
