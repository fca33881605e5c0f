"""The loop of agents that play a little, store it, and learn from sequences of a replay: DQN and R2D2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from repro.replay.sequences import Sample, SequenceReplay
from repro.runtime.learner import Learner
from repro.runtime.sources import BatchSource
from repro.runtime.training import EpisodeLog, RunSettings, TrainingLoop
from repro.runtime.weights import WeightsPublisher

FOLDER = "replay"
"""Of the replay, in a checkpoint."""


class SequenceLearning(NamedTuple):
    """When and on what gradient steps are made.

    batch_size: B, sequences.
    first_frames: units of the budget before the first gradient step, above 0.
    publish_period: updates between two copies of the weights for the actors.
    importance_exponent: beta of the weights (N p)^-beta / max (Schaul et al., 2016); None: draws are uniform, and all
        weights 1.
    """

    batch_size: int
    first_frames: int
    publish_period: int
    importance_exponent: float | None


class SequenceTraining(TrainingLoop):
    """An update is some steps of every environment, stored, and one gradient step on a batch of the replay.

    The source plays the next steps while the learner learns, if it is lockstep with a lag of 1. Where draws are by
    priority, a sequence's priority is renewed with each gradient step, and new ones get the largest so far.

    Args:
        learner, source, weights, episodes, run, frames_per_update: as for `TrainingLoop`. The source's batches hold
            one unroll of every environment, always in the same order.
        replay: not yet started.
        num_envs: of all actors.
        settings: see `SequenceLearning`.
        scalars: names of what the agent logs besides the loss.
        on_frames: called with the units of the budget played so far before each update; sets the actors' epsilon.
    """

    shown = ("loss", "alpha")

    def __init__(
        self,
        learner: Learner,
        source: BatchSource,
        weights: WeightsPublisher,
        episodes: EpisodeLog,
        run: RunSettings,
        frames_per_update: int,
        replay: SequenceReplay,
        num_envs: int,
        settings: SequenceLearning,
        scalars: Sequence[str],
        on_frames: Callable[[int], None],
    ) -> None:
        self._replay = replay
        self._num_envs = num_envs
        self._settings = settings
        self._on_frames = on_frames
        self._gradient_steps = 0
        self._largest_priority = 1.0
        self._scalars = dict.fromkeys(("loss", *scalars), float("nan"))
        super().__init__(learner, source, weights, episodes, run, frames_per_update)  # last: it restores

    def close(self) -> None:
        super().close()
        self._replay.close()

    def summary(self) -> dict[str, Any]:
        """Totals of the run so far."""
        return super().summary() | {"gradient_steps": self._gradient_steps}

    def _begin(self) -> None:
        super()._begin()
        if not self.updates:
            self._replay.start()
        self._writers = [self._replay.make_writer() for _ in range(self._num_envs)]

    def _update(self) -> tuple[dict[str, float], float]:
        self._on_frames(self.frames)
        lag = self._store()
        if self.frames + self.frames_per_update > self._settings.first_frames and len(self._replay):
            self._scalars = self._learn(self._replay.sample(self._settings.batch_size))
        if (self.updates + 1) % self._settings.publish_period == 0:
            self._weights.publish(self.updates + 1)
        return self._scalars, lag

    def _store(self) -> float:
        """Writes the next unrolls to the replay; returns their mean policy lag in updates."""
        batch = self._source.next()
        writers = iter(self._writers)
        for group in batch.groups:
            for g in range(len(group.arrays.reward)):
                # The last row is the next unroll's first.
                next(writers).append(tf.nest.map_structure(lambda x, g=g: x[g, :-1], group.arrays))
        self._source.release(batch)
        return self.updates - float(np.mean(batch.versions))

    def _learn(self, sample: Sample) -> dict[str, float]:
        """One gradient step; returns what it logs."""
        place, beta = self._learner.place, self._settings.importance_exponent
        if beta is None:
            scalars = self._learner.step(place(sample.sequences))
        else:
            weights = (sample.size * sample.probabilities) ** -beta
            weights = (weights / weights.max()).astype(np.float32)
            scalars = self._learner.step(place(sample.sequences), place(weights))
            priorities = self._learner.per_sequence["priorities"]
            self._replay.set_priorities(sample.keys, priorities)
            self._largest_priority = max(self._largest_priority, float(priorities.max()))
            for writer in self._writers:
                writer.priority = self._largest_priority
        self._gradient_steps += 1
        return scalars

    def _get_state(self) -> dict[str, Any]:
        own = {"gradient_steps": self._gradient_steps, "largest_priority": self._largest_priority}
        return super()._get_state() | own | {"scalars": self._scalars}

    def _set_state(self, state: dict[str, Any]) -> None:
        super()._set_state(state)
        self._gradient_steps = state["gradient_steps"]
        self._largest_priority = state["largest_priority"]
        self._scalars = state["scalars"]

    def _save_more(self, folder: Path) -> None:
        for writer in self._writers:
            writer.flush()
        self._replay.save(folder / FOLDER)

    def _restore_more(self, folder: Path) -> None:
        self._replay.start(folder / FOLDER)
