"""Base class of ACER's agents: losses summed over time and averaged over unrolls, updates, and the average policy."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.trajectories import StepType, Trajectory

from repro.ops.layout import time_major
from repro.optimizers.gradients import masked_means_over_replicas, mean_over_replicas
from repro.training.unroll_agent import UnrollAgent


class PerStepLoss(Protocol):
    """Per-step losses, float32 [T, B] and zero on boundary rows, and named extras of the same shape."""

    @property
    def total(self) -> tf.Tensor: ...
    @property
    def critic(self) -> tf.Tensor: ...
    @property
    def extras(self) -> dict[str, tf.Tensor]: ...


class OptimizationConfig(NamedTuple):
    """Settings of an agent's updates.

    optimizer: Keras optimiser.
    discount: gamma, in [0, 1].
    average_decay: alpha, in [0, 1]: theta_a <- alpha theta_a + (1 - alpha) theta after each update.
    clip_global_norm: bound on the global norm of the gradient; 0 for none.
    """

    optimizer: tf.keras.optimizers.Optimizer
    discount: float
    average_decay: float
    clip_global_norm: float


class AveragingAgent(UnrollAgent):
    """One update is one call of Algorithm 2 or 3: off-policy by `train`, on-policy by `train_on_policy`.

    A call copies the shared weights, theta' <- theta, takes its gradient at theta' and applies it to theta. Off-policy
    nothing happens in between, and `train` takes the gradient at theta. On-policy a thread acts in between, while
    others move theta: `train_on_policy` is given the weights that acted and takes the gradient there. These include
    theta_a, since Algorithm 2 computes the average policy while it acts.

    Unrolls are `Trajectory` [B, T+1, ...]; action, reward, discount and policy_info of the last row are not read.
    `policy_info` holds mu: at the weights that acted, every ratio of a fresh unroll is 1.
    Losses are summed over time, as the algorithms accumulate them, and averaged over the unrolls; under `tf.distribute`
    over the unrolls of all replicas, whose shares must be equal.

    Args:
        optimization: see `OptimizationConfig`.
        variables: variables to learn.
        averaged: (average, variable) pairs of the average policy; none without a trust region.
        arguments: arguments for `TFAgent`.
    """

    def __init__(
        self,
        optimization: OptimizationConfig,
        variables: Sequence[tf.Variable],
        averaged: Sequence[tuple[tf.Variable, tf.Variable]],
        **arguments: Any,
    ) -> None:
        self._optimization = optimization
        self._learned = list(variables)
        self._averaged = list(averaged)
        optimization.optimizer.build(self._learned)
        super().__init__(optimization.optimizer, optimization.clip_global_norm, **arguments)

    @property
    def learned_variables(self) -> list[tf.Variable]:
        return self._learned

    @property
    def acting_variables(self) -> list[tf.Variable]:
        return [*self._learned, *(average for average, _ in self._averaged)]

    @abc.abstractmethod
    def _per_step_loss(self, experience: Trajectory) -> PerStepLoss:
        """Computes the losses of a batch of unrolls."""

    def _loss(
        self, experience: Trajectory, weights: tf.Tensor | None = None, training: bool = False
    ) -> tf_agent.LossInfo:
        losses = self._per_step_loss(experience)
        live = time_major(experience.step_type)[:-1] != StepType.LAST  # [T, B]
        extra = masked_means_over_replicas(losses.extras | {"critic_loss": losses.critic}, live)
        return tf_agent.LossInfo(mean_over_replicas(tf.reduce_sum(losses.total, axis=0), weights), extra)

    def _apply(self, loss: tf.Tensor, extra: dict[str, tf.Tensor], gradients: Sequence[tf.Tensor]) -> tf_agent.LossInfo:
        """Applies this replica's gradients to the learned variables and moves the average policy."""
        info = super()._apply(loss, extra, gradients)
        alpha = self._optimization.average_decay
        for average, variable in self._averaged:
            average.assign(alpha * average + (1.0 - alpha) * variable)
        return info
