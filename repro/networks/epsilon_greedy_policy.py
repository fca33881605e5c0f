"""The epsilon-greedy policy of a Q network, in TF-Agents' interface."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from repro.networks.network_policy import NetworkPolicy
from repro.networks.q_network import QNetwork
from repro.networks.recurrent_q import RecurrentQ


class EpsilonGreedyPolicy(NetworkPolicy):
    """Takes the action of largest value, or with probability epsilon a uniformly random one.

        mu(a|x) = epsilon / |A| + (1 - epsilon) 1[a = argmax_b Q(x, b)]

    Among equal values the action of lowest index is the greedy one, as in `tf.argmax`: the target policy of a loss,
    which is greedy with respect to the same values, breaks ties in the same way.

    The `info` of every policy step has `"greedy_action"`, int32 [B], and `"epsilon"`, float32 [B], from which
    off-policy corrections compute mu(.|x); `"action_value"`, Q(x, a) of the action taken, and `"greedy_value"`,
    max_b Q(x, b), both float32 [B], from which actors compute TD errors; and with a recurrent network the
    `"core_state"` of `NetworkPolicy`.

    Evaluation uses a separate policy with a small epsilon of its own; with an epsilon of 0 it is greedy.

    Args:
        time_step_spec, action_spec, network: as for `NetworkPolicy`.
        epsilon: probability in [0, 1], one for all environments or one for each, [B]. A `tf.Variable` is read again in
            each step. It is a setting of the actor and no weight: `variables()`, which actors receive, leaves it out.

    Raises:
        ValueError: epsilon (or a variable's first value) is outside [0, 1], or neither a scalar nor a vector.
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
        number = tf.TensorSpec([], tf.float32)
        info_spec = {
            "greedy_action": tf.TensorSpec([], tf.int32),
            "epsilon": number,
            "action_value": number,
            "greedy_value": number,
        }
        super().__init__(time_step_spec, action_spec, network, info_spec, "epsilon_greedy_policy")
        self._epsilon = epsilon

    def _choose(self, scores: tf.Tensor, seed: tf.Tensor | None) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        greedy = tf.argmax(scores, axis=-1, output_type=tf.int32)  # [B]
        epsilon = tf.broadcast_to(tf.cast(self._epsilon, tf.float32), tf.shape(greedy))
        if seed is None:
            uniform = tf.random.uniform([2, tf.size(greedy)])
        else:
            uniform = tf.random.stateless_uniform([2, tf.size(greedy)], seed, alg="philox")
        any_action = tf.cast(uniform[1] * scores.shape[-1], tf.int32)  # below |A|: uniform < 1 by 2^-23 or more
        action = tf.where(uniform[0] < epsilon, any_action, greedy)
        return action, {
            "greedy_action": greedy,
            "epsilon": epsilon,
            "action_value": tf.gather(scores, action, batch_dims=1),
            "greedy_value": tf.reduce_max(scores, axis=-1),
        }


def ape_x_epsilons(count: int, *, base: float, spread: float) -> np.ndarray:
    """Epsilons of N environments (Horgan et al., 2018, Section 4.1), beginning with the one that explores most.

        epsilon_i = base^(1 + spread i / (N - 1)),    i = 0, ..., N - 1

    R2D2's actors, and so C-trace's, use a base of 0.4 and a spread of 7 (C-trace prints neither).

    Args:
        count: N, at least 1; a single environment gets `base`.
        base: epsilon of the first environment, in (0, 1).
        spread: at least 0; 0 gives all environments the same epsilon.

    Returns:
        float32 [N], non-increasing, the last base^(1 + spread).

    Raises:
        ValueError: an argument is outside its range.
    """
    if count < 1 or not 0.0 < base < 1.0 or spread < 0.0:
        raise ValueError(
            "ape_x_epsilons: needs count >= 1, base in (0, 1) and spread >= 0, "
            f"got count {count}, base {base}, spread {spread}"
        )
    return (base ** (1.0 + spread * np.arange(count) / max(count - 1, 1))).astype(np.float32)
