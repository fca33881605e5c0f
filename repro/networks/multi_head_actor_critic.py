"""Several policies and values from one torso."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tf_agents.trajectories import StepType

from repro.networks.initializers import TruncatedNormalFanIn, distinct_seeds
from repro.networks.recurrent import ResettingLSTM
from repro.networks.sequence_network import SequenceNetwork, State, fold_time, unfold_time

ACTING = ("first", "random", "average")
EMBEDDINGS = ("none", "shared", "separate")


class MultiHeadActorCritic(SequenceNetwork):
    """STACX's network (Figure 1, Table 2): a torso, an optional LSTM, and P heads with a policy and a value each.

    Each policy or value is a hidden layer of ReLUs and a linear one. Only the LSTM runs over time, and its only input
    is the features. The agent acts with one of

    - `first`, the first head (Section 3.2);
    - `random`, a head that the policy chooses (Section 9.3);
    - `average`, one more policy whose logits are the mean of the P heads' (Section 9.3). Its value is its only part
      with parameters, and it is the last of the P + 1 heads that the network then returns.

    With an embedding of gamma (Section 9.5; Xu et al., 2018, Section 1.4) policy and value of head i read the features
    and e_i, a linear function of the head's gamma:

        [x, e_i],    e_i = gamma_i w        (`shared`: one w for all heads)    or    gamma_i w_i        (`separate`)

    w is learned with the other weights; gamma is an input, to which no gradient flows. w begins as a normal truncated
    at two stds, std 1 (assumed: `TruncatedNormalFanIn` of one input).

    Args:
        torso: a Keras layer from one observation's batch [N, ...] to float32 [N, F].
        num_outputs: K, width of a policy head: a logit per action, or the parameters of another distribution.
        num_heads: P, at least 1.
        head_units: width of the heads' hidden layers.
        core_units: width of the LSTM; None for a feed-forward network.
        acting: `first`, `random` or `average`, see above.
        gamma_embedding: `none`, `shared` or `separate`, see above.
        gamma_embedding_units: E, the width of e_i.
        seed: integer >= 0 from which the weights of heads and core are sampled (the torso has its own).

    Attributes:
        num_heads, acting: as above.
        acting_heads: slice of the returned heads that act.
        gammas: gamma of every returned head, a float32 variable that is not trained, zeros at first; None without an
            embedding.

    Raises:
        ValueError: `acting` or `gamma_embedding` is unknown, or there is no head.
    """

    def __init__(
        self,
        torso: tf.keras.layers.Layer,
        num_outputs: int,
        *,
        num_heads: int,
        head_units: int,
        core_units: int | None = None,
        acting: str = "first",
        gamma_embedding: str = "none",
        gamma_embedding_units: int = 16,
        seed: int,
    ) -> None:
        super().__init__(name="multi_head_actor_critic")
        if acting not in ACTING or gamma_embedding not in EMBEDDINGS or num_heads < 1:
            raise ValueError(
                f"MultiHeadActorCritic: num_heads must be 1 or more, acting one of {', '.join(ACTING)}, and "
                f"gamma_embedding one of {', '.join(EMBEDDINGS)}, got num_heads={num_heads}, acting={acting!r}, "
                f"gamma_embedding={gamma_embedding!r}."
            )
        seeds = distinct_seeds(seed)
        self.num_heads = num_heads
        self.acting = acting
        self.acting_heads = {
            "first": slice(0, 1),
            "random": slice(0, num_heads),
            "average": slice(num_heads, num_heads + 1),
        }[acting]
        self._torso = torso

        def layer(name: str, width: int, activation: str | None = None) -> tf.keras.layers.Dense:
            return tf.keras.layers.Dense(
                width, activation, kernel_initializer=TruncatedNormalFanIn(next(seeds)), name=name
            )

        def head(name: str, width: int) -> tf.keras.Sequential:
            return tf.keras.Sequential([layer("hidden", head_units, "relu"), layer("output", width)], name=name)

        # TensorFlow sums the heads' gradients in the order of their names; Keras's own count all layers of a process.
        self._policies = [head(f"policy_{i}", num_outputs) for i in range(1, num_heads + 1)]
        self._values = [head(f"value_{i}", 1) for i in range(1, num_heads + (acting == "average") + 1)]
        self._core = None if core_units is None else ResettingLSTM(core_units, next(seeds))
        self.gammas: tf.Variable | None = None
        if gamma_embedding != "none":
            self.gammas = tf.Variable(tf.zeros([len(self._values)]), trainable=False, name="gammas")
            rows = 1 if gamma_embedding == "shared" else len(self._values)
            initial = [TruncatedNormalFanIn(next(seeds))([1, gamma_embedding_units]) for _ in range(rows)]
            self._embedding = tf.Variable(tf.concat(initial, axis=0), name="gamma_embedding")  # [1 or heads, E]

    def call(
        self, observation: Any, step_type: tf.Tensor, state: State = (), acting_alone: bool = False
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, State]:
        """Policies and values of every observation of an unroll.

        Args:
            observation: [B, T, ...].
            step_type: int32 [B, T], TF-Agents' `StepType`; the core's state is zeroed before each FIRST step. Not read
                without a core.
            state: core state before the first step, as returned by `initial_state`.
            acting_alone: whether to return outputs and values of only the heads that act; a graph then computes no
                others.

        Returns:
            acting_outputs: outputs of the policies that act, float32 [B, T, 1, K], or [B, T, P, K] for `random`.
            outputs: outputs of all policy heads, float32 [B, T, P, K], or [B, T, P + 1, K] for `average`.
            values: values of all heads, float32 [B, T, P], or [B, T, P + 1] for `average`.
            state: core state after the last step.

        Raises:
            ValueError: there is a core, and T is not known statically.
        """
        features = self._torso(fold_time(observation))  # [B T, F]
        if self._core is not None:
            core_input = unfold_time(features, observation)  # [B, T, F]
            core_output, state = self._core(core_input, step_type == StepType.FIRST, state)
            features = fold_time(core_output)  # [B T, units]
        inputs = self._head_inputs(features)
        policies = [unfold_time(head(x), observation) for head, x in zip(self._policies, inputs)]  # P of [B, T, K]
        if self.acting == "average":
            policies.append(tf.add_n(policies) / len(policies))
        values = [unfold_time(head(x), observation) for head, x in zip(self._values, inputs)]  # P of [B, T, 1]
        acting_outputs = tf.stack(policies[self.acting_heads], axis=2)
        heads = self.acting_heads if acting_alone else slice(None)
        return acting_outputs, tf.stack(policies[heads], axis=2), tf.concat(values[heads], axis=-1), state

    def _head_inputs(self, features: tf.Tensor) -> list[tf.Tensor]:
        """Returns what each head reads of features [N, F]: these alone, or with its embedding, [N, F + E]."""
        if self.gammas is None:
            return [features] * len(self._values)
        embedded = tf.unstack(self.gammas[:, tf.newaxis] * self._embedding)  # [E] for each head
        shape = [tf.shape(features)[0], self._embedding.shape[1]]
        return [tf.concat([features, tf.broadcast_to(one, shape)], axis=-1) for one in embedded]
