"""What the agents share: weights in flat vectors, standardised states, several gradient steps in one compiled call.

All weights of a network lie in one vector, so that a call handles few variables and Adam is one operation over it.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from repro.memory import as_tensor
from repro.quiet import suppress_stderr
from repro.replay.refer import EPSILON, ReferMemory


class PolicyOutput(NamedTuple):
    """Output at one state: V(s), the policy's mean [A] and standard deviation [A], and the coefficients of the action
    advantage, empty for agents without one.
    """

    value: float
    mean: np.ndarray
    std: np.ndarray
    coefficients: np.ndarray


NO_COEFFICIENTS = np.zeros(0, np.float32)
"""Coefficients of agents that fit no advantage."""


class UpdateOutput(NamedTuple):
    """Outputs of gradient steps at the sampled steps, from the network before the gradient step each was sampled for.

    rho: ratio of the policy's density to the behaviour's, [B], or [K B] from `train`.
    value: V(s), likewise.
    advantage: A(s, a), likewise; 0 for agents without one.
    td_error: temporal-difference error, by which prioritised replay ranks, likewise.
    means: means over the batch in the order of `NAMES`, [len(NAMES)]; from `train` by name.
    """

    rho: Any
    value: Any
    advantage: Any
    td_error: Any
    means: Any


class FlatWeights:
    """Arrays of any shapes in one variable.

    Args:
        arrays: their initial values, float32.
        name: of the variable.
    """

    def __init__(self, arrays: Sequence[np.ndarray], name: str) -> None:
        self._shapes = [array.shape for array in arrays]
        self._sizes = [array.size for array in arrays]
        self.variable = tf.Variable(np.concatenate([array.ravel() for array in arrays]), name=name)

    def parts(self, vector: tf.Tensor) -> list[tf.Tensor]:
        """A vector like the variable, cut into arrays."""
        return [tf.reshape(part, shape) for part, shape in zip(tf.split(vector, self._sizes), self._shapes)]

    def matrix_mask(self) -> np.ndarray:
        """1 for the entries of matrices, 0 for those of biases, float32, as long as the variable."""
        return np.repeat([float(len(shape) > 1) for shape in self._shapes], self._sizes).astype(np.float32)

    def numpy(self) -> list[np.ndarray]:
        """The variable, cut into arrays."""
        parts = np.split(self.variable.numpy(), np.cumsum(self._sizes)[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes)]


def flatten(arrays: Sequence[tf.Tensor]) -> tf.Tensor:
    """The vector of which `FlatWeights.parts` gives these arrays."""
    return tf.concat([tf.reshape(array, [-1]) for array in arrays], axis=0)


class FusedAgent(abc.ABC):
    """Acts in NumPy, learns in compiled calls of K gradient steps.

    Attributes:
        NAMES: of the scalars that `train` returns.
        FIELDS: of the minibatch that a gradient step reads.
        num_coefficients: of the action advantage, 0 for agents without one.
        weights: of the network that gives the policy.
        state_mean, state_std: [S], by which states are standardised.

    Args:
        state_size: S.
        action_size: A.
        steps_per_call: K, gradient steps in one call of `train`.
        compile_with_xla: whether `train` is compiled with XLA.
    """

    NAMES: ClassVar[tuple[str, ...]]
    FIELDS: ClassVar[tuple[str, ...]]
    weights: tf.Variable
    num_coefficients = 0

    def __init__(self, state_size: int, action_size: int, steps_per_call: int, compile_with_xla: bool) -> None:
        self.action_size = action_size
        self.steps_per_call = steps_per_call
        self.state_mean = tf.Variable(tf.zeros(state_size), trainable=False)
        self.state_std = tf.Variable(tf.ones(state_size), trainable=False)
        self._train: Callable[..., Any] = tf.function(self._steps, jit_compile=compile_with_xla, autograph=False)
        self._compiled = False
        self.sync_normalizer()

    @abc.abstractmethod
    def checkpoint(self) -> tf.train.Checkpoint:
        """Everything of the agent that a checkpoint keeps."""

    @abc.abstractmethod
    def forward(self, state: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """V(s) [B], the policy's mean [B, A], and what else the network says, of states [B, S]."""

    @abc.abstractmethod
    def sync_acting_weights(self) -> None:
        """Copies the current weights to those that `act` reads."""

    @abc.abstractmethod
    def act(self, state: np.ndarray) -> PolicyOutput:
        """Value, policy and coefficients at one state, float32 [S], with the acting weights."""

    def advantages(
        self, coefficients: np.ndarray, actions: np.ndarray, means: np.ndarray, stds: np.ndarray
    ) -> np.ndarray:
        """A(s_t, a_t) of the steps of an episode, with what acting said at each; 0 for agents without an advantage.

        Args:
            coefficients: [T, num_coefficients].
            actions: [T, A] that were taken.
            means, stds: [T, A] of the policy.

        Returns:
            float32 [T].
        """
        return np.zeros(len(actions), np.float32)

    def last_values(self, memory: ReferMemory, indices: np.ndarray) -> np.ndarray:
        """V(s_T) [n] of episodes that a time limit cut, with the acting weights.

        Args:
            memory: holds the episodes.
            indices: int64 [n] of their last steps, n at least 1.
        """
        return np.array([self.act(state).value for state in memory.last_states(indices)], np.float32)

    def begin_episode(self) -> None:  # noqa: B027 (nothing to do for an agent without memory)
        """The next state to act on is the first of an episode; for agents that remember earlier ones."""

    def get_acting_state(self) -> dict[str, np.ndarray]:
        """What an agent remembers of the episode that is being played."""
        return {}

    def set_acting_state(self, state: dict[str, np.ndarray]) -> None:  # noqa: B027 (likewise)
        """Takes over what `get_acting_state` returned."""

    def gather(self, memory: ReferMemory, indices: np.ndarray) -> NamedTuple:
        """The fields of `FIELDS` of sampled steps, [K B, ...]."""
        return memory.gather(indices)

    @abc.abstractmethod
    def gradient_step(self, scalars: tf.Tensor, batch: dict[str, tf.Tensor]) -> UpdateOutput:
        """One gradient step, as `train` compiles K of them.

        Args:
            scalars: beta, c_max and learning rate, [3].
            batch: `FIELDS` of the sampled steps, [B, ...], and `weight`, which multiplies the samples' losses, [B].
        """

    def set_state_statistics(self, mean: np.ndarray, std: np.ndarray) -> None:
        """Standardises states from now on (Appendix B), in learning and in acting."""
        self.state_mean.assign(mean)
        self.state_std.assign(std)
        self.sync_normalizer()

    def sync_normalizer(self) -> None:
        """Acting standardises as learning does from now on; for after a checkpoint was restored."""
        self._offset = self.state_mean.numpy()
        self._divisor = self.state_std.numpy() + np.float32(EPSILON)

    def train(
        self,
        batch: NamedTuple,
        beta: np.ndarray,
        c_max: np.ndarray,
        learning_rate: np.ndarray,
        weight: np.ndarray | None = None,
    ) -> UpdateOutput:
        """K gradient steps, each on its own part of the batch.

        Args:
            batch: has `FIELDS`, [K B, ...], the first B steps of the memory for the first gradient step, and so on.
            beta, c_max, learning_rate: of each gradient step, [K].
            weight: importance weights of prioritised samples, in (0, 1], [K B]; None for 1, as of uniform ones.

        Returns:
            rho, V(s), A(s, a) and the error of every sampled step, float32 [K B], and means of the losses and extras by
            name.
        """
        scalars = np.stack([beta, c_max, learning_rate], axis=1).astype(np.float32)  # [K, 3]
        parts = {name: getattr(batch, name) for name in self.FIELDS}
        parts["weight"] = np.ones(len(batch[0]), np.float32) if weight is None else weight
        shaped = {name: as_tensor(x.reshape(self.steps_per_call, -1, *x.shape[1:])) for name, x in parts.items()}
        with contextlib.nullcontext() if self._compiled else suppress_stderr():
            *steps, means = self._train(scalars, shaped)
        self._compiled = True
        rho, value, advantage, error = (x.numpy().ravel() for x in steps)
        return UpdateOutput(rho, value, advantage, error, dict(zip(self.NAMES, means.numpy().tolist())))

    def _steps(self, scalars: tf.Tensor, batches: dict[str, tf.Tensor]) -> UpdateOutput:
        shape = batches["state"].shape[1:2]
        arrays = [
            tf.TensorArray(tf.float32, self.steps_per_call, element_shape=shape) for _ in UpdateOutput._fields[:-1]
        ]

        def learn_next(k: tf.Tensor, arrays: list[tf.TensorArray], sums: tf.Tensor) -> tuple[Any, ...]:
            *steps, means = self.gradient_step(scalars[k], {name: x[k] for name, x in batches.items()})
            return k + 1, [array.write(k, x) for array, x in zip(arrays, steps)], sums + means

        start = 0, arrays, tf.zeros(len(self.NAMES))
        _, arrays, sums = tf.while_loop(lambda k, *_: k < self.steps_per_call, learn_next, start)
        rho, value, advantage, error = (array.stack() for array in arrays)
        return UpdateOutput(rho, value, advantage, error, sums / self.steps_per_call)

    def _standardise(self, state: tf.Tensor) -> tf.Tensor:
        return (state - self.state_mean) / (self.state_std + EPSILON)

    def _standardise_numpy(self, state: np.ndarray) -> np.ndarray:
        """As `_standardise`, for acting. The first layer cannot take it in: an input whose standard deviation is 0 is
        divided by 1e-7, and the difference of numbers near 1e7 that would be left of it has no correct digit in
        float32.
        """
        return (state - self._offset) / self._divisor
