"""ACER on Gym's MuJoCo tasks as ReF-ER's Figures 4 and 5 have it for a baseline (arXiv 1807.05827, Appendix A)."""

from __future__ import annotations

from typing import NamedTuple

import ml_collections
import tensorflow as tf
from tf_agents.policies import tf_policy
from tf_agents.trajectories import Trajectory

from repro.distributions import gaussian
from repro.environments.mujoco import MujocoEnvironment, make_mujoco
from repro.networks.gaussian_actor_critic import GaussianActorCritic
from repro.networks.gaussian_policy import GaussianPolicy
from repro.ops.layout import time_major
from repro.optimizers.fused_adam import FusedAdam
from repro.papers.acer.continuous_agent import ContinuousAgent
from repro.papers.acer.continuous_loss import ContinuousLoss, LossSettings
from repro.papers.acer.unroll_agent import Learning
from repro.runtime.replay_training import ReplaySettings

SCORE_UNIT = "episode return"
"""Unit of returns in records."""

PROTOCOL = "episodes that ended in the last {} steps of training, actions sampled"
"""Of the evaluation that training brings along."""


class Setting(NamedTuple):
    """Nothing is drawn here."""


def draw_setting(config: ml_collections.ConfigDict, seed: int) -> Setting:
    """No hyper-parameters depend on the seed."""
    return Setting()


def replay_settings(config: ml_collections.ConfigDict) -> ReplaySettings:
    """So many gradient steps a step of the environment, each on unrolls of the replay."""
    steps = config.learner.batch_size * config.learner.unroll_length
    return ReplaySettings(False, config.replay.gradients_per_step * steps, config.replay.batch_size)


def make_environment(config: ml_collections.ConfigDict, num_envs: int, seed: int) -> MujocoEnvironment:
    return make_mujoco(config.env, num_envs, seed)


def make_network(config: ml_collections.ConfigDict, environment: MujocoEnvironment, seed: int) -> GaussianActorCritic:
    units = tuple(config.network.units)
    return GaussianActorCritic(environment.state_size, environment.num_actions, units, units, seed=seed)


class GymAgent(ContinuousAgent):
    """ACER that logs as `kl` what ReF-ER's figures show, KL(mu || pi) at the replayed steps."""

    def _per_step_loss(self, experience: Trajectory) -> ContinuousLoss:
        losses = super()._per_step_loss(experience)
        observation, info = (
            tf.nest.map_structure(lambda x: time_major(x)[:-1], part)
            for part in (experience.observation, experience.policy_info)
        )
        mean = tf.stop_gradient(self._network.mean(observation))  # [T, B, A]
        deviation = tf.fill(tf.shape(mean), self._deviation)
        of_pairs = [tf.reshape(x, [-1, mean.shape[-1]]) for x in (info["mean"], info["deviation"], mean, deviation)]
        kl = tf.reshape(gaussian.kl(*of_pairs), tf.shape(mean)[:2])
        return losses._replace(extras=losses.extras | {"kl": kl, "average_kl": losses.extras["kl"]})


def make_agent(
    config: ml_collections.ConfigDict, environment: MujocoEnvironment, seed: int, setting: Setting
) -> GymAgent:
    """The agent with newly initialised weights; call it under the strategy's scope.

    Raises:
        ValueError: an agent without a learning rate for its policy.
    """
    learner, loss, rates = config.learner, config.loss, config.learner.policy_learning_rates
    if config.agent not in rates:
        raise ValueError(f"agent={config.agent!r}: choose {', '.join(rates)}.")
    network = make_network(config, environment, seed)
    policy = {weights.ref() for weights in network.policy_weights}
    scale = rates[config.agent] / learner.learning_rate
    scales = [scale if weights.ref() in policy else 1.0 for weights in network.trainable_variables]
    return GymAgent(
        environment.time_step_spec,
        environment.action_spec,
        method="acer",
        network=network,
        deviation=config.network.deviation,
        dueling_samples=config.network.dueling_samples,
        learning=Learning(
            FusedAdam(learner.learning_rate, scales=scales), loss.discount, loss.average_decay, learner.clip_global_norm
        ),
        loss_settings=LossSettings(loss.truncation, loss.delta),
        train_step_counter=tf.Variable(0, dtype=tf.int64, trainable=False, name="updates"),
        seed=seed,
    )


def make_local_policy(config: ml_collections.ConfigDict, environment: MujocoEnvironment) -> tf_policy.TFPolicy:
    """A collect policy with variables of its own, which the actor overwrites with the published ones."""
    weights = make_network(config, environment, seed=0).policy_weights
    return GaussianPolicy(environment.time_step_spec, environment.action_spec, weights, config.network.deviation)


def describe_evaluation(config: ml_collections.ConfigDict, episodes: int) -> str:
    """The protocol of an evaluation after training, in one line."""
    return f"{episodes} episodes of {config.env.task}-{config.env.version} after training, mean actions"
