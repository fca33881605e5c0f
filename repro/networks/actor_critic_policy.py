"""The policy of an actor-critic network, in TF-Agents' interface."""

from __future__ import annotations

import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from repro.distributions import categorical
from repro.networks.actor_critic import ActorCritic
from repro.networks.network_policy import NetworkPolicy
from repro.networks.policy_q import PolicyQ


class ActorCriticPolicy(NetworkPolicy):
    """Acts with a network whose first output is logits: samples from their softmax, or takes the mode.

    Every policy step carries `info = {"logits": float32 [B, A]}`, the behaviour distribution mu(.|x_t) that off-policy
    corrections need, and with a recurrent core also the `"core_state"` of `NetworkPolicy`.

    Args:
        time_step_spec, action_spec, network: as for `NetworkPolicy`.
        greedy: whether to take the most probable action instead of sampling.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: tensor_spec.BoundedTensorSpec,
        network: ActorCritic | PolicyQ,
        greedy: bool = False,
    ) -> None:
        num_actions = int(action_spec.maximum - action_spec.minimum) + 1
        info_spec = {"logits": tf.TensorSpec([num_actions], tf.float32)}
        super().__init__(time_step_spec, action_spec, network, info_spec, "actor_critic_policy")
        self._greedy = greedy

    def _choose(self, scores: tf.Tensor, seed: tf.Tensor | None) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        if self._greedy:
            action = tf.argmax(scores, axis=-1, output_type=tf.int32)
        elif seed is None:
            action = tf.random.categorical(scores, 1, dtype=tf.int32)[:, 0]
        else:
            action = categorical.sample(scores, seed)
        return action, {"logits": scores}
