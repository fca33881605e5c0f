"""V-RACER (Section 2, Algorithm 3): one network for value and policy."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from repro.distributions import gaussian
from repro.networks import mlp
from repro.papers.refer.advantages import advantage, num_coefficients
from repro.papers.refer.fused import FlatWeights, FusedAgent, PolicyOutput, UpdateOutput, flatten
from repro.papers.refer.loss import Policies, Variant, vracer_loss


class VRacerSettings(NamedTuple):
    """Fields of a configuration that V-RACER reads.

    units: width of each hidden layer.
    hidden_scale, output_scale: scales of the initial weights, see `mlp.init_mlp`.
    initial_variance: initial variance of every action component, in the learner's units.
    learning_rate: eta at the first gradient step.
    variant: settings of the loss.
    """

    units: tuple[int, ...]
    hidden_scale: float
    output_scale: float
    initial_variance: float
    learning_rate: float
    variant: Variant


class VRacer(FusedAgent):
    """The network, its optimiser and the compiled gradient steps.

    Args:
        state_size: S.
        action_size: A.
        settings: see `VRacerSettings`.
        rng: source of the initial weights.
        steps_per_call: K, the number of gradient steps in one call of `train`.
        compile_with_xla: whether `train` is compiled with XLA.
    """

    NAMES = ("loss", "value_loss", "policy_loss", "kl", "near", "std")
    FIELDS: ClassVar[tuple[str, ...]] = ("state", "action", "mean", "std", "q_ret", "v_tbc")

    def __init__(
        self,
        state_size: int,
        action_size: int,
        settings: VRacerSettings,
        rng: np.random.Generator,
        steps_per_call: int,
        compile_with_xla: bool,
    ) -> None:
        super().__init__(state_size, action_size, steps_per_call, compile_with_xla)
        self._settings = settings
        self.num_coefficients = num_coefficients(settings.variant.form, action_size)
        outputs = 1 + action_size + self.num_coefficients
        network = self._init_network(rng, state_size, outputs)
        raw = np.full(action_size, gaussian.raw_from_variance(settings.initial_variance), np.float32)
        self._network = FlatWeights([*network, raw], "weights")  # layers, then the raw variances
        self.weights = self._network.variable
        self.optimizer = tf.keras.optimizers.Adam(settings.learning_rate)
        self.optimizer.build([self.weights])
        self.sync_acting_weights()

    def checkpoint(self) -> tf.train.Checkpoint:
        """Returns all state of the agent that a checkpoint saves."""
        statistics = [self.state_mean, self.state_std]
        return tf.train.Checkpoint(weights=self.weights, optimizer=self.optimizer, statistics=statistics)

    def forward(self, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """V(s) [B], the policy's mean [B, A] and the coefficients of the advantage, for states [B, S]."""
        return self._outputs(self._network.parts(self.weights), {"state": state})

    def sync_acting_weights(self) -> None:
        """Copies the current weights to those that `act` reads."""
        *self._acting, raw = self._network.numpy()
        self._std = gaussian.std_from_raw_numpy(raw)

    def act(self, state: np.ndarray) -> PolicyOutput:
        """Value, policy and coefficients at one state, float32 [S], with the acting weights."""
        outputs = mlp.apply_numpy(self._acting, self._standardise_numpy(state))
        return self._policy_output(outputs)

    def advantages(
        self, coefficients: np.ndarray, actions: np.ndarray, means: np.ndarray, stds: np.ndarray
    ) -> np.ndarray:
        """A(s_t, a_t) [T]; see `FusedAgent.advantages`."""
        return advantage(self._settings.variant.form, coefficients, actions, means, stds).numpy()

    def gradient_step(self, scalars: tf.Tensor, batch: dict[str, tf.Tensor]) -> UpdateOutput:
        beta, c_max, learning_rate = tf.unstack(scalars)
        parts = self._network.parts(self.weights)
        with tf.GradientTape() as tape:
            tape.watch(parts)
            v, mean, coefficients = self._outputs(parts, batch)
            std = gaussian.std_from_raw(parts[-1])  # [A]
            losses = vracer_loss(
                batch["action"],
                Policies(mean, std, batch["mean"], batch["std"]),
                v,
                coefficients,
                batch["q_ret"],
                batch["v_tbc"],
                beta,
                c_max,
                self._settings.variant,
            )
            loss = tf.reduce_mean(batch["weight"] * losses.total)
        gradient = flatten(tape.gradient(loss, parts))
        self.optimizer.learning_rate.assign(learning_rate)
        self.optimizer.apply_gradients([(gradient, self.weights)])
        near = tf.cast(losses.extras["near"], tf.float32)
        means = [tf.reduce_mean(x) for x in (losses.value, losses.policy, losses.extras["kl"], near, std)]
        stored = losses.rho, v, losses.action_advantage
        return UpdateOutput(*stored, losses.extras["td_error"], tf.stack([loss, *means]))

    def _policy_output(self, outputs: np.ndarray) -> PolicyOutput:
        """Splits the network's outputs [1 + A + coefficients] at one state into value, policy and coefficients."""
        mean, coefficients = np.split(outputs[1:], [self.action_size])
        return PolicyOutput(float(outputs[0]), mean, self._std, coefficients)

    def _outputs(self, parts: list[tf.Tensor], batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        outputs = self._apply_network(parts[:-1], batch)  # [B, 1 + A + coefficients]
        v, mean, coefficients = tf.split(outputs, [1, self.action_size, -1], axis=1)
        return v[:, 0], mean, coefficients

    def _init_network(self, rng: np.random.Generator, state_size: int, outputs: int) -> list[np.ndarray]:
        """Samples initial weights; the first array multiplies the state, the second is the bias added to that."""
        settings = self._settings
        sizes = [state_size, *settings.units]
        return mlp.init_mlp(rng, sizes, outputs, settings.hidden_scale, settings.output_scale)

    def _apply_network(self, weights: list[tf.Tensor], batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Computes the network's outputs at the sampled steps, [B, outputs]."""
        return mlp.apply_mlp(weights, self._standardise(batch["state"]))
