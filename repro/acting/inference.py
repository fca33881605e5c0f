"""Inference for actors: by a policy of their own, or by a shared one that answers all waiting actors in one call."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
from tf_agents.policies import tf_policy

from repro.acting.rollout import CompiledPolicy, compile_act
from repro.acting.weights import Published, WeightsSnapshot, compile_assign
from repro.aligned import concatenated


class Inference(Protocol):
    """What an actor needs of its inference, which is an `Act` itself.

    version: version of the weights at the last `sync`; -1 before.
    acting: the learner's variables at that version (`WeightsSnapshot.acting`).
    """

    version: int
    acting: tuple[tf.Tensor, ...]

    def sync(self) -> None:
        """Takes the latest published weights."""

    def take_weights(self, other: Any) -> None:
        """Takes over the weights of another inference of the same kind, which this one replaces."""

    def reseed(self, seed: int) -> None:
        """Samples with another seed from now on; to be called before the first call."""

    def __call__(self, observation: Any, step_type: np.ndarray) -> tuple[np.ndarray, Any]: ...
    def get_state(self) -> dict[str, Any]: ...
    def set_state(self, state: dict[str, Any]) -> None: ...


class LocalInference(CompiledPolicy):
    """A policy of one actor's own, whose variables are overwritten with the published weights.

    Args:
        policy: local copy of the policy.
        weights: where the learner publishes its weights.
        num_envs: N.
        seed: seed of its sampling.
    """

    def __init__(self, policy: tf_policy.TFPolicy, weights: Published, num_envs: int, seed: int) -> None:
        super().__init__(policy, num_envs, seed)
        self._variables = policy.variables()
        self._assign = compile_assign(self._variables)
        self._weights = weights
        self._taken: WeightsSnapshot | None = None
        self.version = -1
        self.acting: tuple[tf.Tensor, ...] = ()

    def sync(self) -> None:
        """Takes the latest published weights, if any, even if another learner published them under the same version.

        Raises:
            ValueError: the number of published variables is not that of the policy.
        """
        latest = self._weights.latest
        if latest is not self._taken and latest.version >= 0:
            self._assign(latest.values)
            self._taken, self.version, self.acting = latest, latest.version, latest.acting

    def take_weights(self, other: LocalInference) -> None:
        self._assign([variable.read_value() for variable in other._variables])
        self._taken, self.version, self.acting = other._taken, other.version, other.acting

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._taken, self.version = None, -1


class DynamicBatching:
    """One policy for many actors: while it answers some of them, others gather, and the next call answers all of these.

    A call never waits for more actors. Its number of rows is a power of two, or that of all actors together, filled up
    with copies of the last row; each such size is traced once. Before each call the policy takes the latest published
    weights, so that they may change within an unroll. Which actors share a call depends on timing, so that runs are not
    reproducible bit for bit.

    Args:
        policy: policy with variables of its own.
        weights: where the learner publishes its weights.
        max_rows: largest number of rows of a call, those of all actors together.
        seed: seed of its sampling.
    """

    def __init__(self, policy: tf_policy.TFPolicy, weights: Published, max_rows: int, seed: int) -> None:
        self.weights = weights
        self._policy = policy
        self._assign = compile_assign(policy.variables())
        self._taken: WeightsSnapshot | None = None
        self._max_rows = max_rows
        self._seed = np.array([seed, 0], np.int32)  # [seed, number of the call]
        self._compiled: dict[int, Any] = {}  # by number of rows
        self._waiting: list[_Request] = []
        self._busy = False
        self._changed = threading.Condition()

    @property
    def calls(self) -> int:
        """Number of calls so far, in the whole run; each call samples with its own number."""
        return int(self._seed[1])

    @property
    def seed(self) -> int:
        """Present seed of the sampling."""
        return int(self._seed[0])

    def reseed(self, seed: int) -> None:
        """Samples with another seed from now on; if several actors set one, the last one counts."""
        self._seed[:] = seed, 0

    def go_on_behind(self, seed: int, calls: int) -> None:
        """Samples with a seed, and numbers the next call at least `calls`, to continue a process that was stopped."""
        self._seed[:] = seed, max(self._seed[1], calls)

    def initial_state(self, num_envs: int) -> Any:
        """Returns the policy's initial state, [num_envs, ...]."""
        return self._policy.get_initial_state(num_envs)

    def answer(self, observation: Any, step_type: np.ndarray, policy_state: Any) -> Any:
        """Returns the policy's step for the rows of one actor: a nest of NumPy arrays [N, ...].

        The calling thread answers all waiting actors, unless another thread is already at it.

        Raises:
            Exception: any error of the call with this actor's rows.
        """
        request = _Request((observation, step_type, policy_state), len(step_type))
        with self._changed:
            self._waiting.append(request)
            while self._busy and not request.answered:
                self._changed.wait()
            if request.answered:
                return request.take()
            self._busy = True
            requests, self._waiting = self._waiting, []
        try:
            self._answer(requests)
        except Exception as error:  # an error of all actors in the call
            for other in requests:
                other.error = error
        finally:
            with self._changed:
                for other in requests:
                    other.answered = True
                self._busy = False
                self._changed.notify_all()
        return request.take()

    def _answer(self, requests: Sequence[_Request]) -> None:
        latest = self.weights.latest
        if latest is not self._taken:
            self._assign(latest.values)
            self._taken = latest
        rows = sum(request.rows for request in requests)
        size = min(1 << (rows - 1).bit_length(), max(self._max_rows, rows))
        stacked = tf.nest.map_structure(
            lambda *parts: _filled_up([np.asarray(part) for part in parts], size),
            *[request.inputs for request in requests],
        )
        if size not in self._compiled:
            self._compiled[size] = compile_act(self._policy, size)
        step = self._compiled[size](*stacked, self._seed)
        self._seed[1] += 1
        answer = step._replace(state=tf.nest.map_structure(lambda x: x.numpy(), step.state))
        begin = 0
        for request in requests:
            part = slice(begin, begin := begin + request.rows)
            request.answer = tf.nest.map_structure(lambda x: x[part], answer)  # noqa: B023 - called at once


class _Request:
    """Rows of one actor that wait for an answer."""

    def __init__(self, inputs: Any, rows: int) -> None:
        self.inputs, self.rows = inputs, rows
        self.answer: Any = None
        self.error: Exception | None = None
        self.answered = False

    def take(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.answer


class SharedInference:
    """One actor's side of `DynamicBatching`.

    Args:
        batching: the policy that the actors share.
        num_envs: N, the number of this actor's environments.
    """

    def __init__(self, batching: DynamicBatching, num_envs: int) -> None:
        self._batching = batching
        self._state = batching.initial_state(num_envs)
        self.version = -1
        self.acting: tuple[tf.Tensor, ...] = ()

    def sync(self) -> None:
        """Notes the latest version: no call of the next unroll is answered with older weights."""
        latest = self._batching.weights.latest
        self.version, self.acting = latest.version, latest.acting

    def take_weights(self, other: SharedInference) -> None:
        self.version, self.acting = other.version, other.acting

    def reseed(self, seed: int) -> None:
        """Changes the seed for all actors that share the policy."""
        self._batching.reseed(seed)

    def __call__(self, observation: Any, step_type: np.ndarray) -> tuple[np.ndarray, Any]:
        """Actions [N, ...] and the policy's info, as NumPy arrays."""
        step = self._batching.answer(observation, step_type, self._state)
        self._state = step.state
        return step.action, step.info

    def get_state(self) -> dict[str, Any]:
        """Returns the policy's state of this actor's games, and the seed and calls that all actors share."""
        state = {str(i): np.asarray(x) for i, x in enumerate(tf.nest.flatten(self._state))}
        return {"policy_state": state, "seed": self._batching.seed, "calls": self._batching.calls}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continues where `get_state` was taken."""
        saved = state["policy_state"]
        self._state = tf.nest.pack_sequence_as(self._state, [saved[str(i)] for i in range(len(saved))])
        self._batching.go_on_behind(state.get("seed", self._batching.seed), state["calls"])  # older states have none
        self.version = -1


def _filled_up(parts: Sequence[np.ndarray], size: int) -> np.ndarray:
    """Joins the rows of all parts, [N_i, ...], and fills them up with copies of the last one, to [size, ...]."""
    missing = size - sum(map(len, parts))
    return concatenated([*parts, np.broadcast_to(parts[-1][-1:], (missing, *parts[-1].shape[1:]))])
