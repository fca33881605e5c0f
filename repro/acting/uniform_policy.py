"""The policy of a random player."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.policies import tf_policy
from tf_agents.specs import BoundedTensorSpec
from tf_agents.trajectories import PolicyStep
from tf_agents.trajectories import time_step as ts


class UniformPolicy(tf_policy.TFPolicy):
    """Samples every action with the same probability, or density between its bounds.

    Missing bounds of an action are replaced by -1 and 1, which environments scale to the ends of the control range.

    `action` takes an int32 seed of shape [2] and is a function of it alone.

    Args:
        time_step_spec: time-step spec of the environment.
        action_spec: action spec of the environment.
    """

    def __init__(self, time_step_spec: ts.TimeStep, action_spec: BoundedTensorSpec) -> None:
        super().__init__(time_step_spec, action_spec, automatic_state_reset=False)

    def _variables(self) -> list[tf.Variable]:
        return []

    def _action(self, time_step: ts.TimeStep, policy_state: Any, seed: tf.Tensor) -> PolicyStep:
        spec = self.action_spec
        shape = [tf.shape(time_step.step_type)[0], *spec.shape]
        low = tf.constant(np.where(np.isfinite(spec.minimum), spec.minimum, -1), spec.dtype)
        high = tf.constant(np.where(np.isfinite(spec.maximum), spec.maximum, 1), spec.dtype)
        if spec.dtype.is_integer:
            high += 1  # the upper bound is excluded
        return PolicyStep(tf.random.stateless_uniform(shape, seed, low, high, spec.dtype), policy_state)

    def _distribution(self, time_step: ts.TimeStep, policy_state: Any) -> PolicyStep:
        raise NotImplementedError("UniformPolicy has no distribution")
