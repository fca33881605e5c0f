"""Policy logits and a value from one torso, with or without a recurrent core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tf_agents.trajectories import StepType

from repro.networks.initializers import TruncatedNormalFanIn, distinct_seeds
from repro.networks.instruction_encoder import InstructionEncoder
from repro.networks.recurrent import ResettingLSTM, beside_last_step
from repro.networks.sequence_network import SequenceNetwork, State, fold_time, unfold_time


class ActorCritic(SequenceNetwork):
    """IMPALA's network (Figure 4): torso, optional LSTM core, linear policy and value heads.

    Torso and heads see time folded into the batch; only the core runs over time (Section 3.1). The core's input is
    the torso's output concatenated with the one-hot last action, the last reward clipped to [-1, 1] and, in levels
    with a language channel, the encoded instruction.

    Args:
        torso: a Keras layer from uint8 [N, H, W, C] to float32 [N, F].
        num_actions: A, width of the policy head.
        core_units: width of the LSTM; None for a feed-forward network.
        instruction_encoder: encoder whose output is an input of the core; None: the network reads no instructions.
        seed: integer >= 0 from which the weights of core and heads are sampled (torso and encoder have their own).

    Raises:
        ValueError: there is an encoder but no core.
    """

    def __init__(
        self,
        torso: tf.keras.layers.Layer,
        num_actions: int,
        core_units: int | None = None,
        instruction_encoder: InstructionEncoder | None = None,
        *,
        seed: int,
    ) -> None:
        if core_units is None and instruction_encoder is not None:
            raise ValueError(
                "ActorCritic: instructions need a recurrent core, and there is none: set network.core_units above 0."
            )
        super().__init__(name="actor_critic")
        self._num_actions = num_actions
        seeds = distinct_seeds(seed)
        self._torso = torso
        self._policy_head = tf.keras.layers.Dense(
            num_actions, kernel_initializer=TruncatedNormalFanIn(next(seeds)), name="policy"
        )
        self._value_head = tf.keras.layers.Dense(1, kernel_initializer=TruncatedNormalFanIn(next(seeds)), name="value")
        self._instruction_encoder = instruction_encoder
        words = {"instruction"} if instruction_encoder is not None else set()
        self._read = frozenset({"frame", "last_action", "last_reward"} | words)
        self._core = None if core_units is None else ResettingLSTM(core_units, next(seeds))

    def check_entries(self, observation: Any) -> None:
        """Checks that an observation is a dict with exactly the entries read, or without a core no dict.

        Raises:
            ValueError: it is not.
        """
        entries = set(observation) if isinstance(observation, Mapping) else set()
        if bool(entries) != (self._core is not None) or (entries and not self._read <= entries):
            raise ValueError(
                f"ActorCritic: a recurrent core reads {{{', '.join(sorted(self._read))}}}, a feed-forward network only "
                "the frame: set env.last_action_and_reward=True if network.core_units is above 0, else False."
            )
        if unread := entries - self._read:
            raise ValueError(
                f"ActorCritic: the network does not read {', '.join(sorted(unread))}: leave it out of the observations."
            )

    def call(self, observation: Any, step_type: tf.Tensor, state: State = ()) -> tuple[tf.Tensor, tf.Tensor, State]:
        """Policy and value of every observation of an unroll.

        Args:
            observation: uint8 [B, T, H, W, C]; with a core a dict {"frame": uint8 [B, T, H, W, C],
                "last_action": int32 [B, T], "last_reward": float32 [B, T]}, where last action and reward are
                those that led to the frame. With an encoder also "instruction", int32 [B, T, L].
            step_type: int32 [B, T], TF-Agents' `StepType`; the core's state is zeroed before each FIRST step.
                Not read without a core.
            state: core state before the first step, as returned by `initial_state`.

        Returns:
            logits: float32 [B, T, A].
            value: float32 [B, T].
            state: core state after the last step.

        Raises:
            ValueError: the observation is a dict without a core, a tensor with one, or a dict with other entries; or,
                with a core, T is not known statically.
        """
        self.check_entries(observation)
        frames = observation["frame"] if self._core is not None else observation  # [B, T, H, W, C]
        features = self._torso(fold_time(frames))  # [B T, F]
        if self._core is not None:
            last_reward = tf.clip_by_value(observation["last_reward"], -1.0, 1.0)
            features = unfold_time(features, frames)  # [B, T, F]
            core_input = beside_last_step(features, observation["last_action"], last_reward, self._num_actions)
            if self._instruction_encoder is not None:
                encoded = self._instruction_encoder(observation["instruction"])  # [B, T, units]
                core_input = tf.concat([core_input, encoded], axis=-1)
            outputs, state = self._core(core_input, step_type == StepType.FIRST, state)
            features = fold_time(outputs)  # [B T, units]
        logits = unfold_time(self._policy_head(features), frames)
        value = tf.squeeze(unfold_time(self._value_head(features), frames), axis=-1)
        return logits, value, state
