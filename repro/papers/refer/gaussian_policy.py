"""The agents' policy in TF-Agents' interface."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from tf_agents.policies import tf_policy
from tf_agents.trajectories import policy_step
from tf_agents.trajectories import time_step as ts

from repro.papers.refer.fused import FusedAgent


class GaussianPolicy(tf_policy.TFPolicy):
    """Takes the mean action, in the learner's units; `info` is empty.

    Args:
        time_step_spec: TF-Agents `TimeStep` spec of one unbatched environment.
        action_spec: float32 [A].
        agent: gives the mean.
    """

    def __init__(self, time_step_spec: ts.TimeStep, action_spec: tf.TensorSpec, agent: FusedAgent) -> None:
        super().__init__(time_step_spec, action_spec, clip=False, automatic_state_reset=False, name="gaussian_policy")
        self._agent = agent
        self._kept = [agent.weights, agent.state_mean, agent.state_deviation]

    def _variables(self) -> Sequence[tf.Variable]:
        return self._kept

    def _action(
        self, time_step: ts.TimeStep, policy_state: tuple[()], seed: tf.Tensor | None
    ) -> policy_step.PolicyStep:
        _, mean, *_ = self._agent.forward(time_step.observation)
        return policy_step.PolicyStep(mean, policy_state, ())
