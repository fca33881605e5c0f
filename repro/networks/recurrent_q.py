"""Action values from a torso, an LSTM and a dueling head: the network of R2D2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tf_agents.trajectories import StepType

from repro.networks.dueling import DuelingHead
from repro.networks.initializers import distinct_seeds
from repro.networks.recurrent import ResettingLSTM, beside_last_step
from repro.networks.sequence_network import SequenceNetwork, State, fold_time, unfold_time

READ = frozenset({"frame", "last_action", "last_reward"})
"""Entries that an observation must have."""


class RecurrentQ(SequenceNetwork):
    """R2D2's network (C-trace, Appendix E.1): torso, LSTM, dueling head.

    Torso and head see time folded into the batch. The LSTM's input is the torso's output concatenated with the one-hot
    last action and the last reward. The reward is not changed here: clipping it is up to the environment (not specified
    in any paper).

    Args:
        torso: a Keras layer from uint8 [N, H, W, C] to float32 [N, F].
        num_actions: A, width of the head.
        core_units: width of the LSTM; 512 in the paper.
        dueling_units: width of the head's two hidden layers; 512 in the paper.
        seed: integer >= 0 from which the weights of core and head are sampled (the torso has its own).
    """

    _core: ResettingLSTM

    def __init__(
        self, torso: tf.keras.layers.Layer, num_actions: int, core_units: int, dueling_units: int, *, seed: int
    ) -> None:
        super().__init__(name="recurrent_q")
        self._num_actions = num_actions
        seeds = distinct_seeds(seed)
        self._torso = torso
        self._head = DuelingHead(dueling_units, num_actions, next(seeds))
        self._core = ResettingLSTM(core_units, next(seeds))

    def check_entries(self, observation: Any) -> None:
        """Checks that an observation is a dict with exactly the entries `READ`.

        Raises:
            ValueError: it is not.
        """
        entries = set(observation) if isinstance(observation, Mapping) else set()
        if unread := entries - READ:
            raise ValueError(
                f"RecurrentQ: the network does not read {', '.join(sorted(unread))}: leave it out of the observations."
            )
        if entries != READ:
            raise ValueError(
                f"RecurrentQ: a recurrent core reads {{{', '.join(sorted(READ))}}}: set "
                "env.last_action_and_reward=True."
            )

    def call(self, observation: Any, step_type: tf.Tensor, state: State) -> tuple[tf.Tensor, State]:
        """Action values of every observation of a sequence.

        Args:
            observation: {"frame": uint8 [B, T, H, W, C], "last_action": int32 [B, T], "last_reward": float32
                [B, T]}, where last action and reward are those that led to the frame. T is known when the graph is
                traced.
            step_type: int32 [B, T], TF-Agents' `StepType`; the core's state is zeroed before each FIRST step.
            state: (h, c) before the first step, float32 [B, core_units] each.

        Returns:
            q: Q(x, .), float32 [B, T, A].
            state: (h, c) after the last step.

        Raises:
            ValueError: T is not known statically, or the observation is not a dict with exactly these entries.
        """
        self.check_entries(observation)
        frames = observation["frame"]  # [B, T, H, W, C]
        features = unfold_time(self._torso(fold_time(frames)), frames)  # [B, T, F]
        last_action, last_reward = observation["last_action"], observation["last_reward"]
        core_input = beside_last_step(features, last_action, last_reward, self._num_actions)
        outputs, state = self._core(core_input, step_type == StepType.FIRST, state)  # [B, T, units]
        return unfold_time(self._head(fold_time(outputs)), frames), state
