"""PPO (Schulman et al. 2017) as Appendix A sets it, with the agent of TF-Agents.

`PPOClipAgent` gives the clipped objective, the value loss and the gradient step on one minibatch, and can be set to
Appendix A in these: clip 0.2, minibatches of 64, networks of two layers, any number of passes. It cannot be set to the
rest, which stands here and reaches it as data:

- Advantages. TF-Agents treats an episode that a time limit cut like one that terminated, and bootstraps a stretch of
  steps from V(s_{T-1}) where V(s_T) belongs. It takes `advantage` and `return` from the trajectory if it is told not to
  compute them; they are those of `generalised_advantages`.
- Two learning rates. It takes one optimiser; `OneOptimizerEach` looks like one.
- Fixed statistics of the states (Appendix B). Its own normaliser moves on with every update, adds 1e-3 to the variance
  and clips at 5; it is off, and the networks standardise.
- Actions of the truncated normal: they are drawn in the loop.

What it does unasked: it standardises the advantages of each minibatch. Many implementations do; others standardise
those of all steps together. The paper does not say.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tf_agents.agents.ppo import ppo_clip_agent
from tf_agents.policies import greedy_policy
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import StepType, Trajectory, policy_step
from tf_agents.trajectories import time_step as ts

from repro.distributions import gaussian
from repro.networks import mlp
from repro.papers.refer.fused import FlatWeights
from repro.papers.refer.ppo_advantages import generalised_advantages
from repro.papers.refer.ppo_networks import PolicyNetwork, ValueNetwork
from repro.quiet import suppress_stderr
from repro.replay.refer import EPSILON

NAMES = ("loss", "value_loss", "policy_loss", "kl", "clipped", "deviation")
"""Of the scalars that `train` returns."""


class PpoSettings(NamedTuple):
    """Fields of a configuration that PPO reads.

    units: width of each hidden layer of either network.
    hidden_scale, output_scale: of the initial weights, see `mlp.init_mlp`.
    initial_variance: of every action component, in the learner's units.
    clip: Delta rho, the objective is flat where the ratio has left [1 - clip, 1 + clip] to the better side.
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


class Rollout(NamedTuple):
    """T consecutive steps of one environment, all made with the same weights. Float32 if not said otherwise.

    state, next_state: s_t and s_{t+1}, [T, S], not standardised; an episode's last next_state is the state it ended in.
    action, mean: [T, A].
    deviation: of the policy that acted, [A].
    reward: r_{t+1} as received, [T].
    last, terminated: bool [T], see `generalised_advantages`.
    """

    state: np.ndarray
    next_state: np.ndarray
    action: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    reward: np.ndarray
    last: np.ndarray
    terminated: np.ndarray


class OneOptimizerEach(tf.Module):
    """An optimiser for each variable, behind the one method that TF-Agents' agent calls of its only one."""

    def __init__(self, optimizers: dict[str, tf.keras.optimizers.Optimizer]) -> None:
        """Optimisers by the name of their variable."""
        super().__init__(name="one_optimizer_each")
        self.optimizers = optimizers

    def apply_gradients(self, grads_and_vars: Iterable[tuple[tf.Tensor, tf.Variable]]) -> None:
        for gradient, variable in grads_and_vars:
            self.optimizers[variable_name(variable)].apply_gradients([(gradient, variable)])


class MeanPolicy(greedy_policy.GreedyPolicy):
    """Takes the mean action; TF-Agents' own draws nothing either, but refuses the seeds that evaluations give."""

    def _action(
        self, time_step: ts.TimeStep, policy_state: tuple[()], seed: tf.Tensor | None
    ) -> policy_step.PolicyStep:
        del seed
        return super()._action(time_step, policy_state, None)


class Ppo:
    """Both networks, TF-Agents' agent over them, and the compiled passes over a rollout.

    Attributes:
        agent: TF-Agents' `PPOClipAgent`.
        policy: takes the mean action, in the learner's units.
        weights: of the policy's network, in one vector.
        state_mean, state_deviation: [S], by which states are standardised.

    Args:
        time_step_spec, action_spec: of one unbatched environment.
        settings: see `PpoSettings`.
        generator: draws the initial weights.
        compile_with_xla: whether `train` is compiled with XLA.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: tensor_spec.BoundedTensorSpec,
        settings: PpoSettings,
        generator: np.random.Generator,
        compile_with_xla: bool,
    ) -> None:
        state_spec = time_step_spec.observation
        state_size, self.action_size = state_spec.shape[0], action_spec.shape[0]
        self._settings = settings
        self.state_mean = tf.Variable(tf.zeros(state_size), trainable=False)
        self.state_deviation = tf.Variable(tf.ones(state_size), trainable=False)
        statistics = (self.state_mean, self.state_deviation)
        sizes, scales = [state_size, *settings.units], (settings.hidden_scale, settings.output_scale)
        raw = np.full(self.action_size, gaussian.raw_of_variance(settings.initial_variance), np.float32)
        self._policy = FlatWeights([*mlp.init_mlp(generator, sizes, self.action_size, *scales), raw], "policy")
        self._value = FlatWeights(mlp.init_mlp(generator, sizes, 1, *scales), "value")
        self.weights = self._policy.variable
        self._policy_network = PolicyNetwork(state_spec, self._policy, statistics, "policy_network")
        self._value_network = ValueNetwork(state_spec, self._value, statistics, "value_network")
        self._optimizers = {}
        for flat in (self._policy, self._value):
            optimizer = tf.keras.optimizers.Adam()
            optimizer.build([flat.variable])
            self._optimizers[variable_name(flat.variable)] = optimizer
        self.agent = ppo_clip_agent.PPOClipAgent(
            time_step_spec,
            action_spec,
            optimizer=OneOptimizerEach(self._optimizers),
            actor_net=self._policy_network,
            value_net=self._value_network,
            importance_ratio_clipping=settings.clip,
            value_pred_loss_coef=0.5,
            num_epochs=1,  # `train` gives it one minibatch after the other
            normalize_rewards=False,
            normalize_observations=False,
            compute_value_and_advantage_in_train=False,
            update_normalizers_in_train=False,
            aggregate_losses_across_replicas=False,
            train_step_counter=tf.Variable(0, trainable=False, dtype=tf.int64),
        )
        self.policy = MeanPolicy(self.agent.policy)
        # Without AutoGraph, which would take ten seconds over TF-Agents' code and has nothing to do there.
        self._train: Callable[..., Any] = tf.function(self._passes, autograph=False, jit_compile=compile_with_xla)
        self._compiled = False
        self.refresh()

    def checkpoint(self) -> tf.train.Checkpoint:
        """Everything of the agent that a checkpoint keeps."""
        return tf.train.Checkpoint(
            policy=self._policy.variable,
            value=self._value.variable,
            optimizers=self._optimizers,
            statistics=[self.state_mean, self.state_deviation],
            counter=self.agent.train_step_counter,
        )

    def set_state_statistics(self, mean: np.ndarray, deviation: np.ndarray) -> None:
        """Standardises states from now on (Appendix B), in learning and, after `refresh`, in acting."""
        self.state_mean.assign(mean)
        self.state_deviation.assign(deviation)

    def refresh(self) -> None:
        """Takes the current weights and statistics over for acting."""
        *self._acting, raw = self._policy.numpy()
        self.deviation = np.sqrt(np.log1p(np.exp(raw)))
        self._offset, self._scale = self.state_mean.numpy(), 1.0 / (self.state_deviation.numpy() + EPSILON)

    def act(self, state: np.ndarray) -> np.ndarray:
        """The policy's mean [A] in one state, float32 [S], from the weights of the last `refresh`."""
        return mlp.apply_numpy(self._acting, (state - self._offset) * self._scale)

    def train(
        self, rollout: Rollout, indices: np.ndarray, policy_learning_rate: float, value_learning_rate: float
    ) -> dict[str, float]:
        """One gradient step on each minibatch in turn.

        Rewards are divided by their root mean square over the rollout, PPO's replay memory (Eq. 16), for the value
        network; the policy's objective, whose advantages are standardised, does not see it.

        Args:
            rollout: T steps made with the current weights.
            indices: steps of each minibatch, integers [K, B] in 0 to T - 1.
            policy_learning_rate, value_learning_rate: of all K gradient steps.

        Returns:
            Means over the minibatches by name: the losses, KL(mu || pi), the share of ratios beyond the clip and the
            policy's deviation, each as it was before the gradient step.
        """
        for optimizer, rate in zip(self._optimizers.values(), (policy_learning_rate, value_learning_rate), strict=True):
            optimizer.learning_rate.assign(rate)
        with contextlib.nullcontext() if self._compiled else suppress_stderr():
            means = self._train(rollout, indices.astype(np.int32))
        self._compiled = True
        return dict(zip(NAMES, means.numpy().tolist()))

    def experience(self, rollout: Rollout) -> Trajectory:
        """The rollout as TF-Agents' agent learns from it, [T, 1, ...], advantages and targets in `policy_info`."""
        scale = tf.sqrt(tf.reduce_mean(tf.square(rollout.reward))) + EPSILON
        value = self._value_network(rollout.state)[0]  # [T]
        next_value = self._value_network(rollout.next_state)[0]  # [T]
        advantage = generalised_advantages(
            rollout.reward / scale,
            value,
            next_value,
            rollout.last,
            rollout.terminated,
            self._settings.discount,
            self._settings.gae_lambda,
        )
        ones = tf.ones_like(advantage)
        middle = tf.fill(tf.shape(advantage), StepType.MID)  # ends are in the advantages: every step is learned from
        info = {
            "dist_params": {"loc": rollout.mean, "scale_diag": rollout.deviation * tf.ones_like(rollout.mean)},
            "value_prediction": value,
            "return": advantage + value,
            "advantage": advantage,
        }
        flat = Trajectory(middle, rollout.state, rollout.action, info, middle, rollout.reward, ones)
        return tf.nest.map_structure(lambda x: tf.convert_to_tensor(x)[:, tf.newaxis], flat)

    def _passes(self, rollout: Rollout, indices: tf.Tensor) -> tf.Tensor:
        experience = self.experience(rollout)
        count = indices.shape[0]

        def step(k: tf.Tensor, sums: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return k + 1, sums + self._step(tf.nest.map_structure(lambda x: tf.gather(x, indices[k]), experience))

        _, sums = tf.while_loop(lambda k, _: k < count, step, (tf.constant(0), tf.zeros(len(NAMES))))
        return sums / count

    def _step(self, minibatch: Trajectory) -> tf.Tensor:
        """One gradient step on [B, 1, ...], and the means of `NAMES`."""
        policy, _ = self._policy_network(minibatch.observation)
        mean, deviation = policy.mean(), policy.stddev()
        behaviour = minibatch.policy_info["dist_params"]
        kl = gaussian.kl(behaviour["loc"], behaviour["scale_diag"], mean, deviation)  # [B, 1]
        loss, extra = self.agent.train(minibatch)
        means = loss, extra.value_estimation_loss, extra.policy_gradient_loss, kl, extra.clip_fraction, deviation
        return tf.stack([tf.reduce_mean(x) for x in means])


def variable_name(variable: tf.Variable) -> str:
    return variable.name.split(":")[0]
