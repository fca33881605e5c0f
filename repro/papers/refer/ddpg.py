"""DDPG (Section 2, Algorithm 4): a network for the policy, one for Q, and a slow copy of each.

The policy is the normal around m(s) with a fixed std. V_tbc is not read here; the memory stores Q(s, m(s)), the value
of the policy without its noise, as V(s).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from repro.networks import mlp
from repro.papers.refer.fused import NO_COEFFICIENTS, FlatWeights, FusedAgent, PolicyOutput, UpdateOutput, flatten
from repro.papers.refer.loss import Policies, ddpg_loss


class DdpgSettings(NamedTuple):
    """Fields of a configuration that DDPG reads.

    units: width of each hidden layer, in both networks.
    hidden_scale, output_scale: scales of the initial weights, see `mlp.init_mlp`.
    std: sigma of the policy, in the learner's units.
    learning_rate: learning rate of the critic at the first gradient step.
    policy_learning_rate: learning rate of the policy at the first gradient step; the ratio of the two is constant.
    weight_decay: lambda of the term lambda/2 |w|^2 over the critic's weight matrices, which is added to its loss.
    target_update: alpha.
    rule: one of `refer_rules.RULES`.
    """

    units: tuple[int, ...]
    hidden_scale: float
    output_scale: float
    std: float
    learning_rate: float
    policy_learning_rate: float
    weight_decay: float
    target_update: float
    rule: str


class Ddpg(FusedAgent):
    """Policy and critic, their target networks, their optimisers and the compiled gradient steps.

    Args:
        state_size: S.
        action_size: A.
        settings: see `DdpgSettings`.
        rng: source of the initial weights.
        steps_per_call: K, the number of gradient steps in one call of `train`.
        compile_with_xla: whether `train` is compiled with XLA.
    """

    NAMES = ("loss", "critic_loss", "policy_loss", "kl", "near", "value")
    FIELDS = ("state", "action", "mean", "std", "reward", "discount", "next_state")

    def __init__(
        self,
        state_size: int,
        action_size: int,
        settings: DdpgSettings,
        rng: np.random.Generator,
        steps_per_call: int,
        compile_with_xla: bool,
    ) -> None:
        super().__init__(state_size, action_size, steps_per_call, compile_with_xla)
        self._settings = settings
        scales = settings.hidden_scale, settings.output_scale
        policy = mlp.init_mlp(rng, [state_size, *settings.units], action_size, *scales)
        critic = mlp.init_mlp(rng, [state_size + action_size, *settings.units], 1, *scales)
        self._policy, self._critic = FlatWeights(policy, "policy"), FlatWeights(critic, "critic")
        self.weights, self.critic_weights = self._policy.variable, self._critic.variable
        self.target_weights = tf.Variable(self.weights, trainable=False)
        self.target_critic_weights = tf.Variable(self.critic_weights, trainable=False)
        self.optimizer = tf.keras.optimizers.Adam(settings.policy_learning_rate)
        self.optimizer.build([self.weights])
        self.critic_optimizer = tf.keras.optimizers.Adam(settings.learning_rate)
        self.critic_optimizer.build([self.critic_weights])
        self._std = np.full(action_size, settings.std, np.float32)
        self._decay = settings.weight_decay * self._critic.matrix_mask()
        self.sync_acting_weights()

    def checkpoint(self) -> tf.train.Checkpoint:
        return tf.train.Checkpoint(
            weights=self.weights,
            critic_weights=self.critic_weights,
            target_weights=self.target_weights,
            target_critic_weights=self.target_critic_weights,
            optimizer=self.optimizer,
            critic_optimizer=self.critic_optimizer,
            statistics=[self.state_mean, self.state_std],
        )

    def forward(self, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Q(s, m(s)) [B] and m(s) [B, A] for states [B, S]."""
        standard = self._standardise(state)
        mean = _mean(self._policy.parts(self.weights), standard)
        return _q(self._critic.parts(self.critic_weights), standard, mean), mean

    def sync_acting_weights(self) -> None:
        self._acting_policy = self._policy.numpy()
        self._acting_critic = self._critic.numpy()

    def act(self, state: np.ndarray) -> PolicyOutput:
        standard = self._standardise_numpy(state)
        mean = np.tanh(mlp.apply_numpy(self._acting_policy, standard))
        value = mlp.apply_numpy(self._acting_critic, np.concatenate([standard, mean]))
        return PolicyOutput(float(value[0]), mean, self._std, NO_COEFFICIENTS)

    def gradient_step(self, scalars: tf.Tensor, batch: dict[str, tf.Tensor]) -> UpdateOutput:
        beta, c_max, learning_rate = tf.unstack(scalars)
        settings = self._settings
        standard, next_standard = self._standardise(batch["state"]), self._standardise(batch["next_state"])  # [B, S]
        next_mean = _mean(self._policy.parts(self.target_weights), next_standard)  # [B, A]
        target_q_next = _q(self._critic.parts(self.target_critic_weights), next_standard, next_mean)  # [B]
        policy_parts, critic_parts = self._policy.parts(self.weights), self._critic.parts(self.critic_weights)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([policy_parts, critic_parts])
            mean = _mean(policy_parts, standard)  # [B, A]
            q_of_mean = _q(critic_parts, standard, mean)  # [B]
            losses = ddpg_loss(
                batch["action"],
                Policies(mean, tf.constant(self._std), batch["mean"], batch["std"]),
                _q(critic_parts, standard, batch["action"]),
                q_of_mean,
                batch["reward"],
                batch["discount"],
                target_q_next,
                beta,
                c_max,
                settings.rule,
            )
            policy_loss, critic_loss = (tf.reduce_mean(batch["weight"] * x) for x in (losses.policy, losses.critic))
        decay = self._decay * self.critic_weights  # the gradient of lambda/2 |w|^2
        decayed = critic_loss + 0.5 * tf.reduce_sum(decay * self.critic_weights)
        policy_gradient = flatten(tape.gradient(policy_loss, policy_parts))
        critic_gradient = flatten(tape.gradient(critic_loss, critic_parts)) + decay
        # Algorithm 4 moves the targets, Algorithm 1 then makes the gradient step
        self.target_weights.assign_add(settings.target_update * (self.weights - self.target_weights))
        self.target_critic_weights.assign_add(
            settings.target_update * (self.critic_weights - self.target_critic_weights)
        )
        self.optimizer.learning_rate.assign(learning_rate * (settings.policy_learning_rate / settings.learning_rate))
        self.critic_optimizer.learning_rate.assign(learning_rate)
        self.optimizer.apply_gradients([(policy_gradient, self.weights)])
        self.critic_optimizer.apply_gradients([(critic_gradient, self.critic_weights)])
        near = tf.cast(losses.extras["near"], tf.float32)
        means = [tf.reduce_mean(x) for x in (losses.extras["kl"], near, q_of_mean)]
        means = tf.stack([policy_loss + decayed, critic_loss, policy_loss, *means])
        return UpdateOutput(losses.rho, q_of_mean, tf.zeros_like(q_of_mean), losses.extras["td_error"], means)


def _mean(parts: Sequence[tf.Tensor], standard: tf.Tensor) -> tf.Tensor:
    """m(s) [B, A], in [-1, 1]."""
    return tf.tanh(mlp.apply_mlp(parts, standard))


def _q(parts: Sequence[tf.Tensor], standard: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """Q(s, a) [B]."""
    return mlp.apply_mlp(parts, tf.concat([standard, action], axis=1))[:, 0]
