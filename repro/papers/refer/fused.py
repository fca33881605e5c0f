"""Base class of the agents: weights in flat vectors, standardised states, several gradient steps in a compiled call.

All weights of a network are in one vector, so that a call handles few variables and Adam is one operation.
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
    """Output at one state.

    value: V(s).
    mean, std: mean and std of the policy, [A] each.
    coefficients: coefficients of the action advantage; empty for agents without one.
    """

    value: float
    mean: np.ndarray
    std: np.ndarray
    coefficients: np.ndarray


NO_COEFFICIENTS = np.zeros(0, np.float32)
"""Coefficients of agents without an advantage."""


class UpdateOutput(NamedTuple):
    """Outputs at the sampled steps, from the network before the gradient step that each was sampled for.

    rho: ratio of the policy's density to the behaviour's, [B], or [K B] from `train`.
    value: V(s), in the same shape.
    advantage: A(s, a), in the same shape; 0 for agents without one.
    td_error: temporal-difference error, by which prioritised replay ranks steps, in the same shape.
    means: means over the batch in the order of `NAMES`, [len(NAMES)]; from `train` a dict by name.
    """

    rho: Any
    value: Any
    advantage: Any
    td_error: Any
    means: Any


def divisors(std: np.ndarray) -> np.ndarray:
    """Returns what standardised states are divided by: their stds [S], and 1 for inputs that have not varied.

    An input that first varies after its std was taken would otherwise be divided by `EPSILON` alone, as Appendix B
    prints it, and hide all others behind numbers of 1e7 and more. The authors' code divides it by 1, too.
    """
    return np.where(std < EPSILON, 1.0, std)


class FlatWeights:
    """Arrays of any shapes, stored in one variable.

    Args:
        arrays: initial values of the arrays, float32.
        name: name of the variable.
    """

    def __init__(self, arrays: Sequence[np.ndarray], name: str) -> None:
        self._shapes = [array.shape for array in arrays]
        self._sizes = [array.size for array in arrays]
        self.variable = tf.Variable(np.concatenate([array.ravel() for array in arrays]), name=name)

    def parts(self, vector: tf.Tensor) -> list[tf.Tensor]:
        """Splits a vector of the variable's length into arrays."""
        return [tf.reshape(part, shape) for part, shape in zip(tf.split(vector, self._sizes), self._shapes)]

    def matrix_mask(self) -> np.ndarray:
        """Returns 1 at the entries of matrices and 0 at those of biases, float32, in the variable's shape."""
        return np.repeat([float(len(shape) > 1) for shape in self._shapes], self._sizes).astype(np.float32)

    def numpy(self) -> list[np.ndarray]:
        """Returns the variable's values, split into arrays."""
        parts = np.split(self.variable.numpy(), np.cumsum(self._sizes)[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes)]


def flatten(arrays: Sequence[tf.Tensor]) -> tf.Tensor:
    """Concatenates arrays to a vector, the inverse of `FlatWeights.parts`."""
    return tf.concat([tf.reshape(array, [-1]) for array in arrays], axis=0)


class FusedAgent(abc.ABC):
    """Acts in NumPy, learns in compiled calls of K gradient steps.

    Attributes:
        NAMES: names of the scalars that `train` returns.
        FIELDS: fields of the minibatch that a gradient step reads.
        num_coefficients: number of coefficients of the action advantage; 0 for agents without one.
        weights: weights of the network that computes the policy, in one vector.
        state_mean, state_std: mean and std by which states are standardised, [S] each.

    Args:
        state_size: S.
        action_size: A.
        steps_per_call: K, the number of gradient steps in one call of `train`.
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
        """Returns all state of the agent that a checkpoint saves."""

    @abc.abstractmethod
    def forward(self, state: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """V(s) [B], the policy's mean [B, A] and any further outputs of the network, for states [B, S]."""

    @abc.abstractmethod
    def sync_acting_weights(self) -> None:
        """Copies the current weights to those that `act` reads."""

    @abc.abstractmethod
    def act(self, state: np.ndarray) -> PolicyOutput:
        """Value, policy and coefficients at one state, float32 [S], with the acting weights."""

    def advantages(
        self, coefficients: np.ndarray, actions: np.ndarray, means: np.ndarray, stds: np.ndarray
    ) -> np.ndarray:
        """A(s_t, a_t) of the steps of an episode; 0 for agents without an advantage.

        Args:
            coefficients: outputs of acting at each step, [T, num_coefficients].
            actions: actions taken, [T, A].
            means, stds: mean and std of the policy that acted, [T, A].

        Returns:
            float32 [T].
        """
        return np.zeros(len(actions), np.float32)

    def last_values(self, memory: ReferMemory, indices: np.ndarray) -> np.ndarray:
        """V(s_T) [n] of episodes that a time limit cut, with the acting weights.

        Args:
            memory: memory that holds the episodes.
            indices: serial numbers of their last steps, int64 [n], n at least 1.
        """
        return np.array([self.act(state).value for state in memory.last_states(indices)], np.float32)

    def begin_episode(self) -> None:  # noqa: B027 (nothing to do for an agent without memory)
        """Prepares for the first state of an episode; for agents that remember earlier states."""

    def get_acting_state(self) -> dict[str, np.ndarray]:
        """Returns what the agent remembers of the open episode."""
        return {}

    def set_acting_state(self, state: dict[str, np.ndarray]) -> None:  # noqa: B027 (likewise)
        """Restores a state that `get_acting_state` returned."""

    def gather(self, memory: ReferMemory, indices: np.ndarray) -> NamedTuple:
        """Reads the fields `FIELDS` of sampled steps, [K B, ...], from the memory."""
        return memory.gather(indices)

    @abc.abstractmethod
    def gradient_step(self, scalars: tf.Tensor, batch: dict[str, tf.Tensor]) -> UpdateOutput:
        """Makes one gradient step; `train` compiles K of them.

        Args:
            scalars: beta, c_max and learning rate, [3].
            batch: `FIELDS` of the sampled steps, [B, ...], and `weight`, which multiplies the samples' losses, [B].
        """

    def set_state_statistics(self, mean: np.ndarray, std: np.ndarray) -> None:
        """Sets the mean and std, [S] each, by which learning and acting standardise states (Appendix B)."""
        self.state_mean.assign(mean)
        self.state_std.assign(divisors(std))
        self.sync_normalizer()

    def sync_normalizer(self) -> None:
        """Copies the statistics of states from learning to acting; call it after restoring a checkpoint."""
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
        """Makes K gradient steps, each on its own part of the batch.

        Args:
            batch: sampled steps with `FIELDS`, [K B, ...]; the first B are for the first gradient step, and so on.
            beta, c_max, learning_rate: values for each gradient step, [K].
            weight: importance weights of prioritised samples, in (0, 1], [K B]; None for uniform samples, whose weights
                are 1.

        Returns:
            rho, V(s), A(s, a) and the TD error of every sampled step, float32 [K B], and means of the losses and extras
            by name.
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
        """`_standardise` in NumPy, for acting.

        The first layer cannot absorb it: of an input whose std is far below its mean, the difference of two large
        numbers would remain, which has few correct digits in float32.
        """
        return (state - self._offset) / self._divisor
