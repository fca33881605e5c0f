"""RMSProp as TensorFlow 1 computed it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class RMSPropTF1(tf.keras.optimizers.Optimizer):
    """RMSProp with the semantics of `tf.compat.v1.train.RMSPropOptimizer`.

        s <- decay s + (1 - decay) g^2,             s starts at one
        m <- momentum m + rate g / sqrt(s + epsilon),   m starts at zero
        w <- w - m

    `tf.keras.optimizers.RMSprop` starts s at zero: the two differ by orders of magnitude in the first
    hundred updates wherever gradients are small, and the hyper-parameters of papers written with TensorFlow 1
    hold for this one alone. Epsilon stands inside the square root, so 0.01 bounds a step by 10 rate g.

    Each variable is updated by one fused kernel (`ResourceApplyRMSProp`), on CPU, on GPU and under XLA.

    Args:
        learning_rate: a float, or a schedule called with `iterations`, the number of updates applied so far.
        decay: weight of the previous mean of squares, in [0, 1].
        momentum: weight of the previous step, in [0, 1).
        epsilon: added to the mean of squares, in units of a squared gradient, > 0.

    Under `tf.distribute` the gradients handed to `apply_gradients(..., skip_gradients_aggregation=True)` must
    be equal on all replicas (see `gradients.reduce_and_clip`). Slots and `iterations` are saved and restored
    by `tf.train.Checkpoint`.

    Raises:
        TypeError: from `apply_gradients`, for a sparse gradient (`tf.IndexedSlices`).
    """

    def __init__(
        self,
        learning_rate: float | tf.keras.optimizers.schedules.LearningRateSchedule,
        decay: float = 0.99,
        momentum: float = 0.0,
        epsilon: float = 0.01,
    ) -> None:
        # Keras would wrap the fused kernel in an XLA computation of its own on a GPU.
        super().__init__(name="RMSPropTF1", jit_compile=False)
        self._learning_rate = self._build_learning_rate(learning_rate)
        self.decay = decay
        self.momentum = momentum
        self.epsilon = epsilon

    def build(self, var_list: Sequence[tf.Variable]) -> None:
        """Creates both slots of every variable; a second call has no effect."""
        super().build(var_list)
        if getattr(self, "_built", False):
            return
        self._built = True
        self._mean_squares = [
            self.add_variable_from_reference(variable, "mean_square", initial_value=tf.ones_like(variable))
            for variable in var_list
        ]
        self._moments = [self.add_variable_from_reference(variable, "momentum") for variable in var_list]

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable) -> None:
        """Applies `gradient`, of the variable's shape, to `variable` and its slots in place."""
        if isinstance(gradient, tf.IndexedSlices):
            raise TypeError(f"RMSPropTF1: the gradient of {variable.name} is sparse; make it dense first.")
        index = self._index_dict[self._var_key(variable)]
        tf.raw_ops.ResourceApplyRMSProp(
            var=variable.handle,
            ms=self._mean_squares[index].handle,
            mom=self._moments[index].handle,
            lr=tf.cast(self.learning_rate, variable.dtype),
            rho=tf.constant(self.decay, variable.dtype),
            momentum=tf.constant(self.momentum, variable.dtype),
            epsilon=tf.constant(self.epsilon, variable.dtype),
            grad=gradient,
        )

    def steps(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns the steps that `apply_gradients` would subtract from the variables now; changes nothing.

        Args:
            gradients: gradients of all variables, in the order of `build`; they receive the exact gradient of the
                steps. Slots and learning rate are constants.

        Raises:
            ValueError: there are not as many gradients as variables.
        """
        rate = self._learning_rate
        if isinstance(rate, tf.keras.optimizers.schedules.LearningRateSchedule):
            rate = rate(self.iterations)
        steps = []
        for g, mean_square, moment in zip(gradients, self._mean_squares, self._moments, strict=True):
            mean_square = self.decay * mean_square + (1.0 - self.decay) * tf.square(g)
            step = tf.cast(rate, g.dtype) * g * tf.math.rsqrt(mean_square + self.epsilon)
            steps.append(self.momentum * moment + step)
        return steps

    def get_config(self) -> dict[str, Any]:
        return {
            "learning_rate": self._serialize_hyperparameter(self._learning_rate),
            "decay": self.decay,
            "momentum": self.momentum,
            "epsilon": self.epsilon,
        }
