"""PPO (Schulman et al. 2017) as in Appendix A: two networks, and all passes over a rollout in one compiled call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from repro.distributions import gaussian
from repro.networks import mlp
from repro.papers.refer.fused import FlatWeights, divisors
from repro.papers.refer.loss import Policies
from repro.papers.refer.ppo_advantages import generalised_advantages
from repro.papers.refer.ppo_loss import ppo_loss
from repro.quiet import suppress_stderr
from repro.replay.refer import EPSILON

NAMES = ("loss", "value_loss", "policy_loss", "kl", "clipped", "std")
"""Names of the scalars that `train` returns."""


class PpoSettings(NamedTuple):
    """Fields of a configuration that PPO reads.

    units: width of each hidden layer of both networks.
    hidden_scale, output_scale: scales of the initial weights, see `mlp.init_mlp`.
    initial_variance: initial variance of every action component, in the learner's units.
    clip: Delta rho; the objective is flat where the ratio is outside [1 - clip, 1 + clip] on the favourable side.
    discount: gamma.
    gae_lambda: lambda of the advantages.
    """

    units: tuple[int, ...]
    hidden_scale: float
    output_scale: float
    initial_variance: float
    clip: float
    discount: float
    gae_lambda: float


class RolloutBatch(NamedTuple):
    """T consecutive steps of one environment, all made with the same weights. Float32 unless stated otherwise.

    state, next_state: s_t and s_{t+1}, [T, S], not standardised; an episode's last next_state is the state it ended in.
    action, mean: a_t and the mean of the policy that sampled it, [T, A].
    std: std of the policy that acted, [A].
    reward: r_{t+1} as received, [T].
    last, terminated: bool [T], see `generalised_advantages`.
    """

    state: np.ndarray
    next_state: np.ndarray
    action: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    reward: np.ndarray
    last: np.ndarray
    terminated: np.ndarray


class Experience(NamedTuple):
    """Data that gradient steps read, of a rollout, [T, ...], or of a minibatch, [B, ...].

    state, action, mean: as in `RolloutBatch`.
    advantage: A_t, estimated with the weights at the end of the rollout.
    target: the lambda-return A_t + V(s_t), with the same weights.
    """

    state: tf.Tensor
    action: tf.Tensor
    mean: tf.Tensor
    advantage: tf.Tensor
    target: tf.Tensor


class Ppo:
    """Policy and value network, an optimiser for each, and the compiled passes over a rollout.

    Attributes:
        weights: weights of the policy network, in one vector.
        train_step_counter: number of gradient steps made so far.
        state_mean, state_std: mean and std by which states are standardised, [S] each.
        std: std of the policy that acts, [A].

    Args:
        state_size: S.
        action_size: A.
        settings: see `PpoSettings`.
        rng: source of the initial weights.
        compile_with_xla: whether `train` is compiled with XLA.
    """

    def __init__(
        self,
        state_size: int,
        action_size: int,
        settings: PpoSettings,
        rng: np.random.Generator,
        compile_with_xla: bool,
    ) -> None:
        self._settings = settings
        self.state_mean = tf.Variable(tf.zeros(state_size), trainable=False)
        self.state_std = tf.Variable(tf.ones(state_size), trainable=False)
        sizes, scales = [state_size, *settings.units], (settings.hidden_scale, settings.output_scale)
        raw = np.full(action_size, gaussian.raw_from_variance(settings.initial_variance), np.float32)
        self._policy = FlatWeights([*mlp.init_mlp(rng, sizes, action_size, *scales), raw], "policy")
        self._value = FlatWeights(mlp.init_mlp(rng, sizes, 1, *scales), "value")
        self.weights = self._policy.variable
        self._policy_optimizer, self._value_optimizer = (tf.keras.optimizers.Adam() for _ in range(2))
        self._policy_optimizer.build([self._policy.variable])
        self._value_optimizer.build([self._value.variable])
        self.train_step_counter = tf.Variable(0, trainable=False, dtype=tf.int64)
        self._train: Callable[..., tf.Tensor] = tf.function(self._passes, jit_compile=compile_with_xla, autograph=False)
        self._compiled = False
        self.sync_acting_weights()

    def checkpoint(self) -> tf.train.Checkpoint:
        """Returns all state of the agent that a checkpoint saves."""
        return tf.train.Checkpoint(
            policy=self._policy.variable,
            value=self._value.variable,
            optimizers={"policy": self._policy_optimizer, "value": self._value_optimizer},
            statistics=[self.state_mean, self.state_std],
            counter=self.train_step_counter,
        )

    def forward(self, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """V(s) [B] and the policy's mean [B, A] for states [B, S]."""
        standard = (state - self.state_mean) / (self.state_std + EPSILON)  # [B, S]
        mean = mlp.apply_mlp(self._policy.parts(self._policy.variable)[:-1], standard)  # [B, A]
        value = mlp.apply_mlp(self._value.parts(self._value.variable), standard)  # [B, 1]
        return value[:, 0], mean

    def set_state_statistics(self, mean: np.ndarray, std: np.ndarray) -> None:
        """Sets mean and std, [S], for standardising states (Appendix B); acting needs `sync_acting_weights`, too."""
        self.state_mean.assign(mean)
        self.state_std.assign(divisors(std))

    def sync_acting_weights(self) -> None:
        """Copies the current weights and statistics to those that `act` reads."""
        *self._acting, raw = self._policy.numpy()
        self.std = gaussian.std_from_raw_numpy(raw)
        self._offset, self._scale = self.state_mean.numpy(), 1.0 / (self.state_std.numpy() + EPSILON)

    def act(self, state: np.ndarray) -> np.ndarray:
        """The policy's mean [A] at one state, float32 [S], with the acting weights."""
        return mlp.apply_numpy(self._acting, (state - self._offset) * self._scale)

    def train(
        self, rollout: RolloutBatch, indices: np.ndarray, policy_learning_rate: float, value_learning_rate: float
    ) -> dict[str, float]:
        """Makes one gradient step on each minibatch in turn.

        For the value network, rewards are divided by their root mean square over the rollout, PPO's replay memory (Eq.
        16). The policy's objective, whose advantages are standardised, does not depend on that.

        Args:
            rollout: T steps made with the current weights.
            indices: steps of each minibatch, integers [K, B] in 0 to T - 1.
            policy_learning_rate, value_learning_rate: learning rates of all K gradient steps.

        Returns:
            Means over the minibatches by name: the losses, KL(mu || pi), the share of ratios beyond the clip and the
            policy's std, each before the gradient step.
        """
        # As NumPy numbers: TensorFlow would cache a tensor for each Python number, forever.
        self._policy_optimizer.learning_rate.assign(np.float32(policy_learning_rate))
        self._value_optimizer.learning_rate.assign(np.float32(value_learning_rate))
        with contextlib.nullcontext() if self._compiled else suppress_stderr():
            means = self._train(rollout, indices.astype(np.int32))
        self._compiled = True
        return dict(zip(NAMES, means.numpy().tolist()))

    def experience(self, rollout: RolloutBatch) -> Experience:
        """Returns the rollout with advantages and targets from the present weights, for all its minibatches."""
        scale = tf.sqrt(tf.reduce_mean(tf.square(rollout.reward))) + EPSILON
        value, next_value = self.forward(rollout.state)[0], self.forward(rollout.next_state)[0]  # [T]
        advantage = generalised_advantages(
            rollout.reward / scale,
            value,
            next_value,
            rollout.last,
            rollout.terminated,
            self._settings.discount,
            self._settings.gae_lambda,
        )
        steps = (rollout.state, rollout.action, rollout.mean, advantage, advantage + value)
        return Experience(*map(tf.convert_to_tensor, steps))

    def _passes(self, rollout: RolloutBatch, indices: tf.Tensor) -> tf.Tensor:
        experience = self.experience(rollout)
        count = indices.shape[0]

        def learn_next(k: tf.Tensor, sums: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            minibatch = Experience(*[tf.gather(x, indices[k]) for x in experience])
            return k + 1, sums + self.gradient_step(minibatch, rollout.std)

        return tf.while_loop(lambda k, _: k < count, learn_next, (0, tf.zeros(len(NAMES))))[1] / count

    def gradient_step(self, minibatch: Experience, behaviour_std: tf.Tensor) -> tf.Tensor:
        """Makes one gradient step of both networks; returns the means of `NAMES`. `train` compiles K of them.

        Args:
            minibatch: steps of the rollout, [B, ...].
            behaviour_std: std of the policy that acted, [A].
        """
        variables = [self._policy.variable, self._value.variable]
        with tf.GradientTape() as tape:
            v, mean = self.forward(minibatch.state)
            std = gaussian.std_from_raw(self._policy.parts(self._policy.variable)[-1])  # [A]
            policies = Policies(mean, std, minibatch.mean, behaviour_std)
            losses = ppo_loss(minibatch.action, policies, v, minibatch.advantage, minibatch.target, self._settings.clip)
            policy_loss, value_loss = tf.reduce_mean(losses.policy), tf.reduce_mean(losses.value)
            loss = policy_loss + value_loss  # the networks share no weights: each gets the gradient of its own loss
        policy_gradient, value_gradient = tape.gradient(loss, variables)
        self._policy_optimizer.apply_gradients([(policy_gradient, self._policy.variable)])
        self._value_optimizer.apply_gradients([(value_gradient, self._value.variable)])
        self.train_step_counter.assign_add(1)
        clipped = tf.cast(losses.extras["clipped"], tf.float32)
        means = [tf.reduce_mean(x) for x in (losses.extras["kl"], clipped, std)]
        return tf.stack([loss, value_loss, policy_loss, *means])
