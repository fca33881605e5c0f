"""The training loop: batches in, updates out, checkpoints between them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from repro.runtime import checkpoint
from repro.runtime.actor import Episode
from repro.runtime.learner import Learner
from repro.runtime.sources import BatchSource
from repro.runtime.weights import WeightsPublisher

RECENT_GAMES = 100
"""Games that the return in the progress line and in the curve is the mean of."""


class EpisodeLog:
    """The last games' returns; actors append from their threads."""

    def __init__(self) -> None:
        self.games = 0
        self._recent: deque[Episode] = deque(maxlen=RECENT_GAMES)

    def append(self, episode: Episode) -> None:
        self._recent.append(episode)
        self.games += 1

    def mean_return(self) -> float:
        """Mean unclipped return of the last `RECENT_GAMES` games; NaN before the first game ended."""
        scores = [episode.score for episode in tuple(self._recent)]
        return float(np.mean(scores)) if scores else float("nan")

    def get_state(self) -> dict[str, Any]:
        return {"games": self.games, "recent": np.array(list(self._recent), np.float64).reshape(-1, 2)}

    def set_state(self, state: dict[str, Any]) -> None:
        self.games = state["games"]
        self._recent.extend(Episode(float(score), int(frames)) for score, frames in state["recent"])


class Update(NamedTuple):
    """What the loop yields after each learner update."""

    updates: int
    frames: int
    seconds: float  # of training, interruptions left out
    scalars: dict[str, float]  # loss and the agent's extras
    lag: float  # mean over the batch of the updates between acting and learning
    mean_return: float  # of the last games
    games: int


class TrainingLoop:
    """Iterating trains; the consumer may stop at any update.

    Attributes:
        unit: of the budget, in the progress line.
        shown: scalars in the progress line besides the return and the policy lag.

    Args:
        learner, source, weights, episodes: the parts, sharing one agent.
        budget: environment frames to learn from.
        frames_per_update: environment frames in one batch.
        checkpoints: folder for checkpoints.
        checkpoint_seconds: between two checkpoints.
        warn: called with one line when a broken checkpoint is passed over.
    """

    unit = "frames"
    shown = ("loss", "entropy")

    def __init__(
        self,
        learner: Learner,
        source: BatchSource,
        weights: WeightsPublisher,
        episodes: EpisodeLog,
        *,
        budget: int,
        frames_per_update: int,
        checkpoints: Path,
        checkpoint_seconds: float,
        warn: Callable[[str], None],
    ) -> None:
        self._learner = learner
        self._source = source
        self._weights = weights
        self._episodes = episodes
        self._checkpoints = checkpoints
        self._checkpoint_seconds = checkpoint_seconds
        self._variables = tf.train.Checkpoint(agent=learner.agent)
        self.frames_per_update = frames_per_update
        self.total_updates = -(-budget // frames_per_update)
        self.updates = 0
        self._seconds = 0.0
        self._restore(warn)

    @property
    def complete(self) -> bool:
        return self.updates >= self.total_updates

    def __iter__(self) -> Iterator[Update]:
        """Yields after every update; ends when the budget is used up, with a last checkpoint.

        Raises:
            NonFiniteLossError: the run diverged; the last checkpoint stays as it was.
            CheckpointError: the disk is full; the checkpoints before stay as they were.
        """
        self._weights.publish(self.updates)
        clock = saved = time.monotonic()
        while not self.complete:
            batch = self._source.next()
            scalars = self._learner.step(batch.trajectory)
            lag = self.updates - np.mean(batch.versions)
            self._source.release(batch)
            self.updates += 1
            self._weights.publish(self.updates)
            now = time.monotonic()
            self._seconds += now - clock
            clock = now
            if now - saved > self._checkpoint_seconds and self._source.can_save:
                self.save()
                saved = time.monotonic()
            yield Update(
                self.updates,
                self.updates * self.frames_per_update,
                self._seconds,
                scalars,
                float(lag),
                self._episodes.mean_return(),
                self._episodes.games,
            )
        self.save()

    def save(self) -> Path:
        """Writes a checkpoint of this moment; in lockstep call it only when `can_save`."""
        source = self._source.get_state()  # first: it waits for unrolls in flight, whose games then count
        state = {
            "updates": self.updates,
            "seconds": self._seconds,
            "episodes": self._episodes.get_state(),
            "source": source,
        }
        return checkpoint.save(self._checkpoints, self.updates, self._variables, state)

    @property
    def can_save(self) -> bool:
        return self._source.can_save

    def summary(self) -> dict[str, float]:
        """Totals of the run so far."""
        return {
            "updates": self.updates,
            "frames": self.updates * self.frames_per_update,
            "seconds": self._seconds,
            "games": self._episodes.games,
        }

    def close(self) -> None:
        self._source.close()

    def _restore(self, warn: Callable[[str], None]) -> None:
        state = checkpoint.restore(self._checkpoints, self._variables, warn)
        if state is not None:
            self.updates = state["updates"]
            self._seconds = state["seconds"]
            self._episodes.set_state(state["episodes"])
            self._source.set_state(state["source"])
