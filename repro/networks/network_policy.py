"""Base class of policies whose networks take sequences, in TF-Agents' interface."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import tensorflow as tf
from tf_agents.policies import tf_policy
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import policy_step
from tf_agents.trajectories import time_step as ts

from repro.networks.sequence_network import SequenceNetwork


class NetworkPolicy(tf_policy.TFPolicy):
    """Calls a network with the present observations; subclasses choose actions from its first output.

    The `info` of every policy step has the subclass's entries and, with a recurrent network, `"core_state"`: the state
    (h, c), float32 [B, units] each, *before* the step, from which a learner starts a sequence.

    Args:
        time_step_spec: TF-Agents `TimeStep` spec of one unbatched environment.
        action_spec: bounded int32 scalar spec with a minimum of 0, or float32 spec [A].
        network: called with one time row, `[B, 1, ...]`; its variables are created if it has none yet.
        info_spec: specs of the subclass's `info` entries by name, for one environment.
        name: name of the policy.

    Raises:
        ValueError: as for `SequenceNetwork.build_variables`.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: tensor_spec.BoundedTensorSpec,
        network: SequenceNetwork,
        info_spec: dict[str, tf.TensorSpec],
        name: str,
    ) -> None:
        if not network.built:
            network.build_variables(time_step_spec.observation)
        state_spec = tuple(tf.TensorSpec(part.shape[1:], tf.float32) for part in network.initial_state(1))
        super().__init__(
            time_step_spec,
            action_spec,
            policy_state_spec=state_spec,
            info_spec=info_spec | ({"core_state": state_spec} if state_spec else {}),
            clip=False,
            automatic_state_reset=False,
            name=name,
        )
        self._network = network

    @abc.abstractmethod
    def _choose(self, scores: tf.Tensor, seed: tf.Tensor | None) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Returns the actions, [B, ...], and the `info` entries that learning needs about the choice.

        Args:
            scores: the network's first output, such as logits or action values, float32 [B, ...].
            seed: int32 [2], or None for TensorFlow's own generator.
        """

    def variables(self) -> Sequence[tf.Variable]:
        """Returns the network's variables, which are published to actors."""
        return self._network.variables

    def _get_initial_state(self, batch_size: int) -> tuple[tf.Tensor, ...]:
        return self._network.initial_state(batch_size)

    def _action(
        self, time_step: ts.TimeStep, policy_state: tuple[tf.Tensor, ...], seed: tf.Tensor | None
    ) -> policy_step.PolicyStep:
        observation = tf.nest.map_structure(lambda x: x[:, tf.newaxis], time_step.observation)
        scores, *_, next_state = self._network(observation, time_step.step_type[:, tf.newaxis], policy_state)
        action, info = self._choose(scores[:, 0], seed)
        core_state = {"core_state": tuple(policy_state)} if policy_state else {}
        return policy_step.PolicyStep(tf.cast(action, self.action_spec.dtype), next_state, info | core_state)
