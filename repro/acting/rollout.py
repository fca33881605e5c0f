"""The one stepping loop: a batched environment, what chooses its actions, and what each step brings."""

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
"""Maps observations [N, ...] and their step types int32 [N] to actions [N, ...] and the info of the policy.
Where the step type is LAST, the action is not read."""


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
    """Returns what `pack_episodes` was given; of several such arrays, [..., N, 3], one after the other."""
    rows = rows.reshape(-1, len(Episode._fields))
    return [Episode(float(score), int(frames), int(task)) for score, frames, task in rows]


class Transition(NamedTuple):
    """One step of every environment. What it led to is the rollout's `observation` and `step_type`.

    action: taken, [N, ...].
    info: what else `act` returned.
    reward: float32 [N].
    terminated: bool [N], the episode ended for learning, and the value of what follows is 0.
    episodes: games that the step ended, each with the number of its environment; without those that could not go on
        after a resume, where the step type is LAST as well.
    """

    action: np.ndarray
    info: Any
    reward: np.ndarray
    terminated: np.ndarray
    episodes: list[tuple[int, Episode]]


class Rollout:
    """Steps a batch of environments. The step after the end of a game takes no action and begins the next one.

    Args:
        environment: of N games; belongs to the rollout from now on.
        act: see `Act`.

    Attributes:
        observation: the present ones, [N, ...]; the next step may use their memory again. None before `reset`.
        step_type: of these observations, int32 [N].
    """

    def __init__(self, environment: BatchedEnvironment, act: Act) -> None:
        self._environment = environment
        self._act = act
        self.observation: Any = None
        self.step_type = np.full(environment.num_envs, FIRST, np.int32)
        self._all_mid = aligned_empty((environment.num_envs,), np.int32)
        self._all_mid.fill(MID)
        self._no_task = np.zeros(environment.num_envs, np.int32)  # all play the only one
        self._has_last = False  # among the step types

    def reset(self, seed: int | None = None) -> None:
        """Begins a game in every environment, with another seed than it was made with where one is given."""
        self.observation, _ = self._environment.reset(seed=seed)

    def step(self) -> Transition:
        """Acts on the present observations."""
        action, policy_info = self._act(self.observation, self.step_type)
        self.observation, reward, terminated, _, info = self._environment.step(action)
        finished = info["game_over"].nonzero()[0]
        if finished.size or self._has_last or terminated.nonzero()[0].size:
            self.step_type = next_step_type(self.step_type, terminated, info["game_over"])
            self._has_last = finished.size > 0
        else:  # the common case, where all that would take a tenth of the time of a step that acts in NumPy
            self.step_type = self._all_mid
        returns, frames, task = info["episode_return"], info["episode_frames"], info.get("task", self._no_task)
        counted = finished[~info["lost"][finished]] if "lost" in info else finished
        episodes = [(i, Episode(float(returns[i]), int(frames[i]), int(task[i]))) for i in counted.tolist()]
        return Transition(action, policy_info, reward, terminated, episodes)

    def get_state(self) -> dict[str, Any]:
        """Environments and step types; what `act` depends on is its owner's to save."""
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
        seed: of its sampling.
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
        """Everything that the next call depends on besides the weights."""
        policy_state = {str(i): x.numpy() for i, x in enumerate(tf.nest.flatten(self._state))}
        return {"seed": self._seed.copy(), "policy_state": policy_state}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continues exactly where `get_state` was taken."""
        self._seed[:] = state["seed"]
        saved = state["policy_state"]
        flat = [tf.constant(saved[str(i)]) for i in range(len(saved))]
        self._state = tf.nest.pack_sequence_as(self._state, flat)


def compile_act(policy: tf_policy.TFPolicy, num_envs: int) -> Callable[..., PolicyStep]:
    """`act(observation [N, ...], step_type [N], policy_state, seed int32 [2]) -> PolicyStep`, traced once and here.

    Action and info are NumPy arrays, the state has tensors. A call reads aligned arrays where they lie (`flat_call`),
    and has read them when it returns; a policy's state must not be one of its inputs as it is, which the environment
    writes over.
    """

    def batched(spec: Any) -> Any:
        return tf.nest.map_structure(lambda leaf: tf.TensorSpec([num_envs, *leaf.shape], leaf.dtype), spec)

    @tf.function(autograph=False)
    def act(observation: Any, step_type: tf.Tensor, policy_state: Any, seed: tf.Tensor) -> PolicyStep:
        time_step = ts.TimeStep(step_type, tf.zeros([num_envs]), tf.ones([num_envs]), observation)
        step = policy.action(time_step, policy_state, seed)
        with tf.device("/cpu:0"):  # from a GPU all at once
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
    """Leaves in a nest; where there are none TensorFlow would take as long as for several."""
    return tf.nest.pack_sequence_as(structure, leaves) if leaves else structure


def next_step_type(step_type: np.ndarray, terminated: np.ndarray, game_over: np.ndarray) -> np.ndarray:
    """Step types of the observations that a step led to, int32 [N].

    FIRST after a LAST one (that step reset the game) and where the episode ended for learning while the game
    goes on (a lost life); LAST where the game is over; MID elsewhere.
    """
    following = np.where(game_over, LAST, np.where(terminated, FIRST, MID))
    return np.where(step_type == LAST, FIRST, following).astype(np.int32)
