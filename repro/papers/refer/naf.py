"""NAF (Section 2, Eq. 4): one network for V, the mean m and the matrix L of a Q that is quadratic in the action.

The policy is the normal around m(s) with a fixed std; m has no bounds (Section 5.1). V_tbc is not read here; the memory
stores the network's V(s), which is Q(s, m(s)).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from repro.networks import mlp
from repro.papers.refer.fused import NO_COEFFICIENTS, FlatWeights, FusedAgent, PolicyOutput, UpdateOutput, flatten
from repro.papers.refer.loss import Policies, naf_loss, naf_q


class NafSettings(NamedTuple):
    """Fields of a configuration that NAF reads.

    units: width of each hidden layer.
    hidden_scale, output_scale: scales of the initial weights, see `mlp.init_mlp`.
    std: sigma of the policy, in the learner's units.
    learning_rate: eta at the first gradient step.
    target_update: alpha.
    rule: one of `refer_rules.RULES`.
    """

    units: tuple[int, ...]
    hidden_scale: float
    output_scale: float
    std: float
    learning_rate: float
    target_update: float
    rule: str


class Naf(FusedAgent):
    """The network, its target network, its optimiser and the compiled gradient steps.

    Args:
        state_size: S.
        action_size: A.
        settings: see `NafSettings`.
        rng: source of the initial weights.
        steps_per_call: K, the number of gradient steps in one call of `train`.
        compile_with_xla: whether `train` is compiled with XLA.
    """

    NAMES = ("loss", "td_loss", "kl", "near", "value")
    FIELDS = ("state", "action", "mean", "std", "reward", "discount", "next_state")

    def __init__(
        self,
        state_size: int,
        action_size: int,
        settings: NafSettings,
        rng: np.random.Generator,
        steps_per_call: int,
        compile_with_xla: bool,
    ) -> None:
        super().__init__(state_size, action_size, steps_per_call, compile_with_xla)
        self._settings = settings
        outputs = 1 + action_size + (action_size**2 + action_size) // 2
        weights = mlp.init_mlp(
            rng, [state_size, *settings.units], outputs, settings.hidden_scale, settings.output_scale
        )
        self._network = FlatWeights(weights, "weights")
        self.weights = self._network.variable
        self.target_weights = tf.Variable(self.weights, trainable=False)
        self.optimizer = tf.keras.optimizers.Adam(settings.learning_rate)
        self.optimizer.build([self.weights])
        self._std = np.full(action_size, settings.std, np.float32)
        self.sync_acting_weights()

    def checkpoint(self) -> tf.train.Checkpoint:
        statistics = [self.state_mean, self.state_std]
        return tf.train.Checkpoint(
            weights=self.weights, target_weights=self.target_weights, optimizer=self.optimizer, statistics=statistics
        )

    def forward(self, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """V(s) [B], m(s) [B, A] and the entries of L for states [B, S]."""
        return self._outputs(self._network.parts(self.weights), self._standardise(state))

    def sync_acting_weights(self) -> None:
        self._acting = self._network.numpy()

    def act(self, state: np.ndarray) -> PolicyOutput:
        outputs = mlp.apply_numpy(self._acting, self._standardise_numpy(state))
        return PolicyOutput(float(outputs[0]), outputs[1 : 1 + self.action_size], self._std, NO_COEFFICIENTS)

    def gradient_step(self, scalars: tf.Tensor, batch: dict[str, tf.Tensor]) -> UpdateOutput:
        beta, c_max, learning_rate = tf.unstack(scalars)
        target_parts = self._network.parts(self.target_weights)
        target_v_next, _, _ = self._outputs(target_parts, self._standardise(batch["next_state"]))
        standard = self._standardise(batch["state"])  # [B, S]
        parts = self._network.parts(self.weights)
        with tf.GradientTape() as tape:
            tape.watch(parts)
            v, mean, entries = self._outputs(parts, standard)
            losses = naf_loss(
                batch["action"],
                Policies(mean, tf.constant(self._std), batch["mean"], batch["std"]),
                naf_q(v, entries, batch["action"], mean),
                batch["reward"],
                batch["discount"],
                target_v_next,
                beta,
                c_max,
                self._settings.rule,
            )
            loss = tf.reduce_mean(batch["weight"] * losses.total)
        gradient = flatten(tape.gradient(loss, parts))
        # In the order of Algorithms 4 and 1: the target moves before the gradient step
        self.target_weights.assign_add(self._settings.target_update * (self.weights - self.target_weights))
        self.optimizer.learning_rate.assign(learning_rate)
        self.optimizer.apply_gradients([(gradient, self.weights)])
        near = tf.cast(losses.extras["near"], tf.float32)
        td_error = losses.extras["td_error"]
        means = [tf.reduce_mean(x) for x in (0.5 * tf.square(td_error), losses.extras["kl"], near, v)]
        return UpdateOutput(losses.rho, v, tf.zeros_like(v), td_error, tf.stack([loss, *means]))

    def _outputs(self, parts: Sequence[tf.Tensor], standard: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        outputs = mlp.apply_mlp(parts, standard)  # [B, 1 + A + entries of L]
        v, mean, entries = tf.split(outputs, [1, self.action_size, -1], axis=1)
        return v[:, 0], mean, entries
