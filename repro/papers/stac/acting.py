"""The policy of STAC and STACX."""

from __future__ import annotations

import tensorflow as tf

from repro.networks.actor_critic_policy import ActorCriticPolicy


class HeadPolicy(ActorCriticPolicy):
    """Acts with the heads of a `MultiHeadActorCritic` that act: with the one, or with one of several (Section 9.3).

    Of several, each step of each environment takes one with equal probabilities (assumed: not specified how long a head
    acts), and says the logits of this one, so that importance weights are those of the policy that acted.
    Arguments as for `ActorCriticPolicy`.
    """

    def _choose(self, scores: tf.Tensor, seed: tf.Tensor | None) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        batch_size, num_heads = tf.shape(scores)[0], scores.shape[1]  # [B, P, A]
        if num_heads == 1:
            return super()._choose(scores[:, 0], seed)
        if seed is None:
            head = tf.random.uniform([batch_size], maxval=num_heads, dtype=tf.int32)
        else:
            head_seed, seed = tf.unstack(tf.random.split(seed))
            head = tf.random.stateless_uniform([batch_size], head_seed, maxval=num_heads, dtype=tf.int32, alg="philox")
        return super()._choose(tf.gather(scores, head, batch_dims=1), seed)
