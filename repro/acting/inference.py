"""Who answers an actor's calls: a policy of its own, or one that answers all actors that wait in one call."""

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
    """What an actor needs of whoever answers its calls; calling it is an `Act`.

    version: of the weights at the last `sync`; -1 before.
    acting: the learner's variables at that version (`WeightsSnapshot.acting`).
    """

    version: int
    acting: tuple[tf.Tensor, ...]

    def sync(self) -> None:
        """Takes the latest published weights."""

    def take_weights(self, other: Any) -> None:
        """Takes the weights of another of the same kind, in whose place this one comes."""

    def reseed(self, seed: int) -> None:
        """Samples with another seed from now on; to be called before the first call."""

    def __call__(self, observation: Any, step_type: np.ndarray) -> tuple[np.ndarray, Any]: ...
    def get_state(self) -> dict[str, Any]: ...
    def set_state(self, state: dict[str, Any]) -> None: ...


class LocalInference(CompiledPolicy):
    """A policy of one actor's own, whose variables are overwritten with the published weights.

    Args:
        policy: local copy.
        weights: where the learner publishes.
        num_envs: N.
        seed: of its sampling.
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
        """Takes the latest published weights, if there are any, also those of another learner with the same version.

        Raises:
            ValueError: as many variables as the policy has were not published.
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
    """One policy for many actors: while it answers some of them, the others gather, and the next call is for all these.

    No call waits for a number of actors. Calls have as many rows as a power of two, or as all actors have, filled up
    with copies of the last; each such size is traced once. Before each call the policy takes the latest published
    weights, so that they may change within an unroll. Which actors meet depends on the machine: runs are not the same
    bit for bit.

    Args:
        policy: of its own variables.
        weights: where the learner publishes.
        max_rows: most rows of a call, those of all actors together.
        seed: of its sampling.
    """

    def __init__(self, policy: tf_policy.TFPolicy, weights: Published, max_rows: int, seed: int) -> None:
        self.weights = weights
        self._policy = policy
        self._assign = compile_assign(policy.variables())
        self._taken: WeightsSnapshot | None = None
        self._max_rows = max_rows
        self._seed = np.array([seed, 0], np.int32)  # [seed, number of the call]
        self._compiled: dict[int, Any] = {}  # by rows
        self._waiting: list[_Request] = []
        self._busy = False
        self._changed = threading.Condition()

    @property
    def calls(self) -> int:
        """Calls so far, in the whole run; each samples with the number of its own."""
        return int(self._seed[1])

    @property
    def seed(self) -> int:
        """Seed of the sampling, as it is now."""
        return int(self._seed[0])

    def reseed(self, seed: int) -> None:
        """Samples with another seed from now on; where several actors ask for one, with the last."""
        self._seed[:] = seed, 0

    def go_on_behind(self, seed: int, calls: int) -> None:
        """Samples with a seed, and numbers the next call at least `calls`, as where another process was stopped."""
        self._seed[:] = seed, max(self._seed[1], calls)

    def initial_state(self, num_envs: int) -> Any:
        """The policy's state at the start, [num_envs, ...]."""
        return self._policy.get_initial_state(num_envs)

    def answer(self, observation: Any, step_type: np.ndarray, policy_state: Any) -> Any:
        """Returns the policy's step for the rows of one actor: a nest of NumPy arrays [N, ...].

        The calling thread does the work for all that wait, where no other thread does.

        Raises:
            Exception: what the call raised that had this actor's rows.
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
        except Exception as error:  # theirs as well as ours
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
        batching: shared by the actors.
        num_envs: N, of this actor.
    """

    def __init__(self, batching: DynamicBatching, num_envs: int) -> None:
        self._batching = batching
        self._state = batching.initial_state(num_envs)
        self.version = -1
        self.acting: tuple[tf.Tensor, ...] = ()

    def sync(self) -> None:
        """Notes the latest weights: no call of the unroll is answered by older ones."""
        latest = self._batching.weights.latest
        self.version, self.acting = latest.version, latest.acting

    def take_weights(self, other: SharedInference) -> None:
        self.version, self.acting = other.version, other.acting

    def reseed(self, seed: int) -> None:
        """Has all actors that share the policy sample with another seed."""
        self._batching.reseed(seed)

    def __call__(self, observation: Any, step_type: np.ndarray) -> tuple[np.ndarray, Any]:
        """Actions [N, ...] and the policy's info, as NumPy arrays."""
        step = self._batching.answer(observation, step_type, self._state)
        self._state = step.state
        return step.action, step.info

    def get_state(self) -> dict[str, Any]:
        """The policy's state of this actor's games, and seed and calls of all actors."""
        state = {str(i): np.asarray(x) for i, x in enumerate(tf.nest.flatten(self._state))}
        return {"policy_state": state, "seed": self._batching.seed, "calls": self._batching.calls}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continues where `get_state` was taken."""
        saved = state["policy_state"]
        self._state = tf.nest.pack_sequence_as(self._state, [saved[str(i)] for i in range(len(saved))])
        self._batching.go_on_behind(state.get("seed", self._batching.seed), state["calls"])  # older ones have none
        self.version = -1


def _filled_up(parts: Sequence[np.ndarray], size: int) -> np.ndarray:
    """Rows of all parts, [N_i, ...], and copies of the last one, [size, ...]."""
    missing = size - sum(map(len, parts))
    return concatenated([*parts, np.broadcast_to(parts[-1][-1:], (missing, *parts[-1].shape[1:]))])
