"""An actor: one batched environment, one local policy, unrolls written in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tf_agents.policies import tf_policy
from tf_agents.trajectories import PolicyStep, StepType
from tf_agents.trajectories import time_step as ts

from repro.acting.unrolls import UnrollGroup
from repro.acting.weights import Published
from repro.environments.batched import BatchedEnvironment


class Episode(NamedTuple):
    """One finished game: its unclipped return and its length in environment frames."""

    score: float
    frames: int


class Actor:
    """Plays its environments with a local copy of the policy.

    Args:
        environment: its games.
        policy: local copy; its variables are overwritten with the published weights.
        weights: where the learner publishes.
        unroll_length: T.
        seed: of this actor's action sampling.
        on_episode: called with every finished game.
    """

    def __init__(
        self,
        environment: BatchedEnvironment,
        policy: tf_policy.TFPolicy,
        weights: Published,
        unroll_length: int,
        seed: int,
        on_episode: Callable[[Episode], None],
    ) -> None:
        self.environment = environment
        self._policy = policy
        self._weights = weights
        self._version = -1  # of the weights in the policy; none yet
        self._acting: tuple[tf.Tensor, ...] = ()  # the learner's variables at that version
        self._unroll_length = unroll_length
        self._seed = np.array([seed, 0], np.int32)  # [seed of the actor, number of the step]
        self._on_episode = on_episode
        self._act = compile_act(policy, environment.num_envs)
        self._observation: Any = None
        self._step_type = np.full(environment.num_envs, StepType.FIRST, np.int32)
        self._policy_state = policy.get_initial_state(environment.num_envs)
        self._all: UnrollGroup | None = None  # of all environments, where several groups are asked for

    @property
    def started(self) -> bool:
        """Whether the first observation was made."""
        return self._observation is not None

    def sync_weights(self) -> None:
        """Takes the latest published weights; for the schedule to call before each unroll (Section 3).

        Raises:
            ValueError: as many variables as the policy has were not published.
        """
        latest = self._weights.latest
        if latest.version != self._version:
            for variable, value in zip(self._policy.variables(), latest.values, strict=True):
                variable.assign(value)
            self._version, self._acting = latest.version, latest.acting

    def collect(self, groups: Sequence[UnrollGroup]) -> None:
        """Plays T steps into `groups`, which together have a place for each environment."""
        if not self.started:
            self._observation, _ = self.environment.reset()
        played = self._played(groups)
        for row in range(self._unroll_length):
            self._step(row, played)
        played.write(self._unroll_length, observation=self._observation, step_type=self._step_type)
        played.version, played.acting = self._version, self._acting
        if len(groups) > 1:
            played.split_into(groups)

    def _played(self, groups: Sequence[UnrollGroup]) -> UnrollGroup:
        """Where to write: the only group, or memory of the actor's own, since many small writes a step cost more."""
        if len(groups) == 1:
            return groups[0]
        if self._all is None:
            self._all = UnrollGroup(groups[0].spec, self.environment.num_envs, self._unroll_length)
        return self._all

    def _step(self, row: int, played: UnrollGroup) -> None:
        step_type = self._step_type
        choice = self._act(self._observation, step_type, self._policy_state, self._seed)
        self._seed[1] += 1
        self._policy_state = choice.state
        action, policy_info = tf.nest.map_structure(lambda x: x.numpy(), (choice.action, choice.info))
        # Before the step: the environment may reuse its memory.
        played.write(row, observation=self._observation, step_type=step_type, action=action, policy_info=policy_info)
        self._observation, reward, terminated, _, info = self.environment.step(action)
        self._step_type = next_step_type(step_type, terminated, info["game_over"])
        discount = np.where(terminated, np.float32(0), np.float32(1))
        played.write(row, reward=reward, discount=discount, next_step_type=self._step_type)
        for i in np.flatnonzero(info["game_over"]):
            self._on_episode(Episode(float(info["episode_return"][i]), int(info["episode_frames"][i])))

    def get_state(self) -> dict[str, Any]:
        """Everything that the next unroll depends on besides the published weights."""
        return {
            "environment": self.environment.get_state(),
            "step_type": self._step_type.copy(),
            "seed": self._seed.copy(),
            "policy_state": {str(i): x.numpy() for i, x in enumerate(tf.nest.flatten(self._policy_state))},
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Continues exactly where `get_state` was taken."""
        self._observation = self.environment.set_state(state["environment"])
        self._step_type = state["step_type"]
        self._seed = state["seed"]
        saved = state["policy_state"]
        flat = [tf.constant(saved[str(i)]) for i in range(len(saved))]
        self._policy_state = tf.nest.pack_sequence_as(self._policy_state, flat)
        self._version = -1


def make_actors(
    environments: Sequence[BatchedEnvironment],
    make_policy: Callable[[BatchedEnvironment], tf_policy.TFPolicy],
    weights: Published,
    unroll_length: int,
    seeds: Sequence[int],
    on_episode: Callable[[Episode], None],
) -> list[Actor]:
    """Returns an actor for each batch of environments; see `Actor` for what they share.

    Args:
        environments: one batch for each actor.
        make_policy: returns a local policy for one of them.
        seeds: of each actor's action sampling.
    """
    return [
        Actor(environment, make_policy(environment), weights, unroll_length, int(seed), on_episode)
        for environment, seed in zip(environments, seeds, strict=True)
    ]


def compile_act(policy: tf_policy.TFPolicy, num_envs: int) -> Callable[..., PolicyStep]:
    """`act(observation [N, ...], step_type [N], policy_state, seed int32 [2]) -> PolicyStep`, traced once and here.

    A call of the one concrete function takes half the time of a call that first looks for it among several.
    """

    def batched(spec: Any) -> Any:
        return tf.nest.map_structure(lambda leaf: tf.TensorSpec([num_envs, *leaf.shape], leaf.dtype), spec)

    @tf.function
    def act(observation: Any, step_type: tf.Tensor, policy_state: Any, seed: tf.Tensor) -> PolicyStep:
        time_step = ts.TimeStep(step_type, tf.zeros([num_envs]), tf.ones([num_envs]), observation)
        return policy.action(time_step, policy_state, seed)

    concrete = act.get_concrete_function(
        batched(policy.time_step_spec.observation),
        tf.TensorSpec([num_envs], tf.int32),
        batched(policy.policy_state_spec),
        tf.TensorSpec([2], tf.int32),
    )
    return lambda *inputs: concrete(*tf.nest.map_structure(tf.convert_to_tensor, inputs))


def next_step_type(step_type: np.ndarray, terminated: np.ndarray, game_over: np.ndarray) -> np.ndarray:
    """Step types of the observations that a step led to, int32 [N].

    FIRST after a LAST one (that step reset the game) and where the episode ended for learning while the game
    goes on (a lost life); LAST where the game is over; MID elsewhere.
    """
    following = np.where(game_over, StepType.LAST, np.where(terminated, StepType.FIRST, StepType.MID))
    return np.where(step_type == StepType.LAST, StepType.FIRST, following).astype(np.int32)
