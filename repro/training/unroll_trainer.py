"""The trainer of agents that learn from unrolls: IMPALA and STAC once from each batch, ACER with its replay."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from repro.acting.batches import Batch, BatchSource
from repro.acting.weights import WeightsPublisher
from repro.training.learner import Learner
from repro.training.trainer import EpisodeLog, RunSettings, Trainer


class UnrollTrainer(Trainer):
    """Learns once from each batch that the actors bring.

    Args:
        learner, source, weights: learner, source of batches and publisher of weights of one agent.
        episodes: log of finished games, filled by the actors.
        run: see `RunSettings`.
        frames_per_update: units of the budget in one batch.
        at_acting_weights: whether gradients are taken at the weights that acted, by `train_on_policy` of the agent;
            `weights` then keeps its `acting_variables`.
    """

    def __init__(
        self,
        learner: Learner,
        source: BatchSource,
        weights: WeightsPublisher,
        episodes: EpisodeLog,
        run: RunSettings,
        frames_per_update: int,
        at_acting_weights: bool = False,
    ) -> None:
        super().__init__(tf.train.Checkpoint(agent=learner.agent), episodes, run, frames_per_update)
        self._learner = learner.with_train(learner.agent.train_on_policy) if at_acting_weights else learner
        self._at_acting_weights = at_acting_weights
        self._source = source
        self._weights = weights
        self._gradient_steps = 0
        self._restore()

    @property
    def can_save(self) -> bool:
        """Whether the run can be saved: in lockstep only between two batches of the same weights."""
        return self._source.between_rounds

    def interrupt(self) -> None:
        self._source.interrupt()

    def close(self) -> None:
        self._source.close()

    @property
    def gradient_steps(self) -> int:
        """Number of gradient steps made so far."""
        return self._gradient_steps

    @property
    def _restarts(self) -> int:
        return self._source.restarts

    def summary(self) -> dict[str, Any]:
        """Returns totals of the run so far."""
        return super().summary() | self._source.totals()

    def _begin(self) -> None:
        self._weights.publish(self._gradient_steps)

    def _update(self) -> tuple[dict[str, float], float]:
        batch = self._source.next()
        lag = self._lag(batch)
        scalars = self._learn(batch)
        self._gradient_steps += 1
        self._publish()  # first: an actor that waits for the batch's memory takes weights after that
        self._source.release(batch)
        return scalars, lag

    def _learn(self, batch: Batch) -> dict[str, float]:
        """Makes one update; returns its scalars."""
        acting = (batch.acting,) if self._at_acting_weights else ()
        return self._learner.step(batch.trajectory, *acting).scalars

    def _lag(self, batch: Batch) -> float:
        return self._gradient_steps - float(np.mean(batch.versions))

    def _publish(self) -> None:
        """Publishes the weights after this update, if actors take weights before the next one."""
        if self._source.between_rounds:
            self._weights.publish(self._gradient_steps)

    def _get_state(self) -> dict[str, Any]:
        own = {"source": self._source.get_state(), "gradient_steps": self._gradient_steps}
        older = self._weights.get_state()
        return own | ({"weights": older} if older else {})

    def _set_state(self, state: dict[str, Any]) -> None:
        self._source.set_state(state["source"])
        self._gradient_steps = state["gradient_steps"]
        self._weights.set_state(state.get("weights", {}))
