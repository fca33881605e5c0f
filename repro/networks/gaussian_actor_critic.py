"""The mean of a Gaussian policy, V and, for ACER, the advantages of a stochastic dueling network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from repro.networks import mlp, stochastic_dueling

HIDDEN_SCALE, OUTPUT_SCALE = 6.0**0.5, 0.1
"""Scales for `mlp.init_mlp` (assumed): Glorot's bounds, and outputs near 0, so that the first means are near 0 too."""


class GaussianActorCritic(tf.Module):
    """Up to three MLPs with Softsign units that share no weights.

    The paper says that all setups share one architecture for policy and value, and that ACER has "an additional small
    network" for the advantages; it prints no layers. Sizes are arguments; the kind of network and the separation are
    assumed.

    Attributes:
        mean_bound: b of `policy_mean`, or 0.
        policy_weights: variables of the mean's MLP, theta in the paper.
        value_weights, advantage_weights: variables of the MLPs of V and A, theta_v in the paper; the latter may be
            empty.

    Args:
        state_size: S, number of entries of an observation.
        action_size: A, number of components of an action.
        hidden: widths of the hidden layers of the mean, and also of V.
        advantage_hidden: widths of the hidden layers of A, at least one; () for a network without A.
        seed: integer >= 0 from which all weights are sampled.
        mean_bound: bound on the absolute value of the mean's components, in units of the action; 0 for no bound.
    """

    def __init__(
        self,
        state_size: int,
        action_size: int,
        hidden: Sequence[int],
        advantage_hidden: Sequence[int],
        *,
        seed: int,
        mean_bound: float = 0.0,
    ) -> None:
        super().__init__(name="gaussian_actor_critic")
        self.mean_bound = mean_bound
        rng = np.random.Generator(np.random.PCG64(seed))

        def variables(name: str, inputs: int, hidden: Sequence[int], outputs: int) -> list[tf.Variable]:
            arrays = mlp.init_mlp(rng, [inputs, *hidden], outputs, HIDDEN_SCALE, OUTPUT_SCALE)
            return [tf.Variable(array, name=f"{name}_{i}") for i, array in enumerate(arrays)]

        self.policy_weights = variables("policy", state_size, hidden, action_size)
        self.value_weights = variables("value", state_size, hidden, 1)
        # Sampled last, so that networks with and without A begin with the same policy and V.
        self.advantage_weights = (
            variables("advantage", state_size + action_size, advantage_hidden, 1) if advantage_hidden else []
        )

    def mean(self, observation: tf.Tensor) -> tf.Tensor:
        """Mean of pi(.|x), float32 [..., A], for observations [..., S]."""
        return policy_mean(self.policy_weights, observation, self.mean_bound)

    def value(self, observation: tf.Tensor) -> tf.Tensor:
        """V(x), float32 [...], for observations [..., S]."""
        return tf.squeeze(apply(self.value_weights, observation), axis=-1)

    def q(self, observation: tf.Tensor, value: tf.Tensor, actions: tf.Tensor, samples: tf.Tensor) -> tf.Tensor:
        """Q~(x, a) for K actions (`stochastic_dueling.stochastic_q`).

        Args:
            observation: [..., S].
            value: V(x), float32 [...].
            actions: float32 [..., K, A].
            samples: u_i ~ pi(.|x), float32 [..., n, A].

        Returns:
            float32 [..., K], with gradients to the weights of A and to `value`.

        Raises:
            ValueError: the shapes do not fit, or the network has no A.
        """
        state = tf.cast(tf.reshape(observation, [-1, observation.shape[-1]]), tf.float32)  # [N, S]
        found = stochastic_dueling.stochastic_q(
            self.advantage_weights,
            state,
            tf.reshape(value, [-1]),
            tf.reshape(actions, [-1, *actions.shape[-2:]]),
            tf.reshape(samples, [-1, *samples.shape[-2:]]),
        )  # [N, K]
        return tf.reshape(found, tf.concat([tf.shape(value), [actions.shape[-2]]], axis=0))


def policy_mean(weights: Sequence[tf.Tensor], observation: tf.Tensor, bound: float) -> tf.Tensor:
    """The mean of a Gaussian policy, b tanh(MLP(x)), or MLP(x) itself for a bound of 0.

    Args:
        weights: weights of the MLP.
        observation: x, [..., S].
        bound: b, in units of the action; 0 for none.

    Returns:
        float32 [..., A], differentiable with respect to the weights.
    """
    output = apply(weights, observation)
    return bound * tf.tanh(output) if bound else output


def apply(weights: Sequence[tf.Tensor], x: tf.Tensor) -> tf.Tensor:
    """`mlp.apply_mlp` over any leading dimensions: x [..., inputs] to float32 [..., outputs]."""
    outputs = mlp.apply_mlp(weights, tf.cast(tf.reshape(x, [-1, x.shape[-1]]), tf.float32))
    return tf.reshape(outputs, tf.concat([tf.shape(x)[:-1], [outputs.shape[-1]]], axis=0))
