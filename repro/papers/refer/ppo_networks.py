"""PPO's two networks, as TF-Agents takes them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow_probability as tfp
from tf_agents.networks import network

from repro.distributions import gaussian
from repro.networks import mlp
from repro.papers.refer.fused import FlatWeights
from repro.replay.refer import EPSILON


class _Mlp(network.Network):
    """Standardises states and applies an MLP whose weights lie in one variable.

    Args:
        state_spec: of one state.
        weights: layers, then what else the network has.
        statistics: mean and deviation [S], by which states are standardised.
        name: of the network.
    """

    def __init__(
        self, state_spec: tf.TensorSpec, weights: FlatWeights, statistics: tuple[tf.Variable, tf.Variable], name: str
    ) -> None:
        super().__init__(state_spec, name=name)
        self._flat, self._vector = weights, weights.variable
        self._mean, self._deviation = statistics

    def _parts(self) -> list[tf.Tensor]:
        return self._flat.parts(self._vector)

    def _apply(self, layers: list[tf.Tensor], state: tf.Tensor) -> tf.Tensor:
        """Outputs [..., outputs] of states [..., S]."""
        standard = (state - self._mean) / (self._deviation + EPSILON)  # [..., S]
        rows = tf.reshape(standard, [-1, state.shape[-1]])  # [N, S], of which one matrix product is made
        outputs = mlp.apply_mlp(layers, rows)  # [N, outputs]
        return tf.reshape(outputs, [*tf.unstack(tf.shape(state)[:-1]), outputs.shape[-1]])


class PolicyNetwork(_Mlp):
    """The policy: a normal around the network's output, with one deviation for all states."""

    def call(
        self, observation: tf.Tensor, step_type: Any = None, network_state: Any = (), training: bool = False
    ) -> tuple[tfp.distributions.Distribution, Any]:
        del step_type, training
        *layers, raw = self._parts()
        mean = self._apply(layers, observation)  # [..., A]
        deviation = gaussian.deviation_of(raw) * tf.ones_like(mean)
        return tfp.distributions.MultivariateNormalDiag(mean, deviation), network_state


class ValueNetwork(_Mlp):
    """V(s)."""

    def call(
        self, observation: tf.Tensor, step_type: Any = None, network_state: Any = (), training: bool = False
    ) -> tuple[tf.Tensor, Any]:
        del step_type, training
        return self._apply(self._parts(), observation)[..., 0], network_state
