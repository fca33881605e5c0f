"""Training with several synchronous learners, each with actors of its own, that learn from a share of each batch."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

import tensorflow as tf

from repro.acting.batches import Batch, BatchSource
from repro.acting.remote import RemoteWeights
from repro.acting.remote_source import RemoteSource
from repro.acting.rollout import Episode
from repro.acting.supervision import ActorPoolError
from repro.acting.weights import WeightsPublisher
from repro.training.learner import Learner
from repro.training.learner_group import ChiefLink, LearnerGroup, Ready
from repro.training.trainer import EpisodeLog, RunSettings
from repro.training.unroll_trainer import UnrollTrainer

EXCHANGE_ERRORS = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
    tf.errors.UnavailableError,
    tf.errors.UnknownError,
)
"""Errors of an update in which a learner is gone."""


class ChiefSource:
    """The chief's share of each batch, once the other learners have theirs: a `BatchSource`.

    Its batches have the versions of all shares. Games, restarts and totals are those of all actors.

    Args:
        source: source of the chief's actors.
        group: the other learners.
        on_episode: called with every finished game of their actors.
    """

    between_rounds = True  # there are none

    def __init__(self, source: RemoteSource, group: LearnerGroup, on_episode: Callable[[Episode], None]) -> None:
        self._source = source
        self._group = group
        self._on_episode = on_episode

    @property
    def restarts(self) -> int:
        return self._source.restarts + self._group.restarts

    def next(self) -> Batch:
        """As `BatchSource.next`; raises LearnerLostError if a learner is gone or hangs."""
        batch = self._source.next()
        for ready in self._group.wait(self._source.check):
            batch.versions += ready.versions
            for episode in ready.games:
                self._on_episode(episode)
        return batch

    def interrupt(self) -> None:
        self._source.interrupt()

    def release(self, batch: Batch) -> None:
        self._source.release(batch)

    def totals(self) -> dict[str, Any]:
        """As `RemoteSource.totals`, with the number of `learners`."""
        return {"learners": self._group.num_learners, **self._source.totals(list(self._group.states.values()))}

    def get_state(self) -> dict[str, Any]:
        return {**self._source.get_state(), "learners": self._group.states}

    def set_state(self, state: dict[str, Any]) -> None:
        self._source.set_state(state)
        self._group.states = dict(state["learners"])

    def close(self) -> None:
        self._group.close()
        self._source.close()


class ChiefTrainer(UnrollTrainer):
    """The trainer of the chief of several learners.

    Before the first update the others get its weights, optimizer and counters, which are new or restored.

    Args:
        learner, source, weights, episodes, run, frames_per_update: as for `UnrollTrainer`.
        group: the other learners.
    """

    def __init__(
        self,
        learner: Learner,
        source: BatchSource,
        weights: WeightsPublisher,
        episodes: EpisodeLog,
        run: RunSettings,
        frames_per_update: int,
        group: LearnerGroup,
    ) -> None:
        super().__init__(learner, source, weights, episodes, run, frames_per_update)
        self._group = group
        self._learner.broadcast_variables(is_chief=True)
        group.begin()

    def _learn(self, batch: Batch) -> dict[str, float]:
        """As `UnrollTrainer._learn`; raises LearnerLostError if the learners cannot exchange their gradients."""
        try:
            return super()._learn(batch)
        except EXCHANGE_ERRORS as error:
            raise self._group.lost(error) from error
        finally:
            self._group.end_update()


def learn_with(
    chief: ChiefLink, learner: Learner, source: RemoteSource, weights: RemoteWeights, games: list[Episode]
) -> NoReturn:
    """Learns with the chief until it is gone; then the process ends.

    Args:
        chief: connection to the chief.
        learner: learner of an agent like the chief's.
        source: source of this learner's share of each batch.
        weights: publisher of the agent's weights, for its actors.
        games: list to which the source adds finished games.
    """
    try:
        learner.broadcast_variables(is_chief=False)
        if (state := chief.begin(source.close)) is not None:
            source.set_state(state)
        steps = int(learner.agent.train_step_counter.numpy())
        weights.publish(steps)
        while True:
            batch = source.next()
            chief.send(Ready(batch.versions, games.copy(), source.restarts, source.get_state()))
            games.clear()
            learner.step(batch.trajectory)
            steps += 1
            weights.publish(steps)
            source.release(batch)
    except ActorPoolError as error:
        chief.fail(error)
    except BaseException:  # an ordinary end would wait for the others
        traceback.print_exc()
        os._exit(1)
