"""The base class of agents that learn from unrolls, by on-policy or off-policy updates."""

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
        arguments: further arguments of `TFAgent`.
    """

    def __init__(self, optimizer: tf.keras.optimizers.Optimizer, clip_global_norm: float, **arguments: Any) -> None:
        self._optimizer = optimizer
        self._clip_global_norm = clip_global_norm
        super().__init__(train_sequence_length=None, **arguments)

    @property
    @abc.abstractmethod
    def learned_variables(self) -> list[tf.Variable]:
        """The variables that the optimiser updates."""

    @property
    def acting_variables(self) -> list[tf.Variable]:
        """All variables that the gradient of `train_on_policy` depends on; it gets their values at acting time."""
        return self.learned_variables

    def train_on_policy(self, experience: Trajectory, acting: Sequence[tf.Tensor]) -> tf_agent.LossInfo:
        """Updates the present weights by the gradient at the weights that acted (Mnih et al. 2016).

            theta <- theta + step(d theta'),    d theta' taken at theta' = theta when the unrolls began

        Args:
            experience: new unrolls, all played with the same weights.
            acting: values of `acting_variables` when the unrolls began.
        """
        return self._apply(*at_values(self.acting_variables, acting, lambda: self._gradients(experience, None)))

    def _initialize(self) -> None:
        """Does nothing: the constructor creates the variables, under the caller's strategy scope."""

    @abc.abstractmethod
    def _loss(
        self, experience: Trajectory, weights: tf.Tensor | None = None, training: bool = False
    ) -> tf_agent.LossInfo:
        """Returns the loss of this replica's unrolls, and scalars by name; `weights` [B] scale the unrolls' losses."""

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
