"""The only stepping loop: a batched environment, the policy that acts in it, and the outcome of each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tf_agents.policies import tf_policy
from tf_agents.trajectories import PolicyStep, StepType
from tf_agents.trajectories import time_step as ts

from repro.aligned import aligned_empty
from repro.environments.batched import BatchedEnvironment
from repro.flat_call import flat_call

Act = Callable[[Any, np.ndarray], tuple[np.ndarray, Any]]
"""Maps observations [N, ...] and their step types int32 [N] to actions [N, ...] and the policy's info. Where the step
type is LAST, the action is ignored."""


FIRST, MID, LAST = (int(x) for x in (StepType.FIRST, StepType.MID, StepType.LAST))


class Episode(NamedTuple):
    """One finished game: its unclipped return, its length in environment frames, and the number of its task."""

    score: float
    frames: int
    task: int = 0


def pack_episodes(episodes: Sequence[Episode]) -> np.ndarray:
    """Rows of score, frames and task, float64 [N, 3]."""
    return np.array(episodes, np.float64).reshape(-1, len(Episode._fields))


def unpack_episodes(rows: np.ndarray) -> list[Episode]:
    """Returns the episodes of an array from `pack_episodes`, or of several, [..., N, 3], one after the other."""
    rows = rows.reshape(-1, len(Episode._fields))
    return [Episode(float(score), int(frames), int(task)) for score, frames, task in rows]


class Transition(NamedTuple):
    """One step of every environment, which led to the rollout's present `observation` and `step_type`.

    action: actions taken, [N, ...].
    info: the policy's info, as `act` returned it.
    reward: float32 [N].
    terminated: bool [N], whether the episode ended for learning, so that the value of the next state is 0.
    episodes: games that the step ended, each with the number of its environment. Games that could not go on after a
        resume are left out, although their step type is LAST too.
    """

    action: np.ndarray
    info: Any
    reward: np.ndarray
    terminated: np.ndarray
    episodes: list[tuple[int, Episode]]


class Rollout:
    """Steps a batch of environments. The step after the end of a game ignores the action and begins the next game.

    Args:
        environment: batch of N environments, which belongs to the rollout from now on.
        act: see `Act`.

    Attributes:
        observation: present observations, [N, ...], whose memory the next step may reuse; None before `reset`.
        step_type: step types of these observations, int32 [N].
    """

    def __init__(self, environment: BatchedEnvironment, act: Act) -> None:
        self._environment = environment
        self._act = act
        self.observation: Any = None
        self.step_type = np.full(environment.num_envs, FIRST, np.int32)
        self._all_mid = aligned_empty((environment.num_envs,), np.int32)
        self._all_mid.fill(MID)
        self._no_task = np.zeros(environment.num_envs, np.int32)  # where there is a single task
        self._has_last = False  # whether a step type is LAST

    def reset(self, seed: int | None = None) -> None:
        """Begins a game in every environment; a given seed replaces the one that the environment was made with."""
        self.observation, _ = self._environment.reset(seed=seed)

    def step(self) -> Transition:
        """Acts on the present observations; returns the outcome."""
        action, policy_info = self._act(self.observation, self.step_type)
        self.observation, reward, terminated, _, info = self._environment.step(action)
        finished = info["game_over"].nonzero()[0]
        if finished.size or self._has_last or terminated.nonzero()[0].size:
            self.step_type = next_step_type(self.step_type, terminated, info["game_over"])
            self._has_last = finished.size > 0
        else:  # the common case: what is left out would take a tenth of a step's time with a policy in NumPy
            self.step_type = self._all_mid
        returns, frames, task = info["episode_return"], info["episode_frames"], info.get("task", self._no_task)
        counted = finished[~info["lost"][finished]] if "lost" in info else finished
        episodes = [(i, Episode(float(returns[i]), int(frames[i]), int(task[i]))) for i in counted.tolist()]
        return Transition(action, policy_info, reward, terminated, episodes)

    def get_state(self) -> dict[str, Any]:
        """Returns the state of environments and step types; the owner of `act` saves what that depends on."""
        return {"environment": self._environment.get_state(), "step_type": self.step_type.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continues exactly where `get_state` was taken."""
        self.observation = self._environment.set_state(state["environment"])
        self.step_type = state["step_type"]
        self._has_last = LAST in self.step_type


class CompiledPolicy:
    """A TF-Agents policy as `Act`, with its state and a new seed for each call.

    Args:
        policy: chooses the actions.
        num_envs: N.
        seed: seed of its sampling.
    """

    def __init__(self, policy: tf_policy.TFPolicy, num_envs: int, seed: int) -> None:
        self._act = compile_act(policy, num_envs)
        self._state = policy.get_initial_state(num_envs)
        self._seed = aligned_empty((2,), np.int32)  # [seed, number of the call]
        self._seed[:] = seed, 0

    def __call__(self, observation: Any, step_type: np.ndarray) -> tuple[np.ndarray, Any]:
        """Actions [N, ...] and the policy's info, as NumPy arrays."""
        choice = self._act(observation, step_type, self._state, self._seed)
        self._seed[1] += 1
        self._state = choice.state
        return choice.action, choice.info

    def reseed(self, seed: int) -> None:
        """Samples with another seed from now on."""
        self._seed[:] = seed, 0

    def get_state(self) -> dict[str, Any]:
        """Returns everything that the next call depends on besides the weights."""
        policy_state = {str(i): x.numpy() for i, x in enumerate(tf.nest.flatten(self._state))}
        return {"seed": self._seed.copy(), "policy_state": policy_state}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continues exactly where `get_state` was taken."""
        self._seed[:] = state["seed"]
        saved = state["policy_state"]
        flat = [tf.constant(saved[str(i)]) for i in range(len(saved))]
        self._state = tf.nest.pack_sequence_as(self._state, flat)


def compile_act(policy: tf_policy.TFPolicy, num_envs: int) -> Callable[..., PolicyStep]:
    """Returns `act(observation [N, ...], step_type [N], policy_state, seed int32 [2]) -> PolicyStep`, traced here.

    Action and info are NumPy arrays, the state consists of tensors. A call reads aligned arrays in place (`flat_call`)
    and needs them no longer when it returns. A policy must not return an unchanged input as its state, since the
    environment overwrites that memory.
    """

    def batched(spec: Any) -> Any:
        return tf.nest.map_structure(lambda leaf: tf.TensorSpec([num_envs, *leaf.shape], leaf.dtype), spec)

    @tf.function(autograph=False)
    def act(observation: Any, step_type: tf.Tensor, policy_state: Any, seed: tf.Tensor) -> PolicyStep:
        time_step = ts.TimeStep(step_type, tf.zeros([num_envs]), tf.ones([num_envs]), observation)
        step = policy.action(time_step, policy_state, seed)
        with tf.device("/cpu:0"):  # a single copy from a GPU
            action, info = tf.nest.map_structure(tf.identity, (step.action, step.info))
        return PolicyStep(action, step.state, info)

    concrete = act.get_concrete_function(
        batched(policy.time_step_spec.observation),
        tf.TensorSpec([num_envs], tf.int32),
        batched(policy.policy_state_spec),
        tf.TensorSpec([2], tf.int32),
    )
    call, outputs = flat_call(concrete), concrete.structured_outputs
    num_states = len(tf.nest.flatten(outputs.state))

    def act_on(*inputs: Any) -> PolicyStep:
        action, *rest = call(*tf.nest.flatten(inputs))
        state, info = _packed(outputs.state, rest[:num_states]), [x.numpy() for x in rest[num_states:]]
        return PolicyStep(action.numpy(), state, _packed(outputs.info, info))

    return act_on


def _packed(structure: Any, leaves: list[Any]) -> Any:
    """Packs leaves into a nest; skips TensorFlow's call where there are none, since it would take as long."""
    return tf.nest.pack_sequence_as(structure, leaves) if leaves else structure


def next_step_type(step_type: np.ndarray, terminated: np.ndarray, game_over: np.ndarray) -> np.ndarray:
    """Step types of the observations that a step led to, int32 [N].

    FIRST after a LAST one (that step reset the game) and where the episode ended for learning while the game
    goes on (a lost life); LAST where the game is over; MID elsewhere.
    """
    following = np.where(game_over, LAST, np.where(terminated, FIRST, MID))
    return np.where(step_type == LAST, FIRST, following).astype(np.int32)
