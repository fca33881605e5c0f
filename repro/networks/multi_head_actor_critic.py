"""Several policies and values from one torso."""

from __future__ import annotations

import tensorflow as tf

from repro.networks.initializers import TruncatedNormalFanIn, distinct_seeds
from repro.networks.sequence_network import SequenceNetwork, fold_time, unfold_time

ACTING = ("first", "random", "average")


class MultiHeadActorCritic(SequenceNetwork):
    """STACX's network (Figure 1, Table 2): a torso, and P heads with a policy and a value each.

    A policy or value is a hidden layer of ReLUs and a linear one. Acting can be left to

    - `first`, the first head (Section 3.2);
    - `random`, a head that the policy chooses (Section 9.3);
    - `average`, one more policy whose logits are the mean of the P heads' (Section 9.3). It has no parameters of its
      own but those of its value, and is the last of the P + 1 heads that the network then returns.

    Args:
        torso: a Keras layer from one observation's batch [N, ...] to float32 [N, F].
        num_actions: A, width of a policy.
        num_heads: P, at least 1.
        head_units: of the hidden layers.
        acting: see above.
        seed: integer >= 0 from which the weights of the heads are sampled (the torso has its own).

    Attributes:
        num_heads, acting: as above.
        acting_heads: which of the returned heads act.

    Raises:
        ValueError: unknown `acting`, or no head.
    """

    def __init__(
        self,
        torso: tf.keras.layers.Layer,
        num_actions: int,
        *,
        num_heads: int,
        head_units: int,
        acting: str = "first",
        seed: int,
    ) -> None:
        super().__init__(num_actions, "multi_head_actor_critic")
        if acting not in ACTING or num_heads < 1:
            raise ValueError(
                f"MultiHeadActorCritic: needs a head or more, and acting one of {', '.join(ACTING)}; "
                f"got num_heads={num_heads}, acting={acting!r}."
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
        self._policies = [head(f"policy_{i}", num_actions) for i in range(1, num_heads + 1)]
        self._values = [head(f"value_{i}", 1) for i in range(1, num_heads + (acting == "average") + 1)]

    def call(
        self, observation: tf.Tensor, step_type: tf.Tensor, state: tuple[()] = ()
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tuple[()]]:
        """Policies and values of every observation of an unroll.

        Args:
            observation: [B, T, ...].
            step_type: int32 [B, T]; not read.
            state: ().

        Returns:
            acting_logits: of the heads that act, float32 [B, T, 1, A], or [B, T, P, A] for `random`.
            logits: of every head, float32 [B, T, P, A].
            values: of every head, float32 [B, T, P].
            state: ().
        """
        features = self._torso(fold_time(observation))  # [B T, F]
        policies = [unfold_time(head(features), observation) for head in self._policies]  # P of [B, T, A]
        if self.acting == "average":
            policies.append(tf.add_n(policies) / len(policies))
        logits = tf.stack(policies, axis=2)
        values = tf.concat([unfold_time(head(features), observation) for head in self._values], axis=-1)
        acting_logits = logits[:, :, self.acting_heads]
        return acting_logits, logits, values, ()
