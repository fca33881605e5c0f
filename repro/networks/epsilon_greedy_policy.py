"""The epsilon-greedy policy of a Q network, in TF-Agents' interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.policies import tf_policy
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import policy_step
from tf_agents.trajectories import time_step as ts

from repro.networks.q_network import QNetwork
from repro.networks.recurrent_q import RecurrentQ


class EpsilonGreedyPolicy(tf_policy.TFPolicy):
    """Takes the action of largest value, or with probability epsilon any action.

        mu(a|x) = epsilon / |A| + (1 - epsilon) 1[a = argmax_b Q(x, b)]

    Of equal values the action of lowest index is the greedy one, as `tf.argmax` has it: the target policy of a loss,
    which is greedy with respect to the same values, breaks ties in the same way.

    Every policy step carries `info = {"probability": float32 [B]}`, mu of the action that was taken, which
    off-policy corrections need, and with a recurrent network also `"core_state"`, the state (h, c) of float32
    [B, units] *before* the step, from which a learner starts a sequence.

    Evaluation has a policy of its own with its own small epsilon; with 0 it is greedy.

    Args:
        time_step_spec: TF-Agents `TimeStep` spec of one unbatched environment.
        action_spec: bounded int32 scalar spec; actions count from its minimum, 0.
        network: called with one time row, `[B, 1, ...]`.
        epsilon: in [0, 1], for all environments or for each one, [B]. A `tf.Variable` is read anew in each step and is
            among `variables()`, before the network's: actors get it with the weights, and need one of their own.
            Other values stay what they are, so that each actor can have its own.

    Raises:
        ValueError: an epsilon outside [0, 1] (a variable's first value), or one that is neither a scalar nor a vector.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: tensor_spec.BoundedTensorSpec,
        network: QNetwork | RecurrentQ,
        epsilon: tf.Variable | np.ndarray | float,
    ) -> None:
        values = epsilon.numpy() if isinstance(epsilon, tf.Variable) else np.asarray(epsilon)
        if values.ndim > 1 or not ((values >= 0) & (values <= 1)).all():
            raise ValueError(f"EpsilonGreedyPolicy: epsilon must be a scalar or vector in [0, 1], got {values}")
        state_spec = tuple(tf.TensorSpec(part.shape[1:], tf.float32) for part in network.initial_state(1))
        info_spec: dict[str, Any] = {"probability": tf.TensorSpec([], tf.float32)}
        if state_spec:
            info_spec["core_state"] = state_spec
        super().__init__(
            time_step_spec,
            action_spec,
            policy_state_spec=state_spec,
            info_spec=info_spec,
            clip=False,
            automatic_state_reset=False,
            name="epsilon_greedy_policy",
        )
        self._network = network
        self._epsilon = epsilon

    def _variables(self) -> Sequence[tf.Variable]:
        return self._network.variables

    def _get_initial_state(self, batch_size: int) -> tuple[tf.Tensor, ...]:
        return self._network.initial_state(batch_size)

    def _action(
        self, time_step: ts.TimeStep, policy_state: tuple[tf.Tensor, ...], seed: tf.Tensor | None
    ) -> policy_step.PolicyStep:
        observation = tf.nest.map_structure(lambda x: x[:, tf.newaxis], time_step.observation)
        q, next_state = self._network(observation, time_step.step_type[:, tf.newaxis], policy_state)
        greedy = tf.argmax(q[:, 0], axis=-1, output_type=tf.int32)  # [B]
        epsilon = tf.broadcast_to(tf.cast(self._epsilon, tf.float32), tf.shape(greedy))
        num_actions = self._network.num_actions
        if seed is None:
            uniform = tf.random.uniform([2, tf.size(greedy)])
        else:
            uniform = tf.random.stateless_uniform([2, tf.size(greedy)], seed, alg="philox")
        any_action = tf.cast(uniform[1] * num_actions, tf.int32)  # below num_actions: uniform < 1 by 2^-23 or more
        action = tf.where(uniform[0] < epsilon, any_action, greedy)
        probability = epsilon / num_actions + tf.where(action == greedy, 1.0 - epsilon, 0.0)
        info: dict[str, Any] = {"probability": probability}
        if policy_state:
            info["core_state"] = tuple(policy_state)
        return policy_step.PolicyStep(tf.cast(action, self.action_spec.dtype), next_state, info)


def ape_x_epsilons(count: int, *, base: float, spread: float) -> np.ndarray:
    """An epsilon for each of N environments (Horgan et al., 2018, Section 4), from the one that explores most on.

        epsilon_i = base^(1 + spread i / (N - 1)),    i = 0, ..., N - 1

    R2D2's actors, and so C-trace's, follow it with a base of 0.4 and a spread of 7 (C-trace prints neither).

    Args:
        count: N, at least 1; a single environment gets `base`.
        base: epsilon of the first, in (0, 1).
        spread: at least 0; 0 gives all the same.

    Returns:
        float32 [N], not increasing, the last base^(1 + spread).

    Raises:
        ValueError: an argument is out of its range.
    """
    if count < 1 or not 0.0 < base < 1.0 or spread < 0.0:
        raise ValueError(
            "ape_x_epsilons: needs count >= 1, base in (0, 1) and spread >= 0, "
            f"got count {count}, base {base}, spread {spread}"
        )
    return (base ** (1.0 + spread * np.arange(count) / max(count - 1, 1))).astype(np.float32)
