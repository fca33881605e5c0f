"""V-RACER with an LSTM, for partially observable tasks (Section 5.4).

The LSTM reads the window of the last W states of the episode, up to the current one, starting from h = c = 0; early in
an episode the window is shorter. The loss is that of the window's last step, and its gradient passes through the whole
window. The policy that acts is the same function of the same window, so a ratio is 1 as long as the weights have not
changed.

The paper gives the window of back-propagation, 16 steps. That a window begins with zeros, in acting too, is assumed:
so does the authors' released code, whose windows have 16 steps before the current one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from repro.networks import lstm
from repro.papers.refer.fused import PolicyOutput
from repro.papers.refer.vracer import VRacer, VRacerSettings
from repro.replay.refer import ReferMemory


class WindowBatch(NamedTuple):
    """Sampled steps, as in `Minibatch` except for the state.

    state: states of the window that ends with the sampled step, [B, W, S], not standardised; only the last `length`
        are read.
    length: number of states in the window, int32 [B].
    """

    state: np.ndarray
    length: np.ndarray
    action: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    q_ret: np.ndarray
    v_tbc: np.ndarray


class RecurrentVRacer(VRacer):
    """`VRacer` with LSTM layers, whose widths are the `units` of the settings.

    Acting advances W windows side by side, one begun at each of the last W steps, and reads the oldest, so that each
    environment step costs one step of the LSTM. Windows begun before a sync of the weights continue with the new ones.

    Attributes:
        window: W.

    Args:
        state_size: S.
        action_size: A.
        settings: see `VRacerSettings`.
        rng: source of the initial weights.
        steps_per_call: K, the number of gradient steps in one call of `train`.
        compile_with_xla: whether `train` is compiled with XLA.
        window: W, 1 or more.
    """

    FIELDS = WindowBatch._fields

    def __init__(
        self,
        state_size: int,
        action_size: int,
        settings: VRacerSettings,
        rng: np.random.Generator,
        steps_per_call: int,
        compile_with_xla: bool,
        window: int,
    ) -> None:
        super().__init__(state_size, action_size, settings, rng, steps_per_call, compile_with_xla)
        self.window = window
        self.begin_episode()

    def forward(self, state: tf.Tensor, length: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """V(s) [B], the policy's mean [B, A] and the coefficients of the advantage at the last step of each window.

        Args:
            state: states of the windows, [B, W, S].
            length: number of states in each window, the last ones, int32 [B]; None: all W.
        """
        if length is None:
            length = tf.fill([len(state)], self.window)
        return self._outputs(self._network.parts(self.weights), {"state": state, "length": length})

    def gather(self, memory: ReferMemory, indices: np.ndarray) -> WindowBatch:
        """Reads the windows of sampled steps, and the other fields of the loss, from the memory."""
        batch, windows = memory.gather(indices), memory.gather_windows(indices, self.window)
        rest = (getattr(batch, name) for name in self.FIELDS[2:])
        return WindowBatch(windows.states, windows.lengths, *rest)

    def begin_episode(self) -> None:
        """Resets the windows for the first state of an episode."""
        self._lstm_state = lstm.zero_state(self._acting, self.window)
        self._acted = 0  # number of steps in the episode

    def act(self, state: np.ndarray) -> PolicyOutput:
        """Value, policy and coefficients at the episode's next state, float32 [S], with the acting weights."""
        newest, oldest = self._acted % self.window, max(0, self._acted + 1 - self.window) % self.window
        for hc in self._lstm_state:
            hc[:, newest] = 0.0
        lstm.advance_numpy(self._acting, self._standardise_numpy(state), self._lstm_state)
        outputs = lstm.outputs_numpy(self._acting, self._lstm_state, oldest)
        self._acted += 1
        return self._policy_output(outputs)

    def last_values(self, memory: ReferMemory, indices: np.ndarray) -> np.ndarray:
        """V(s_T) [n] of episodes that a time limit cut; see `FusedAgent.last_values`."""
        windows, values = memory.gather_windows(indices, self.window), []
        for states, length, last in zip(windows.states, windows.lengths, memory.last_states(indices)):
            lstm_state = lstm.zero_state(self._acting, 1)
            for state in [*states[self.window - length :], last][-self.window :]:
                lstm.advance_numpy(self._acting, self._standardise_numpy(state), lstm_state)
            values.append(lstm.outputs_numpy(self._acting, lstm_state, 0)[0])
        return np.array(values, np.float32)

    def get_acting_state(self) -> dict[str, np.ndarray]:
        layers = {f"layer_{i}": hc.copy() for i, hc in enumerate(self._lstm_state)}
        return {"acted": np.array(self._acted)} | layers

    def set_acting_state(self, state: dict[str, np.ndarray]) -> None:
        self._acted = int(state["acted"])
        self._lstm_state = [np.array(state[f"layer_{i}"]) for i in range(len(self._lstm_state))]

    def _init_network(self, rng: np.random.Generator, state_size: int, outputs: int) -> list[np.ndarray]:
        settings = self._settings
        scales = settings.hidden_scale, settings.output_scale
        return lstm.init_lstm(rng, state_size, settings.units, outputs, *scales)

    def _apply_network(self, weights: list[tf.Tensor], batch: dict[str, tf.Tensor]) -> tf.Tensor:
        return lstm.apply_lstm(weights, self._standardise(batch["state"]), batch["length"])
