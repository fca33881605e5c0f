"""The agents' policies in TF-Agents' interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import tensorflow as tf
from tf_agents.policies import tf_policy
from tf_agents.trajectories import policy_step
from tf_agents.trajectories import time_step as ts

from repro.papers.refer.recurrent_vracer import RecurrentVRacer


class GaussianAgent(Protocol):
    """The part of an agent's interface that policies use; `forward` returns a value, the policy's mean, and more."""

    weights: tf.Variable
    state_mean: tf.Variable
    state_std: tf.Variable

    def forward(self, state: tf.Tensor) -> tuple[tf.Tensor, ...]: ...


class MeanActionPolicy(tf_policy.TFPolicy):
    """Takes the mean action, in the learner's units; `info` is empty.

    Args:
        time_step_spec: TF-Agents `TimeStep` spec of one unbatched environment.
        action_spec: float32 spec of shape [A].
        agent: agent whose `forward` returns the mean.
    """

    def __init__(self, time_step_spec: ts.TimeStep, action_spec: tf.TensorSpec, agent: GaussianAgent) -> None:
        super().__init__(time_step_spec, action_spec, clip=False, automatic_state_reset=False, name="gaussian_policy")
        self._agent = agent
        self._kept = [agent.weights, agent.state_mean, agent.state_std]

    def _variables(self) -> Sequence[tf.Variable]:
        return self._kept

    def _action(
        self, time_step: ts.TimeStep, policy_state: tuple[()], seed: tf.Tensor | None
    ) -> policy_step.PolicyStep:
        _, mean, *_ = self._agent.forward(time_step.observation)
        return policy_step.PolicyStep(mean, policy_state, ())


class WindowPolicy(tf_policy.TFPolicy):
    """Takes the mean action of an agent with a memory; the policy's state is the window of the last states.

    Args:
        time_step_spec: TF-Agents `TimeStep` spec of one unbatched environment.
        action_spec: float32 spec of shape [A].
        agent: agent whose `forward` returns the mean at the end of a window.
    """

    def __init__(self, time_step_spec: ts.TimeStep, action_spec: tf.TensorSpec, agent: RecurrentVRacer) -> None:
        window = tf.TensorSpec([agent.window, *time_step_spec.observation.shape], tf.float32)
        super().__init__(
            time_step_spec,
            action_spec,
            policy_state_spec={"window": window, "length": tf.TensorSpec([], tf.int32)},
            clip=False,
            automatic_state_reset=False,
            name="window_policy",
        )
        self._agent = agent
        self._kept = [agent.weights, agent.state_mean, agent.state_std]

    def _variables(self) -> Sequence[tf.Variable]:
        return self._kept

    def _action(
        self, time_step: ts.TimeStep, policy_state: dict[str, tf.Tensor], seed: tf.Tensor | None
    ) -> policy_step.PolicyStep:
        window = tf.concat([policy_state["window"][:, 1:], time_step.observation[:, tf.newaxis]], axis=1)  # [B, W, S]
        before = tf.where(time_step.is_first(), 0, policy_state["length"])
        length = tf.minimum(before + 1, self._agent.window)  # [B]
        _, mean, *_ = self._agent.forward(window, length)
        return policy_step.PolicyStep(mean, {"window": window, "length": length}, ())
