"""A Gaussian policy with a fixed std, in TF-Agents' interface."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from tf_agents.policies import tf_policy
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import policy_step
from tf_agents.trajectories import time_step as ts

from repro.networks.gaussian_actor_critic import policy_mean


class GaussianPolicy(tf_policy.TFPolicy):
    """Samples from the normal around an MLP's mean, or takes the mean.

    Every policy step carries `info = {"mean": float32 [B, A], "std": float32 [B, A]}`, the behaviour distribution
    mu(.|x_t) that off-policy corrections need; a greedy policy reports the same distribution as a sampling one.

    Actions are not clipped, since a clipped action would have another density. Environments clip the actions that they
    are given, and a replay stores them as they were sampled.

    Args:
        time_step_spec: TF-Agents `TimeStep` spec of one unbatched environment, observations [S].
        action_spec: float32 spec of shape [A].
        weights: variables of the mean's MLP, `GaussianActorCritic.policy_weights`: all that acting reads.
        std: std of each component, above 0, in units of the action.
        greedy: whether to take the mean instead of sampling.
        mean_bound: bound on the mean (`gaussian_actor_critic.policy_mean`); 0 for none.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: tensor_spec.TensorSpec,
        weights: Sequence[tf.Variable],
        std: float,
        greedy: bool = False,
        mean_bound: float = 0.0,
    ) -> None:
        shape = action_spec.shape
        super().__init__(
            time_step_spec,
            action_spec,
            info_spec={"mean": tf.TensorSpec(shape, tf.float32), "std": tf.TensorSpec(shape, tf.float32)},
            clip=False,
            automatic_state_reset=False,
            name="gaussian_policy",
        )
        self._weights = list(weights)
        self._std = std
        self._greedy = greedy
        self._mean_bound = mean_bound

    def _variables(self) -> Sequence[tf.Variable]:
        return self._weights

    def _action(
        self, time_step: ts.TimeStep, policy_state: tuple[()], seed: tf.Tensor | None
    ) -> policy_step.PolicyStep:
        mean = policy_mean(self._weights, time_step.observation, self._mean_bound)  # [B, A]
        if self._greedy:
            action = mean
        elif seed is None:
            action = mean + self._std * tf.random.normal(tf.shape(mean))
        else:
            action = mean + self._std * tf.random.stateless_normal(tf.shape(mean), seed, alg="philox")
        info = {"mean": mean, "std": tf.fill(tf.shape(mean), self._std)}
        return policy_step.PolicyStep(tf.cast(action, self.action_spec.dtype), policy_state, info)
