"""An actor: one batched environment, one local policy, unrolls written in place."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tf_agents.policies import tf_policy

from repro.acting.inference import DynamicBatching, Inference, LocalInference, SharedInference
from repro.acting.rollout import LAST, Episode, Rollout
from repro.acting.unrolls import UnrollGroup
from repro.acting.weights import Published
from repro.environments.batched import BatchedEnvironment, CountsEpisodes


class Actor:
    """Plays its environments with a local copy of the policy, or with one that several actors share.

    Args:
        environment: batch of environments to play in.
        policy: local copy, whose variables are overwritten with the published weights, or a policy shared by actors.
        weights: where the learner publishes its weights.
        unroll_length: T.
        seed: seed of this actor's action sampling, from which those of `begin_again` follow.
        on_episode: called with every finished game, while the actor plays.
        overlap: number of steps, below T, that an unroll shares with the end of the one before. In the first unroll
            these rows are not transitions: their step type is `StepType.LAST`, and everything else is 0.

    Attributes:
        environment: see above.
        on_episode: see above; the source of batches may replace it before the first unroll.
        abandoned: whether another actor has taken its place.
    """

    def __init__(
        self,
        environment: BatchedEnvironment,
        policy: tf_policy.TFPolicy | DynamicBatching,
        weights: Published,
        unroll_length: int,
        seed: int,
        on_episode: Callable[[Episode], None],
        overlap: int = 0,
    ) -> None:
        self.environment = environment
        self._unroll_length = unroll_length
        self.on_episode = on_episode
        self._overlap = overlap
        self._end: list[np.ndarray] = []  # the rows that the last unroll shares with the next, [N, overlap, ...]
        self._seed = seed
        self._reset_seed: int | None = None  # None for the one that the environment was made with
        self._inference: Inference
        if isinstance(policy, DynamicBatching):
            self._inference = SharedInference(policy, environment.num_envs)
        else:
            self._inference = LocalInference(policy, weights, environment.num_envs, seed)
        self._rollout = Rollout(environment, self._inference)
        self.abandoned = False
        self._all: UnrollGroup | None = None  # memory for all environments, if `collect` fills several groups

    @property
    def started(self) -> bool:
        """Whether it has begun to play."""
        return self._rollout.observation is not None

    def sync_weights(self) -> None:
        """Takes the latest published weights; the schedule calls this before each unroll.

        Raises:
            ValueError: the number of published variables is not that of the policy.
        """
        self._inference.sync()

    def succeed(self, other: Actor) -> None:
        """Takes another actor's place: takes over its weights and `on_episode`, and continues after its episodes."""
        self._inference.take_weights(other._inference)
        self.on_episode = other.on_episode
        if counters := other.get_counters():
            self.set_counters(counters)

    def begin_again(self, number: int) -> None:
        """Takes seeds for games and actions that earlier actors did not have; to be called before it plays.

        An environment that numbers its episodes keeps its seed, and must continue their numbers (`set_counters`).

        Args:
            number: number of earlier actors in its place, in the whole run.
        """
        environment_seed, action_seed = successor_seeds(self._seed, number)
        self._inference.reseed(action_seed)
        if not self.get_counters():
            self._reset_seed = environment_seed

    def abandon(self) -> None:
        """Stops reporting games, since another actor has taken its place."""
        self.abandoned = True

    def collect(self, groups: Sequence[UnrollGroup]) -> None:
        """Fills `groups`, which together have room for all environments, with T steps, T - overlap of them new."""
        rollout = self._rollout
        if not self.started:
            rollout.reset(self._reset_seed)
        played = self._played(groups)
        if self._overlap:
            self._begin_with_end(played)
        played.write(self._overlap, observation=rollout.observation, step_type=rollout.step_type)
        for row in range(self._overlap, self._unroll_length):
            step = rollout.step()
            discount = np.where(step.terminated, np.float32(0), np.float32(1))
            played.write(row, action=step.action, policy_info=step.info, reward=step.reward, discount=discount)
            played.write(row, next_step_type=rollout.step_type)
            # Before the next step: the environment may reuse its memory.
            played.write(row + 1, observation=rollout.observation, step_type=rollout.step_type)
            for _, episode in step.episodes:
                if not self.abandoned:
                    self.on_episode(episode)
        played.version, played.acting = self._inference.version, self._inference.acting
        if self._overlap:
            self._end = played.get_rows(slice(self._unroll_length - self._overlap, self._unroll_length))
        if len(groups) > 1:
            played.split_into(groups)

    def _played(self, groups: Sequence[UnrollGroup]) -> UnrollGroup:
        """Where to write: the only group, or the actor's own memory, since many small writes per step take longer."""
        if len(groups) == 1:
            return groups[0]
        if self._all is None:
            self._all = UnrollGroup(groups[0].spec, self.environment.num_envs, self._unroll_length)
        return self._all

    def _begin_with_end(self, played: UnrollGroup) -> None:
        """Writes the last rows of the previous unroll; in the first unroll, rows that are not transitions."""
        played.set_rows(slice(0, self._overlap), self._end or itertools.repeat(0))
        if not self._end:
            for row in range(self._overlap):
                played.write(row, step_type=LAST)

    def get_counters(self) -> dict[str, np.ndarray]:
        """Returns the counters of the environment (`CountsEpisodes`), from any thread; {} if it has none."""
        return self.environment.get_counters() if isinstance(self.environment, CountsEpisodes) else {}

    def set_counters(self, counters: dict[str, np.ndarray]) -> None:
        """Continues after the episodes of `get_counters`, which must not be empty."""
        assert isinstance(self.environment, CountsEpisodes)
        self.environment.set_counters(counters)

    def get_state(self) -> dict[str, Any]:
        """Returns everything that the next unroll depends on besides the published weights."""
        end = {"end": {str(i): rows for i, rows in enumerate(self._end)}} if self._overlap else {}
        return self._rollout.get_state() | self._inference.get_state() | end

    def set_state(self, state: dict[str, Any]) -> None:
        """Continues exactly where `get_state` was taken."""
        self._rollout.set_state(state)
        self._inference.set_state(state)
        self._end = [state["end"][str(i)] for i in range(len(state["end"]))] if self._overlap else []


def successor_seeds(seed: int, number: int) -> tuple[int, int]:
    """Returns the seeds of environments and action sampling of an actor that replaces others, in [0, 2^31).

    Args:
        seed: seed of the action sampling of the first actor in its place.
        number: number of earlier actors in its place, at least 1.
    """
    environments, actions = np.random.SeedSequence([seed, number]).generate_state(2) % 2**31
    return int(environments), int(actions)
