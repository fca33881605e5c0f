"""The trainer of agents that play a few steps, store them, and learn from sequences of a replay: DQN and R2D2."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from repro.acting.actor_pool import ActorPool
from repro.acting.weights import WeightsPublisher
from repro.replay.sequences import PriorityError, Sample
from repro.training.learner import Learner, NonFiniteLossError
from repro.training.trainer import EpisodeLog, RunSettings, Trainer

FOLDER = "replay"
"""Folder of a replay's files in a checkpoint."""


class Replay(Protocol):
    """The replay from which actors' sequences are sampled.

    It is a `SequenceMemory` in this process, or on Reverb a `SequenceReplay`, or a `RemoteReplay` in another process.
    """

    def start(self, saved: Path | None = None) -> None:
        """Begins empty or with what `save` wrote to a folder; called before anything else."""

    def __len__(self) -> int:
        """Number of sequences that can be sampled."""

    def sample(self, size: int) -> Sample | None:
        """Samples sequences; None if there are too few, as after a restart of the replay's process."""

    def set_priorities(self, keys: np.ndarray, priorities: np.ndarray) -> None: ...
    def save(self, folder: Path) -> None:
        """Writes files of its own to a folder, which must not exist yet."""

    def confirm_saved(self, folder: Path) -> None:
        """Notes that the last checkpoint has what `save` wrote, in this folder."""

    def get_state(self) -> dict[str, Any]:
        """Returns the state that is to be saved besides the files of `save`."""

    def set_state(self, state: dict[str, Any]) -> None: ...
    def close(self) -> None: ...


class ReplayTrainingConfig(NamedTuple):
    """When gradient steps are made, and on which batches.

    batch_size: B, the number of sequences in a batch.
    first_frames: units of the budget before the first gradient step, above 0.
    publish_period: number of updates between two publications of the weights for the actors.
    importance_exponent: beta of the weights (N p)^-beta / max (Schaul et al., 2016); None if sampling is uniform and
        all weights are 1.
    """

    batch_size: int
    first_frames: int
    publish_period: int
    importance_exponent: float | None


class SequenceTrainer(Trainer):
    """An update is a number of new steps, which are stored, and one gradient step on a batch of the replay.

    If sampling is by priority, actors give each new sequence a priority, and each gradient step on it a new one.

    Args:
        learner, weights: learner and publisher of weights of one agent.
        actor_pool: fills the replay.
        episodes: log of finished games, filled by the actors.
        run: see `RunSettings`.
        frames_per_update: units of the budget played between two gradient steps.
        replay: the replay, not yet started.
        settings: see `ReplayTrainingConfig`.
        scalars: names of the scalars that the agent logs besides the loss.
    """

    progress_scalars = ("loss", "alpha")

    def __init__(
        self,
        learner: Learner,
        actor_pool: ActorPool,
        weights: WeightsPublisher,
        episodes: EpisodeLog,
        run: RunSettings,
        frames_per_update: int,
        replay: Replay,
        settings: ReplayTrainingConfig,
        scalars: Sequence[str],
    ) -> None:
        super().__init__(tf.train.Checkpoint(agent=learner.agent), episodes, run, frames_per_update)
        self._learner = learner
        self._actor_pool = actor_pool
        self._weights = weights
        self._replay = replay
        self._settings = settings
        self._gradient_steps = 0
        self._scalars = dict.fromkeys(("loss", *scalars), float("nan"))
        self._restore()

    @property
    def can_save(self) -> bool:
        return self._actor_pool.can_save

    def interrupt(self) -> None:
        self._actor_pool.interrupt()

    def close(self) -> None:
        self._actor_pool.close()
        self._replay.close()

    @property
    def gradient_steps(self) -> int:
        """Number of gradient steps made so far."""
        return self._gradient_steps

    @property
    def _restarts(self) -> int:
        return self._actor_pool.restarts

    def save(self) -> Path:
        path = super().save()
        self._replay.confirm_saved(path / FOLDER)
        return path

    def summary(self) -> dict[str, Any]:
        """Returns totals of the run so far."""
        return super().summary() | self._actor_pool.totals()

    def _begin(self) -> None:
        if not self.updates:
            self._replay.start()
        self._actor_pool.start()
        if self._weights.latest.version < 0:
            self._weights.publish(self._gradient_steps)

    def _update(self) -> tuple[dict[str, float], float]:
        frames = self.frames + self.frames_per_update
        try:
            lag = self._actor_pool.play(self._gradient_steps, frames)
        except PriorityError as error:  # of a new sequence, by the weights of the last gradient step
            raise NonFiniteLossError(f"gradient step {self._gradient_steps} left broken weights: {error}") from error
        if frames > self._settings.first_frames and (self._gradient_steps or len(self._replay)):
            sample = self._replay.sample(self._settings.batch_size)
            if sample is not None:
                self._scalars = self._learn(sample)
        if (self.updates + 1) % self._settings.publish_period == 0:
            self._weights.publish(self._gradient_steps)
        return self._scalars, lag

    def _learn(self, sample: Sample) -> dict[str, float]:
        """Makes one gradient step; returns its scalars."""
        to_device, beta = self._learner.to_device, self._settings.importance_exponent
        if beta is None:
            output = self._learner.step(to_device(sample.sequences))
        else:
            weights = (sample.size * sample.probabilities) ** -beta
            weights = (weights / weights.max()).astype(np.float32)
            output = self._learner.step(to_device(sample.sequences), to_device(weights))
            self._replay.set_priorities(sample.keys, output.per_sequence["priorities"])
        self._gradient_steps += 1
        return output.scalars

    def _get_state(self) -> dict[str, Any]:
        return {
            "actor_pool": self._actor_pool.get_state(),
            "replay": self._replay.get_state(),
            "weights": self._weights.get_latest(),
            "gradient_steps": self._gradient_steps,
            "scalars": self._scalars,
        }

    def _set_state(self, state: dict[str, Any]) -> None:
        self._actor_pool.set_state(state["actor_pool"])
        self._replay.set_state(state["replay"])
        self._weights.set_latest(state["weights"])
        self._gradient_steps = state["gradient_steps"]
        self._scalars = state["scalars"]

    def _save_more(self, folder: Path) -> None:
        self._replay.save(folder / FOLDER)

    def _restore_more(self, folder: Path) -> None:
        self._replay.start(folder / FOLDER)
