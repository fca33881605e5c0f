"""The policy of an actor-critic network, in TF-Agents' interface."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from tf_agents.policies import tf_policy
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import policy_step
from tf_agents.trajectories import time_step as ts

from repro.distributions import categorical
from repro.networks.actor_critic import ActorCritic
from repro.networks.policy_q import PolicyQ


class ActorCriticPolicy(tf_policy.TFPolicy):
    """Acts with an `ActorCritic` or a `PolicyQ` network: samples from its softmax, or takes the mode.

    Every policy step carries `info = {"logits": float32 [B, A]}`, the behaviour distribution mu(.|x_t) that
    off-policy corrections need, and with a recurrent core also `"core_state"`, the state (h, c) of float32
    [B, units] *before* the step, from which a learner starts an unroll.

    Args:
        time_step_spec: TF-Agents `TimeStep` spec of one unbatched environment.
        action_spec: bounded int32 scalar spec; actions count from its minimum, 0.
        network: called with one time row, `[B, 1, ...]`.
        greedy: take the most probable action instead of sampling.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: tensor_spec.BoundedTensorSpec,
        network: ActorCritic | PolicyQ,
        greedy: bool = False,
    ) -> None:
        num_actions = int(action_spec.maximum - action_spec.minimum) + 1
        state_spec = tuple(tf.TensorSpec(part.shape[1:], tf.float32) for part in network.initial_state(1))
        info_spec = {"logits": tf.TensorSpec([num_actions], tf.float32)}
        if state_spec:
            info_spec["core_state"] = state_spec
        super().__init__(
            time_step_spec,
            action_spec,
            policy_state_spec=state_spec,
            info_spec=info_spec,
            clip=False,
            automatic_state_reset=False,
            name="actor_critic_policy",
        )
        self._network = network
        self._greedy = greedy

    def _variables(self) -> Sequence[tf.Variable]:
        return self._network.variables

    def _get_initial_state(self, batch_size: int) -> tuple[tf.Tensor, ...]:
        return self._network.initial_state(batch_size)

    def _action(
        self, time_step: ts.TimeStep, policy_state: tuple[tf.Tensor, ...], seed: tf.Tensor | None
    ) -> policy_step.PolicyStep:
        observation = tf.nest.map_structure(lambda x: x[:, tf.newaxis], time_step.observation)
        logits, _, next_state = self._network(observation, time_step.step_type[:, tf.newaxis], policy_state)
        logits = logits[:, 0]
        if self._greedy:
            action = tf.argmax(logits, axis=-1, output_type=tf.int32)
        elif seed is None:
            action = tf.random.categorical(logits, 1, dtype=tf.int32)[:, 0]
        else:
            action = categorical.sample(logits, seed)
        info = {"logits": logits}
        if policy_state:
            info["core_state"] = tuple(policy_state)
        return policy_step.PolicyStep(tf.cast(action, self.action_spec.dtype), next_state, info)
