"""Base class of networks that take sequences, and helpers that fold time into the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from repro.networks.recurrent import ResettingLSTM

State = tuple[tf.Tensor, ...]


class SequenceNetwork(tf.keras.Model):
    """A Keras model called with observations [B, T, ...], step types int32 [B, T] and the core's state.

    Its last output is the core's state after the last step. Subclasses with a core set `_core`.
    """

    _core: ResettingLSTM | None  # only annotated: Keras does not track layers in attributes that the class defines

    def initial_state(self, batch_size: int | tf.Tensor) -> State:
        """The core's state before an episode: zeros, float32 [batch_size, units] each; () without a core."""
        core = getattr(self, "_core", None)
        return () if core is None else core.initial_state(batch_size)

    def check_entries(self, observation: Any) -> None:  # noqa: B027 - most take whatever their torso takes
        """Checks that an observation, or its spec, has the entries that the network reads.

        Raises:
            ValueError: it does not.
        """

    def build_variables(self, observation_spec: Any) -> None:
        """Creates every variable, under the caller's strategy scope if there is one.

        Args:
            observation_spec: nest of `tf.TensorSpec` for one observation, without batch and time.

        Raises:
            ValueError: as for `check_entries`.
        """
        self.check_entries(observation_spec)  # before Keras, which would add lines of its own to the message
        observation = tf.nest.map_structure(lambda spec: tf.zeros([1, 1, *spec.shape], spec.dtype), observation_spec)
        self(observation, tf.zeros([1, 1], tf.int32), self.initial_state(1))


def unroll_after_burn_in(
    network: SequenceNetwork, observation: Any, step_type: tf.Tensor, state: State, burn_in: int, **options: Any
) -> tuple[tf.Tensor, ...]:
    """Computes a network's outputs after a sequence's burn-in (Kapturowski et al., 2019, Section 3).

    The stored state is stale: the weights that computed it have changed since. The burn-in serves only to bring the
    core's state nearer to the one that the present weights would have reached.

    Args:
        network: a network with or without a core.
        observation: as the network takes it, over T steps.
        step_type: int32 [B, T].
        state: core state stored with the first step, float32 [B, units] each.
        burn_in: number of steps before the part to train on, 0 to T - 1; with 0 that part starts from `state`.
        options: further arguments of the network, for the part after the burn-in.

    Returns:
        Outputs of the steps from `burn_in` on, [B, T - burn_in, ...] each, without the core's final state. Gradients
        reach the network's variables from these steps only; none reaches `state` or passes through the burn-in.

    Raises:
        ValueError: `burn_in` is negative or leaves no step, or T is not known statically.
    """
    steps = step_type.shape[1]
    if steps is None:
        raise ValueError("unroll_after_burn_in: the number of steps is unknown: set it, as by tf.ensure_shape")
    if not 0 <= burn_in < steps:
        raise ValueError(f"unroll_after_burn_in: burn_in must lie in [0, {steps}), got {burn_in}")
    if burn_in > 0:
        before = tf.nest.map_structure(lambda x: x[:, :burn_in], observation)
        *_, state = network(before, step_type[:, :burn_in], state)
    after = tf.nest.map_structure(lambda x: x[:, burn_in:], observation)
    *outputs, _ = network(after, step_type[:, burn_in:], tf.nest.map_structure(tf.stop_gradient, state), **options)
    return tuple(outputs)


def fold_time(x: tf.Tensor) -> tf.Tensor:
    """Reshapes [B, T, ...] to [B T, ...]."""
    return tf.reshape(x, [-1, *x.shape[2:]])


def unfold_time(x: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Reshapes [B T, F] to [B, T, F], with B and T taken from `like`, [B, T, ...]."""
    return tf.reshape(x, tf.concat([tf.shape(like)[:2], x.shape[-1:]], axis=0))
