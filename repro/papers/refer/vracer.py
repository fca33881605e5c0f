"""V-RACER (Section 4, Algorithm 3): one network for value and policy, several gradient steps in one compiled call.

All weights lie in one vector, so that a call handles few variables and Adam is one operation over it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from repro.distributions import gaussian
from repro.networks import mlp
from repro.papers.refer.advantages import num_coefficients
from repro.papers.refer.loss import Policies, vracer_loss
from repro.replay.refer import EPSILON, Minibatch
from repro.runtime import devices


class VRacerSettings(NamedTuple):
    """Fields of a configuration that V-RACER reads.

    units: width of each hidden layer.
    hidden_scale, output_scale: of the initial weights, see `mlp.init_mlp`.
    initial_variance: of every action component, in the learner's units.
    learning_rate: eta of the first gradient step.
    rule: one of `refer_rules.RULES`.
    advantage: one of `advantages.FORMS`.
    """

    units: tuple[int, ...]
    hidden_scale: float
    output_scale: float
    initial_variance: float
    learning_rate: float
    rule: str
    advantage: str


class Acting(NamedTuple):
    """What acting on one state gives: V(s), the policy's mean [A] and its deviation [A]."""

    value: float
    mean: np.ndarray
    deviation: np.ndarray


class VRacer:
    """The network, its optimiser and the compiled gradient steps.

    Args:
        state_size: S.
        action_size: A.
        settings: see `VRacerSettings`.
        generator: draws the initial weights.
        steps_per_call: K, gradient steps in one call of `train`.
        compile_with_xla: whether `train` is compiled with XLA.
    """

    def __init__(
        self,
        state_size: int,
        action_size: int,
        settings: VRacerSettings,
        generator: np.random.Generator,
        steps_per_call: int,
        compile_with_xla: bool,
    ) -> None:
        self.action_size = action_size
        self.steps_per_call = steps_per_call
        self._settings = settings
        outputs = 1 + action_size + num_coefficients(settings.advantage, action_size)
        weights = mlp.init_mlp(
            generator, [state_size, *settings.units], outputs, settings.hidden_scale, settings.output_scale
        )
        raw = np.full(action_size, gaussian.raw_of_variance(settings.initial_variance), np.float32)
        self._shapes = [array.shape for array in (*weights, raw)]
        self._sizes = [array.size for array in (*weights, raw)]
        self.weights = tf.Variable(np.concatenate([array.ravel() for array in (*weights, raw)]), name="weights")
        self.state_mean = tf.Variable(tf.zeros(state_size), trainable=False)
        self.state_deviation = tf.Variable(tf.ones(state_size), trainable=False)
        self.optimizer = tf.keras.optimizers.Adam(settings.learning_rate)
        self.optimizer.build([self.weights])
        self._train: Callable[..., Any] = tf.function(self._steps, jit_compile=compile_with_xla)
        self._compiled = False
        self.take_over_statistics()
        self.refresh()

    def checkpoint(self) -> tf.train.Checkpoint:
        """Everything of the agent that a checkpoint keeps."""
        statistics = [self.state_mean, self.state_deviation]
        return tf.train.Checkpoint(weights=self.weights, optimizer=self.optimizer, statistics=statistics)

    def forward(self, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """V(s) [B], the policy's mean [B, A] and the coefficients of the advantage, of states [B, S]."""
        return self._outputs(self._parts(self.weights), self._standardise(state))

    def refresh(self) -> None:
        """Takes the current weights over for acting."""
        parts = np.split(self.weights.numpy(), np.cumsum(self._sizes)[:-1])
        *weights, raw = (part.reshape(shape) for part, shape in zip(parts, self._shapes))
        # Standardising a state is a linear map, which the first layer takes in.
        first = weights[0] * self._scale[:, None]
        self._acting = [first, weights[1] - self._offset @ first, *weights[2:]]
        self._deviation = np.sqrt(np.log1p(np.exp(raw)))

    def act(self, state: np.ndarray) -> Acting:
        """Value and policy of one state, float32 [S], from the weights of the last `refresh`."""
        outputs = mlp.apply_numpy(self._acting, state)
        return Acting(float(outputs[0]), outputs[1 : 1 + self.action_size], self._deviation)

    def set_state_statistics(self, mean: np.ndarray, deviation: np.ndarray) -> None:
        """Standardises states from now on (Appendix B), in learning and, after `refresh`, in acting."""
        self.state_mean.assign(mean)
        self.state_deviation.assign(deviation)
        self.take_over_statistics()

    def take_over_statistics(self) -> None:
        """Acting standardises as learning does from the next `refresh` on; for after a checkpoint was restored."""
        self._offset = self.state_mean.numpy()
        self._scale = (1.0 / (self.state_deviation.numpy() + EPSILON)).astype(np.float32)

    def train(
        self, batch: Minibatch, beta: np.ndarray, c_max: np.ndarray, learning_rate: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
        """K gradient steps, each on its own part of the batch.

        Args:
            batch: [K B, ...], the first B steps of the memory for the first gradient step, and so on.
            beta, c_max, learning_rate: of each gradient step, [K].

        Returns:
            rho and V(s) of every drawn step, float32 [K B], as the network said before its gradient step, and
            means over the batch of the losses and extras by name.
        """
        scalars = np.stack([beta, c_max, learning_rate], axis=1).astype(np.float32)  # [K, 3]
        parts = (batch.state, batch.action, batch.mean, batch.deviation, batch.q_ret, batch.v_tbc)
        shaped = [x.reshape(self.steps_per_call, -1, *x.shape[1:]) for x in parts]
        with contextlib.nullcontext() if self._compiled else devices.quiet_compiler():
            rho, value, means = self._train(scalars, *shaped)
        self._compiled = True
        return rho.numpy().ravel(), value.numpy().ravel(), dict(zip(NAMES, means.numpy().tolist()))

    def _steps(self, scalars: tf.Tensor, *parts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        rho, value = (tf.TensorArray(tf.float32, self.steps_per_call, element_shape=parts[-1].shape[1:]) for _ in "rv")
        sums = tf.zeros(len(NAMES))
        for k in tf.range(self.steps_per_call):
            rho_k, value_k, means = self._step(scalars[k], *(part[k] for part in parts))
            rho, value, sums = rho.write(k, rho_k), value.write(k, value_k), sums + means
        return rho.stack(), value.stack(), sums / self.steps_per_call

    def _step(
        self,
        scalars: tf.Tensor,
        state: tf.Tensor,
        action: tf.Tensor,
        behaviour_mean: tf.Tensor,
        behaviour_deviation: tf.Tensor,
        q_ret: tf.Tensor,
        v_tbc: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """One gradient step: rho [B], V [B], and the means of `NAMES`."""
        beta, c_max, learning_rate = tf.unstack(scalars)
        standard = self._standardise(state)  # [B, S]
        parts = self._parts(self.weights)
        with tf.GradientTape() as tape:
            tape.watch(parts)
            v, mean, coefficients = self._outputs(parts, standard)
            deviation = gaussian.deviation_of(parts[-1])  # [A]
            losses = vracer_loss(
                action,
                Policies(mean, deviation, behaviour_mean, behaviour_deviation),
                v,
                coefficients,
                q_ret,
                v_tbc,
                beta,
                c_max,
                self._settings.rule,
                self._settings.advantage,
            )
            loss = tf.reduce_mean(losses.total)
        gradient = tf.concat([tf.reshape(part, [-1]) for part in tape.gradient(loss, parts)], axis=0)
        self.optimizer.learning_rate.assign(learning_rate)
        self.optimizer.apply_gradients([(gradient, self.weights)])
        near = tf.cast(losses.extras["near"], tf.float32)
        means = [tf.reduce_mean(x) for x in (losses.total, losses.value, losses.policy, losses.extras["kl"], near)]
        return losses.rho, v, tf.stack([*means, tf.reduce_mean(deviation)])

    def _standardise(self, state: tf.Tensor) -> tf.Tensor:
        return (state - self.state_mean) / (self.state_deviation + EPSILON)

    def _parts(self, weights: tf.Tensor) -> list[tf.Tensor]:
        """Weights and biases of the layers, then the raw variances [A]."""
        return [tf.reshape(part, shape) for part, shape in zip(tf.split(weights, self._sizes), self._shapes)]

    def _outputs(self, parts: list[tf.Tensor], standard: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        outputs = mlp.apply_mlp(parts[:-1], standard)  # [B, 1 + A + coefficients]
        v, mean, coefficients = tf.split(outputs, [1, self.action_size, -1], axis=1)
        return v[:, 0], mean, coefficients


NAMES = ("loss", "value_loss", "policy_loss", "kl", "near", "deviation")
"""Of the scalars that `train` returns."""
