"""What agents share that learn from unrolls as often as they are played: one update on-policy or off-policy."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.trajectories import Trajectory

from repro.optimizers.gradients import at_values, reduce_and_clip


class UnrollAgent(tf_agent.TFAgent):
    """`train` takes the gradient of `_loss` at the present weights, `train_on_policy` at those that acted.

    Both take a batch of unrolls, `Trajectory` [B, T+1, ...]: T transitions and the observation after the last one,
    from which the targets bootstrap.

    Args:
        optimizer: Keras optimiser, built.
        clip_global_norm: bound on the global norm of the gradient; 0 for none.
        arguments: of `TFAgent`.
    """

    def __init__(self, optimizer: tf.keras.optimizers.Optimizer, clip_global_norm: float, **arguments: Any) -> None:
        self._optimizer = optimizer
        self._clip_global_norm = clip_global_norm
        super().__init__(train_sequence_length=None, **arguments)

    @property
    @abc.abstractmethod
    def learned_variables(self) -> list[tf.Variable]:
        """What the optimiser moves."""

    @property
    def acting_variables(self) -> list[tf.Variable]:
        """What `train_on_policy` is given as it was while an actor acted: all that its gradient depends on."""
        return self.learned_variables

    def train_on_policy(self, experience: Trajectory, acting: Sequence[tf.Tensor]) -> tf_agent.LossInfo:
        """An on-policy update: the gradient at the weights that acted, applied to the present ones (Mnih et al. 2016).

            theta <- theta + step(d theta'),    d theta' taken at theta' = theta when the unrolls began

        Args:
            experience: fresh unrolls, all of the same weights.
            acting: values of `acting_variables` when the unrolls began.
        """
        return self._apply(*at_values(self.acting_variables, acting, lambda: self._gradients(experience, None)))

    def _initialize(self) -> None:
        """Variables are created in the constructor, under the caller's strategy scope."""

    @abc.abstractmethod
    def _loss(
        self, experience: Trajectory, weights: tf.Tensor | None = None, training: bool = False
    ) -> tf_agent.LossInfo:
        """The loss of this replica's unrolls and scalars by name; `weights` [B] multiply the unrolls' losses."""

    def _train(self, experience: Trajectory, weights: tf.Tensor | None = None) -> tf_agent.LossInfo:
        return self._apply(*self._gradients(experience, weights))

    def _gradients(
        self, experience: Trajectory, weights: tf.Tensor | None
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor], list[tf.Tensor]]:
        """Loss and extras, and the loss's gradients with respect to the learned variables, at their present values."""
        with tf.GradientTape() as tape:
            loss, extra = self._loss(experience, weights, training=True)
        return loss, extra, tape.gradient(loss, self.learned_variables)

    def _apply(self, loss: tf.Tensor, extra: dict[str, tf.Tensor], gradients: Sequence[tf.Tensor]) -> tf_agent.LossInfo:
        """Applies this replica's gradients to the learned variables."""
        gradients, norm = reduce_and_clip(gradients, self._clip_global_norm)
        self._optimizer.apply_gradients(zip(gradients, self.learned_variables), skip_gradients_aggregation=True)
        self.train_step_counter.assign_add(1)
        return tf_agent.LossInfo(loss, extra | {"gradient_norm": norm})
