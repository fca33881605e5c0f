"""ACER on Gym's MuJoCo tasks as ReF-ER's Figures 4 and 5 have it for a baseline (arXiv 1807.05827, Appendix A)."""

from __future__ import annotations

from collections.abc import Mapping

import ml_collections
import tensorflow as tf

from repro.distributions import gaussian
from repro.environments.mujoco import MujocoEnvironment, make_mujoco
from repro.optimizers.fused_adam import FusedAdam
from repro.papers.acer.atari_parts import draw_setting
from repro.papers.acer.continuous_agent import ContinuousAgent
from repro.papers.acer.continuous_loss import ContinuousLoss, LossSettings, Steps
from repro.papers.acer.continuous_parts import PROTOCOL, SCORE_UNIT, make_local_policy, make_network
from repro.papers.acer.unroll_agent import Learning
from repro.training.replay_trainer import ReplaySettings

__all__ = ["PROTOCOL", "SCORE_UNIT", "draw_setting", "make_local_policy"]
"""What is as with ACER's other experiments; the rest of an experiment's parts stands below."""


def replay_settings(config: ml_collections.ConfigDict) -> ReplaySettings:
    """So many gradient steps a step of the environment, each on unrolls of the replay."""
    steps = config.learner.batch_size * config.learner.unroll_length
    return ReplaySettings(False, config.replay.gradients_per_step * steps, config.replay.batch_size)


def make_environment(config: ml_collections.ConfigDict, num_envs: int, seed: int) -> MujocoEnvironment:
    return make_mujoco(config.env, num_envs, seed)


class GymAgent(ContinuousAgent):
    """ACER that logs as `kl` what ReF-ER's figures show, KL(mu || pi) at the replayed steps."""

    def _losses(self, steps: Steps, observation: tf.Tensor) -> ContinuousLoss:
        losses = super()._losses(steps, observation)
        mean = tf.stop_gradient(steps.mean)
        kl = gaussian.kl(steps.behaviour_mean, steps.behaviour_deviation, mean, steps.deviation)  # [T, B]
        return losses._replace(extras=losses.extras | {"kl": kl, "average_kl": losses.extras["kl"]})


def make_agent(
    config: ml_collections.ConfigDict, environment: MujocoEnvironment, seed: int, setting: Mapping[str, float]
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


def describe_evaluation(config: ml_collections.ConfigDict, episodes: int) -> str:
    """The protocol of an evaluation after training, in one line."""
    return f"{episodes} episodes of {config.env.task}-{config.env.version} after training, mean actions"
