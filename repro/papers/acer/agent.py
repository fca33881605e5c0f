"""ACER's learner and policies for discrete actions, as a TF-Agents agent."""

from __future__ import annotations

import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import StepType, Trajectory
from tf_agents.trajectories import time_step as ts

from repro.networks.actor_critic_policy import ActorCriticPolicy
from repro.networks.policy_q import PolicyQ
from repro.optimizers.gradients import reduce_and_clip
from repro.papers.acer.loss import AcerLoss, LossSettings, acer_loss

NO_CLIP = 2.0**100
"""Bound on the gradient's norm that nothing of use reaches; a power of two, so that it scales by exactly 1."""


def time_major(x: tf.Tensor) -> tf.Tensor:
    """[B, T, ...] to [T, B, ...]."""
    return tf.transpose(x, [1, 0, *range(2, x.shape.rank)])


class AcerAgent(tf_agent.TFAgent):
    """Actor-critic with experience replay: one `train` is one call of Algorithm 2, on-policy or off-policy.

    `train` takes a batch of unrolls, `Trajectory` [B, T+1, ...]: T transitions and the observation after the last one,
    from which the targets bootstrap; action, reward and discount of the last row are not read. mu is what
    `policy_info` holds, so that a fresh unroll is on-policy and one from a replay off-policy without further ado.
    Losses are summed over time, as Algorithm 2 accumulates them, and averaged over the unrolls, each of which stands
    for a thread; under `tf.distribute` over the unrolls of all replicas, whose shares must be equal.

    Args:
        time_step_spec, action_spec: of one unbatched environment.
        network: policy logits and action values.
        average_network: another network of the same layers, for the average policy; its weights are overwritten with
            those of `network`. None for ACER without a trust region.
        average_decay: alpha, in [0, 1]: theta_a <- alpha theta_a + (1 - alpha) theta after each update.
        optimizer: Keras optimiser.
        discount: gamma, in [0, 1].
        loss_settings: c, delta and the weight of the entropy.
        clip_global_norm: bound on the global norm of the gradient; 0 for none.
        train_step_counter: int64 variable, incremented at each update.
        greedy: whether `policy` (not `collect_policy`) takes the most probable action.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: tensor_spec.BoundedTensorSpec,
        *,
        network: PolicyQ,
        average_network: PolicyQ | None,
        average_decay: float,
        optimizer: tf.keras.optimizers.Optimizer,
        discount: float,
        loss_settings: LossSettings,
        clip_global_norm: float,
        train_step_counter: tf.Variable,
        greedy: bool = False,
    ) -> None:
        self._network = network
        self._average_network = average_network
        self._average_decay = average_decay
        self._optimizer = optimizer
        self._discount = discount
        self._loss_settings = loss_settings
        self._clip_global_norm = clip_global_norm or NO_CLIP
        network.build_variables(time_step_spec.observation)
        if average_network is not None:
            average_network.build_variables(time_step_spec.observation)
            for average, variable in zip(average_network.variables, network.variables, strict=True):
                average.assign(variable)
        optimizer.build(network.trainable_variables)
        super().__init__(
            time_step_spec,
            action_spec,
            policy=ActorCriticPolicy(time_step_spec, action_spec, network, greedy),
            collect_policy=ActorCriticPolicy(time_step_spec, action_spec, network),
            train_sequence_length=None,
            train_step_counter=train_step_counter,
        )

    def _initialize(self) -> None:
        """Variables are created in the constructor, under the caller's strategy scope."""

    def _per_step_loss(self, experience: Trajectory) -> AcerLoss:
        observation, step_type = experience.observation, experience.step_type
        logits, q, _ = self._network(observation, step_type)  # [B, T+1, A]
        average_logits = None
        if self._average_network is not None:
            average_logits = time_major(self._average_network(observation[:, :-1], step_type[:, :-1])[0])
        return acer_loss(
            logits=time_major(logits),
            q=time_major(q),
            average_logits=average_logits,
            behaviour_logits=time_major(experience.policy_info["logits"])[:-1],
            actions=time_major(experience.action)[:-1],
            r_t=time_major(experience.reward)[:-1],
            discount_t=self._discount * time_major(experience.discount)[:-1],
            is_boundary=time_major(step_type)[:-1] == StepType.LAST,
            settings=self._loss_settings,
        )

    def _loss(
        self, experience: Trajectory, weights: tf.Tensor | None = None, training: bool = False
    ) -> tf_agent.LossInfo:
        losses = self._per_step_loss(experience)
        live = time_major(experience.step_type)[:-1] != StepType.LAST  # [T, B]
        extra = {name: _mean(x, live) for name, x in (losses.extras | {"critic_loss": losses.critic}).items()}
        per_unroll = tf.reduce_sum(losses.total, axis=0)  # [B]
        unrolls = tf.cast(tf.shape(per_unroll)[0] * tf.distribute.get_strategy().num_replicas_in_sync, tf.float32)
        total = tf.reduce_sum(per_unroll if weights is None else weights * per_unroll)
        return tf_agent.LossInfo(total / unrolls, extra)

    def _train(self, experience: Trajectory, weights: tf.Tensor | None = None) -> tf_agent.LossInfo:
        variables = self._network.trainable_variables
        with tf.GradientTape() as tape:
            loss, extra = self._loss(experience, weights, training=True)
        gradients, norm = reduce_and_clip(tape.gradient(loss, variables), self._clip_global_norm)
        self._optimizer.apply_gradients(zip(gradients, variables), skip_gradients_aggregation=True)
        if self._average_network is not None:
            for average, variable in zip(self._average_network.variables, self._network.variables):
                average.assign(self._average_decay * average + (1.0 - self._average_decay) * variable)
        self.train_step_counter.assign_add(1)
        return tf_agent.LossInfo(loss, extra | {"gradient_norm": norm})


def _mean(x: tf.Tensor, live: tf.Tensor) -> tf.Tensor:
    """Mean of x over the rows that are transitions; 0 where there is none."""
    return tf.math.divide_no_nan(tf.reduce_sum(tf.where(live, x, 0.0)), tf.reduce_sum(tf.cast(live, tf.float32)))
