"""What ACER's agents share: losses summed over time and averaged over unrolls, one update, the average policy."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.trajectories import StepType, Trajectory

from repro.ops.layout import time_major
from repro.optimizers.gradients import NO_CLIP, reduce_and_clip


class PerStepLoss(Protocol):
    """Losses float32 [T, B], zero on boundary rows, and named extras of the same shape."""

    @property
    def total(self) -> tf.Tensor: ...
    @property
    def critic(self) -> tf.Tensor: ...
    @property
    def extras(self) -> dict[str, tf.Tensor]: ...


class Learning(NamedTuple):
    """How an agent's weights move.

    optimizer: Keras optimiser.
    discount: gamma, in [0, 1].
    average_decay: alpha, in [0, 1]: theta_a <- alpha theta_a + (1 - alpha) theta after each update.
    clip_global_norm: bound on the global norm of the gradient; 0 for none.
    """

    optimizer: tf.keras.optimizers.Optimizer
    discount: float
    average_decay: float
    clip_global_norm: float


class UnrollAgent(tf_agent.TFAgent):
    """One `train` is one call of Algorithm 2 or 3, on-policy or off-policy.

    `train` takes a batch of unrolls, `Trajectory` [B, T+1, ...]: T transitions and the observation after the last one,
    from which the targets bootstrap; action, reward, discount and policy_info of the last row are not read. mu is what
    `policy_info` holds, so that a fresh unroll is on-policy and one from a replay off-policy without further ado.
    Losses are summed over time, as the algorithms accumulate them, and averaged over the unrolls, each of which stands
    for a thread; under `tf.distribute` over the unrolls of all replicas, whose shares must be equal.

    Args:
        learning: see `Learning`.
        variables: that are learned.
        averaged: (average, variable) pairs of the average policy; none without a trust region.
        arguments: of `TFAgent`.
    """

    def __init__(
        self,
        learning: Learning,
        variables: Sequence[tf.Variable],
        averaged: Sequence[tuple[tf.Variable, tf.Variable]],
        **arguments: Any,
    ) -> None:
        self._learning = learning
        self._optimizer = learning.optimizer  # an attribute of its own: checkpoints look for it here
        self._learned = list(variables)
        self._averaged = list(averaged)
        self._optimizer.build(self._learned)
        super().__init__(train_sequence_length=None, **arguments)

    def _initialize(self) -> None:
        """Variables are created in the constructor, under the caller's strategy scope."""

    @abc.abstractmethod
    def _per_step_loss(self, experience: Trajectory) -> PerStepLoss:
        """Losses of a batch of unrolls."""

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
        with tf.GradientTape() as tape:
            loss, extra = self._loss(experience, weights, training=True)
        gradients = tape.gradient(loss, self._learned)
        gradients, norm = reduce_and_clip(gradients, self._learning.clip_global_norm or NO_CLIP)
        self._optimizer.apply_gradients(zip(gradients, self._learned), skip_gradients_aggregation=True)
        alpha = self._learning.average_decay
        for average, variable in self._averaged:
            average.assign(alpha * average + (1.0 - alpha) * variable)
        self.train_step_counter.assign_add(1)
        return tf_agent.LossInfo(loss, extra | {"gradient_norm": norm})


def _mean(x: tf.Tensor, live: tf.Tensor) -> tf.Tensor:
    """Mean of x over the rows that are transitions; 0 where there is none."""
    return tf.math.divide_no_nan(tf.reduce_sum(tf.where(live, x, 0.0)), tf.reduce_sum(tf.cast(live, tf.float32)))
