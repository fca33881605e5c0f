"""The toy's only experiment."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from repro.papers.toy.agent import ToyAgent

from repro.acting.sources import make_source
from repro.acting.supervision import make_actors
from repro.acting.weights import WeightsPublisher
from repro.environments.make import make_environment
from repro.networks.actor_critic import ActorCritic
from repro.networks.actor_critic_policy import ActorCriticPolicy
from repro.networks.torsos import make_torso
from repro.training import checkpoint, devices
from repro.training.evaluation import describe_games, score_unit
from repro.training.experiment import Evaluation, TrainedPolicy
from repro.training.learner import Learner
from repro.training.trainer import EpisodeLog, run_settings, supervision
from repro.training.unroll_trainer import UnrollTrainer


class ToyExperiment:
    def __init__(self, config):
        self.config = config

    @property
    def evaluation(self):
        return Evaluation(self.config.evaluation.episodes, 10, score_unit(self.config.env))

    def describe_evaluation(self, episodes, when):
        return describe_games(self.config.env, episodes, "sampled actions", when)

    def make_environment(self, num_envs, seed):
        return make_environment(self.config, num_envs, seed, is_continuous=False)

    def make_network(self, environment, seed):
        torso = make_torso(self.config.network, seed, (), environment.time_step_spec.observation)
        return ActorCritic(torso, environment.num_actions, seed=seed + 1)

    def make_agent(self, environment):
        optimizer = tf.keras.optimizers.Adam(self.config.learner.learning_rate)
        network = self.make_network(environment, 0)
        return ToyAgent(environment.time_step_spec, environment.action_spec, network, optimizer, 0.99)

    def make_local_policy(self, environment):
        network = self.make_network(environment, 0)
        return ActorCriticPolicy(environment.time_step_spec, environment.action_spec, network)

    def build_trainer(self, seed, run, warn):
        config, learner_config = self.config, self.config.learner
        environment_seed, action_seed = np.random.SeedSequence(seed).generate_state(2) % 2**31
        environments = [self.make_environment(config.runtime.envs_per_actor, int(environment_seed))]
        strategy = devices.make_strategy()
        with strategy.scope():
            agent = self.make_agent(environments[0])
        learner = Learner(agent, strategy)
        weights, episodes = WeightsPublisher(agent.collect_policy.variables()), EpisodeLog()
        length = learner_config.unroll_length
        actors = make_actors(
            environments,
            lambda _, seed: self.make_environment(config.runtime.envs_per_actor, seed),
            lambda environment, _: self.make_local_policy(environment),
            weights,
            length,
            [int(action_seed)],
            episodes.append,
            supervision(config, run.actors, warn),
        )
        source = make_source(config, actors, agent.collect_data_spec, learner.to_device)
        settings = run_settings(config, run, warn)
        return UnrollTrainer(learner, source, weights, episodes, settings, learner_config.batch_size * length)

    def load_policy(self, checkpoints, num_envs, seed, warn):
        environment = self.make_environment(num_envs, seed)
        agent = self.make_agent(environment)
        return TrainedPolicy(agent.policy, environment, checkpoint.restore_agent(checkpoints, agent, warn))


def make_experiment(config):
    return ToyExperiment(config)
