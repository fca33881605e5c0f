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
    """Plays its environments with a local copy of the policy, or one that it shares.

    Args:
        environment: its games.
        policy: local copy, whose variables are overwritten with the published weights, or what answers several actors.
        weights: where the learner publishes.
        unroll_length: T.
        seed: of this actor's action sampling; those of `begin_again` follow from it.
        on_episode: called with every finished game, while the actor plays.
        overlap: steps, below T, that an unroll begins with and the one before it ends with. Those of the first unroll
            are rows that are no transition (`StepType.LAST`), and all zeros otherwise.

    Attributes:
        environment, on_episode: see above; who takes the unrolls may set another one before any is played.
        abandoned: whether another actor plays in its place.
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
        self._reset_seed: int | None = None  # of the environment; None for the one it was made with
        self._inference: Inference
        if isinstance(policy, DynamicBatching):
            self._inference = SharedInference(policy, environment.num_envs)
        else:
            self._inference = LocalInference(policy, weights, environment.num_envs, seed)
        self._rollout = Rollout(environment, self._inference)
        self.abandoned = False
        self._all: UnrollGroup | None = None  # of all environments, where several groups are asked for

    @property
    def started(self) -> bool:
        """Whether the first observation was made."""
        return self._rollout.observation is not None

    def sync_weights(self) -> None:
        """Takes the latest published weights; for the schedule to call before each unroll.

        Raises:
            ValueError: as many variables as the policy has were not published.
        """
        self._inference.sync()

    def succeed(self, other: Actor) -> None:
        """Comes in another actor's place: takes its weights and `on_episode`, and goes on behind its episodes."""
        self._inference.take_weights(other._inference)
        self.on_episode = other.on_episode
        if counters := other.get_counters():
            self.set_counters(counters)

    def begin_again(self, number: int) -> None:
        """Plays other games than those before it, and samples otherwise; to be called before it plays.

        An environment that numbers its episodes keeps its seed, and is to go on behind them (`set_counters`).

        Args:
            number: of actors that were in its place before, in the whole run.
        """
        environment_seed, action_seed = successor_seeds(self._seed, number)
        self._inference.reseed(action_seed)
        if not self.get_counters():
            self._reset_seed = environment_seed

    def abandon(self) -> None:
        """Reports no more games; another actor plays in its place."""
        self.abandoned = True

    def collect(self, groups: Sequence[UnrollGroup]) -> None:
        """Fills `groups`, which together have a place for each environment, with T steps, of which T - overlap new."""
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
        """Where to write: the only group, or memory of the actor's own, since many small writes a step cost more."""
        if len(groups) == 1:
            return groups[0]
        if self._all is None:
            self._all = UnrollGroup(groups[0].spec, self.environment.num_envs, self._unroll_length)
        return self._all

    def _begin_with_end(self, played: UnrollGroup) -> None:
        """Writes the rows that the unroll before ended with, or before the first one rows that are no transition."""
        played.set_rows(slice(0, self._overlap), self._end or itertools.repeat(0))
        if not self._end:
            for row in range(self._overlap):
                played.write(row, step_type=LAST)

    def get_counters(self) -> dict[str, np.ndarray]:
        """Those of the environment (`CountsEpisodes`), from any thread; {} where it has none."""
        return self.environment.get_counters() if isinstance(self.environment, CountsEpisodes) else {}

    def set_counters(self, counters: dict[str, np.ndarray]) -> None:
        """Begins behind the episodes of `get_counters`, which must not have been empty."""
        assert isinstance(self.environment, CountsEpisodes)
        self.environment.set_counters(counters)

    def get_state(self) -> dict[str, Any]:
        """Everything that the next unroll depends on besides the published weights."""
        end = {"end": {str(i): rows for i, rows in enumerate(self._end)}} if self._overlap else {}
        return self._rollout.get_state() | self._inference.get_state() | end

    def set_state(self, state: dict[str, Any]) -> None:
        """Continues exactly where `get_state` was taken."""
        self._rollout.set_state(state)
        self._inference.set_state(state)
        self._end = [state["end"][str(i)] for i in range(len(state["end"]))] if self._overlap else []


def successor_seeds(seed: int, number: int) -> tuple[int, int]:
    """Seeds of the environments and of the action sampling of an actor that comes after others, in [0, 2^31).

    Args:
        seed: of the action sampling of the first actor in its place.
        number: of actors that were there before, at least 1.
    """
    environments, actions = np.random.SeedSequence([seed, number]).generate_state(2) % 2**31
    return int(environments), int(actions)
