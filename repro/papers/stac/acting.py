"""The policy of STAC and STACX."""

from __future__ import annotations

import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from repro.networks.multi_head_actor_critic import MultiHeadActorCritic
from repro.networks.network_policy import NetworkPolicy
from repro.papers.stac.action_distribution import ActionDistribution


class HeadPolicy(NetworkPolicy):
    """Acts with the acting head of a `MultiHeadActorCritic`, or with a random one of several (Section 9.3).

    If several heads act, one is sampled uniformly in each step of each environment (assumed: not specified how long a
    head acts). `info` describes that head's distribution: importance weights are those of the policy that acted.

    Args:
        time_step_spec, action_spec, network: as for `NetworkPolicy`.
        distribution: distribution over actions that the network's outputs parametrise.
        greedy: whether to take the distribution's mode instead of sampling.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: tensor_spec.BoundedTensorSpec,
        network: MultiHeadActorCritic,
        distribution: ActionDistribution,
        greedy: bool = False,
    ) -> None:
        super().__init__(time_step_spec, action_spec, network, distribution.info_spec, "head_policy")
        self._distribution = distribution
        self._greedy = greedy

    def _choose(self, scores: tf.Tensor, seed: tf.Tensor | None) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        batch_size, num_heads = tf.shape(scores)[0], scores.shape[1]  # [B, P, K]
        if seed is None:
            seed = tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)
        if num_heads == 1:
            outputs = scores[:, 0]
        else:
            head_seed, seed = tf.unstack(tf.random.split(seed))
            head = tf.random.stateless_uniform([batch_size], head_seed, maxval=num_heads, dtype=tf.int32, alg="philox")
            outputs = tf.gather(scores, head, batch_dims=1)
        action = self._distribution.mode(outputs) if self._greedy else self._distribution.sample(outputs, seed)
        return action, self._distribution.info(outputs)
